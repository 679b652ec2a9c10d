"""A copy of a checkpoint with noise in one weight matrix: what an evaluation must call worse.

    python samples/judging/disturb.py MODEL OUT --tensor talker.codec_head.weight --share 0.03

OUT is a folder like MODEL, the tensor's file rewritten, the others linked. The noise is Gaussian,
always the same; its standard deviation is a share of the matrix's largest weight.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file


def disturb(model: Path, out: Path, name: str, share: float) -> None:
    """Write the copy.

    Args:
        name: of the tensor, in any file of the checkpoint.
        share: of its largest weight, that the noise has as its standard deviation.
    Raises:
        KeyError: no file has it.
    """
    is_found = False
    for path in sorted(path for path in model.rglob("*") if path.is_file()):
        target = out / path.relative_to(model)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".safetensors":
            with safe_open(path, "pt") as file:
                if name in file.keys():  # noqa: SIM118  # it cannot be iterated
                    tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
                    tensors[name] = _noisy(tensors[name], share)
                    save_file(tensors, target, file.metadata())
                    is_found = True
                    continue
        if not target.exists():
            os.symlink(path.resolve(), target)
    if not is_found:
        raise KeyError(f"{model}: no tensor {name}")


def _noisy(tensor: torch.Tensor, share: float) -> torch.Tensor:
    exact = tensor.float()
    draw = torch.Generator().manual_seed(0)
    noise = torch.randn(exact.shape, generator=draw)
    return (exact + share * exact.abs().max() * noise).to(tensor.dtype)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", type=Path, help="folder of a checkpoint")
    parser.add_argument("out", type=Path, help="folder for the copy")
    parser.add_argument("--tensor", required=True, help="name of the matrix")
    parser.add_argument(
        "--share", type=float, default=0.03, help="noise by its largest weight (0.03)"
    )
    args = parser.parse_args()
    disturb(args.model, args.out, args.tensor, args.share)


if __name__ == "__main__":
    main()
