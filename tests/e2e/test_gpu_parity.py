"""On a GPU: a graph speaks what eager speaks, Triton what PyTorch speaks, and no row leaves traces.

float32 runs are greedy with TF32 off and compared code by code; bfloat16 runs draw their codes and
are compared within one bucket, where graph and eager run the same kernels. Synthetic weights of the
released 0.6B size where shapes matter, a tiny checkpoint where many small runs are needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from engine_harness import Harness
from on_gpu import lent, record_frames, run, run_as_eagerly, run_eagerly
from parity import check_all
from speak import speak
from tiny_qwen3_tts import SPECS, random_codes, write_checkpoint
from torch import Tensor

from kernels.launch import dispatch
from models.base import SpeechRequest
from models.device.buckets import batch_buckets
from models.qwen3_tts.model import Qwen3TTS
from models.registry import load_model
from models.sampling import Sampling
from models.vocoder.lanes import Lanes
from tts_cli.engine.pieces import Attempt

pytestmark = [*(pytest.mark.gpu, pytest.mark.slow), pytest.mark.usefixtures("float32_is_float32")]

GREEDY = Sampling(greedy=True, subtalker_greedy=True)
FRAMES, SAMPLED_FRAMES, TINY_FRAMES = 200, 100, 48
MAX_BATCH = 16
Codes = list[Tensor]


def load(source: str, dtype: torch.dtype = torch.float32, use_graphs: bool = True) -> Qwen3TTS:
    model = load_model(source, "cuda", dtype, use_graphs=use_graphs)
    assert isinstance(model, Qwen3TTS)
    return model


@pytest.fixture(scope="module")
def float_model() -> Iterator[Qwen3TTS]:
    yield from lent(load("synthetic:qwen3-tts-0.6b", torch.float32))


@pytest.fixture(scope="module")
def bfloat_model() -> Iterator[Qwen3TTS]:
    yield from lent(load("synthetic:qwen3-tts-0.6b", torch.bfloat16))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_checkpoint(tmp_path_factory.mktemp("voice"), "custom_voice_wide"))


def released_requests(count: int, frames: int, sampling: Sampling) -> list[SpeechRequest]:
    """Rows of different prompts and lengths; the first is as long as any."""
    return [
        SpeechRequest(
            "A row of its own length. " * (1 + row % 5) + str(row),
            "synthetic",
            sampling=sampling,
            seed=row,
            max_frames=frames - 4 * row,
        )
        for row in range(count)
    ]


def tiny_requests(
    count: int, sampling: Sampling, seed: int = 0, words: int = 3
) -> list[SpeechRequest]:
    return [
        SpeechRequest(
            "the thing " * (1 + row % words),
            "dora",
            sampling=sampling,
            seed=seed + row,
            max_frames=TINY_FRAMES - 3 * (row % 4),
        )
        for row in range(count)
    ]


def allocate(model: Qwen3TTS, num_slots: int, frames: int) -> None:
    model.allocate(num_slots, max_positions=256 + frames, max_frames=frames)


@pytest.fixture(scope="module")
def greedy(float_model: Qwen3TTS) -> Qwen3TTS:
    return TestReleasedSize.with_graphs(float_model, FRAMES)


@pytest.fixture(scope="module")
def sampled(bfloat_model: Qwen3TTS) -> Qwen3TTS:
    return TestReleasedSize.with_graphs(bfloat_model, SAMPLED_FRAMES)


class TestReleasedSize:
    """0.6B: the frame of every bucket, recorded and not."""

    @staticmethod
    def with_graphs(model: Qwen3TTS, frames: int) -> Qwen3TTS:
        allocate(model, MAX_BATCH, frames)
        return record_frames(model, [MAX_BATCH, 4, 1])

    @staticmethod
    def check(model: Qwen3TTS, requests: list[SpeechRequest], bucket: int) -> Codes:
        rows = run_as_eagerly(model, requests, bucket)
        for row, request in zip(rows, requests, strict=True):
            assert len(row) == request.max_frames  # end of speech is unlikely by construction
            assert row.min() >= 0
            assert row.max() < 2048
            assert len(row.unique()) > 50
        return rows

    @pytest.mark.parametrize("batch", [1, 4, 16])
    def test_float32_greedy_graph_equals_eager(self, greedy: Qwen3TTS, batch: int) -> None:
        self.check(greedy, released_requests(batch, FRAMES, GREEDY), batch)

    @pytest.mark.parametrize("batch", [1, 4, 16])
    def test_bfloat16_drawn_graph_equals_eager(self, sampled: Qwen3TTS, batch: int) -> None:
        rows = self.check(sampled, released_requests(batch, SAMPLED_FRAMES, Sampling()), batch)
        assert batch == 1 or not torch.equal(rows[0][:10], rows[1][:10])

    @pytest.mark.parametrize("name", ["greedy", "sampled"])
    @torch.inference_mode()
    def test_packed_prefill(self, name: str, request: pytest.FixtureRequest) -> None:
        """By graph as eagerly, and as with a pass a prompt; short passes after long ones."""
        model: Qwen3TTS = request.getfixturevalue(name)
        packed, tolerance = model.packed, 1e-5 if model.dtype == torch.float32 else 2e-2
        packed.announce()
        packed.runner.capture()
        assert packed.runner.stats.failures == {}
        stats = replace(packed.runner.stats)  # other tests have prefilled without graphs
        passes = 0
        for count in (MAX_BATCH, 3, 1):
            items = released_requests(count, SAMPLED_FRAMES, GREEDY)
            prompts, slots = [model.prompt(item) for item in items], list(range(count))
            passes += len(packed.groups([prompt.num_tokens for prompt in prompts]))
            found = []
            for capturer, size in ((packed.runner.capturer, count), (None, count), (None, 1)):
                before, packed.runner.capturer = packed.runner.capturer, capturer
                try:
                    for first in range(0, count, size):
                        some = slice(first, first + size)
                        model.prefill(prompts[some], slots[some])
                finally:
                    packed.runner.capturer = before
                cache = model.talker.decoder.cache.data
                keys = [cache[:, :, s, :, : p.num_tokens] for s, p in enumerate(prompts)]
                found.append([model.slots.hidden[:count].clone(), *(k.clone() for k in keys)])
                model.release(slots)
            for graph, eager, plain in zip(*found, strict=True):
                assert torch.equal(graph, eager)
                error = (graph.double() - plain.double()).square().mean().sqrt()
                assert error < tolerance * plain.double().square().mean().sqrt()
        assert packed.runner.stats.hits - stats.hits == passes
        assert packed.runner.stats.misses == stats.misses

    def test_vocoder_graph_equals_eager(self, bfloat_model: Qwen3TTS) -> None:
        layout = bfloat_model.vocoder.layout
        assert isinstance(layout, Lanes)
        graphs = layout.whole
        lengths = [[300], [64, 40], [16, 3, 9], [128, 100, 70, 90]]
        keys = [(1, 384), (1, 128), (1, 64), (1, 512)]  # lanes that hold them, with their gaps
        with torch.inference_mode():
            graphs.announce(keys)
            graphs.capture()
        assert graphs.stats.failures == {}
        generator = torch.Generator().manual_seed(3)
        for row_lengths in lengths:
            codes = [
                torch.randint(0, 2048, (length, 16), generator=generator).cuda()
                for length in row_lengths
            ]
            waves = bfloat_model.decode_audio(codes)
            capturer, graphs.capturer = graphs.capturer, None
            expected = bfloat_model.decode_audio(codes)
            graphs.capturer = capturer
            for length, wave, other in zip(row_lengths, waves, expected, strict=True):
                assert wave.shape == (1920 * length,)
                assert wave.isfinite().all()
                assert wave.abs().max() > 0.01
                assert torch.equal(wave, other)
        assert (graphs.stats.hits, graphs.stats.misses) == (4, 0)

    def test_one_slot_steps_in_one_launch(self, bfloat_model: Qwen3TTS) -> None:
        """Allocates anew, so it comes last: by graph as eagerly, and no such launch with two."""
        decoders = bfloat_model.talker.decoder, bfloat_model.predictor.decoder
        allocate(bfloat_model, 2, SAMPLED_FRAMES)
        assert not any(decoder.is_one_launch for decoder in decoders)
        allocate(bfloat_model, 1, SAMPLED_FRAMES)
        assert all(decoder.is_one_launch for decoder in decoders)
        record_frames(bfloat_model, [1])
        self.check(bfloat_model, released_requests(1, SAMPLED_FRAMES, Sampling()), 1)


class TestTinyCheckpoint:
    """Every path of a checkpoint that fits anywhere, in float32."""

    def test_triton_equals_the_references(self, folder: str) -> None:
        model = load(folder, use_graphs=False)
        requests = tiny_requests(6, GREEDY)
        allocate(model, 8, TINY_FRAMES)
        with dispatch.override("triton"):
            rows = run(model, requests, 8)
        with dispatch.override("reference"):
            expected = run(model, requests, 8)
        check_all(rows, expected)
        assert len({len(row) for row in rows}) > 1

    def test_triton_draws_what_the_references_draw(self, folder: str) -> None:
        model = load(folder, use_graphs=False)
        requests = tiny_requests(6, Sampling(top_p=0.9, subtalker_top_p=0.8))
        allocate(model, 8, TINY_FRAMES)
        with dispatch.override("triton"):
            rows = run(model, requests, 8)
        with dispatch.override("reference"):
            expected = run(model, requests, 8)
        check_all(rows, expected)

    def test_gpu_equals_cpu(self, folder: str) -> None:
        requests = tiny_requests(6, GREEDY)
        on_cpu = load_model(folder, "cpu")
        expected = speak(on_cpu, requests, 4)
        model = load(folder, use_graphs=False)
        rows = speak(model, requests, 4, frames_per_poll=5)
        check_all([row.codes for row in rows], [row.codes for row in expected])
        for row, other in zip(rows, expected, strict=True):
            assert row.finish_reason == other.finish_reason
            error = (row.samples - other.samples).abs().max()
            assert error < 1e-4, f"waveform differs by {error:.1e}"

    @pytest.mark.parametrize("sampling", [GREEDY, Sampling()], ids=["greedy", "drawn"])
    def test_batches_of_different_sizes_leave_no_traces(
        self, folder: str, sampling: Sampling
    ) -> None:
        model = load(folder)
        allocate(model, 8, TINY_FRAMES)
        model.capture(8, TINY_FRAMES)
        batches = [(8, 3), (2, 1), (4, 2), (1, 1), (8, 1)]
        spoken = [
            run(model, tiny_requests(count, sampling, 10 * index, words), count)
            for index, (count, words) in enumerate(batches)
        ]
        assert model.frames.stats.misses == 0
        for index, (count, words) in enumerate(batches):
            allocate(model, 8, TINY_FRAMES)  # fresh buffers, no graphs
            rows = run_eagerly(model, tiny_requests(count, sampling, 10 * index, words), count)
            check_all(spoken[index], rows)

    def test_a_row_gone_wrong_leaves_its_mates_and_its_slot_alone(self, folder: str) -> None:
        model = load(folder)
        allocate(model, 4, TINY_FRAMES)
        model.capture(4, TINY_FRAMES)
        requests = tiny_requests(3, Sampling())
        expected = run(model, requests, 4)
        model.prefill([model.prompt(request) for request in requests], [0, 1, 2])
        model.decode_frames(4, 2)
        with torch.inference_mode():
            model.slots.hidden[1] = float("nan")
        model.decode_frames(4, TINY_FRAMES)
        states = model.status(model.poll(), [0, 1, 2])
        assert (states[1].finish_reason, states[1].frames) == ("nan", 2)
        rows = [model.codes(slot, states[slot].frames).cpu() for slot in (0, 2)]
        check_all(rows, [expected[0], expected[2]])
        model.release([0, 2])
        model.release([1], is_failed=True)
        check_all(run(model, requests, 4), expected)

    def test_a_moved_row_goes_on_as_before(self, folder: str) -> None:
        model = load(folder)
        allocate(model, 8, TINY_FRAMES)
        model.capture(8, TINY_FRAMES)
        requests = tiny_requests(2, Sampling())
        prompts = [model.prompt(request) for request in requests]
        spoken = []
        for is_moved in (False, True):
            model.prefill(prompts, [0, 6])
            model.decode_frames(8, 9)
            if is_moved:
                model.move([6], [3])
            model.decode_frames(8, TINY_FRAMES)
            slots = [0, 3 if is_moved else 6]
            states = model.status(model.poll(), slots)
            spoken.append(
                [model.codes(s, state.frames).cpu() for s, state in zip(slots, states, strict=True)]
            )
            model.release(slots)
        check_all(spoken[1], spoken[0])

    def test_a_whole_run_with_graphs_equals_one_without(self, folder: str) -> None:
        requests = [
            replace(request, sampling=sampling)
            for sampling in (GREEDY, Sampling())
            for request in tiny_requests(20, sampling)
        ]
        with_graphs, without = (self.engine_run(folder, requests, flag) for flag in (True, False))
        check_all(
            [attempt.codes for attempt in with_graphs], [attempt.codes for attempt in without]
        )
        for attempt, other in zip(with_graphs, without, strict=True):
            assert torch.equal(attempt.samples, other.samples)
            assert attempt.finish == other.finish

    @staticmethod
    def engine_run(folder: str, requests: list[SpeechRequest], use_graphs: bool) -> list[Attempt]:
        model = load(folder, use_graphs=use_graphs)
        allocate(model, 8, TINY_FRAMES)
        model.capture(8, TINY_FRAMES)
        harness = Harness(model, 8, requests)
        assert harness.engine.is_async
        ended = harness.run()
        assert sorted(ended) == list(range(len(requests)))
        for runner in model.graph_runners():
            assert (runner.stats.misses, runner.stats.failures) == (0, {})
            # No row has a reference.
            is_used = use_graphs and runner.name not in ("latents", "render")
            assert (runner.stats.hits > 0) is is_used
        if use_graphs:
            assert model.frames.keys == batch_buckets(8)
        return [ended[row] for row in range(len(requests))]


def test_padding_the_vocoder_leaves_real_samples_alone(folder: str) -> None:
    spec = SPECS["custom_voice_wide"]
    model = load(folder)
    rows = [random_codes(spec, seed, frames).cuda() for seed, frames in enumerate((5, 31, 310))]
    together = model.decode_audio(rows)
    for row, wave in zip(rows, together, strict=True):
        (alone,) = model.decode_audio([row])
        assert wave.shape == (len(row) * spec.samples_per_frame,)
        assert (wave - alone).square().mean().sqrt() / alone.square().mean().sqrt() < 1e-5
