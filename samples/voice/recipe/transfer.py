"""Start a talker for new codes from one that knows others.

    python3 transfer.py OLD_CHECKPOINT OLD_CODES NEW_CODES OUT.pt

What the old one knows of reading stays. Of each new code, the rows of the old code that sounds most
like it are taken: the code vectors of both codecs are laid out as mel spectra and compared.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor


def nearest_codes(old: dict[str, Tensor], new: dict[str, Tensor]) -> Tensor:
    """(K, 256) for each new code the old one of the same book that is nearest in direction."""
    found = []
    for own, others in zip(new["books"], old["books"], strict=True):
        mine = own.float() @ new["basis"].float().t()
        theirs = others.float() @ old["basis"].float().t()
        mine, theirs = mine - mine.mean(0), theirs - theirs.mean(0)
        found.append((F.normalize(mine, dim=1) @ F.normalize(theirs, dim=1).t()).argmax(1))
    return torch.stack(found)


def moved(weights: dict[str, Tensor], codes: Tensor) -> dict[str, Tensor]:
    """A talker's weights with the rows of its codes in their new places."""
    made = {name: value.clone() for name, value in weights.items()}
    size = codes.shape[1]
    for name in ("talker.codec_head.weight", "talker.model.codec_embedding.weight"):
        made[name][:size] = weights[name][:size][codes[0]]
    for index in range(codes.shape[0] - 1):
        rows = codes[index + 1]
        for name in (
            f"talker.code_predictor.model.codec_embedding.{index}.weight",
            f"talker.code_predictor.lm_head.{index}.weight",
        ):
            made[name] = weights[name][rows]
    return made


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("old", type=Path, help="its codes.safetensors")
    parser.add_argument("new", type=Path, help="the new codes.safetensors")
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    codes = nearest_codes(load_file(args.old), load_file(args.new))
    weights = load_file(args.checkpoint / "model.safetensors")
    torch.save(moved(weights, codes), args.out)
    print(f"{len({int(code) for code in codes[0]})} of {codes.shape[1]} first codes taken")


if __name__ == "__main__":
    main()
