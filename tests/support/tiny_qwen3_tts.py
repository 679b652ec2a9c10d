"""Tiny random Qwen3-TTS checkpoints in the released layout: official file names, keys and shapes, random numbers.

Nothing here needs the official package. Weights come from numpy's raw PCG64 bits, so a (spec, seed) pair gives the same
bytes on every machine and version; the golden files of tests/oracle rely on that. Scales are chosen so that greedy codes
vary, rows end by EOS at different frames or hit their cap, and the waveform is neither silent nor all clamped.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

MERGES = ["t h", "th e", "Ġ the", "i n", "e r", "Ġ a", "l l", "o u", "Ġ s", "in g"]  # ids 256 and up
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
NUM_RESERVED = 1024  # the talker's ids above the codes; the official code suppresses exactly that many
LANGUAGES = ("chinese", "english", "german", "japanese")


@dataclass(frozen=True)
class Spec:
    """Sizes and kind of one tiny checkpoint."""

    type: str
    size: str
    num_codebooks: int
    codebook_size: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    predictor_hidden: int
    predictor_intermediate: int
    predictor_layers: int
    predictor_heads: int
    predictor_kv_heads: int
    text_hidden: int
    upsample_rates: tuple[int, ...]
    upsampling_ratios: tuple[int, ...]
    decoder_dim: int
    sliding_window: int
    speakers: tuple[str, ...] = ()
    dialects: tuple[tuple[str, str], ...] = ()  # (speaker, language it overrides chinese and auto with)
    head_dim: int = 16
    eos_gain: float = 1.4  # how much the EOS row of the codec head outgrows the others: sooner or later ends
    wave_gain: float = 0.4  # of the last convolution: loud, but hardly clamped

    @property
    def samples_per_frame(self) -> int:
        """Waveform samples one frame of codes becomes."""
        return int(np.prod(self.upsample_rates + self.upsampling_ratios))


SPECS = {
    # Talker and predictor equally wide, the released upsampling, 16 codebooks; its size drops `instruct`.
    "custom_voice": Spec(
        "custom_voice", "0b6", 16, 64, 48, 96, 2, 3, 3, 48, 112, 2, 3, 1, 40, (8, 5, 4, 3), (2, 2), 32, 8,
        ("ada", "boris", "chen"), (("chen", "sichuan_dialect"),), wave_gain=0.12,
    ),
    # Talker wider than the predictor, so small_to_mtp_projection is there; two query heads share a key head.
    "custom_voice_wide": Spec(
        "custom_voice", "1b7", 4, 128, 64, 160, 3, 4, 2, 32, 64, 2, 2, 1, 56, (5, 3), (2, 2), 24, 6,
        ("dora", "emil", "fang"), (("fang", "beijing_dialect"),),
    ),
    "voice_design": Spec(
        "voice_design", "1b7", 8, 32, 32, 64, 2, 2, 2, 48, 96, 1, 2, 2, 48, (4, 3), (2,), 16, 5
    ),
    "base": Spec("base", "0b6", 4, 64, 32, 64, 2, 2, 1, 32, 64, 1, 2, 1, 32, (3, 2), (2,), 16, 5),
}  # fmt: skip


def write_checkpoint(
    folder: Path,
    spec: str | Spec,
    seed: int = 0,
    *,
    dtype: torch.dtype = torch.bfloat16,
    codec_dtype: torch.dtype = torch.float32,
    num_shards: int = 1,
    has_audio_encoder: bool = True,
    generation: dict[str, Any] | None = None,
) -> Path:
    """Write a complete checkpoint into `folder` and return the folder.

    Args:
        spec: a name of `SPECS` or a Spec.
        seed: the same spec and seed give the same bytes.
        dtype: of the talker, the predictor and the speaker encoder; the release has bfloat16.
        codec_dtype: of the speech tokenizer; the release has float32.
        num_shards: above 1, the main weights are split over that many files with an index.
        has_audio_encoder: False leaves the speech tokenizer's encoder tensors out.
        generation: changes to generation_config.json.
    """
    spec = SPECS[spec] if isinstance(spec, str) else spec
    folder = Path(folder)
    codec = folder / "speech_tokenizer"
    codec.mkdir(parents=True, exist_ok=True)
    _write_json(folder / "config.json", main_config(spec))
    _write_json(folder / "generation_config.json", {**GENERATION, **(generation or {})})
    _write_json(folder / "preprocessor_config.json", PROCESSOR)
    _write_tokenizer(folder)
    _write_json(codec / "config.json", codec_config(spec))
    _write_json(codec / "preprocessor_config.json", FEATURE_EXTRACTOR)
    weights = _draw(main_shapes(spec), spec, seed, dtype)
    if num_shards == 1:
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    else:
        _write_shards(folder, weights, num_shards)
    shapes = decoder_shapes(spec) | (audio_encoder_shapes(spec) if has_audio_encoder else {})
    save_file(_draw(shapes, spec, seed, codec_dtype), codec / "model.safetensors", metadata={"format": "pt"})
    return folder


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
        "hidden_size": spec.predictor_hidden,
        "intermediate_size": spec.predictor_intermediate,
        "num_hidden_layers": spec.predictor_layers,
        "num_attention_heads": spec.predictor_heads,
        "num_key_value_heads": spec.predictor_kv_heads,
        "layer_types": ["full_attention"] * spec.predictor_layers,
        "max_position_embeddings": 65536,
        "max_window_layers": 28,
        "rope_scaling": None,
        "sliding_window": None,
    }
    base = spec.codebook_size
    dialects = dict(spec.dialects)
    languages = [*LANGUAGES, *dialects.values()]
    half = spec.head_dim // 2
    talker = {
        **common,
        "model_type": "qwen3_tts_talker",
        "code_predictor_config": predictor,
        "vocab_size": base + NUM_RESERVED,
        "hidden_size": spec.hidden,
        "intermediate_size": spec.intermediate,
        "num_hidden_layers": spec.layers,
        "num_attention_heads": spec.heads,
        "num_key_value_heads": spec.kv_heads,
        "text_hidden_size": spec.text_hidden,
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
        "codec_eos_token_id": base + 102,
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
        config["speaker_encoder_config"] = {"enc_dim": spec.hidden, "sample_rate": 24000, **SPEAKER_ENCODER}
    return config


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
        "frame_rate": 12.5,
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
        "upsampling_ratios": [8, 6, 5, 4],
        "use_causal_conv": True,
        "use_conv_shortcut": False,
        "vector_quantization_hidden_dimension": 8,
    }
    return {
        "architectures": ["Qwen3TTSTokenizerV2Model"],
        "model_type": "qwen3_tts_tokenizer_12hz",
        "encoder_valid_num_quantizers": spec.num_codebooks,
        "input_sample_rate": 24000,
        "output_sample_rate": 24000,
        "decode_upsample_rate": spec.samples_per_frame,
        "encode_downsample_rate": 1920,
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
SPEAKER_ENCODER = {
    "mel_dim": 128,
    "enc_channels": [16, 16, 16, 16, 48],
    "enc_kernel_sizes": [5, 3, 3, 3, 1],
    "enc_dilations": [1, 2, 3, 4, 1],
    "enc_attention_channels": 8,
    "enc_res2net_scale": 4,
    "enc_se_channels": 8,
}

Shapes = dict[str, tuple[int, ...]]


def _block(prefix: str, hidden: int, inner: int, heads: int, kv_heads: int, head_dim: int, has_qk_norm: bool) -> Shapes:
    shapes = {
        "self_attn.q_proj.weight": (heads * head_dim, hidden),
        "self_attn.k_proj.weight": (kv_heads * head_dim, hidden),
        "self_attn.v_proj.weight": (kv_heads * head_dim, hidden),
        "self_attn.o_proj.weight": (hidden, heads * head_dim),
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
    }
    if has_qk_norm:
        shapes |= {"self_attn.q_norm.weight": (head_dim,), "self_attn.k_norm.weight": (head_dim,)}
    return {prefix + name: shape for name, shape in shapes.items()}


def main_shapes(spec: Spec) -> Shapes:
    """Every tensor of model.safetensors: talker, code predictor and, for base, the speaker encoder."""
    h, p = spec.hidden, spec.predictor_hidden
    shapes: Shapes = {
        "talker.model.text_embedding.weight": (TEXT_VOCAB, spec.text_hidden),
        "talker.model.codec_embedding.weight": (spec.codebook_size + NUM_RESERVED, h),
        "talker.model.norm.weight": (h,),
        "talker.text_projection.linear_fc1.weight": (spec.text_hidden, spec.text_hidden),
        "talker.text_projection.linear_fc1.bias": (spec.text_hidden,),
        "talker.text_projection.linear_fc2.weight": (h, spec.text_hidden),
        "talker.text_projection.linear_fc2.bias": (h,),
        "talker.codec_head.weight": (spec.codebook_size + NUM_RESERVED, h),
        "talker.code_predictor.model.norm.weight": (p,),
    }
    for i in range(spec.layers):
        prefix = f"talker.model.layers.{i}."
        shapes |= _block(prefix, h, spec.intermediate, spec.heads, spec.kv_heads, spec.head_dim, True)
    heads, kv_heads = spec.predictor_heads, spec.predictor_kv_heads
    for i in range(spec.predictor_layers):
        prefix = f"talker.code_predictor.model.layers.{i}."
        shapes |= _block(prefix, p, spec.predictor_intermediate, heads, kv_heads, spec.head_dim, True)
    for i in range(spec.num_codebooks - 1):
        shapes[f"talker.code_predictor.model.codec_embedding.{i}.weight"] = (spec.codebook_size, h)
        shapes[f"talker.code_predictor.lm_head.{i}.weight"] = (spec.codebook_size, p)
    if h != p:
        shapes["talker.code_predictor.small_to_mtp_projection.weight"] = (p, h)
        shapes["talker.code_predictor.small_to_mtp_projection.bias"] = (p,)
    if spec.type == "base":
        shapes |= speaker_encoder_shapes(h)
    return shapes


def speaker_encoder_shapes(enc_dim: int) -> Shapes:
    """speaker_encoder.*: the tensors only base checkpoints have."""
    channels, kernels = SPEAKER_ENCODER["enc_channels"], SPEAKER_ENCODER["enc_kernel_sizes"]
    scale, attention, squeeze = (SPEAKER_ENCODER[f"enc_{k}"] for k in ("res2net_scale", "attention_channels", "se_channels"))
    wide, part = channels[-1], channels[0] // scale
    convs: Shapes = {"blocks.0.conv": (channels[0], SPEAKER_ENCODER["mel_dim"], kernels[0])}
    for i in range(1, len(channels) - 1):
        width = channels[i]
        convs[f"blocks.{i}.tdnn1.conv"] = (width, channels[i - 1], 1)
        for j in range(scale - 1):
            convs[f"blocks.{i}.res2net_block.blocks.{j}.conv"] = (part, part, kernels[i])
        convs[f"blocks.{i}.tdnn2.conv"] = (width, width, 1)
        convs[f"blocks.{i}.se_block.conv1"] = (squeeze, width, 1)
        convs[f"blocks.{i}.se_block.conv2"] = (width, squeeze, 1)
    convs |= {
        "mfa.conv": (wide, wide, 1),
        "asp.tdnn.conv": (attention, 3 * wide, 1),
        "asp.conv": (wide, attention, 1),
        "fc": (enc_dim, 2 * wide, 1),
    }
    return _with_bias({f"speaker_encoder.{name}": shape for name, shape in convs.items()})


def decoder_shapes(spec: Spec) -> Shapes:
    """decoder.*: the vocoder."""
    config = codec_config(spec)["decoder_config"]
    latent, code, hidden = config["latent_dim"], config["codebook_dim"], config["hidden_size"]
    shapes: Shapes = {}
    for name, count in (("rvq_first", 1), ("rvq_rest", spec.num_codebooks - 1)):
        prefix = f"decoder.quantizer.{name}."
        shapes[prefix + "input_proj.weight"] = (code // 2, code, 1)
        shapes[prefix + "output_proj.weight"] = (code, code // 2, 1)
        for i in range(count):
            shapes[f"{prefix}vq.layers.{i}._codebook.cluster_usage"] = (spec.codebook_size,)
            shapes[f"{prefix}vq.layers.{i}._codebook.embedding_sum"] = (spec.codebook_size, code // 2)
    convs: Shapes = {"decoder.pre_conv.conv": (latent, code, 3)}
    prefix = "decoder.pre_transformer."
    convs |= {prefix + "input_proj": (hidden, latent), prefix + "output_proj": (latent, hidden)}
    shapes[prefix + "norm.weight"] = (hidden,)
    for i in range(config["num_hidden_layers"]):
        layer = f"{prefix}layers.{i}."
        heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        shapes |= _block(layer, hidden, config["intermediate_size"], heads, kv_heads, config["head_dim"], False)
        shapes |= {layer + "self_attn_layer_scale.scale": (hidden,), layer + "mlp_layer_scale.scale": (hidden,)}
    for i, ratio in enumerate(spec.upsampling_ratios):
        prefix = f"decoder.upsample.{i}."
        shapes[prefix + "0.conv.weight"] = (latent, latent, ratio)
        shapes[prefix + "0.conv.bias"] = (latent,)
        convs |= {
            prefix + "1.dwconv.conv": (latent, 1, 7),
            prefix + "1.pwconv1": (4 * latent, latent),
            prefix + "1.pwconv2": (latent, 4 * latent),
        }
        shapes |= {f"{prefix}1.{name}": (latent,) for name in ("gamma", "norm.weight", "norm.bias")}
    width = spec.decoder_dim
    convs["decoder.decoder.0.conv"] = (width, latent, 7)
    for i, rate in enumerate(spec.upsample_rates, 1):
        prefix, half = f"decoder.decoder.{i}.block.", width // 2
        shapes |= {prefix + "0.alpha": (width,), prefix + "0.beta": (width,)}
        shapes |= {prefix + "1.conv.weight": (width, half, 2 * rate), prefix + "1.conv.bias": (half,)}
        for j in (2, 3, 4):
            shapes |= {f"{prefix}{j}.act{a}.{name}": (half,) for a in (1, 2) for name in ("alpha", "beta")}
            convs |= {f"{prefix}{j}.conv1.conv": (half, half, 7), f"{prefix}{j}.conv2.conv": (half, half, 1)}
        width = half
    last = len(spec.upsample_rates) + 1
    shapes |= {f"decoder.decoder.{last}.alpha": (width,), f"decoder.decoder.{last}.beta": (width,)}
    convs[f"decoder.decoder.{last + 1}.conv"] = (1, width, 7)
    return shapes | _with_bias(convs)


def audio_encoder_shapes(spec: Spec) -> Shapes:
    """encoder.*: the Mimi encoder that cloning needs and speaking does not."""
    config = codec_config(spec)["encoder_config"]
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    inner_code = config["vector_quantization_hidden_dimension"]
    width = config["num_filters"]
    convs: Shapes = {"encoder.encoder.layers.0.conv": (width, 1, config["kernel_size"])}
    for i, ratio in enumerate(reversed(config["upsampling_ratios"])):
        first = 1 + 3 * i
        convs[f"encoder.encoder.layers.{first}.block.1.conv"] = (width // 2, width, config["residual_kernel_size"])
        convs[f"encoder.encoder.layers.{first}.block.3.conv"] = (width, width // 2, 1)
        convs[f"encoder.encoder.layers.{first + 2}.conv"] = (2 * width, width, 2 * ratio)
        width *= 2
    last = 2 + 3 * len(config["upsampling_ratios"])
    convs[f"encoder.encoder.layers.{last}.conv"] = (hidden, width, config["last_kernel_size"])
    shapes = _with_bias(convs) | {"encoder.downsample.conv.weight": (hidden, hidden, 4)}
    for i in range(config["num_hidden_layers"]):
        prefix = f"encoder.encoder_transformer.layers.{i}."
        shapes |= {f"{prefix}self_attn.{name}_proj.weight": (hidden, hidden) for name in "qkvo"}
        shapes |= {prefix + "mlp.fc1.weight": (inner, hidden), prefix + "mlp.fc2.weight": (hidden, inner)}
        for name in ("input_layernorm", "post_attention_layernorm"):
            shapes |= {f"{prefix}{name}.weight": (hidden,), f"{prefix}{name}.bias": (hidden,)}
        for name in ("self_attn", "mlp"):
            shapes[f"{prefix}{name}_layer_scale.scale"] = (hidden,)
    for name, count in (("semantic", 1), ("acoustic", config["num_quantizers"] - 1)):
        prefix = f"encoder.quantizer.{name}_residual_vector_quantizer."
        shapes[prefix + "input_proj.weight"] = (inner_code, hidden, 1)
        shapes[prefix + "output_proj.weight"] = (hidden, inner_code, 1)
        for i in range(count):
            book = f"{prefix}layers.{i}.codebook."
            shapes |= {book + "initialized": (1,), book + "cluster_usage": (config["codebook_size"],)}
            shapes[book + "embed_sum"] = (config["codebook_size"], config["codebook_dim"])
    return shapes


def _with_bias(convs: Shapes) -> Shapes:
    """Each layer's weight, and a bias of its output width."""
    return {
        name + kind: shape if kind == ".weight" else shape[:1]
        for name, shape in convs.items()
        for kind in (".weight", ".bias")
    }


def uniform(seed: int, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """float32 in [-1, 1), a function of (seed, name, shape) alone: exact on every machine and numpy version."""
    bits = np.random.PCG64([seed, zlib.crc32(name.encode())]).random_raw(int(np.prod(shape)))
    return ((bits >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-23) - np.float32(1)).reshape(shape)


def random_codes(spec: Spec, seed: int, frames: int) -> torch.Tensor:
    """(F, K) int64 codes over the whole range of every codebook."""
    value = uniform(seed, "codes", (frames, spec.num_codebooks))
    return torch.from_numpy(((value + 1) * np.float32(spec.codebook_size / 2)).astype(np.int64))


def _draw(shapes: Shapes, spec: Spec, seed: int, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    weights = {}
    last_conv = f"decoder.decoder.{len(spec.upsample_rates) + 2}.conv.weight"
    for name, shape in shapes.items():
        value = uniform(seed, name, shape)
        if name.endswith(("cluster_usage", "initialized")):
            value = np.float32(1) + value / 2
            value[3:5] = 0  # never used entries: the loader divides by its epsilon instead
        elif name.endswith(("embedding_sum", "embed_sum")):
            value[3:5] *= np.float32(1e-5)
        elif name.endswith(("norm.weight", "layernorm.weight")):
            value = np.float32(1) + value / 4
        elif name.endswith((".scale", ".gamma")):
            value = np.float32(0.5) + value / 4
        elif name.endswith((".alpha", ".beta", ".bias")):
            value = value / (16 if name.startswith("decoder.decoder.") and name.endswith(".bias") else 4)
        elif name.endswith("embedding.weight") or ".codec_embedding." in name:
            value = value * np.float32(1.7)
        elif name.endswith("codec_head.weight"):
            value = value * np.float32(4 / spec.hidden**0.5)
            value[spec.codebook_size + 102] *= np.float32(spec.eos_gain)
        else:
            value = value * np.float32((spec.wave_gain if name == last_conv else _gain(name)) / _fan_in(name, shape) ** 0.5)
        weights[name] = torch.from_numpy(np.ascontiguousarray(value, dtype=np.float32)).to(dtype)
    return weights


def _gain(name: str) -> float:
    """Times 1/sqrt(inputs) it bounds a layer's weights; 1.73 keeps the input's variance."""
    if ".block." in name and ".conv2." in name:
        return 0.6  # the last layer of a residual unit
    return 4.0 if ".lm_head." in name else 1.7


def _fan_in(name: str, shape: tuple[int, ...]) -> int:
    """Terms summed into one output; a transposed convolution (input width first) sums kernel/stride inputs."""
    if name.startswith("decoder.upsample") and ".0.conv" in name:
        return shape[0]
    if name.startswith("decoder.decoder.") and name.endswith("block.1.conv.weight"):
        return 2 * shape[0]
    return int(np.prod(shape[1:]))


def _write_tokenizer(folder: Path) -> None:
    units = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in units]
    vocab = {chr(byte if byte in units else 256 + rest.index(byte)): byte for byte in range(256)}
    for i, merge in enumerate(MERGES):
        vocab[merge.replace(" ", "")] = 256 + i
    _write_json(folder / "vocab.json", vocab)
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{m}\n" for m in MERGES), encoding="utf-8")
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
    _write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "Qwen2Tokenizer",
            "add_bos_token": False,
            "add_prefix_space": False,
            "added_tokens_decoder": {
                str(i): {"content": token, **flags, "special": token.startswith("<")} for token, i in SPECIAL.items()
            },
            "additional_special_tokens": [t for t in SPECIAL if t.startswith("<") and t != "<|endoftext|>"],
            "bos_token": None,
            "clean_up_tokenization_spaces": False,
            "eos_token": "<|im_end|>",
            "errors": "replace",
            "model_max_length": 131072,
            "pad_token": "<|endoftext|>",
            "processor_class": "Qwen3TTSProcessor",
            "split_special_tokens": False,
            "unk_token": None,
        },
    )


def _write_shards(folder: Path, weights: dict[str, torch.Tensor], count: int) -> None:
    files = [f"model-{i + 1:05d}-of-{count:05d}.safetensors" for i in range(count)]
    names = sorted(weights)
    where = {name: files[i * count // len(names)] for i, name in enumerate(names)}
    for file in files:
        part = {name: weights[name] for name in names if where[name] == file}
        save_file(part, folder / file, metadata={"format": "pt"})
    total = sum(w.numel() * w.element_size() for w in weights.values())
    index = {"metadata": {"total_size": total}, "weight_map": where}
    _write_json(folder / "model.safetensors.index.json", index)


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=True) + "\n", encoding="utf-8")
