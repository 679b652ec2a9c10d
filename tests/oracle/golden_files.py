"""The command line and the files that all scripts which make golden files share."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

HERE = Path(__file__).parent
LIBRARIES = ("torch", "transformers", "tokenizers", "numpy")


def parse(about: str, specs: Iterable[str]) -> argparse.Namespace:
    """Return the specs, the folder and the seed that are asked for."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument(
        "specs", nargs="*", default=sorted(specs), help="names of specs; all when left out"
    )
    parser.add_argument("--out", type=Path, default=HERE, help="folder the files go to")
    parser.add_argument("--seed", type=int, help="try another seed than the one recorded here")
    return parser.parse_args()


def write(out: Path, name: str, report: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write a golden file: what was given and how rows ended, and the tensors."""
    (out / f"{name}.safetensors").write_bytes(save(tensors))
    (out / f"{name}.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def write_rows(out: Path, name: str, report: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write the golden file of rows, and print how close their choices were and how they ended."""
    write(out, name, report, tensors)
    ends = [f"{row['frames']}{row['finish_reason'][0]}" for row in report["rows"]]
    gap = report["smallest_gap"]
    print(f"{name} seed {report['seed']}: smallest gap {gap:.2g}; frames", *ends)


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of the official packages and of the libraries, where installed."""
    found = {
        d.metadata["Name"]: d.version for d in reversed(list(importlib.metadata.distributions()))
    }
    return {name: found[name] for name in (*packages, *LIBRARIES) if name in found}
