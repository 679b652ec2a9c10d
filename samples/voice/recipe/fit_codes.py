"""Fit the PCA and the codebooks on a few hours of teacher speech: the file `codes.safetensors`."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from data import Utterance, features_of, finished_chunks, load_chunk
from features import (
    NUM_MEL_FEATURES,
    NUM_MELS,
    PITCH_WEIGHT,
    PITCHES_PER_FRAME,
    Features,
    Quantizer,
    fit,
)
from safetensors.torch import save_file
from torch import Tensor


def even_frames(items: list[Utterance], features: list[Tensor], count: int) -> Tensor:
    """(N, 648) frames drawn at random, as many of each voice as there are of the rarest."""
    generator = torch.Generator().manual_seed(1)
    voices = sorted({item.voice for item in items})
    found = []
    for voice in voices:
        rows = [frames for item, frames in zip(items, features, strict=True) if item.voice == voice]
        frames = torch.cat(rows)
        order = torch.randperm(len(frames), generator=generator)[: count // len(voices)]
        found.append(frames[order.to(frames.device)])
    return torch.cat(found)


def report(name: str, made: Tensor, wanted: Tensor) -> str:
    """Mean errors of (N, 648) features."""
    error = (made - wanted).abs()
    mel = error[:, :NUM_MEL_FEATURES].reshape(-1, NUM_MELS).mean(0)
    low, middle, high = (part.mean() for part in mel.split([27, 27, 26]))
    pitch = error[:, NUM_MEL_FEATURES : NUM_MEL_FEATURES + PITCHES_PER_FRAME].mean() / PITCH_WEIGHT
    return (
        f"{name}: mel {mel.mean():.2f} dB (bands 0-26 {low:.2f}, 27-53 {middle:.2f}, "
        f"54-79 {high:.2f}), pitch {pitch:.2f} semitones"
    )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("speech", type=Path, help="folder of chunks that teachers.py wrote")
    parser.add_argument("out", type=Path, help="safetensors file to write")
    parser.add_argument(
        "--frames", type=int, default=150_000, help="frames to fit on, drawn at random (150000)"
    )
    parser.add_argument("--chunks", type=int, default=200, help="chunks to draw them from (200)")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    chunks = finished_chunks(args.speech)
    men = [path for path in chunks if path.stem.startswith("men")]
    women = [path for path in chunks if path not in men]
    chosen = women[: args.chunks // 2] + men[: args.chunks // 2]
    items = [item for path in chosen for item in load_chunk(path)]
    max_frames = 6000 if args.device == "cpu" else 60_000
    features = features_of(items, Features(args.device), args.device, max_frames)
    frames = even_frames(items, features, args.frames)
    print("frames", len(frames), "of", sum(map(len, features)), flush=True)
    state = fit(frames, log=lambda line: print(line, flush=True))
    quantizer = Quantizer(state, args.device)
    for voice in sorted({item.voice for item in items}):
        rows = [rows for item, rows in zip(items, features, strict=True) if item.voice == voice]
        some = torch.cat(rows[-400:])
        print(report(voice, quantizer.decode(quantizer.encode(some)), some), flush=True)
    part = args.out.with_suffix(".part")
    save_file({name: tensor.cpu().contiguous() for name, tensor in state.items()}, part)
    part.rename(args.out)


if __name__ == "__main__":
    main()
