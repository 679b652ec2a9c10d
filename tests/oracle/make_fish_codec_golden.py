"""Makes tests/models/fish_speech/codec/golden_codec.safetensors with the official codec.

The file holds codes, the samples that the `fish-speech` package makes of them in float32 in one
shot, and the codes it makes of recordings. The codecs are random and tiny;
`tests/support/tiny_fish_codec.py` makes them anew from a seed. From the repository's root, with
the packages on the path (README.md):

    python tests/oracle/make_fish_codec_golden.py

vLLM-Omni's modules, where they are on the path, must give the same.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

import official_fish_codec as official  # noqa: E402
import tiny_fish_codec as tiny  # noqa: E402

from models.dual_ar.codec import CodecEncoder  # noqa: E402

GOLDEN = ROOT / "tests" / "models" / "fish_speech" / "codec" / "golden_codec.safetensors"
SEEDS = {"small": 11, "released_rates": 12}
LONG_FRAMES = 330  # more than one chunk
SAMPLE_STEP = 7  # every so many samples are kept of the long row and of the larger codec
CLIPS = (1, 100, 288, 2890)  # samples of the small codec's recordings; the larger one's are longer
MIN_MARGIN = 1e-5


def main() -> None:
    """Write the file and print its size."""
    torch.set_num_threads(1)
    content: dict[str, Tensor] = {}
    digests: dict[str, str] = {}
    for variant, seed in SEEDS.items():
        config = tiny.VARIANTS[variant]
        tensors = tiny.random_tensors(config, seed)
        digests[variant] = tiny.digest(tensors)
        dac = official.build(config, tensors)
        second = official.build(config, tensors, "vllm_omni")
        rows = {"batch": tiny.random_codes(config, 2, 24, seed)}
        if variant == "small":
            rows["long"] = tiny.random_codes(config, 1, LONG_FRAMES, seed + 1)
        for name, codes in rows.items():
            samples = official.decode(dac, codes)
            assert 0.02 < samples.square().mean().sqrt() < 0.6, samples.square().mean().sqrt()
            assert (samples - official.decode(second, codes)).abs().max() < 1e-6
            content[f"{variant}.{name}.codes"] = codes.to(torch.int16)
            content[f"{variant}.{name}.samples"] = samples[:, ::SAMPLE_STEP]
        encoder = tiny.build_encoder(config, tensors).encoder
        for count in CLIPS:
            length = count if variant == "small" else 14 * count
            wave = tiny.reference_wave(seed, length)
            found = official.encode(dac, wave)
            assert torch.equal(found, official.encode(second, wave))
            closest = margin(encoder, wave)
            assert closest > MIN_MARGIN, f"{variant} {length}: {closest:.1e}; take another seed"
            content[f"{variant}.clip.{length}"] = found.to(torch.int16)
    notes = {
        "seeds": json.dumps(SEEDS),
        "digests": json.dumps(digests),
        "sample_step": str(SAMPLE_STEP),
        "made_by": "tests/oracle/make_fish_codec_golden.py, fish-speech 0.1.0, float32; "
        "vLLM-Omni 0.30.0 agrees",
    }
    GOLDEN.parent.mkdir(exist_ok=True)
    save_file({name: value.contiguous() for name, value in content.items()}, GOLDEN, notes)
    print(f"{GOLDEN.relative_to(ROOT)}: {GOLDEN.stat().st_size} bytes")


@torch.no_grad()
def margin(encoder: CodecEncoder, wave: Tensor) -> float:
    """The closest of all choices between two codes: how much less the second cosine was."""
    width = encoder.config.samples_per_frame
    x = encoder.latents(F.pad(wave, (0, -len(wave) % width))[None])
    codes, rest = encoder.quantise(x)[0], x[0]
    closest, first = 2.0, 0
    for index, size in enumerate(encoder.config.codebook_sizes):
        found = F.linear(rest, encoder.in_weights[index], encoder.in_biases[index])
        cosines = F.normalize(found) @ encoder.directions[first : first + size].t()
        best, second = cosines.topk(2).values.unbind(-1)
        closest = min(closest, (best - second).min().item())
        rest = rest - encoder.codebooks[first + codes[:, index]]
        first += size
    return closest


if __name__ == "__main__":
    main()
