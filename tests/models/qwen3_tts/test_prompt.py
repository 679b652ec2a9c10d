"""Prompt layout: ids and lengths of the official package, position by position."""

from __future__ import annotations

from dataclasses import replace

import pytest

from models.base import Prompt, RequestError, SpeechRequest
from models.qwen3_tts.config import Qwen3TTSConfig
from models.qwen3_tts.prompt import NONE, build_prompt
from models.qwen3_tts.synthetic import config_for

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
        config_for("qwen3-tts-1.7b"),
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
        *[NONE] * 3,
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
        *[NONE] * 3,
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


def test_auto_takes_the_short_think_form(config: Qwen3TTSConfig) -> None:
    assert build(config).codec_ids[3:8] == [NO_THINK, THINK_BOS, THINK_EOS, RYAN, PAD]


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
    assert told.codec_ids == [*[NONE] * len(head), *plain.codec_ids]


def test_an_instruction_is_ignored_where_the_official_package_drops_it(
    config: Qwen3TTSConfig,
) -> None:
    small = replace(config, model_size="0b6")
    assert build(small, instruct="be calm").text_ids == build(small).text_ids
    assert build(config, instruct="").text_ids == build(config).text_ids


def test_voice_design_has_no_speaker_position(design: Qwen3TTSConfig) -> None:
    prompt = build(design, voice=None, language="english")
    assert prompt.codec_ids[3:8] == [THINK, THINK_BOS, ENGLISH, THINK_EOS, PAD]


@pytest.mark.parametrize("layout", ["auto", "non_streaming"])
def test_auto_means_non_streaming(config: Qwen3TTSConfig, layout: str) -> None:
    assert build(config, layout=layout).trailing_ids == []


def test_a_text_of_one_token_streams_its_end(config: Qwen3TTSConfig) -> None:
    prompt = build(config, text="yes", layout="streaming")
    assert prompt.trailing_ids == [TTS_EOS]
    assert build(config, text="yes").num_tokens == 11


def test_positions_pair_up(config: Qwen3TTSConfig) -> None:
    for layout in ("streaming", "non_streaming"):
        for instruct in (None, "be calm"):
            prompt = build(config, layout=layout, instruct=instruct)
            assert len(prompt.text_ids) == len(prompt.codec_ids) == prompt.num_tokens
            assert all(text >= 0 for text in prompt.text_ids)


def test_the_request_travels_with_its_prompt(config: Qwen3TTSConfig) -> None:
    request = SpeechRequest(TEN, "ryan", seed=7)
    assert build_prompt(config, tokenize, request).request is request


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


def test_a_base_checkpoint_says_what_to_use_instead(config: Qwen3TTSConfig) -> None:
    base = replace(config, model_type="base")
    with pytest.raises(RequestError, match="use a CustomVoice or VoiceDesign checkpoint"):
        build(base, voice=None)
