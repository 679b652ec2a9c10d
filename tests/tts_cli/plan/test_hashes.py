"""What makes two rows the same speech, and two files of it the same."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
import torch

from models.base import SpeechRequest, Voice
from models.sampling import Sampling
from tts_cli.audio.encode import Delivery, delivery_hash
from tts_cli.plan.resolve import content_hash, request_hash

PLAIN = SpeechRequest("hi", seed=3)
FULL = SpeechRequest(
    "Très bien – 日本",  # noqa: RUF001
    language="french",
    instruct="softly",
    layout="streaming",
    sampling=Sampling(
        temperature=0.5,
        top_k=7,
        top_p=0.25,
        repetition_penalty=1.5,
        greedy=True,
        subtalker_temperature=0.75,
        subtalker_top_k=9,
        subtalker_top_p=0.125,
        subtalker_greedy=True,
    ),
    seed=2**63 - 1,
    max_frames=40,
    ref_audio="/a/b.wav",
    ref_text="Hello.",
    clone_mode="icl",
)
WAV = Delivery("wav", "PCM_16", 24_000)
FLAC = Delivery("flac", "PCM_24", 48_000)


def test_published_hashes() -> None:
    """They must stay what they are, or every finished folder is spoken again. A new field needs an
    `as_before`, see `hashes`.
    """
    assert request_hash(PLAIN, "m") == (
        "61deee706ddbffc126232b614e05cee490b3ea41e77a9654135b0b7593b8a826"
    )
    assert request_hash(FULL, "m", "d" * 64) == (
        "75baa1ccbcafb77755d6c410d16976f282bb29e208821d5d474e05f1d453f72b"
    )
    assert delivery_hash(WAV) == (
        "659e4de8a7fc6ef021f54da2e943fc23761abf5e2538af381ac6b5e28d0eee79"
    )
    assert delivery_hash(FLAC) == (
        "1e645ef7e029af0ed98333bc0f0341adbd50166881affd04e7da51bcd9663074"
    )


def test_the_request_sees_all_that_reaches_the_model() -> None:
    requests = [
        PLAIN,
        replace(PLAIN, text="ho"),
        replace(PLAIN, voice="clara"),
        replace(PLAIN, language="english"),
        replace(PLAIN, instruct="x"),
        replace(PLAIN, layout="streaming"),
        replace(PLAIN, seed=1),
        replace(PLAIN, max_frames=1),
        replace(PLAIN, sampling=Sampling(top_k=3)),
        replace(PLAIN, ref_audio="a.wav"),
        replace(PLAIN, ref_audio="a.wav", ref_text="x"),
        replace(PLAIN, ref_audio="a.wav", clone_mode="xvec"),
    ]
    hashes = {request_hash(request, "m") for request in requests} | {request_hash(PLAIN, "n")}
    assert len(hashes) == len(requests) + 1


def test_fixed_shapes_are_another_speech_of_the_same_content() -> None:
    """A row spoken among others is not what `--reproducible` promises, nor is one of another
    `--max-batch`; a take that somebody chose stays chosen.
    """
    rows = [PLAIN, replace(PLAIN, shapes="64 rows, auto"), replace(PLAIN, shapes="256 rows, auto")]
    assert len({request_hash(row, "m") for row in rows}) == 3
    assert len({content_hash(row, "m") for row in rows}) == 1


def test_a_chosen_take_fits_its_row_however_that_is_drawn() -> None:
    """Another seed, sampling or cap is another speech of the same content; all else is not."""
    drawn = [replace(PLAIN, seed=1), replace(PLAIN, max_frames=1)]
    drawn += [replace(PLAIN, sampling=Sampling(top_k=3)), replace(PLAIN, shapes="64 rows, auto")]
    assert {content_hash(row, "m") for row in drawn} == {content_hash(PLAIN, "m")}
    others = [replace(PLAIN, text="ho"), replace(PLAIN, voice="clara")]
    others += [replace(PLAIN, language="english"), replace(PLAIN, instruct="x")]
    hashes = {content_hash(row, "m") for row in [PLAIN, *others]}
    hashes |= {content_hash(PLAIN, "n"), content_hash(PLAIN, "m", "d")}
    assert len(hashes | {content_hash(PLAIN, "m", None, {"max_chars": 60})}) == len(others) + 4


def test_the_delivery_sees_format_subtype_and_rate() -> None:
    changed = [replace(WAV, format="flac"), replace(WAV, subtype="FLOAT"), replace(WAV, rate_hz=1)]
    assert len({delivery_hash(delivery) for delivery in [WAV, *changed]}) == 4


def test_a_reference_counts_by_content() -> None:
    first, moved, other = (
        request_hash(replace(PLAIN, ref_audio=path), "m", digest)
        for path, digest in (("a", "1"), ("b", "1"), ("a", "2"))
    )
    assert first == moved != other


def test_an_encoded_voice_changes_nothing() -> None:
    """It is made of what the digest stands for."""
    voice = Voice(torch.zeros(3), None, None, "xvec", "abc", "d")
    assert request_hash(replace(PLAIN, clone=voice), "m") == request_hash(PLAIN, "m")


@dataclass(frozen=True)
class LaterSampling(Sampling):
    later: float = field(default=0.5, metadata={"as_before": 0.0})


@dataclass
class LaterRequest(SpeechRequest):
    pace: float = field(default=1.0, metadata={"as_before": 1.0})


@dataclass(frozen=True)
class LaterDelivery(Delivery):
    loudness: str | None = field(default=None, metadata={"as_before": None})


@pytest.mark.parametrize("pace", [1.0, 1.5])
@pytest.mark.parametrize("later", [0.0, 0.5])
@pytest.mark.parametrize("loudness", [None, "ebu"])
def test_a_field_added_later_is_left_out_while_it_changes_nothing(
    pace: float, later: float, loudness: str | None
) -> None:
    sampling = LaterSampling(**vars(PLAIN.sampling), later=later)
    request = LaterRequest(**{**vars(PLAIN), "sampling": sampling, "pace": pace})
    delivery = LaterDelivery(**vars(WAV), loudness=loudness)
    is_same = (pace, later) == (1.0, 0.0)
    assert (request_hash(request, "m") == request_hash(PLAIN, "m")) is is_same
    assert (delivery_hash(delivery) == delivery_hash(WAV)) is (loudness is None)
