"""Rows through chunks and both layouts: exactly F frames of samples, whatever lies beside them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fakes import FakeCapturer, cut_by, lanes_runner, record
from tiny_qwen3_tts import SPECS, random_codes
from torch import Tensor

from models.qwen3_tts.codec import CUT, Vocoder
from models.vocoder.chunks import Cutting, plan_chunks
from models.vocoder.lanes import Lanes
from models.vocoder.runner import VocoderRunner, vocoder_runner

CPU = torch.device("cpu")
CODEBOOKS, SAMPLES = 3, 4
# Rows of up to 110 frames are exact; a context of 2 frames for samples alone would not do.
WINDOWS = Cutting(10, 100, renders_windows=True)


def fixed_runner(network: Any, capturer: FakeCapturer | None) -> VocoderRunner:
    """In lanes whose shape no row chooses."""
    runner = lanes_runner(network, capturer)
    runner.fix_shapes()
    return runner


LAYOUTS = pytest.mark.parametrize(
    "make", [vocoder_runner, lanes_runner, fixed_runner], ids=["alone", "lanes", "fixed"]
)


class RunningSum:
    """A causal network that remembers REACH frames: wrong context shows, and it is cheap to check.

    Sample j of frame f is 1000 * j plus the sum of the codes of frames f - REACH .. f. It hears
    whatever stands in a gap, so lanes that are not cleared show too.
    """

    num_codebooks = CODEBOOKS
    samples_per_frame = SAMPLES
    dtype = torch.float32
    device = CPU
    cut = CUT
    latent_dim = 1
    REACH = gap_frames = 5
    context_frames = 3  # of REACH: what `render` remembers

    def __init__(self) -> None:
        self.shapes: list[tuple[int, ...]] = []
        self.fronts: list[tuple[int, ...]] = []
        self.rendered: list[tuple[int, ...]] = []

    def __call__(self, codes: Tensor, positions: Tensor | None = None) -> Tensor:
        self.shapes.append(tuple(codes.shape))
        return self._samples(self._latents(codes))

    def latents(self, codes: Tensor, positions: Tensor | None = None) -> Tensor:
        self.fronts.append(tuple(codes.shape))
        return self._latents(codes)

    def render(self, latents: Tensor, kept: Tensor | None = None) -> Tensor:
        self.rendered.append(tuple(latents.shape))
        return self._samples(latents)

    def _latents(self, codes: Tensor) -> Tensor:
        total = codes.sum(1).float()
        early, late = self.REACH, self.context_frames  # frames f - 5 .. f - 4
        padded = torch.nn.functional.pad(total, (early, 0))
        old = padded.unfold(1, early - late, 1)[:, : total.shape[1]].sum(-1)
        return total[:, :, None] + 2.0**-12 * old[:, :, None]

    def _samples(self, latents: Tensor) -> Tensor:
        recent = latents[:, :, 0].floor()
        old = (latents[:, :, 0] - recent) * 2**12
        padded = torch.nn.functional.pad(recent, (self.context_frames, 0))
        window = padded.unfold(1, self.context_frames + 1, 1).sum(-1) + old
        samples = window[:, :, None] + 1000 * torch.arange(SAMPLES)
        return samples.flatten(1)


@pytest.fixture
def network() -> Any:
    """In place of a `CodecDecoder`."""
    return RunningSum()


def captured(network: Any, cut: Cutting, *limits: int) -> tuple[VocoderRunner, Lanes]:
    """A runner in lanes whose graphs for these limits are captured."""
    runner = lanes_runner(cut_by(network, cut), FakeCapturer())
    record(runner, *limits)
    assert isinstance(runner.layout, Lanes)
    return runner, runner.layout


def random_rows(lengths: list[int]) -> list[Tensor]:
    return [torch.randint(0, 50, (length, CODEBOOKS)) for length in lengths]


def with_fronts(fronts: list[int | None]) -> list[Tensor | None]:
    return [None if n is None else random_rows([n])[0] for n in fronts]


def whole(row: Tensor, front: Tensor | None = None) -> Tensor:
    """Samples of the row in one pass, its reference in front and cut off again."""
    frames = row if front is None else torch.cat([front, row])
    return RunningSum()(frames.T[None])[0, (len(frames) - len(row)) * SAMPLES :]


@LAYOUTS
def test_context_is_as_long_as_said_and_no_longer(network: Any, make: Any) -> None:
    # A context shorter than the network's memory leaves a seam: proof of where chunks start.
    row = random_rows([40])[0]
    chunked = make(cut_by(network, Cutting(16, 2)), None).decode([row])[0]
    expected = torch.cat(
        [
            whole(row[c.first : c.end])[c.context * SAMPLES :]
            for c in plan_chunks(40, chunk=16, left_context=2)
        ]
    )
    assert torch.equal(chunked, expected)
    assert not torch.equal(chunked, whole(row))


def test_a_cpu_decodes_every_chunk_alone_at_its_own_length(network: Any) -> None:
    runner = vocoder_runner(network, FakeCapturer())
    record(runner, 4, 310)
    runner.decode(random_rows([3, 310]))
    assert network.shapes == [(1, 3, 3), (1, 3, 300), (1, 3, 35)]
    assert runner.layout.runners == []


@pytest.mark.parametrize(
    ("max_batch", "max_frames"), [(1, 10), (2, 300), (4, 301), (3, 40), (64, 20), (16, 1000)]
)
def test_after_capture_no_row_within_the_limits_misses(
    network: Any, max_batch: int, max_frames: int
) -> None:
    runner, lanes = captured(network, CUT, max_batch, max_frames)
    assert lanes.fronts.keys == lanes.renderer.keys == []  # no row has a reference
    generator = torch.Generator().manual_seed(5)
    for count in (1, 2, 3, max_batch, 2 * max_batch + 1):
        lengths = torch.randint(1, max_frames + 1, (count,), generator=generator).tolist()
        rows = random_rows([*lengths, max_frames])
        for row, wave in zip(rows, runner.decode(rows), strict=True):
            assert torch.equal(wave, whole(row))
    assert lanes.whole.stats.misses == 0
    assert lanes.whole.stats.hits > 0


@pytest.mark.parametrize("cut", [CUT, WINDOWS], ids=["whole", "windows"])
def test_results_are_no_static_output_and_inputs_are_cleared(network: Any, cut: Cutting) -> None:
    runner, _ = captured(network, cut, 2, 16)
    rows = [torch.full((16, CODEBOOKS), 49), *random_rows([9])]
    first = runner.decode(rows)
    kept = [wave.clone() for wave in first]
    later = random_rows([3, 2, 12])
    for row, wave in zip(later, runner.decode(later), strict=True):
        assert torch.equal(wave, whole(row))
    for wave, before, row in zip(first, kept, rows, strict=True):
        assert torch.equal(wave, before)
        assert torch.equal(wave, whole(row))


FRONTS = [None, 1, 20, 299, 300, 301, 310, 375, None, 620, 4]
TAILS = [7, 1, 40, 2, 300, 5, 1, 640, 300, 3, 296]


@LAYOUTS
def test_references_are_heard_by_the_row_and_cut_off(network: Any, make: Any) -> None:
    rows, references = random_rows(TAILS), with_fronts(FRONTS)
    samples = make(network, None).decode(rows, references)
    for row, front, wave in zip(rows, references, samples, strict=True):
        assert torch.equal(wave, whole(row, front)), (front, len(row))
        assert len(wave) == len(row) * SAMPLES


# Frames in front of a row, and the latents rendered for its ten: with three that render remembers.
# Whole chunks of reference are left out.
@pytest.mark.parametrize(("front", "rendered"), [(200, 13), (600, 13), (1, 11)])
def test_nothing_is_rendered_for_reference_frames(network: Any, front: int, rendered: int) -> None:
    vocoder_runner(network, None).decode(random_rows([10]), with_fronts([front]))
    assert network.rendered == [(1, rendered, 1)]


@pytest.mark.parametrize(
    ("max_batch", "max_frames", "max_reference"), [(4, 40, 100), (2, 300, 375), (4, 900, 30)]
)
def test_after_capture_no_reference_misses(
    network: Any, max_batch: int, max_frames: int, max_reference: int
) -> None:
    runner, lanes = captured(network, CUT, max_batch, max_frames, max_reference)
    generator = torch.Generator().manual_seed(5)

    def draw(most: int, count: int) -> list[int]:
        return torch.randint(1, most + 1, (count,), generator=generator).tolist()

    for count in (1, 2, 5):
        rows = random_rows([*draw(max_frames, count), max_frames, max_frames])
        references = with_fronts([*draw(max_reference, count), max_reference, None])
        waves = runner.decode(rows, references)
        for row, front, wave in zip(rows, references, waves, strict=True):
            assert torch.equal(wave, whole(row, front))
    for graphs in lanes.runners:
        assert graphs.stats.misses == 0
        assert graphs.stats.hits > 0


def test_references_must_match_the_rows(network: Any) -> None:
    with pytest.raises(ValueError, match="2 rows, but 1 references"):
        vocoder_runner(network, None).decode(random_rows([3, 4]), [None])


# Latents of whole rows, samples of windows


@LAYOUTS
def test_windows_of_whole_latents_are_exact(network: Any, make: Any) -> None:
    rows = random_rows([1, 9, 10, 11, 13, 20, 99, 110, 111, 205])
    for row, wave in zip(rows, make(cut_by(network, WINDOWS), None).decode(rows), strict=True):
        assert torch.equal(wave, whole(row)), len(row)


@pytest.mark.parametrize(("max_batch", "max_frames"), [(1, 8), (4, 10), (2, 11), (8, 60), (4, 300)])
def test_after_capture_no_window_misses(network: Any, max_batch: int, max_frames: int) -> None:
    runner, lanes = captured(network, WINDOWS, max_batch, max_frames)
    generator = torch.Generator().manual_seed(5)
    for count in (1, 3, 2 * max_batch + 1):
        lengths = torch.randint(1, max_frames + 1, (count,), generator=generator).tolist()
        rows = random_rows([*lengths, max_frames])
        for row, wave in zip(rows, runner.decode(rows), strict=True):
            assert torch.equal(wave, whole(row))
    assert [graphs.stats.misses for graphs in lanes.runners] == [0, 0, 0]
    assert (lanes.renderer.stats.hits > 0) == (max_frames > 10)
    if max_frames <= 10:
        assert lanes.fronts.keys == lanes.renderer.keys == []


# Fixed shapes


@pytest.mark.parametrize("cut", [CUT, WINDOWS], ids=["whole", "windows"])
@pytest.mark.parametrize("max_batch", [1, 4, 32, 256])
def test_fixed_shapes_are_chosen_by_no_row(network: Any, max_batch: int, cut: Cutting) -> None:
    runner = fixed_runner(cut_by(network, cut), FakeCapturer())
    record(runner, max_batch, 900, 300)
    lanes, latents = network.rendered[0][0], sorted(set(network.fronts))
    assert lanes == 4
    for sizes, fronts in (([3], [None]), ([40] * 50, [None] * 50), (TAILS, FRONTS), ([900], [300])):
        rows, references = random_rows(sizes), with_fronts(fronts)
        waves = runner.decode(rows, references)
        if cut is CUT:
            for row, front, wave in zip(rows, references, waves, strict=True):
                assert torch.equal(wave, whole(row, front))
    assert set(network.rendered) == {(lanes, 1024, 1)}
    assert sorted(set(network.fronts)) == latents
    assert [runner.stats.misses for runner in runner.layout.runners] == [0, 0, 0]


def test_latents_lie_in_lanes_that_their_own_length_chooses(network: Any) -> None:
    runner = fixed_runner(network, FakeCapturer())
    record(runner, 64, 1000)
    network.fronts.clear()
    runner.decode(random_rows([192, 1]))
    runner.decode(random_rows([193]))
    runner.decode(random_rows([192] * 22))
    short, long = (21, CODEBOOKS, 192), (12, CODEBOOKS, 325)
    assert network.fronts == [short, long, short, short]


# A real network


@torch.inference_mode()
def test_real_chunks_equal_the_official_cut(real: Vocoder) -> None:
    spec = SPECS["custom_voice_wide"]
    row = random_codes(spec, 7, 640)
    (out,) = vocoder_runner(real, None).decode([row])
    width, chunk, left = spec.samples_per_frame, CUT.chunk_frames, CUT.left_context
    expected, start = [], 0
    while start < len(row):  # the loop of the official chunked_decode
        end = min(start + chunk, len(row))
        context = left if start - left > 0 else start
        wave = real(row[start - context : end].T[None])[0]
        expected.append(wave[context * width :])
        start = end
    assert torch.equal(out, torch.cat(expected))


@torch.inference_mode()
@LAYOUTS
def test_real_references_equal_decoding_all_of_it(real: Vocoder, make: Any) -> None:
    spec = SPECS["custom_voice_wide"]
    runner = make(real, None)
    rows = [random_codes(spec, seed, frames) for seed, frames in ((1, 9), (2, 40), (3, 320))]
    fronts = [random_codes(spec, seed, frames) for seed, frames in ((4, 80), (5, 310), (6, 290))]
    joined = [torch.cat(pair) for pair in zip(fronts, rows, strict=True)]
    for row, wave, full in zip(
        rows, runner.decode(rows, list(fronts)), runner.decode(joined), strict=True
    ):
        expected = full[-len(row) * spec.samples_per_frame :]
        assert wave.shape == expected.shape
        error = (wave - expected).square().mean().sqrt() / expected.square().mean().sqrt()
        assert error < 1e-5


@torch.inference_mode()
def test_render_remembers_what_it_says_and_no_more(real: Vocoder) -> None:
    reach, width = real.context_frames, real.samples_per_frame
    latents = torch.randn(1, reach + 8, real.latent_dim)
    samples = real.render(latents)
    changed = latents.clone()
    changed[0, 0] += 1
    moved = (real.render(changed) - samples)[0].abs().view(-1, width).amax(1)
    assert moved[reach + 1 :].max() < 1e-6
    assert moved[reach - 1] > 1e-6  # else a shorter context would do
