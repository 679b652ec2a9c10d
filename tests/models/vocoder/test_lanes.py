"""Rows in lanes: the samples a row gets alone, whatever lies before and behind it."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny_vocoder
import torch
from fakes import FakeCapturer, cut_by, lanes_runner, record
from tiny_qwen3_tts import SPECS, random_codes
from tiny_vocoder import in_two_lanes
from torch import Tensor

from kernels.launch import dispatch
from kernels.launch.ahead import compile_ahead
from models.qwen3_tts.codec import CUT, Vocoder
from models.registry import load_model
from models.vocoder.chunks import Cutting
from models.vocoder.lane_plan import plan_lanes
from models.vocoder.lanes import GRAPH_BATCHES, LANE_BUCKETS, LANE_FRAMES, MAX_LANES, Lanes
from models.vocoder.runner import VocoderRunner, vocoder_runner

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
SPEC = SPECS["custom_voice_wide"]
LENGTHS = [1, 13, 33, 310, 70, 5, 299, 125, 64]


def packed(network: Vocoder, capturer: FakeCapturer | None = None) -> tuple[VocoderRunner, Lanes]:
    runner = lanes_runner(network, capturer)
    assert isinstance(runner.layout, Lanes)
    return runner, runner.layout


def alone(network: Vocoder) -> VocoderRunner:
    return vocoder_runner(network, None)


def rows_of(lengths: list[int], seed: int = 0) -> list[Tensor]:
    return [random_codes(SPEC, seed + row, frames) for row, frames in enumerate(lengths)]


def assert_close(waves: list[Tensor], expected: list[Tensor]) -> None:
    """Convolutions of another shape may sum in another order."""
    for wave, other in zip(waves, expected, strict=True):
        assert wave.shape == other.shape
        error = (wave - other).square().mean().sqrt() / other.square().mean().sqrt()
        assert error < 1e-5, float(error)


@pytest.mark.parametrize("variant", tiny_vocoder.VARIANTS)
@torch.inference_mode()
def test_rows_one_behind_the_other_do_not_hear_each_other(variant: str) -> None:
    config = tiny_vocoder.config(variant)
    vocoder = tiny_vocoder.build(config, tiny_vocoder.random_tensors(config))

    def codes(frames: int) -> Tensor:
        return torch.randint(0, config.semantic_codes, (2, config.num_codebooks, frames))

    for found, expected in in_two_lanes(vocoder, codes, config):
        assert expected.abs().max() > 0.01
        assert_close([found], [expected])


@pytest.mark.parametrize("variant", tiny_vocoder.VARIANTS)
@torch.inference_mode()
def test_a_gap_one_frame_shorter_would_not_do(variant: str) -> None:
    config = tiny_vocoder.config(variant)
    vocoder = tiny_vocoder.build(config, tiny_vocoder.random_tensors(config))
    size, gap, width = 6, config.gap_frames - 1, config.samples_per_frame
    codes = torch.randint(0, config.semantic_codes, (1, config.num_codebooks, 2 * size + gap))
    positions = torch.cat([torch.arange(size), torch.full((gap,), -1), torch.arange(size)])
    second = vocoder(codes, positions[None])[0, (size + gap) * width :]
    expected = vocoder(codes[:, :, size + gap :])[0]
    assert (second - expected).abs().max() > 1e-4


@torch.inference_mode()
def test_every_row_comes_back_whole(real: Vocoder) -> None:
    rows = rows_of(LENGTHS)
    expected = alone(real).decode(rows)
    assert min(wave.abs().max() for wave in expected) > 0.1
    assert_close(packed(real)[0].decode(rows), expected)


@torch.inference_mode()
def test_references_in_front_are_heard_and_cut_off(real: Vocoder) -> None:
    rows = rows_of([9, 40, 320, 7, 60])
    fronts: list[Tensor | None] = [*rows_of([80, 310, 290], seed=50), None, rows_of([3])[0]]
    runner, lanes = packed(real, FakeCapturer())
    record(runner, 2, 320, 310)
    assert_close(runner.decode(rows, fronts), alone(real).decode(rows, fronts))
    for graphs in lanes.runners:
        assert graphs.stats.misses == 0
        assert graphs.stats.hits > 0


@pytest.mark.parametrize(("max_batch", "max_frames"), [(2, 60), (4, 301)])
@torch.inference_mode()
def test_after_capture_no_row_within_the_limits_misses(
    real: Vocoder, max_batch: int, max_frames: int
) -> None:
    runner, lanes = packed(real, FakeCapturer())
    record(runner, max_batch, max_frames)
    assert lanes.whole.stats.failures == {}
    keys = lanes.whole.keys
    assert keys == sorted(keys, key=lambda key: -key[0] * key[1])
    for count in (1, 3, 7):
        rows = rows_of([1 + 5 * row % max_frames for row in range(count)] + [max_frames])
        assert_close(runner.decode(rows), alone(real).decode(rows))
    assert lanes.whole.stats.misses == 0
    assert lanes.fronts.keys == lanes.renderer.keys == []


@torch.inference_mode()
def test_fewer_lanes_take_less_and_sound_alike(real: Vocoder) -> None:
    """Where memory is short. Graphs that are there already are not counted again."""
    rows = rows_of([300, 125, 290, 64, 280, 250, 299, 310] * 2)
    runner, lanes = packed(real, FakeCapturer())
    needs = {count: lanes.work_bytes(count) for count in lanes.work_choices}
    assert list(needs) == [4096, 2048, 1024, 512]
    assert needs[4096] == real.work_bytes(4096) + real.work_bytes(2048)
    assert needs[4096] == pytest.approx(2 * needs[2048], rel=1e-4)
    assert needs[512] == real.work_bytes(512) + real.work_bytes(384)
    lanes.use_work(2048)
    record(runner, 16, 310)
    assert max(key[0] for key in lanes.whole.keys) == 2
    assert_close(runner.decode(rows), alone(real).decode(rows))
    assert lanes.whole.stats.misses == 0
    assert lanes.work_bytes(2048) == real.work_bytes(1024)
    assert lanes.work_bytes(4096) == needs[4096]


@torch.inference_mode()
def test_half_a_lane_takes_half_the_memory_and_sounds_alike(real: Vocoder) -> None:
    """With 8 GB, full lanes left room for 16 rows of 0.6B at a time, not 32."""
    rows = rows_of([300, 125, 290, 700, 64, 280, 5, 310])
    runner, lanes = packed(real, FakeCapturer())
    lanes.use_work(512)
    record(runner, 32, 700)
    assert lanes.whole.keys[0] == (1, 512)
    assert_close(runner.decode(rows), alone(real).decode(rows))
    assert lanes.whole.stats.misses == 0


@torch.inference_mode()
def test_few_rows_run_in_one_full_lane_until_their_own_pays(real: Vocoder) -> None:
    runner, lanes = packed(real, FakeCapturer())
    runner.announce(2, 60)
    usual = (1, lanes.lane_buckets[-1])
    assert lanes.whole.usual == [usual]
    small = plan_lanes([9], lanes.lane_buckets, lanes.num_lanes, lanes.network.gap_frames)[0].key
    assert small < usual
    row = rows_of([9])
    expected = alone(real).decode(row)
    for _ in range(GRAPH_BATCHES):
        assert_close(runner.decode(row), expected)
    assert lanes.whole.keys == [usual]
    for _ in range(2):
        assert_close(runner.decode(row), expected)
    assert lanes.whole.keys == [usual, small]


@torch.inference_mode()
def test_a_runs_last_rows_share_the_one_graph_there_is(real: Vocoder) -> None:
    runner, lanes = packed(real, FakeCapturer())
    runner.announce(32, 300)
    lanes.whole.capture(lanes.whole.announced[:1])
    assert lanes.whole.keys == [(MAX_LANES, LANE_FRAMES)]
    rows = rows_of([299, 290, 280, 270, 260, 250, 240, 230, 60])  # two full lanes and a shorter one
    assert_close(runner.decode(rows), alone(real).decode(rows))
    assert lanes.whole.stats.hits == 1
    rows = rows_of([200, 30, 299, 298, 297, 296], seed=20)  # where others were before
    assert_close(runner.decode(rows), alone(real).decode(rows))
    assert lanes.whole.stats.hits == 2


def test_latents_of_whole_rows_have_lanes_as_long_as_the_longest(real: Vocoder) -> None:
    cut = Cutting(496, 3600, renders_windows=True)
    for longest, lengths in {
        496: [],
        500: [512],
        1500: [2048, 1024, 768, 512],
        9000: [4096, 2048, 1024, 768, 512],
    }.items():
        runner = lanes_runner(cut_by(real, cut), Recorder())
        lanes = runner.layout
        record(runner, 64, longest)
        # A row that is no longer than a chunk is decoded at once: no lane need be so short.
        assert lanes.fronts.keys == [(1, frames) for frames in lengths], longest
        assert (lanes.renderer.keys == lanes.whole.keys) is bool(lengths)


class Recorder(FakeCapturer):
    """Takes note of keys without running anything."""

    def capture(self, function: object, is_warm: bool = False) -> tuple[None, object]:
        return None, lambda: None


def test_chunks_longer_than_a_lane_have_lanes_of_their_own(real: Vocoder) -> None:
    lanes = Lanes(cut_by(real, Cutting(1500, 25)), None)
    assert lanes.lane_buckets[-1] >= 1525
    assert lanes.lane_buckets[:-1] == list(LANE_BUCKETS)


@pytest.mark.skipif(not dispatch.IS_INTERPRETED, reason="kernels take no CPU tensors beside a GPU")
@torch.inference_mode()
def test_the_kernels_give_what_the_separate_steps_give() -> None:
    """Interpreted: gaps, the fused end of a unit and the last convolution in one pass."""
    config = tiny_vocoder.config()
    vocoder = tiny_vocoder.build(config, tiny_vocoder.random_tensors(config))
    gap, width = config.gap_frames, config.samples_per_frame
    positions = torch.cat([torch.arange(3), torch.full((gap,), -1), torch.arange(2)])[None]
    codes = torch.randint(0, config.semantic_codes, (1, config.num_codebooks, positions.shape[1]))
    expected = vocoder(codes, positions)
    with dispatch.override("triton"):
        samples = vocoder(codes, positions)
    is_kept = (positions >= 0).repeat_interleave(width, dim=1)
    assert_close([samples[is_kept]], [expected[is_kept]])


class TestChoice:
    """Which of the rows that wait are decoded together."""

    @staticmethod
    def keys(lanes: Lanes, frames: list[int]) -> list[tuple[int, int]]:
        pieces = CUT.pieces(frames, [0] * len(frames))
        sizes = [piece.chunk.num_frames for piece in pieces]
        gap = lanes.network.gap_frames
        return [batch.key for batch in plan_lanes(sizes, lanes.lane_buckets, lanes.num_lanes, gap)]

    def test_rows_that_fill_four_lanes(self, real: Vocoder) -> None:
        runner, lanes = packed(real)
        frames = [62 + 37 * row % 126 for row in range(48)]
        assert runner.choose(frames[:20], [0] * 20) == []
        chosen = runner.choose(frames, [0] * 48)
        assert chosen[0] == 0
        assert len(chosen) < 48
        assert self.keys(lanes, [frames[row] for row in chosen]) == [(MAX_LANES, LANE_FRAMES)]

    def test_all_chunks_of_a_long_row_go_with_it(self, real: Vocoder) -> None:
        runner, lanes = packed(real)
        frames = [900, 120] * 10
        chosen = runner.choose(frames, [0] * 20)
        assert chosen[0] == 0
        keys = self.keys(lanes, [frames[row] for row in chosen])
        assert keys[0] == (MAX_LANES, LANE_FRAMES)

    def test_rows_behind_references_go_with_their_kind(self, real: Vocoder) -> None:
        runner, _ = packed(real)
        references = [500, 0] * 60
        assert runner.choose([100] * 80, references[:80]) == []  # each kind has lanes of its own
        chosen = runner.choose([100] * 120, references)
        assert {references[row] for row in chosen} == {0}
        assert len(chosen) == 9 * MAX_LANES
        behind = runner.choose([100] * 60, [500] * 60)
        assert len(behind) == 1024 // (100 + real.context_frames + real.gap_frames) * MAX_LANES

    def test_a_run_of_few_short_rows_waits_for_less(self, real: Vocoder) -> None:
        runner, lanes = packed(real, Recorder())
        record(runner, 2, 60)
        assert lanes.lane_buckets[-1] == 128
        assert runner.choose([60] * 4, [0] * 4) == []
        assert runner.choose([60] * 5, [0] * 5) == [0, 1]


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("is_usual", [False, True])
@pytest.mark.parametrize("name", ["qwen3-tts-0.6b", "fish-s2-pro"])
@torch.inference_mode()
def test_all_shapes_run_the_same_kernels(
    name: str, is_usual: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them is then enough to compile all ahead."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    lanes = load_model(f"synthetic:{name}", "cuda", use_graphs=True).vocoder.layout
    assert isinstance(lanes, Lanes)
    lanes.announce(32, 325, 0)
    one = lanes.whole.usual if is_usual else lanes.whole.announced[:1]
    compile_ahead([lambda: lanes.whole.capture(one, is_rehearsal=True)], "one")
    assert compile_ahead([lambda: lanes.whole.capture(is_rehearsal=True)], "all") == 0
