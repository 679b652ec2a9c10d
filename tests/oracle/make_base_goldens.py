"""Makes the golden files of cloning (Base checkpoints) with the official package. See README.md.

`golden_<spec>.json` and `.safetensors` hold what `make_goldens.py` keeps of rows, here spoken in
cloned voices, both ways of cloning mixed in every batch; and what the package made of every
reference: its embedding and codes; and some of librosa's mel filters. The references are computed,
at 24 kHz, so that no resampling is involved; some end inside a frame.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from golden_files import HERE, parse, versions, write_rows
from make_goldens import LONG, PACKAGES, long_decode, speak_all
from torch import Tensor

sys.path.insert(0, str(HERE.parent / "support"))

import official_package as official
import tiny_qwen3_tts as tiny
from official_package import Line, Reference

SEEDS = {"base": 9, "base_wide": 2}
# name -> seed and samples: ends of a frame, inside one, one sample before and after an end
WAVES = {
    "whole": (1, 48000),
    "inside": (2, 31111),
    "just_over": (3, 24961),
    "just_under": (4, 42239),
    "long": (5, 80001),  # more frames than the official decoder's chunk, where frames are short
}
SMALLEST_DISTANCE_GAP = 1e-5  # closer codes would be chosen by rounding
FILTERS = (0, 1, 40, 80, 127)  # of the 128 mel filters, kept to compare with
SAID = "I said this, and I meant it."


def reference(name: str, text: str | None = None) -> Reference:
    """A reference by name; with a text it is cloned in context."""
    return Reference(tiny.reference_wave(*WAVES[name]), text, name)


LINES = (
    Line("Hello there.", None, "english", None, reference("whole", SAID)),
    Line(LONG, None, None, None, reference("inside", "Short.")),
    Line("\u4f60\u597d\uff0c\u4e16\u754c\u3002", None, "Chinese", None, reference("inside")),
    Line("A", None, "auto", None, reference("just_over", "\u3053\u3093\u306b\u3061\u306f")),
    Line("Gr\u00fc\u00dfe aus M\u00fcnchen!", None, "German", None, reference("just_over")),
    Line(
        "Two lines:\nthe second  one. ", None, None, None, reference("just_under", f"{SAID} Yes.")
    ),
    Line("Back to the first voice.", None, "english", None, reference("long", LONG)),
)


def main() -> int:
    """Write the golden files of the specs asked for."""
    options = parse("Make the golden files of cloning anew.", SEEDS)
    torch.set_num_threads(1)
    if not official.can_clone():
        raise SystemExit("cloning needs qwen-tts, transformers 4.57 and librosa; see README.md")
    for name in options.specs:
        seed = SEEDS[name] if options.seed is None else options.seed
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = tiny.write_checkpoint(Path(folder), tiny.GOLDEN_SPECS[name], seed)
            digest = tiny.digest(checkpoint)
            wrapper = official.load_model(checkpoint)
            report, tensors = speak_all(wrapper, name, LINES)
            report |= {
                "spec": name,
                "seed": seed,
                "checkpoint": digest,
                "versions": versions(*PACKAGES),
            }
            report |= long_decode(wrapper, name, seed, tensors)
            report["references"] = encode_all(wrapper, tensors)
        tensors["mel_filters"] = mel_filters()[list(FILTERS)].contiguous()
        write_rows(options.out, f"golden_{name}", report, tensors)
    return 0


def encode_all(wrapper: Any, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Embedding and codes of every reference."""
    found = {}
    for name, (seed, num_samples) in WAVES.items():
        (encoded,) = official.encode(wrapper, [reference(name, SAID)])
        assert encoded.codes is not None
        if encoded.smallest_gap < SMALLEST_DISTANCE_GAP:
            raise SystemExit(f"{name}: a code by {encoded.smallest_gap:.1e} only")
        tensors[f"embedding.{name}"] = encoded.embedding
        tensors[f"reference.{name}"] = encoded.codes.to(torch.int16).contiguous()
        found[name] = {"seed": seed, "num_samples": num_samples, "frames": len(encoded.codes)}
    return found


def mel_filters() -> Tensor:
    """librosa's filters under the package's settings."""
    mel = importlib.import_module("librosa.filters").mel
    return torch.from_numpy(mel(sr=24000, n_fft=1024, n_mels=128, fmin=0, fmax=12000))


if __name__ == "__main__":
    sys.exit(main())
