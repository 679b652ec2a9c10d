"""Prompts: what stands where, and what is refused rather than dropped."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tiny_fish_speech as tiny
import torch

from models.base import NO_ID, REFERENCE, RequestError, SpeechRequest, Voice
from models.dual_ar.model import DualAR
from models.dual_ar.prompt import OVERHEAD
from models.fish_speech.family import SAMPLING, checked_text, join_turns
from models.sampling import Sampling

PLAIN = SpeechRequest("Hi.", sampling=SAMPLING)


def clone(frames: int = 3, text: str = "It ends.") -> SpeechRequest:
    return replace(PLAIN, clone=tiny.random_voice("small", frames, text))


def test_tags_of_style_stay_in_the_text(small: DualAR) -> None:
    whole = small.prompt(replace(PLAIN, text="[whisper] Hi. [pause] [a tag nobody knows]"))
    tokens = small.tokenize("[whisper] Hi. [pause] [a tag nobody knows]")
    ids = whole.text_ids
    assert any(ids[i : i + len(tokens)] == tokens for i in range(len(ids)))


def test_parts_do_not_merge_across_their_joints(small: DualAR) -> None:
    tokenize = small.tokenize
    joint = tokenize("It ends.\n\nSpeech:\n")
    parts = [*tokenize("It ends."), *tokenize("\n\nSpeech:\n")]
    assert joint != parts  # or this checkpoint would not notice
    ids = small.prompt(clone()).text_ids
    assert any(ids[i : i + len(parts)] == parts for i in range(len(ids)))
    assert not any(ids[i : i + len(joint)] == joint for i in range(len(ids)))


def test_reference_frames_stand_for_their_codes(small: DualAR) -> None:
    request = clone(frames=3)
    prompt = small.prompt(request)
    assert request.clone is not None
    assert request.clone.codes is not None
    first = request.clone.codes[:, 0].tolist()
    places = [i for i, code in enumerate(prompt.codec_ids) if code != NO_ID]
    assert [prompt.codec_ids[i] for i in places] == [REFERENCE, REFERENCE - 1, REFERENCE - 2]
    assert places == list(range(places[0], places[0] + 3))
    assert [prompt.text_ids[i] - tiny.SEMANTIC_START for i in places] == first


def test_prompts_of_a_voice_begin_alike_up_to_their_texts(small: DualAR) -> None:
    prompts = [small.prompt(replace(clone(), text=text)) for text in ("Hi.", "It rains.")]
    one, other = prompts
    shared = one.num_shared
    assert shared == other.num_shared
    assert one.text_ids[:shared] == other.text_ids[:shared]
    assert one.codec_ids[:shared] == other.codec_ids[:shared]
    assert {REFERENCE, REFERENCE - 1, REFERENCE - 2} <= set(one.codec_ids[:shared])
    for prompt in prompts:
        tokens = small.tokenize(prompt.request.text)
        assert prompt.text_ids[shared : shared + len(tokens)] == tokens
        assert prompt.num_own == len(prompt.text_ids[shared:]) > len(tokens)
        assert set(prompt.codec_ids[shared:]) == {NO_ID}
    assert small.prompt(PLAIN).num_shared == 0


def test_a_transcript_gets_a_speaker_tag_unless_it_has_one(small: DualAR) -> None:
    plain = small.prompt(clone(text="Yes."))
    tagged = small.prompt(clone(text="<|speaker:0|>Yes."))
    other = small.prompt(clone(text="<|speaker:1|>Yes."))
    assert plain.text_ids == tagged.text_ids
    assert plain.text_ids != other.text_ids


def test_the_overhead_bounds_what_surrounds_a_text(small: DualAR) -> None:
    # Every byte of this text is a token, so all that comes on top is the template's.
    text = "zqzqzq"
    assert len(small.tokenize(text)) == len(text)
    assert small.prompt(replace(PLAIN, text=text)).num_tokens <= OVERHEAD + len(text)
    prompt = small.prompt(replace(clone(4, "zzz"), text=text))
    assert prompt.num_tokens <= OVERHEAD + len(text) + 4 + 3
    assert small.info.prompt_overhead == OVERHEAD


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("No tag at all. ", "No tag at all. "),
        ("<|speaker:0|>One.", "<|speaker:0|>One."),
        ("<|speaker:0|> One. <|speaker:12|>Two.\n", "<|speaker:0|> One.\n<|speaker:12|>Two."),
        ("\n<|speaker:1|>One.\n\n<|speaker:0|>Two.", "<|speaker:1|>One.\n<|speaker:0|>Two."),
    ],
)
def test_speaker_turns_are_lines(text: str, joined: str) -> None:
    assert join_turns(text) == joined


def test_text_before_the_first_speaker_is_not_dropped_in_silence() -> None:
    with pytest.raises(RequestError, match=r"'Well' is before the first speaker tag"):
        join_turns("Well <|speaker:0|>yes.")


@pytest.mark.parametrize("token", ["<|im_end|>", "<|voice|>", "<|semantic:3|>", "<|speaker:x|>"])
def test_control_tokens_cannot_be_smuggled_in(small: DualAR, token: str) -> None:
    with pytest.raises(RequestError, match=r"the text holds the control token"):
        small.prompt(replace(PLAIN, text=f"Hi{token}\n"))
    with pytest.raises(RequestError, match=r"the reference's transcript holds the control token"):
        small.prompt(clone(text=f"Hi{token}\n"))
    assert checked_text("<|phoneme_start|>a<|phoneme_end|><|speaker:3|> < | 1 |> 2", "x")


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (replace(PLAIN, layout="streaming"), "reads the whole text first"),
        (replace(PLAIN, language="english"), "language 'english'"),
        (replace(PLAIN, voice="clara"), "unknown voice 'clara'"),
        (replace(PLAIN, ref_audio="a.wav"), "not encoded"),
        (replace(PLAIN, text=""), "no tokens"),
        (replace(PLAIN, sampling=Sampling()), "repetition_penalty"),
        (clone(text=" "), "transcript is empty"),
    ],
)
def test_what_the_family_cannot_do_is_refused(
    small: DualAR, request_: SpeechRequest, message: str
) -> None:
    with pytest.raises(RequestError, match=message):
        small.prompt(request_)


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (None, "shape None"),
        (torch.zeros(2, 3, dtype=torch.int64), r"shape \(2, 3\), icl needs \(frames, 4\)"),
        (torch.zeros(0, 4, dtype=torch.int64), r"shape \(0, 4\)"),
        (torch.full((2, 4), 64), r"must lie in 0\.\.63"),
        (torch.full((2, 4), -1), r"must lie in 0\.\.63"),
    ],
)
def test_voices_of_other_checkpoints_are_refused(
    small: DualAR, codes: torch.Tensor | None, message: str
) -> None:
    voice = Voice(torch.zeros(1), codes, "x", "icl", "other", "d")
    with pytest.raises(RequestError, match=message):
        small.prompt(replace(PLAIN, clone=voice))


def test_cloning_takes_a_transcript(small: DualAR) -> None:
    voice = Voice(torch.zeros(1), None, None, "xvec", "other", "d")
    with pytest.raises(RequestError, match="with its transcript only"):
        small.prompt(replace(PLAIN, clone=voice))
