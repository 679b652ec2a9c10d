"""Prompt layout: ids and lengths of the official package, position by position."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from models.base import NO_ID, REFERENCE, SPEAKER, Prompt, RequestError, SpeechRequest, Voice
from models.qwen3_tts.config import Qwen3TTSConfig
from models.qwen3_tts.prompt import build_prompt

IM_START, IM_END, ASSISTANT, USER, NEWLINE = 151644, 151645, 77091, 872, 198
TTS_PAD, TTS_BOS, TTS_EOS = 151671, 151672, 151673
PAD, BOS, THINK, NO_THINK, THINK_BOS, THINK_EOS = 2148, 2149, 2154, 2155, 2156, 2157
ENGLISH, CHINESE, SICHUAN = 2050, 2055, 2062
RYAN, ERIC = 3061, 2875
TEN = "one two three four five six seven eight nine ten"


def tokenize(text: str) -> list[int]:
    """The template's tokens with their real ids; every other word is one token."""
    known = {"<|im_start|>": IM_START, "<|im_end|>": IM_END, "assistant": ASSISTANT, "user": USER}
    spaced = text.replace("\n", " \n ").replace("<|im_start|>", "<|im_start|> ")
    spaced = spaced.replace("<|im_end|>", " <|im_end|> ")
    words = [word for word in spaced.split(" ") if word]
    return [NEWLINE if w == "\n" else known.get(w, 1000 + len(w)) for w in words]


WORDS = [1000 + len(word) for word in TEN.split()]


@pytest.fixture
def config() -> Qwen3TTSConfig:
    return replace(
        Qwen3TTSConfig.released("qwen3-tts-1.7b"),
        languages={"english": ENGLISH, "chinese": CHINESE, "sichuan_dialect": SICHUAN},
        speakers={"ryan": RYAN, "eric": ERIC},
        dialects={"eric": "sichuan_dialect"},
    )


@pytest.fixture
def design(config: Qwen3TTSConfig) -> Qwen3TTSConfig:
    return replace(config, model_type="voice_design", speakers={}, dialects={})


def build(config: Qwen3TTSConfig, **fields: object) -> Prompt:
    values = {"text": TEN, "voice": "ryan", **fields}
    return build_prompt(config, tokenize, SpeechRequest(**values))  # type: ignore[arg-type]


def test_the_stand_in_tokenizer_follows_the_template() -> None:
    ids = tokenize("<|im_start|>assistant\nhello you<|im_end|>\n<|im_start|>assistant\n")
    head, tail = [IM_START, ASSISTANT, NEWLINE], [IM_END, NEWLINE, IM_START, ASSISTANT, NEWLINE]
    assert ids == [*head, 1005, 1003, *tail]


def test_non_streaming_layout(config: Qwen3TTSConfig) -> None:
    prompt = build(config, language="english")
    assert prompt.text_ids == [
        *(IM_START, ASSISTANT, NEWLINE),
        *[TTS_PAD] * 5,  # think, think_bos, language, think_eos, speaker
        TTS_BOS,
        *WORDS,
        TTS_EOS,
        TTS_PAD,
    ]
    assert prompt.codec_ids == [
        *[NO_ID] * 3,
        *(THINK, THINK_BOS, ENGLISH, THINK_EOS, RYAN),
        PAD,
        *[PAD] * 11,
        BOS,
    ]
    assert prompt.trailing_ids == []
    assert prompt.num_tokens == 21


def test_streaming_layout(config: Qwen3TTSConfig) -> None:
    prompt = build(config, language="english", layout="streaming")
    assert prompt.text_ids == [IM_START, ASSISTANT, NEWLINE, *[TTS_PAD] * 5, TTS_BOS, WORDS[0]]
    assert prompt.codec_ids == [
        *[NO_ID] * 3,
        *(THINK, THINK_BOS, ENGLISH, THINK_EOS, RYAN),
        *(PAD, BOS),
    ]
    assert prompt.trailing_ids == [*WORDS[1:], TTS_EOS]
    assert prompt.num_tokens == 10


def test_lengths_the_official_code_gave(config: Qwen3TTSConfig, design: Qwen3TTSConfig) -> None:
    instruct = "slow and deep please"  # nine tokens with its template
    assert len(tokenize(f"<|im_start|>user\n{instruct}<|im_end|>\n")) == 9
    lengths = [
        build(config, language="english", layout="streaming").num_tokens,
        build(config, language="english").num_tokens,
        build(config).num_tokens,  # auto, with a speaker
        build(config, voice="eric").num_tokens,  # auto, with a dialect speaker
        build(design, voice=None, instruct=instruct).num_tokens,
    ]
    assert lengths == [10, 21, 20, 21, 28]


@pytest.mark.parametrize(
    ("voice", "language", "expected"),
    [
        ("eric", "auto", SICHUAN),
        ("eric", "Auto", SICHUAN),
        ("ERIC", "Chinese", SICHUAN),
        ("eric", "english", ENGLISH),
        ("ryan", "chinese", CHINESE),
    ],
)
def test_a_dialect_replaces_chinese_and_auto_only(
    config: Qwen3TTSConfig, voice: str, language: str, expected: int
) -> None:
    prompt = build(config, voice=voice, language=language)
    assert prompt.codec_ids[3:7] == [THINK, THINK_BOS, expected, THINK_EOS]


def test_an_instruction_stands_before_everything(config: Qwen3TTSConfig) -> None:
    plain, told = build(config), build(config, instruct="be calm")
    head = [IM_START, USER, NEWLINE, 1002, 1004, IM_END, NEWLINE]
    assert told.text_ids == [*head, *plain.text_ids]
    assert told.codec_ids == [*[NO_ID] * len(head), *plain.codec_ids]


def test_an_instruction_is_ignored_where_the_official_package_drops_it(
    config: Qwen3TTSConfig,
) -> None:
    small = replace(config, model_size="0b6")
    assert build(small, instruct="be calm").text_ids == build(small).text_ids
    assert build(config, instruct="").text_ids == build(config).text_ids


@pytest.mark.parametrize("layout", ["auto", "non_streaming"])
def test_auto_means_non_streaming(config: Qwen3TTSConfig, layout: str) -> None:
    assert build(config, layout=layout).trailing_ids == []


def test_a_text_of_one_token_streams_its_end(config: Qwen3TTSConfig) -> None:
    prompt = build(config, text="yes", layout="streaming")
    assert prompt.trailing_ids == [TTS_EOS]
    assert build(config, text="yes").num_tokens == 11


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"voice": None}, "needs a voice"),
        ({"voice": "nobody"}, "unknown voice 'nobody'; it has ryan, eric"),
        ({"language": "klingon"}, "unknown language 'klingon'; it has auto, english, chinese"),
        ({"language": "sichuan_dialect"}, "unknown language 'sichuan_dialect'"),
        ({"layout": "sideways"}, "layout 'sideways' is not auto, streaming or non_streaming"),
        ({"ref_audio": "a.wav"}, "a custom_voice checkpoint cannot clone"),
        ({"text": ""}, "the text has no tokens"),
    ],
)
def test_what_cannot_be_spoken_is_refused(
    config: Qwen3TTSConfig, fields: dict[str, object], message: str
) -> None:
    with pytest.raises(RequestError, match=message):
        build(config, **fields)


def test_voice_design_refuses_a_voice(design: Qwen3TTSConfig) -> None:
    with pytest.raises(RequestError, match="has no voices; describe one with instruct"):
        build(design, voice="ryan")


SAID = "what the voice said was just this"
SAID_IDS = [1000 + len(word) for word in SAID.split()]


@pytest.fixture
def base(config: Qwen3TTSConfig) -> Qwen3TTSConfig:
    return replace(config, model_type="base", speakers={}, dialects={})


def voice(frames: int | None = None, **fields: object) -> Voice:
    """A voice of the 1.7B checkpoint; without frames by its embedding alone."""
    is_icl = frames is not None
    values = {
        "embedding": torch.zeros(2048),
        "codes": torch.zeros(frames, 16, dtype=torch.int64) if is_icl else None,
        "text": SAID if is_icl else None,
        "mode": "icl" if is_icl else "xvec",
        "identity": "i",
        "digest": "d",
        **fields,
    }
    return Voice(**values)  # type: ignore[arg-type]


def clone(config: Qwen3TTSConfig, of: Voice, **fields: object) -> Prompt:
    return build(config, voice=None, language="english", clone=of, **fields)


HEAD_TEXT = [IM_START, ASSISTANT, NEWLINE, *[TTS_PAD] * 5, TTS_BOS]
HEAD_CODEC = [*[NO_ID] * 3, THINK, THINK_BOS, ENGLISH, THINK_EOS, SPEAKER, PAD]


def test_an_embedding_alone_stands_where_a_speaker_does(base: Qwen3TTSConfig) -> None:
    # A Base checkpoint streams unless told otherwise.
    prompt = clone(base, voice())
    assert prompt.text_ids == [*HEAD_TEXT, WORDS[0]]
    assert prompt.codec_ids == [*HEAD_CODEC, BOS]
    assert prompt.trailing_ids == [*WORDS[1:], TTS_EOS]
    assert clone(base, voice(), layout="streaming").codec_ids == prompt.codec_ids
    whole = clone(base, voice(), layout="non_streaming")
    assert whole.text_ids == [*HEAD_TEXT, *WORDS, TTS_EOS, TTS_PAD]
    assert whole.codec_ids == [*HEAD_CODEC, *[PAD] * 11, BOS]
    assert whole.trailing_ids == []


@pytest.mark.parametrize(
    ("frames", "streaming", "trailing", "non_streaming"), [(5, 15, 12, 33), (40, 50, 0, 68)]
)
def test_reference_frames_stand_beside_the_texts(
    base: Qwen3TTSConfig, frames: int, streaming: int, trailing: int, non_streaming: int
) -> None:
    # The lengths are those the official package came to.
    spoken = [*SAID_IDS, *WORDS, TTS_EOS]
    codes = [BOS, *(REFERENCE - frame for frame in range(frames))]
    prompt = clone(base, voice(frames))
    assert prompt.num_tokens == streaming
    beside = [*spoken, *[TTS_PAD] * frames][: frames + 1]
    assert prompt.text_ids == [*HEAD_TEXT, *beside]
    assert prompt.codec_ids == [*HEAD_CODEC, *codes]
    assert prompt.trailing_ids == spoken[frames + 1 :]
    assert len(prompt.trailing_ids) == trailing

    prompt = clone(base, voice(frames), layout="non_streaming")
    assert prompt.num_tokens == non_streaming
    assert prompt.text_ids == [*HEAD_TEXT, *spoken, *[TTS_PAD] * (frames + 1)]
    assert prompt.codec_ids == [*HEAD_CODEC, *[PAD] * len(spoken), *codes]
    assert prompt.trailing_ids == []


@pytest.mark.parametrize(
    ("of", "message"),
    [
        (voice(embedding=torch.zeros(1024)), r"embedding has shape \(1024,\).* \(2048,\)"),
        (voice(mode="both"), "mode 'both' is not icl or xvec"),
        (voice(4, codes=None), r"codes have shape None, icl needs \(frames, 16\)"),
        (voice(0), r"codes have shape \(0, 16\)"),
        (voice(4, codes=torch.zeros(4, 8, dtype=torch.int64)), r"codes have shape \(4, 8\)"),
        (voice(4, codes=torch.full((4, 16), 2048)), r"codes must lie in 0\.\.2047"),
        (voice(4, codes=torch.full((4, 16), -1)), r"codes must lie in 0\.\.2047"),
        (voice(4, text=""), "transcript has no tokens"),
        (voice(4, text=None), "transcript has no tokens"),
    ],
)
def test_voices_of_another_checkpoint_are_refused(
    base: Qwen3TTSConfig, of: Voice, message: str
) -> None:
    with pytest.raises(RequestError, match=message):
        clone(base, of)


def test_only_base_checkpoints_clone(config: Qwen3TTSConfig, design: Qwen3TTSConfig) -> None:
    for other, name in ((config, "ryan"), (design, None)):
        with pytest.raises(RequestError, match="cannot clone"):
            build(other, voice=name, clone=voice())


@pytest.mark.parametrize("fields", [{}, {"ref_audio": "a.wav"}, {"voice": "ryan"}])
def test_a_base_checkpoint_says_what_it_needs(
    base: Qwen3TTSConfig, fields: dict[str, object]
) -> None:
    with pytest.raises(
        RequestError,
        match="a Base checkpoint needs a reference voice; give ref_audio or a voice file, "
        "or use a CustomVoice or VoiceDesign checkpoint",
    ):
        build(base, **{"voice": None, **fields})


def test_voices_compare_by_what_they_were_made_from() -> None:
    assert voice(4) == voice(4, codes=torch.ones(4, 16, dtype=torch.int64))
    assert hash(voice()) == hash(voice(embedding=torch.ones(2048)))
    assert voice(digest="a") != voice(digest="b")
    assert "tensor" not in repr(voice(4))
