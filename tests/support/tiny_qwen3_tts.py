"""Tiny random Qwen3-TTS checkpoints in the released layout: official files, keys and shapes.

Nothing here needs the official package. Weights come from numpy's raw PCG64 bits, so a spec and a
seed give the same bytes on every machine and version; the golden files of tests/oracle rely on it.
Scales are chosen so that greedy codes vary, rows end by EOS at different frames or hit their cap,
and the waveform is neither silent nor all clamped.
"""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import released_files
import torch
from safetensors.torch import save_file
from tiny_qwen3_tts_configs import (
    GOLDEN_SPECS,
    LANGUAGES,
    NUM_RESERVED,
    SPECS,
    TEXT_VOCAB,
    THINNEST,
    Spec,
    Transformer,
    codec_config,
    generation_config,
    main_config,
    merges,
    tokenizer_config,
    vocabulary,
)
from tiny_qwen3_tts_shapes import Shapes, audio_encoder_shapes, decoder_shapes, main_shapes

__all__ = [
    "GOLDEN_SPECS",
    "LANGUAGES",
    "NUM_RESERVED",
    "SPECS",
    "TEXT_VOCAB",
    "THINNEST",
    "Shapes",
    "Spec",
    "Transformer",
    "audio_encoder_shapes",
    "codec_config",
    "decoder_shapes",
    "digest",
    "main_config",
    "main_shapes",
    "random_codes",
    "reference_wave",
    "uniform",
    "write_checkpoint",
    "write_json",
    "write_weights",
]


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
    write_json(folder / "config.json", main_config(spec))
    write_json(folder / "generation_config.json", generation_config(generation))
    _write_tokenizer(folder)
    write_json(codec / "config.json", codec_config(spec))
    for name in released_files.UNCHANGED:
        shutil.copyfile(released_files.COMMON / name, folder / name)
    weights = _draw("main", spec, seed, dtype)
    metadata = None if spec.type == "base" and num_shards == 1 else {"format": "pt"}  # as released
    write_weights(folder, weights, num_shards, metadata)
    part = "whole codec" if has_audio_encoder else "decoder"
    save_file(_draw(part, spec, seed, codec_dtype), codec / "model.safetensors")
    return folder


def digest(folder: Path) -> str:
    """SHA-256 over every file of a checkpoint: tells golden files made from other weights."""
    found = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        found.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def uniform(seed: int, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """float32 in [-1, 1): a function of seed, name and shape alone, exact wherever it runs."""
    bits = np.random.PCG64([seed, zlib.crc32(name.encode())]).random_raw(int(np.prod(shape)))
    steps = (bits >> np.uint64(40)).astype(np.float32)  # 24 bits
    return (steps * np.float32(2.0**-23) - np.float32(1)).reshape(shape)


def random_codes(spec: Spec, seed: int, frames: int) -> torch.Tensor:
    """(F, K) int64 codes over the whole range of every codebook."""
    value = uniform(seed, "codes", (frames, spec.num_codebooks))
    return torch.from_numpy(((value + 1) * np.float32(spec.codebook_size / 2)).astype(np.int64))


def reference_wave(seed: int, num_samples: int) -> torch.Tensor:
    """(n,) float32 of something like a voice at 24 kHz, exact wherever it runs: sawtooths of a
    gliding pitch, louder and softer, over noise, all in whole numbers.
    """
    rng = np.random.PCG64([seed, 7])
    glides = rng.random_raw(num_samples // 2400 + 2) >> np.uint64(40)  # one a tenth of a second
    steps = 8000 * 2**12 + (glides % np.uint64(2**22)).astype(np.int64) * 8
    volumes = 2 + (glides % np.uint64(7)).astype(np.int64)
    place = np.arange(num_samples)
    first, along = place // 2400, place % 2400
    step = (steps[first] * (2400 - along) + steps[first + 1] * along) // 2400
    volume = volumes[first] * (2400 - along) + volumes[first + 1] * along  # 4800 .. 19200
    phase = np.cumsum(step)
    wave = sum(((phase * k >> 8) % 2**24 - 2**23) // (k * 2**9) for k in (1, 2, 3, 5, 7))
    noise = (rng.random_raw(num_samples) >> np.uint64(51)).astype(np.int64) - 2**12
    value = (wave + noise) * volume // 2**15
    return torch.from_numpy((value / 2**16).astype(np.float32))


@functools.lru_cache(maxsize=16)
def _draw(part: str, spec: Spec, seed: int, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Weights of one file, which many tests write in turn: to be left as they are."""
    shapes = main_shapes(spec) if part == "main" else decoder_shapes(spec)
    if part == "whole codec":
        shapes |= audio_encoder_shapes(spec)
    weights = {}
    last_conv = f"decoder.decoder.{len(spec.upsample_rates) + 2}.conv.weight"
    for name, shape in shapes.items():
        value = uniform(seed, name, shape)
        if name.endswith(("cluster_usage", "initialized")):
            value = np.float32(1) + value / 2
            value[3:5] = 0  # entries never used: a loader divides by its epsilon instead
        elif name.endswith(("embedding_sum", "embed_sum")):
            value[3:5] *= np.float32(1e-5)
        elif name.endswith("norm.weight"):
            value = np.float32(1) + value / 4
        elif name.endswith((".scale", ".gamma")):
            value = np.float32(0.5) + value / 4
        elif name.startswith("decoder.decoder.") and name.endswith(".bias"):
            value = value / 16
        elif spec.type == "base" and name.startswith("encoder.encoder."):
            # The sound, not the biases, must decide the codes.
            gain = 1 / 64 if name.endswith(".bias") else 3 / _fan_in(name, shape) ** 0.5
            value = value * np.float32(gain)
        elif name.endswith((".alpha", ".beta", ".bias")):
            value = value / 4
        elif name.endswith("embedding.weight") or ".codec_embedding." in name:
            value = value * np.float32(1.7)
        elif name.endswith("codec_head.weight"):
            value = value * np.float32(4 / spec.talker.width**0.5)
            value[spec.eos] *= np.float32(spec.eos_gain)
        else:
            gain = spec.wave_gain if name == last_conv else _gain(name)
            value = value * np.float32(gain / _fan_in(name, shape) ** 0.5)
        value = np.ascontiguousarray(value, dtype=np.float32)
        weights[name] = torch.from_numpy(value).to(dtype)
    return weights


def _gain(name: str) -> float:
    """Times 1/sqrt(inputs) it bounds a layer's weights; 1.73 keeps the input's variance."""
    if ".block." in name and ".conv2." in name:
        return 0.6  # the last layer of a residual unit
    return 4.0 if ".lm_head." in name else 1.7


def _fan_in(name: str, shape: tuple[int, ...]) -> int:
    """Terms summed into one output; a transposed convolution names its inputs first."""
    if name.startswith("decoder.upsample") and ".0.conv" in name:
        return shape[0]
    if name.startswith("decoder.decoder.") and name.endswith("block.1.conv.weight"):
        return 2 * shape[0]
    return int(np.prod(shape[1:]))


def _write_tokenizer(folder: Path) -> None:
    write_json(folder / "vocab.json", vocabulary())
    (folder / "merges.txt").write_text(merges(), encoding="utf-8")
    write_json(folder / "tokenizer_config.json", tokenizer_config())


def write_weights(
    folder: Path, weights: dict[str, torch.Tensor], num_files: int, metadata: dict[str, str] | None
) -> None:
    """Write model.safetensors, or several files and their index."""
    if num_files == 1:
        save_file(weights, folder / "model.safetensors", metadata)
        return
    files = [f"model-{i + 1:05d}-of-{num_files:05d}.safetensors" for i in range(num_files)]
    names = sorted(weights)
    where = {name: files[i * num_files // len(names)] for i, name in enumerate(names)}
    for file in files:
        part = {name: weights[name] for name in names if where[name] == file}
        save_file(part, folder / file, metadata)
    total = sum(w.numel() * w.element_size() for w in weights.values())
    index = {"metadata": {"total_size": total}, "weight_map": where}
    write_json(folder / "model.safetensors.index.json", index)


def write_json(path: Path, value: Any) -> None:
    """Write JSON with indents, as released."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=True) + "\n", encoding="utf-8")
