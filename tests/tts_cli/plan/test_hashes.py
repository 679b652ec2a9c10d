"""What makes two rows the same speech, and two files of it the same."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch

from models.base import SpeechRequest, Voice
from models.sampling import Sampling
from tts_cli.audio.encode import Encoder
from tts_cli.config import SETTINGS, RunConfig
from tts_cli.core import FilePace, Row, VoiceKey
from tts_cli.plan.resolve import ResolvedRow
from tts_cli.setting import Topic

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


def resolved(
    request: SpeechRequest,
    model: str,
    digest: str | None = None,
    split: dict[str, float] | None = None,
) -> ResolvedRow:
    need = None if digest is None else VoiceKey(digest, 0, 0)
    return ResolvedRow(Row(1, 1, "a", "hi"), request, False, split, None, need, "", model)


def request_hash(*given: Any) -> str:
    return resolved(*given).request_hash()


def content_hash(*given: Any) -> str:
    return resolved(*given).content_hash()


def delivery_hash(**settings: Any) -> str:
    return Encoder(RunConfig(**settings), 24_000).delivery_hash_of()


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
    assert delivery_hash() == ("659e4de8a7fc6ef021f54da2e943fc23761abf5e2538af381ac6b5e28d0eee79")
    assert delivery_hash(format="flac", subtype="PCM_24", sample_rate=48_000) == (
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


# Settings of the output that change no audio file: its place, its key, and files next to it.
NO_DELIVERY = {"out", "mark_key", "save_codes", "subtitles"}
# Settings that act through the pace of each row.
OF_A_ROW = {"speed", "fit"}
CHANGED: dict[str, dict[str, Any]] = {
    "format": {"format": "flac"},
    "subtype": {"subtype": "FLOAT"},
    "sample_rate": {"sample_rate": 48_000},
    "bitrate": {"format": "mp3", "bitrate": 128},
    "preset": {"preset": "game"},
    "loudness": {"loudness": "ebu"},
    "highpass": {"highpass": 80.0},
    "trim": {"trim": True},
    "pad": {"pad": (0.5, 1.0)},
    "mark": {"mark": "c2pa"},
}


def test_the_delivery_sees_every_setting_of_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting that it does not see would leave finished rows as they are."""
    monkeypatch.setattr("tts_cli.audio.encode.signer_of", lambda config: None)
    output = {name for name, one in SETTINGS.items() if one.topic is Topic.OUTPUT}
    assert output == CHANGED.keys() | NO_DELIVERY | OF_A_ROW
    hashes = {delivery_hash(**settings) for settings in CHANGED.values()}
    assert len(hashes | {delivery_hash()}) == len(CHANGED) + 1
    assert delivery_hash(pad=(0.0, 0.0)) == delivery_hash()
    encoder = Encoder(RunConfig(), 24_000)
    paces = [FilePace(), FilePace(1.5), FilePace(fit_s=2.0)]
    assert len({encoder.delivery_hash_of(pace) for pace in paces}) == 3


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


@pytest.mark.parametrize("pace", [1.0, 1.5])
@pytest.mark.parametrize("later", [0.0, 0.5])
def test_a_field_added_later_is_left_out_while_it_changes_nothing(
    pace: float, later: float
) -> None:
    sampling = LaterSampling(**vars(PLAIN.sampling), later=later)
    request = LaterRequest(**{**vars(PLAIN), "sampling": sampling, "pace": pace})
    is_same = (pace, later) == (1.0, 0.0)
    assert (request_hash(request, "m") == request_hash(PLAIN, "m")) is is_same
