"""The released JSON files of Qwen3-TTS with the sizes of tiny checkpoints put in.

Every file starts as the released one (`tests/support/released`), and only values change: `put`
raises where the released file lacks a key. What may differ in keys as well is named in `VARIANTS`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import released_files
from released_files import put

# Byte-pair merges, ids 256 and up; Ġ stands for the space byte.
MERGES = ["t h", "th e", "Ġ the", "i n", "e r", "Ġ a", "l l", "o u", "Ġ s", "in g"]
# Added tokens in the order of their ids, which follow the vocabulary's; the others of the release
# follow. The two words have flags like those of the released tokens that are not special.
FIRST_ADDED = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "assistant",
    "user",
    "<tts_pad>",
    "<tts_text_bos>",
    "<tts_text_eod>",
)
WORDS = ("assistant", "user")
TEXT_VOCAB = 320
NUM_RESERVED = (
    1024  # the talker's ids above the codes; the official code suppresses exactly that many
)
LANGUAGES = (  # those of every checkpoint, in its order; dialects are CustomVoice's alone
    "chinese",
    "english",
    "german",
    "italian",
    "portuguese",
    "spanish",
    "japanese",
    "korean",
    "french",
    "russian",
)
# Their ids after the first language's, in the order the golden files were made with.
LANGUAGE_PLACES = ("chinese", "english", "german", "japanese")

# Objects whose keys are names or ids of the checkpoint's own, not settings.
OPEN_OBJECTS = ("added_tokens_decoder", "spk_id", "spk_is_dialect")
# Tiny checkpoints with other keys than the release's, and what they stand for.
VARIANTS = {
    "small speaker encoder": "sizes of the speaker encoder, which the official configuration class "
    "takes and no released file has; the golden files of cloning were made with it",
    "words as added tokens": "`assistant` and `user`, which the released vocabulary spells by "
    "merges; all tiny checkpoints have them, and the golden files were made with their ids",
}


@dataclass(frozen=True)
class Transformer:
    """Sizes of the talker or of the code predictor."""

    width: int
    mlp_width: int
    layers: int
    heads: int
    kv_heads: int


@dataclass(frozen=True)
class Spec:
    """Sizes and kind of one checkpoint."""

    type: str
    size: str
    num_codebooks: int
    codebook_size: int  # a power of two: the audio encoder's config insists
    talker: Transformer
    predictor: Transformer
    text_width: int
    upsample_rates: tuple[int, ...]
    upsampling_ratios: tuple[int, ...]
    decoder_dim: int
    sliding_window: int
    speakers: tuple[str, ...] = ()
    dialects: tuple[tuple[str, str], ...] = ()  # (speaker, its language for chinese and auto)
    head_dim: int = 16
    eos_gain: float = 1.4  # how much the codec head's EOS row outgrows the others
    encoder_ratios: tuple[int, ...] = (8, 6, 5, 4)  # times 2, samples an encoded frame holds
    wave_gain: float = 0.4  # of the vocoder's last convolution: loud, but hardly clamped
    has_small_speaker_encoder: bool = False  # a variant; the released sizes are the default

    @property
    def vocab_size(self) -> int:
        """Codec ids of the talker: the codes, then control ids, languages and speakers."""
        return self.codebook_size + NUM_RESERVED

    @property
    def eos(self) -> int:
        """The codec id that ends a row."""
        return self.codebook_size + 102

    @property
    def samples_per_frame(self) -> int:
        """Waveform samples one frame of codes becomes."""
        return math.prod(self.upsample_rates + self.upsampling_ratios)


SPECS = {
    # Talker and predictor equally wide, the released upsampling; its size drops `instruct`.
    "custom_voice": Spec(
        type="custom_voice",
        size="0b6",
        num_codebooks=16,
        codebook_size=64,
        talker=Transformer(48, 96, layers=2, heads=3, kv_heads=3),
        predictor=Transformer(48, 112, layers=2, heads=3, kv_heads=1),
        text_width=40,
        upsample_rates=(8, 5, 4, 3),
        upsampling_ratios=(2, 2),
        decoder_dim=32,
        sliding_window=8,
        speakers=("ada", "boris", "chen"),
        dialects=(("chen", "sichuan_dialect"),),
        wave_gain=0.12,
    ),
    # Talker wider than the predictor, so small_to_mtp_projection is there; grouped queries.
    "custom_voice_wide": Spec(
        type="custom_voice",
        size="1b7",
        num_codebooks=4,
        codebook_size=128,
        talker=Transformer(64, 160, layers=3, heads=4, kv_heads=2),
        predictor=Transformer(32, 64, layers=2, heads=2, kv_heads=1),
        text_width=56,
        upsample_rates=(5, 3),
        upsampling_ratios=(2, 2),
        decoder_dim=24,
        sliding_window=6,
        speakers=("dora", "emil", "fang"),
        dialects=(("fang", "beijing_dialect"),),
    ),
    # Predictor wider than the talker, one upsampling stage, a small codebook.
    "voice_design": Spec(
        type="voice_design",
        size="1b7",
        num_codebooks=8,
        codebook_size=32,
        talker=Transformer(32, 64, layers=2, heads=2, kv_heads=2),
        predictor=Transformer(48, 96, layers=1, heads=2, kv_heads=2),
        text_width=48,
        upsample_rates=(4, 3),
        upsampling_ratios=(2,),
        decoder_dim=16,
        sliding_window=5,
    ),
}
SPECS |= {
    # With a speaker encoder and a speech encoder, as cloning needs them; the released rates.
    "base": replace(SPECS["custom_voice"], type="base", speakers=(), dialects=()),
    # Shorter frames, so that references have many.
    "base_wide": replace(
        SPECS["custom_voice_wide"],
        type="base",
        upsample_rates=(5, 3, 4),
        encoder_ratios=(6, 5, 4),
        speakers=(),
        dialects=(),
    ),
}
# One layer in each network, where how many there are is not the point.
WIDE = SPECS["custom_voice_wide"]
THINNEST = replace(
    WIDE, talker=replace(WIDE.talker, layers=1), predictor=replace(WIDE.predictor, layers=1)
)
# What golden files were made from: the same, Base with the variant `small speaker encoder`.
GOLDEN_SPECS = {
    name: replace(spec, has_small_speaker_encoder=spec.type == "base")
    for name, spec in SPECS.items()
}


def released_name(spec: Spec) -> str:
    """The released checkpoint a spec is the small form of."""
    size = {"0b6": "0.6B", "1b7": "1.7B"}[spec.size]
    kind = {"custom_voice": "CustomVoice", "voice_design": "VoiceDesign", "base": "Base"}
    return f"Qwen3-TTS-12Hz-{size}-{kind[spec.type]}"


def main_config(spec: Spec) -> dict[str, Any]:
    """config.json as released, with the sizes of `spec`."""
    config = released_files.read(f"{released_name(spec)}/config.json")
    ids = token_ids()
    put(
        config,
        assistant_token_id=ids["assistant"],
        im_start_token_id=ids["<|im_start|>"],
        im_end_token_id=ids["<|im_end|>"],
        tts_pad_token_id=ids["<tts_pad>"],
        tts_bos_token_id=ids["<tts_text_bos>"],
        tts_eos_token_id=ids["<tts_text_eod>"],
    )
    base = spec.codebook_size  # the first id that is no code
    dialects = dict(spec.dialects)
    talker = config["talker_config"]
    half = spec.head_dim // 2
    put(
        talker,
        **_sizes(spec.talker, spec),
        vocab_size=spec.vocab_size,
        text_hidden_size=spec.text_width,
        text_vocab_size=TEXT_VOCAB,
        codec_pad_id=base + 100,
        codec_bos_id=base + 101,
        codec_eos_token_id=spec.eos,
        codec_think_id=base + 106,
        codec_nothink_id=base + 107,
        codec_think_bos_id=base + 108,
        codec_think_eos_id=base + 109,
        spk_id={name: base + 900 + i for i, name in enumerate(spec.speakers)},
        spk_is_dialect={name: dialects.get(name, False) for name in spec.speakers},
    )
    put(talker["rope_scaling"], mrope_section=[half - 2 * (half // 4), half // 4, half // 4])
    languages = talker["codec_language_id"]
    first = (*LANGUAGE_PLACES, *dialects.values())
    places = [*first, *(name for name in languages if name not in first)]
    put(languages, **{name: base + 2 + i for i, name in enumerate(places)})
    predictor = talker["code_predictor_config"]
    put(
        predictor,
        **_sizes(spec.predictor, spec),
        vocab_size=spec.codebook_size,
        layer_types=["full_attention"] * spec.predictor.layers,
    )
    if spec.type == "base":
        put(config["speaker_encoder_config"], enc_dim=spec.talker.width)
        if spec.has_small_speaker_encoder:
            config["speaker_encoder_config"] |= SMALL_SPEAKER_ENCODER
    return config


def _sizes(shape: Transformer, spec: Spec) -> dict[str, int]:
    return {
        "hidden_size": shape.width,
        "intermediate_size": shape.mlp_width,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": spec.head_dim,
        "num_code_groups": spec.num_codebooks,
    }


def speaker_encoder_sizes(spec: Spec) -> dict[str, Any]:
    """Sizes of the speaker encoder: the released file leaves them to the official defaults."""
    return SMALL_SPEAKER_ENCODER if spec.has_small_speaker_encoder else RELEASED_SPEAKER_ENCODER


def codec_config(spec: Spec) -> dict[str, Any]:
    """speech_tokenizer/config.json as released, with the sizes of `spec`."""
    config = released_files.read("common/speech_tokenizer/config.json")
    put(
        config,
        encoder_valid_num_quantizers=spec.num_codebooks,
        decode_upsample_rate=spec.samples_per_frame,
        encode_downsample_rate=2 * math.prod(spec.encoder_ratios),
    )
    put(
        config["decoder_config"],
        latent_dim=24,
        codebook_dim=16,
        codebook_size=spec.codebook_size,
        decoder_dim=spec.decoder_dim,
        hidden_size=32,
        intermediate_size=48,
        head_dim=16,
        num_attention_heads=2,
        num_hidden_layers=2,
        num_key_value_heads=2,
        num_quantizers=spec.num_codebooks,
        semantic_codebook_size=2 * spec.codebook_size,
        sliding_window=spec.sliding_window,
        upsample_rates=list(spec.upsample_rates),
        upsampling_ratios=list(spec.upsampling_ratios),
        vector_quantization_hidden_dimension=16,
    )
    is_used = spec.type == "base"  # the only one whose encoder is
    put(
        config["encoder_config"],
        _frame_rate=12000 / math.prod(spec.encoder_ratios),
        codebook_dim=8,
        codebook_size=spec.codebook_size,
        head_dim=8,
        hidden_size=16,
        intermediate_size=24,
        num_attention_heads=2,
        num_filters=4 if is_used else 2,
        num_hidden_layers=2 if is_used else 1,
        num_key_value_heads=2,
        num_quantizers=spec.num_codebooks + 2,
        upsample_groups=16,
        upsampling_ratios=list(spec.encoder_ratios),
        vector_quantization_hidden_dimension=8,
    )
    return config


def generation_config(changes: dict[str, Any] | None = None) -> dict[str, Any]:
    """generation_config.json as released, with changes."""
    config = released_files.read("common/generation_config.json")
    put(config, **(changes or {}))
    return config


def added_tokens() -> dict[str, dict[str, Any]]:
    """The released `added_tokens_decoder` and the two words, under the tiny vocabulary's ids."""
    released = released_files.read("common/tokenizer_config.json")["added_tokens_decoder"]
    tokens = {token["content"]: token for token in released.values()}
    plain = tokens["<tool_call>"]
    tokens |= {word: {**plain, "content": word} for word in WORDS}
    order = [*FIRST_ADDED, *(name for name in tokens if name not in FIRST_ADDED)]
    return {str(256 + len(MERGES) + i): tokens[name] for i, name in enumerate(order)}


def token_ids() -> dict[str, int]:
    """Id of every added token."""
    return {token["content"]: int(i) for i, token in added_tokens().items()}


def vocabulary(merges: Sequence[str] = MERGES) -> dict[str, int]:
    """vocab.json: bytes and merges; the added tokens are not in it, as in the release."""
    units = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in units]
    vocab = {chr(byte if byte in units else 256 + rest.index(byte)): byte for byte in range(256)}
    return vocab | {merge.replace(" ", ""): 256 + i for i, merge in enumerate(merges)}


def merges() -> str:
    """merges.txt; the released one has no `#version` line either."""
    return "".join(f"{merge}\n" for merge in MERGES)


def tokenizer_config() -> dict[str, Any]:
    """tokenizer_config.json as released, with the tiny vocabulary's ids."""
    config = released_files.read("common/tokenizer_config.json")
    put(config, added_tokens_decoder=added_tokens())
    return config


RELEASED_SPEAKER_ENCODER = {  # defaults of the official configuration class
    "mel_dim": 128,
    "enc_channels": [512, 512, 512, 512, 1536],
    "enc_kernel_sizes": [5, 3, 3, 3, 1],
    "enc_dilations": [1, 2, 3, 4, 1],
    "enc_attention_channels": 128,
    "enc_res2net_scale": 8,
    "enc_se_channels": 128,
}
SMALL_SPEAKER_ENCODER = {
    "mel_dim": 128,
    "enc_channels": [16, 16, 16, 16, 48],
    "enc_kernel_sizes": [5, 3, 3, 3, 1],
    "enc_dilations": [1, 2, 3, 4, 1],
    "enc_attention_channels": 8,
    "enc_res2net_scale": 4,
    "enc_se_channels": 8,
}
