"""Makes tests/models/qwen3_tts/codec/golden_vocoder.safetensors with the official decoder.

The file holds a tiny decoder's config and weights, codes, and the samples the official `qwen_tts`
package makes of them in float32: one shot, and by its `chunked_decode`. From the repository's root,
with the package on the path:

    python tests/oracle/make_vocoder_golden.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

import official_vocoder  # noqa: E402
import tiny_vocoder  # noqa: E402

GOLDEN = ROOT / "tests" / "models" / "qwen3_tts" / "codec" / "golden_vocoder.safetensors"
SEED = 11
CHUNK, LEFT_CONTEXT = 12, 5


def main() -> None:
    """Write the file and print its size."""
    torch.set_num_threads(1)
    values = tiny_vocoder.tokenizer_config("small")
    config = tiny_vocoder.config("small")
    tensors = tiny_vocoder.random_tensors(config, SEED)
    codes = tiny_vocoder.random_codes(config, 2, 40, SEED)
    decoder = official_vocoder.build(values["decoder_config"], tensors)
    with torch.no_grad():
        samples = decoder(codes)[:, 0]
        chunked = decoder.chunked_decode(codes, CHUNK, LEFT_CONTEXT)[:, 0]
    assert 0.02 < samples.square().mean().sqrt() < 0.5, samples.square().mean().sqrt()
    assert samples.abs().max() < 1, "clamped samples hide differences"
    content = {**tensors, "codes": codes, "samples": samples, "chunked": chunked}
    notes = {
        "config": json.dumps(values),
        "chunk": str(CHUNK),
        "left_context": str(LEFT_CONTEXT),
        "made_by": "tests/oracle/make_vocoder_golden.py, official qwen_tts decoder, float32",
    }
    save_file({name: value.contiguous() for name, value in content.items()}, GOLDEN, notes)
    print(f"{GOLDEN.relative_to(ROOT)}: {GOLDEN.stat().st_size} bytes")


if __name__ == "__main__":
    main()
