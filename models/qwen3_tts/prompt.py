"""Prompt layout of Qwen3-TTS: the text and codec embeddings of each position.

A prompt position is the sum of a projected text embedding and a codec embedding; one of them may be
absent. So a prompt is two lists of ids, which the talker turns into vectors. If a cloned voice's
embedding or one of its reference frames replaces the codec embedding, the codec id is a negative
one of `models.base`. Layouts follow the official `generate` of qwen-tts 0.1.1.
"""

from __future__ import annotations

from models.base import (
    NO_ID,
    REFERENCE,
    SPEAKER,
    Prompt,
    RequestError,
    SpeechRequest,
    Tokenizer,
    Voice,
)
from models.qwen3_tts.config import Qwen3TTSConfig

TEMPLATE_HEAD = "<|im_start|>assistant\n"
TEMPLATE_TAIL = "<|im_end|>\n<|im_start|>assistant\n"
REFERENCE_TAIL = "<|im_end|>\n"
ROLE_TOKENS = 3  # start marker, `assistant`, newline
TAIL_TOKENS = 5  # the template's end; never used
REFERENCE_TAIL_TOKENS = 2


def build_prompt(config: Qwen3TTSConfig, tokenize: Tokenizer, request: SpeechRequest) -> Prompt:
    """Return the prompt of one request. Raises RequestError: the model type, the voice or the
    language does not fit it.

    Args:
        tokenize: text to ids with the chat template's special tokens recognised and nothing added.
    """
    if request.layout not in ("auto", "streaming", "non_streaming"):
        raise RequestError(f"layout {request.layout!r} is not auto, streaming or non_streaming")
    clone = request.clone
    if config.model_type == "base":
        if clone is None:
            raise RequestError(
                "a Base checkpoint needs a reference voice; give ref_audio or a "
                "voice file, or use a CustomVoice or VoiceDesign checkpoint"
            )
        check_voice(config, clone)
    elif clone is not None or request.ref_audio is not None:
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
        add(instruct, [NO_ID] * len(instruct))
    add(role, [NO_ID] * len(role))
    add([config.text.pad] * len(codec) + [config.text.bos], [*codec, config.codec.pad])
    layout = config.default_layout if request.layout == "auto" else request.layout
    is_streaming = layout == "streaming"
    if clone is not None and clone.mode == "icl":
        spoken = [*reference_text(tokenize, clone), *text, config.text.eos]
        frames = [config.codec.bos, *(REFERENCE - frame for frame in range(clone.num_frames))]
        if not is_streaming:
            add(spoken, [config.codec.pad] * len(spoken))
            add([config.text.pad] * len(frames), frames)
            return Prompt(text_ids, codec_ids, [], request)
        filling = [config.text.pad] * (len(frames) - len(spoken))
        add([*spoken[: len(frames)], *filling], frames)
        return Prompt(text_ids, codec_ids, spoken[len(frames) :], request)
    if is_streaming:
        add(text[:1], [config.codec.bos])
        return Prompt(text_ids, codec_ids, [*text[1:], config.text.eos], request)
    add([*text, config.text.eos], [config.codec.pad] * (len(text) + 1))
    add([config.text.pad], [config.codec.bos])
    return Prompt(text_ids, codec_ids, [], request)


def reference_text(tokenize: Tokenizer, clone: Voice) -> list[int]:
    """Return the ids of a reference's transcript, without the template around it."""
    ids = tokenize(TEMPLATE_HEAD + (clone.text or "") + REFERENCE_TAIL)
    text = ids[ROLE_TOKENS:-REFERENCE_TAIL_TOKENS]
    if not text:
        raise RequestError("the reference's transcript has no tokens")
    return text


def check_voice(config: Qwen3TTSConfig, clone: Voice) -> None:
    """Raise RequestError if a voice is not of this checkpoint."""
    width = config.talker.width
    if tuple(clone.embedding.shape) != (width,):
        raise RequestError(
            f"the voice's embedding has shape {tuple(clone.embedding.shape)}, this checkpoint's "
            f"is ({width},); encode its reference with this checkpoint"
        )
    if clone.mode not in ("icl", "xvec"):
        raise RequestError(f"the voice's mode {clone.mode!r} is not icl or xvec")
    if clone.mode == "icl":
        clone.check_codes(config.num_codebooks, min(config.predictor_vocab_size, config.vocab_size))


def codec_prefix(config: Qwen3TTSConfig, request: SpeechRequest) -> list[int]:
    """Return think tokens, language and speaker, before the pad and bos codes."""
    # A cloned voice's name is its file's, not that of a speaker.
    name = request.voice if request.clone is None else None
    speaker = None if name is None else name.lower()
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
    if request.clone is not None:
        return [*prefix, SPEAKER]
    return prefix if speaker is None else [*prefix, config.speakers[speaker]]
