"""Fit the PCA and the codebooks on a few hours of teacher speech: the file `codes.safetensors`."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from data import Utterance, finished_chunks, load_chunk, pad_samples, pitch_ranges
from features import FRAME_SAMPLES, Features, fit
from safetensors.torch import save_file
from torch import Tensor

BATCH = 32


def frames_of(items: list[Utterance], extractor: Features) -> Tensor:
    """(N, 648) feature frames of all utterances, the shortest first."""
    items = sorted(items, key=lambda item: len(item.samples))
    frames = []
    for start in range(0, len(items), BATCH):
        batch = items[start : start + BATCH]
        samples = torch.from_numpy(pad_samples(batch)).float() / 32768
        features = extractor(samples, *pitch_ranges(batch, "cpu"))
        for row, item in enumerate(batch):
            frames.append(features[row, : len(item.samples) // FRAME_SAMPLES])
    return torch.cat(frames)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("speech", type=Path, help="folder of chunks that data.py wrote")
    parser.add_argument("out", type=Path, help="safetensors file to write")
    parser.add_argument(
        "--frames", type=int, default=120_000, help="frames to fit on, drawn at random (120000)"
    )
    args = parser.parse_args()
    extractor = Features("cpu")
    chunks = finished_chunks(args.speech)
    frames = torch.cat([frames_of(load_chunk(path), extractor) for path in chunks])
    order = torch.randperm(len(frames), generator=torch.Generator().manual_seed(1))
    print("frames", len(frames), flush=True)
    state = fit(frames[order][: args.frames])
    save_file({name: tensor.contiguous() for name, tensor in state.items()}, args.out)


if __name__ == "__main__":
    main()
