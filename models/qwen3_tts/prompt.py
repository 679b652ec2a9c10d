"""Prompt layout of Qwen3-TTS: which text and codec embeddings meet at which position.

A prompt position is the sum of a projected text embedding and a codec embedding, either of which
may be absent. So a prompt is two lists of ids; the talker turns them into vectors. Layouts follow
the official `generate` of qwen-tts 0.1.1.
"""

from __future__ import annotations

from collections.abc import Callable

from models.base import Prompt, RequestError, SpeechRequest
from models.qwen3_tts.config import Qwen3TTSConfig

NONE = -1  # no embedding of this kind at this position
Tokenizer = Callable[[str], list[int]]

TEMPLATE_HEAD = "<|im_start|>assistant\n"
TEMPLATE_TAIL = "<|im_end|>\n<|im_start|>assistant\n"
ROLE_TOKENS = 3  # start marker, `assistant`, newline
TAIL_TOKENS = 5  # the template's end; never used


def build_prompt(config: Qwen3TTSConfig, tokenize: Tokenizer, request: SpeechRequest) -> Prompt:
    """Lay out one request.

    Args:
        tokenize: text to ids with the chat template's special tokens recognised and nothing added.
    Raises:
        RequestError: the model type, the voice or the language does not fit the request.
    """
    if config.model_type == "base":
        raise RequestError(
            "this is a Base checkpoint: it speaks only by cloning a reference voice, which "
            "this version "
            "does not do yet; use a CustomVoice or VoiceDesign checkpoint"
        )
    if request.ref_audio is not None:
        raise RequestError(f"a {config.model_type} checkpoint cannot clone; leave ref_audio out")
    ids = tokenize(TEMPLATE_HEAD + request.text + TEMPLATE_TAIL)
    role, text = ids[:ROLE_TOKENS], ids[ROLE_TOKENS:-TAIL_TOKENS]
    if not text:
        raise RequestError("the text has no tokens")
    codec = codec_prefix(config, request)

    text_ids: list[int] = []
    codec_ids: list[int] = []

    def add(texts: list[int], codecs: list[int]) -> None:
        text_ids.extend(texts)
        codec_ids.extend(codecs)

    if request.instruct and config.takes_instruct:
        instruct = tokenize(f"<|im_start|>user\n{request.instruct}<|im_end|>\n")
        add(instruct, [NONE] * len(instruct))
    add(role, [NONE] * len(role))
    add([config.text.pad] * len(codec) + [config.text.bos], [*codec, config.codec.pad])
    if request.layout == "streaming":
        add(text[:1], [config.codec.bos])
        return Prompt(text_ids, codec_ids, [*text[1:], config.text.eos], request)
    if request.layout not in ("auto", "non_streaming"):
        raise RequestError(f"layout {request.layout!r} is not auto, streaming or non_streaming")
    add([*text, config.text.eos], [config.codec.pad] * (len(text) + 1))
    add([config.text.pad], [config.codec.bos])
    return Prompt(text_ids, codec_ids, [], request)


def codec_prefix(config: Qwen3TTSConfig, request: SpeechRequest) -> list[int]:
    """Think tokens, language and speaker, before the pad and bos codes."""
    speaker = None if request.voice is None else request.voice.lower()
    language = request.language.lower()
    if config.model_type == "voice_design" and speaker is not None:
        raise RequestError("a VoiceDesign checkpoint has no voices; describe one with instruct")
    if config.model_type == "custom_voice" and speaker is None:
        raise RequestError("a CustomVoice checkpoint needs a voice")
    if speaker is not None and speaker not in config.speakers:
        raise RequestError(f"unknown voice {request.voice!r}; it has {', '.join(config.speakers)}")
    if language not in config.language_names:
        raise RequestError(
            f"unknown language {request.language!r}; it has {', '.join(config.language_names)}"
        )
    language_id = config.languages.get(language)
    if language in ("auto", "chinese") and speaker in config.dialects:
        language_id = config.languages[config.dialects[speaker]]
    codec = config.codec
    if language_id is None:
        prefix = [codec.no_think, codec.think_bos, codec.think_eos]
    else:
        prefix = [codec.think, codec.think_bos, language_id, codec.think_eos]
    return prefix if speaker is None else [*prefix, config.speakers[speaker]]
