"""Sizes of the tiny Qwen3-TTS checkpoints, and the released JSON files filled with them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

# Byte-pair merges, ids 256 and up; Ġ stands for the space byte.
MERGES = ["t h", "th e", "Ġ the", "i n", "e r", "Ġ a", "l l", "o u", "Ġ s", "in g"]
SPECIAL = {
    "<|endoftext|>": 266,
    "<|im_start|>": 267,
    "<|im_end|>": 268,
    "assistant": 269,
    "user": 270,
    "<tts_pad>": 271,
    "<tts_text_bos>": 272,
    "<tts_text_eod>": 273,
}
TEXT_VOCAB = 320
NUM_RESERVED = (
    1024  # the talker's ids above the codes; the official code suppresses exactly that many
)
LANGUAGES = ("chinese", "english", "german", "japanese")


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
    # With a speaker encoder and a speech encoder, as cloning needs them; the released rates.
    "base": Spec(
        type="base",
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
        wave_gain=0.12,
        encoder_ratios=(8, 6, 5, 4),
    ),
    # Talker wider than the predictor; shorter frames, so that references have many.
    "base_wide": Spec(
        type="base",
        size="1b7",
        num_codebooks=4,
        codebook_size=128,
        talker=Transformer(64, 160, layers=3, heads=4, kv_heads=2),
        predictor=Transformer(32, 64, layers=2, heads=2, kv_heads=1),
        text_width=56,
        upsample_rates=(5, 3, 4),
        upsampling_ratios=(2, 2),
        decoder_dim=24,
        sliding_window=6,
        encoder_ratios=(6, 5, 4),
    ),
}


def main_config(spec: Spec) -> dict[str, Any]:
    """config.json as released, with the sizes of `spec`."""
    common = {
        "attention_bias": False,
        "attention_dropout": 0,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "rms_norm_eps": 1e-06,
        "rope_theta": 1000000,
        "tie_word_embeddings": False,
        "use_cache": True,
        "use_sliding_window": False,
        "head_dim": spec.head_dim,
        "num_code_groups": spec.num_codebooks,
    }
    predictor = {
        **common,
        "model_type": "qwen3_tts_talker_code_predictor",
        "vocab_size": spec.codebook_size,
        **_sizes(spec.predictor),
        "layer_types": ["full_attention"] * spec.predictor.layers,
        "max_position_embeddings": 65536,
        "max_window_layers": 28,
        "rope_scaling": None,
        "sliding_window": None,
    }
    base = spec.codebook_size  # the first id that is no code
    dialects = dict(spec.dialects)
    languages = [*LANGUAGES, *dialects.values()]
    half = spec.head_dim // 2
    talker = {
        **common,
        "model_type": "qwen3_tts_talker",
        "code_predictor_config": predictor,
        "vocab_size": spec.vocab_size,
        **_sizes(spec.talker),
        "text_hidden_size": spec.text_width,
        "text_vocab_size": TEXT_VOCAB,
        "max_position_embeddings": 32768,
        "rope_scaling": {
            "interleaved": True,
            "mrope_section": [half - 2 * (half // 4), half // 4, half // 4],
            "rope_type": "default",
            "type": "default",
        },
        "sliding_window": None,
        "codec_pad_id": base + 100,
        "codec_bos_id": base + 101,
        "codec_eos_token_id": spec.eos,
        "codec_think_id": base + 106,
        "codec_nothink_id": base + 107,
        "codec_think_bos_id": base + 108,
        "codec_think_eos_id": base + 109,
        "codec_language_id": {name: base + 2 + i for i, name in enumerate(languages)},
        "spk_id": {name: base + 900 + i for i, name in enumerate(spec.speakers)},
        "spk_is_dialect": {name: dialects.get(name, False) for name in spec.speakers},
        "position_id_per_seconds": 13,
    }
    config = {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "model_type": "qwen3_tts",
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_model_size": spec.size,
        "tts_model_type": spec.type,
        "assistant_token_id": SPECIAL["assistant"],
        "im_start_token_id": SPECIAL["<|im_start|>"],
        "im_end_token_id": SPECIAL["<|im_end|>"],
        "tts_pad_token_id": SPECIAL["<tts_pad>"],
        "tts_bos_token_id": SPECIAL["<tts_text_bos>"],
        "tts_eos_token_id": SPECIAL["<tts_text_eod>"],
        "talker_config": talker,
        "transformers_version": "4.57.3",
    }
    if spec.type == "base":
        speaker = {"enc_dim": spec.talker.width, "sample_rate": 24000, **SPEAKER_ENCODER}
        config["speaker_encoder_config"] = speaker
    return config


def _sizes(shape: Transformer) -> dict[str, int]:
    return {
        "hidden_size": shape.width,
        "intermediate_size": shape.mlp_width,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
    }


def codec_config(spec: Spec) -> dict[str, Any]:
    """speech_tokenizer/config.json as released, with the sizes of `spec`."""
    decoder = {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "latent_dim": 24,
        "codebook_dim": 16,
        "codebook_size": spec.codebook_size,
        "decoder_dim": spec.decoder_dim,
        "hidden_act": "silu",
        "hidden_size": 32,
        "intermediate_size": 48,
        "layer_scale_initial_scale": 0.01,
        "max_position_embeddings": 8000,
        "head_dim": 16,
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
        "num_key_value_heads": 2,
        "num_quantizers": spec.num_codebooks,
        "num_semantic_quantizers": 1,
        "rms_norm_eps": 1e-05,
        "rope_theta": 10000,
        "semantic_codebook_size": 2 * spec.codebook_size,
        "sliding_window": spec.sliding_window,
        "upsample_rates": list(spec.upsample_rates),
        "upsampling_ratios": list(spec.upsampling_ratios),
        "vector_quantization_hidden_dimension": 16,
    }
    encoder = {
        "audio_channels": 1,
        "codebook_dim": 8,
        "codebook_size": spec.codebook_size,
        "compress": 2,
        "dilation_growth_rate": 2,
        "frame_rate": 12000 / math.prod(spec.encoder_ratios),
        "head_dim": 8,
        "hidden_size": 16,
        "intermediate_size": 24,
        "kernel_size": 7,
        "last_kernel_size": 3,
        "num_attention_heads": 2,
        "num_filters": 2,
        "num_hidden_layers": 1,
        "num_key_value_heads": 2,
        "num_quantizers": spec.num_codebooks + 2,
        "num_residual_layers": 1,
        "num_semantic_quantizers": 1,
        "residual_kernel_size": 3,
        "rope_theta": 10000.0,
        "sampling_rate": 24000,
        "upsample_groups": 16,
        "upsampling_ratios": list(spec.encoder_ratios),
        "use_causal_conv": True,
        "use_conv_shortcut": False,
        "vector_quantization_hidden_dimension": 8,
    }
    if spec.type == "base":  # the only one whose encoder is used
        encoder |= ENCODER
    return {
        "architectures": ["Qwen3TTSTokenizerV2Model"],
        "model_type": "qwen3_tts_tokenizer_12hz",
        "encoder_valid_num_quantizers": spec.num_codebooks,
        "input_sample_rate": 24000,
        "output_sample_rate": 24000,
        "decode_upsample_rate": spec.samples_per_frame,
        "encode_downsample_rate": 2 * math.prod(spec.encoder_ratios),
        "decoder_config": decoder,
        "encoder_config": encoder,
        "transformers_version": "4.57.3",
    }


GENERATION = {
    "do_sample": True,
    "repetition_penalty": 1.05,
    "temperature": 0.9,
    "top_p": 1.0,
    "top_k": 50,
    "subtalker_dosample": True,
    "subtalker_temperature": 0.9,
    "subtalker_top_p": 1.0,
    "subtalker_top_k": 50,
    "max_new_tokens": 8192,
}
PROCESSOR = {
    "padding_side": "left",
    "padding_value": 0.0,
    "processor_class": "Qwen3TTSProcessor",
    "return_attention_mask": True,
}
FEATURE_EXTRACTOR = {
    "chunk_length_s": None,
    "feature_extractor_type": "EncodecFeatureExtractor",
    "feature_size": 1,
    "overlap": None,
    "padding_side": "right",
    "padding_value": 0.0,
    "return_attention_mask": True,
    "sampling_rate": 24000,
}
ENCODER = {
    "attention_bias": False,
    "attention_dropout": 0.0,
    "hidden_act": "gelu",
    "initializer_range": 0.02,
    "layer_scale_initial_scale": 0.01,
    "max_position_embeddings": 8000,
    "norm_eps": 1e-05,
    "num_filters": 4,
    "num_hidden_layers": 2,
    "pad_mode": "constant",
    "sliding_window": 250,
    "use_cache": False,
}
SPEAKER_ENCODER = {
    "mel_dim": 128,
    "enc_channels": [16, 16, 16, 16, 48],
    "enc_kernel_sizes": [5, 3, 3, 3, 1],
    "enc_dilations": [1, 2, 3, 4, 1],
    "enc_attention_channels": 8,
    "enc_res2net_scale": 4,
    "enc_se_channels": 8,
}
