"""Rooflines and costs by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import tiny_vocoder
import torch

from tts_cli.app.profile import (
    PEAKS,
    Peak,
    Profiler,
    count_kernels,
    peak_of,
    prefill_cost,
    roofline_ms,
    stage_entry,
)

PEAK = Peak(copy_gb_s=1000, bf16_tflop_s=100)


def test_the_longer_of_both_counts() -> None:
    assert roofline_ms(2_000_000_000, 10**9, PEAK, True) == pytest.approx(2.0)
    assert roofline_ms(1_000_000, 5 * 10**11, PEAK, True) == pytest.approx(5.0)
    assert roofline_ms(0, 0, PEAK, True) is None
    assert roofline_ms(10, 10, PEAK, False) is None
    assert roofline_ms(10**9, 0, PEAK, False) == pytest.approx(1.0)


def test_shares_of_an_entry() -> None:
    entry = stage_entry("x", [4.0], 2_000_000_000, 10**11, PEAK, True)
    assert entry["gb_s"] == pytest.approx(500)
    assert entry["gb_s_share"] == pytest.approx(0.5)
    assert entry["tflop_s_share"] == pytest.approx(0.25)
    assert entry["roofline_ms"] == pytest.approx(2.0)
    assert stage_entry("x", [4.0], 5, 0, None, True)["gb_s_share"] is None
    assert stage_entry("x", [4.0], 5, 5, PEAK, False)["tflop_s_share"] is None


def test_a_prefill_reads_weights_once_and_attends_causally() -> None:
    shape = SimpleNamespace(num_weights=1000, num_layers=2, num_heads=4, num_kv_heads=2, head_dim=8)
    model = SimpleNamespace(config=SimpleNamespace(talker=shape), dtype=torch.bfloat16)
    num_bytes, num_ops = prefill_cost(model, [3, 1])
    assert num_bytes == 2 * (1000 + 4 * 2 * 2 * 2 * 8)
    # 3 tokens see 1 + 2 + 3 positions, one sees 1; scores and mixing, two operations each.
    assert num_ops == 2 * 4 * 1000 + 4 * (6 + 1) * 2 * 4 * 8


def test_the_vocoders_operations_are_all_counted() -> None:
    """Convolutions by hand; a residual unit's pointwise product is added in place."""
    config = tiny_vocoder.config()
    vocoder = tiny_vocoder.build(config, tiny_vocoder.random_tensors(config))
    profiler = object.__new__(Profiler)
    profiler.model = SimpleNamespace(vocoder=SimpleNamespace(network=vocoder))  # type: ignore[assignment]
    profiler.device = torch.device("cpu")
    frames, steps, channels = 6, 6, config.decoder_dim
    with torch.inference_mode():
        num_bytes, num_ops = profiler._vocoder_cost((frames, config.num_codebooks))
    assert num_bytes == frames * (8 * config.num_codebooks + 4 * config.samples_per_frame)
    steps *= math.prod(config.upsampling_ratios)
    total = 2 * steps * 7 * config.latent_dim * channels  # the first convolution
    for rate in config.upsample_rates:
        total += 2 * steps * 2 * channels * rate * (channels // 2)
        steps, channels = steps * rate, channels // 2
        total += 3 * 2 * steps * (7 + 1) * channels**2
    total += 2 * steps * 7 * channels
    # The transformer and the ConvNeXt blocks come on top: less than that here.
    assert total < num_ops < 2 * total


def test_what_is_not_measured_has_no_entry() -> None:
    cpu = torch.device("cpu")
    assert peak_of(cpu) is None
    assert count_kernels(lambda: None, cpu) is None
    assert all(peak.copy_gb_s > 0 and peak.bf16_tflop_s > 0 for peak in PEAKS.values())


@pytest.mark.gpu
def test_kernels_are_counted() -> None:
    x = torch.zeros(100, device="cuda")
    assert count_kernels(lambda: x.add_(1).mul_(2), x.device) == 2
