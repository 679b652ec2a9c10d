"""Chunks, buckets and graphs around a vocoder: exactly F frames of samples whatever the padding."""

from __future__ import annotations

import pytest
import torch
from fakes import FakeCapturer
from tiny_qwen3_tts import SPECS, random_codes, write_checkpoint
from torch import Tensor

from models.checkpoint.weights import read_tensors
from models.device.buckets import choose_bucket
from models.qwen3_tts.codec.vocoder import Vocoder
from models.qwen3_tts.codec.vocoder_config import VocoderConfig
from models.vocoder.chunks import plan_chunks
from models.vocoder.rows_alone import BATCH_FRAMES, MAX_BATCH, ChunkedVocoder

CPU = torch.device("cpu")
CODEBOOKS, SAMPLES = 3, 4
CHUNK, CONTEXT = 300, 25


class RunningSum:
    """A causal vocoder that remembers REACH frames: wrong context shows, and it is cheap to check.

    Sample j of frame f is 1000 * j plus the sum of the codes of frames f - REACH .. f.
    """

    samples_per_frame = SAMPLES
    dtype = torch.float32
    latent_dim = 1
    REACH = 5
    context_frames = 3  # of REACH: what `render` remembers

    def __init__(self) -> None:
        self.shapes: list[tuple[int, ...]] = []
        self.rendered: list[tuple[int, ...]] = []

    def __call__(self, codes: Tensor) -> Tensor:
        self.shapes.append(tuple(codes.shape))
        return self.render(self.latents(codes))

    def latents(self, codes: Tensor) -> Tensor:
        total = codes.sum(1).float()
        early, late = self.REACH, self.context_frames  # frames f - 5 .. f - 4
        padded = torch.nn.functional.pad(total, (early, 0))
        old = padded.unfold(1, early - late, 1)[:, : total.shape[1]].sum(-1)
        return total[:, :, None] + 2.0**-12 * old[:, :, None]

    def render(self, latents: Tensor) -> Tensor:
        self.rendered.append(tuple(latents.shape))
        recent = latents[:, :, 0].floor()
        old = (latents[:, :, 0] - recent) * 2**12
        padded = torch.nn.functional.pad(recent, (self.context_frames, 0))
        window = padded.unfold(1, self.context_frames + 1, 1).sum(-1) + old
        samples = window[:, :, None] + 1000 * torch.arange(SAMPLES)
        return samples.flatten(1)


@pytest.fixture
def vocoder() -> RunningSum:
    return RunningSum()


def make(
    vocoder: RunningSum,
    capturer: FakeCapturer | None = None,
    use_buckets: bool | None = True,
    chunk: int = CHUNK,
    context: int = CONTEXT,
) -> ChunkedVocoder:
    return ChunkedVocoder(vocoder, CODEBOOKS, chunk, context, CPU, capturer, use_buckets)


def random_rows(lengths: list[int]) -> list[Tensor]:
    return [torch.randint(0, 50, (length, CODEBOOKS)) for length in lengths]


def whole(row: Tensor) -> Tensor:
    """The row in one pass, unpadded."""
    return RunningSum()(row.T[None])[0]


LENGTHS = [1, 15, 16, 17, 299, 300, 301, 325, 326, 599, 600, 601, 2, 64, 900, 1000]


@pytest.mark.parametrize("use_buckets", [True, False])
def test_every_row_comes_back_whole(vocoder: RunningSum, use_buckets: bool) -> None:
    rows = random_rows(LENGTHS)
    samples = make(vocoder, use_buckets=use_buckets).decode(rows)
    for length, row, wave in zip(LENGTHS, rows, samples, strict=True):
        assert wave.shape == (length * SAMPLES,)
        assert wave.dtype == torch.float32
        assert torch.equal(wave, whole(row)), length


def test_context_is_as_long_as_said_and_no_longer(vocoder: RunningSum) -> None:
    # A context shorter than the vocoder's memory leaves a seam: proof of where chunks start.
    row = random_rows([40])[0]
    chunked = make(vocoder, chunk=16, context=2).decode([row])[0]
    expected = torch.cat(
        [
            whole(row[c.first : c.end])[c.context * SAMPLES :]
            for c in plan_chunks(40, chunk=16, left_context=2)
        ]
    )
    assert torch.equal(chunked, expected)
    assert not torch.equal(chunked, whole(row))


def test_buckets_are_off_on_a_cpu_where_padding_is_wasted(vocoder: RunningSum) -> None:
    chunked = make(vocoder, use_buckets=None)
    chunked.decode(random_rows([3, 310]))
    assert vocoder.shapes == [(1, 3, 3), (1, 3, 300), (1, 3, 35)]
    assert len(chunked._inputs) == 1  # inputs of odd lengths are not kept


def test_chunks_of_similar_length_share_a_padded_batch(vocoder: RunningSum) -> None:
    make(vocoder).decode(random_rows([20, 3, 30, 310, 5, 31, 16]))
    # 300; 35 with 25 of context -> 64; 30, 31, 20 -> 32; 16, 5, 3 -> 16
    assert vocoder.shapes == [(1, 3, 300), (1, 3, 64), (4, 3, 32), (4, 3, 16)]


def test_a_full_chunk_is_never_padded(vocoder: RunningSum) -> None:
    make(vocoder).decode(random_rows([900]))
    assert vocoder.shapes == [(2, 3, 325), (1, 3, 300)]


@pytest.mark.parametrize("frames", [1, 16, 100, 256, 300, 325])
def test_batches_are_bounded(vocoder: RunningSum, frames: int) -> None:
    chunked = make(vocoder)
    largest = chunked.max_batch(frames)
    assert largest & (largest - 1) == 0
    assert largest <= MAX_BATCH
    assert largest * frames <= BATCH_FRAMES or largest == 1
    chunked.decode(random_rows([min(frames, CHUNK)] * (2 * MAX_BATCH + 3)))
    assert max(shape[0] for shape in vocoder.shapes) <= chunked.max_batch(vocoder.shapes[0][2])
    assert max(shape[0] * shape[2] for shape in vocoder.shapes) <= BATCH_FRAMES


def test_captured_batches_bound_the_later_ones(vocoder: RunningSum) -> None:
    # 32 finished rows once went through in one batch although graphs were captured for 4 only.
    capturer = FakeCapturer()
    chunked = make(vocoder, capturer)
    chunked.capture(max_batch=4, max_frames=20)
    chunked.decode(random_rows([10] * 32))
    assert chunked.runner.stats.misses == 0
    assert chunked.runner.stats.hits == 8


@pytest.mark.parametrize(
    ("max_batch", "max_frames"), [(1, 10), (2, 300), (4, 301), (3, 40), (64, 20), (16, 1000)]
)
def test_after_capture_no_row_within_the_limits_misses(
    vocoder: RunningSum, max_batch: int, max_frames: int
) -> None:
    chunked = make(vocoder, FakeCapturer())
    chunked.capture(max_batch, max_frames)
    sizes = [batch * frames for batch, frames in chunked.runner.keys]
    assert sizes == sorted(sizes, reverse=True)
    generator = torch.Generator().manual_seed(5)
    for count in (1, 2, 3, max_batch, 2 * max_batch + 1):
        lengths = torch.randint(1, max_frames + 1, (count,), generator=generator).tolist()
        rows = random_rows([*lengths, max_frames])
        for row, wave in zip(rows, chunked.decode(rows), strict=True):
            assert torch.equal(wave, whole(row))
    assert chunked.runner.stats.misses == 0
    assert chunked.runner.stats.hits > 0


def test_only_buckets_that_can_be_needed_are_captured(vocoder: RunningSum) -> None:
    chunked = make(vocoder, FakeCapturer())
    chunked.capture(max_batch=2, max_frames=40)
    assert sorted(chunked.runner.keys) == [(1, 16), (1, 32), (1, 64), (2, 16), (2, 32), (2, 64)]
    assert choose_bucket(40, chunked.frame_buckets) == 64


def test_results_do_not_share_the_static_output(vocoder: RunningSum) -> None:
    chunked = make(vocoder, FakeCapturer())
    chunked.capture(max_batch=2, max_frames=16)
    first_rows, second_rows = random_rows([16, 9]), random_rows([16, 9])
    first = chunked.decode(first_rows)
    kept = [wave.clone() for wave in first]
    chunked.decode(second_rows)
    for wave, before, row in zip(first, kept, first_rows, strict=True):
        assert torch.equal(wave, before)
        assert torch.equal(wave, whole(row))


def test_a_static_input_holds_nothing_of_the_batch_before(vocoder: RunningSum) -> None:
    chunked = make(vocoder, FakeCapturer())
    chunked.capture(max_batch=2, max_frames=16)
    chunked.decode([torch.full((16, CODEBOOKS), 49)] * 2)
    chunked.decode([torch.ones(3, CODEBOOKS, dtype=torch.int64)])
    inputs = chunked._inputs[1, 16]
    assert inputs[0, :, :3].eq(1).all()
    assert not inputs[0, :, 3:].any()


FRONTS = [None, 1, 20, 299, 300, 301, 310, 375, None, 620, 4]
TAILS = [7, 1, 40, 2, 300, 5, 1, 640, 300, 3, 296]


def with_fronts(fronts: list[int | None]) -> list[Tensor | None]:
    return [None if n is None else random_rows([n])[0] for n in fronts]


@pytest.mark.parametrize("use_buckets", [True, False])
def test_references_are_heard_by_the_row_and_cut_off(
    vocoder: RunningSum, use_buckets: bool
) -> None:
    rows, references = random_rows(TAILS), with_fronts(FRONTS)
    samples = make(vocoder, use_buckets=use_buckets).decode(rows, references)
    for row, front, wave in zip(rows, references, samples, strict=True):
        expected = whole(row if front is None else torch.cat([front, row]))
        assert torch.equal(wave, expected[-len(row) * SAMPLES :]), (front, len(row))
        assert len(wave) == len(row) * SAMPLES


def test_nothing_is_rendered_for_reference_frames(vocoder: RunningSum) -> None:
    make(vocoder, use_buckets=False).decode(random_rows([10]), with_fronts([200]))
    assert vocoder.rendered == [(1, 13, 1)]  # with what render remembers
    vocoder.rendered.clear()
    make(vocoder, use_buckets=False).decode(random_rows([10]), with_fronts([600]))
    assert vocoder.rendered == [(1, 13, 1)]  # whole chunks of reference are left out
    vocoder.rendered.clear()
    make(vocoder, use_buckets=False).decode(random_rows([10]), with_fronts([1]))
    assert vocoder.rendered == [(1, 11, 1)]


@pytest.mark.parametrize(
    ("max_batch", "max_frames", "max_reference"), [(4, 40, 100), (2, 300, 375), (4, 900, 30)]
)
def test_after_capture_no_reference_misses(
    vocoder: RunningSum, max_batch: int, max_frames: int, max_reference: int
) -> None:
    chunked = make(vocoder, FakeCapturer())
    chunked.capture(max_batch, max_frames, max_reference)
    generator = torch.Generator().manual_seed(5)

    def draw(most: int, count: int) -> list[int]:
        return torch.randint(1, most + 1, (count,), generator=generator).tolist()

    for count in (1, 2, 5):
        rows = random_rows([*draw(max_frames, count), max_frames, max_frames])
        references = with_fronts([*draw(max_reference, count), max_reference, None])
        waves = chunked.decode(rows, references)
        for row, front, wave in zip(rows, references, waves, strict=True):
            expected = whole(row if front is None else torch.cat([front, row]))
            assert torch.equal(wave, expected[-len(wave) :])
    assert chunked.runner.stats.misses == chunked.renderer.stats.misses == 0
    assert chunked.renderer.stats.hits > 0


def test_without_references_no_graph_is_made_for_them(vocoder: RunningSum) -> None:
    chunked = make(vocoder, FakeCapturer())
    chunked.capture(max_batch=2, max_frames=40)
    assert chunked.renderer.keys == []


def test_a_row_of_nothing_but_a_reference_gives_no_samples(vocoder: RunningSum) -> None:
    none = torch.zeros(0, CODEBOOKS, dtype=torch.int64)
    (wave,) = make(vocoder).decode([none], with_fronts([30]))
    assert wave.shape == (0,)


def test_references_must_match_the_rows(vocoder: RunningSum) -> None:
    with pytest.raises(ValueError, match="2 rows, but 1 references"):
        make(vocoder).decode(random_rows([3, 4]), [None])


def test_a_row_without_frames_gives_no_samples(vocoder: RunningSum) -> None:
    empty, full = make(vocoder).decode(
        [torch.zeros(0, CODEBOOKS, dtype=torch.int64), *random_rows([4])]
    )
    assert empty.shape == (0,)
    assert full.shape == (16,)
    assert make(vocoder).decode([]) == []


# Latents of whole rows, samples of windows


def make_rendering(vocoder: RunningSum, capturer: FakeCapturer | None = None) -> ChunkedVocoder:
    """Rows of up to 110 frames are exact; a context of 2 frames for samples alone would not do."""
    return ChunkedVocoder(
        vocoder, CODEBOOKS, 10, 100, CPU, capturer, use_buckets=True, renders_windows=True
    )


@pytest.mark.parametrize("use_buckets", [True, False])
def test_windows_of_whole_latents_are_exact(vocoder: RunningSum, use_buckets: bool) -> None:
    chunked = make_rendering(vocoder)
    chunked.use_buckets = use_buckets
    rows = random_rows([1, 9, 10, 11, 13, 20, 99, 110, 111, 205])
    for row, wave in zip(rows, chunked.decode(rows), strict=True):
        assert torch.equal(wave, whole(row)), len(row)
    assert max(frames for _, frames, _ in vocoder.rendered) <= 10 + vocoder.context_frames + 6


def test_chunks_of_a_row_share_its_latents(vocoder: RunningSum) -> None:
    chunked = make_rendering(vocoder)
    chunked.decode(random_rows([95]))
    assert vocoder.shapes == [(1, CODEBOOKS, 10)]  # the first chunk looks back on nothing
    assert list(chunked._inputs) == [(1, 10), (1, 110)]  # all others: one pass over the row
    assert sum(batch for batch, _, _ in vocoder.rendered[1:]) >= 9


@pytest.mark.parametrize(("max_batch", "max_frames"), [(1, 8), (4, 10), (2, 11), (8, 60), (4, 300)])
def test_after_capture_no_window_misses(
    vocoder: RunningSum, max_batch: int, max_frames: int
) -> None:
    chunked = make_rendering(vocoder, FakeCapturer())
    chunked.capture(max_batch, max_frames)
    generator = torch.Generator().manual_seed(5)
    for count in (1, 3, 2 * max_batch + 1):
        lengths = torch.randint(1, max_frames + 1, (count,), generator=generator).tolist()
        rows = random_rows([*lengths, max_frames])
        for row, wave in zip(rows, chunked.decode(rows), strict=True):
            assert torch.equal(wave, whole(row))
    runners = (chunked.runner, chunked.fronts, chunked.renderer)
    assert [runner.stats.misses for runner in runners] == [0, 0, 0]
    assert (chunked.renderer.stats.hits > 0) == (max_frames > 10)
    if max_frames <= 10:
        assert chunked.fronts.keys == chunked.renderer.keys == []


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Vocoder:
    """The tiny checkpoint's vocoder."""
    spec = "custom_voice_wide"
    folder = write_checkpoint(tmp_path_factory.mktemp("voice"), spec) / "speech_tokenizer"
    tensors = {k: v for k, v in read_tensors(folder, CPU).items() if k.startswith("decoder.")}
    return Vocoder.from_state(VocoderConfig.from_folder(folder), tensors, CPU, torch.float32)


@torch.inference_mode()
def test_padding_and_batching_leave_real_samples_alone(real: Vocoder) -> None:
    spec = SPECS["custom_voice_wide"]
    rows = [random_codes(spec, seed, frames) for seed, frames in enumerate((1, 13, 33, 310, 70))]
    padded = ChunkedVocoder(
        real, spec.num_codebooks, CHUNK, CONTEXT, CPU, FakeCapturer(), use_buckets=True
    )
    alone = ChunkedVocoder(real, spec.num_codebooks, CHUNK, CONTEXT, CPU, None, use_buckets=False)
    for row, out, expected in zip(rows, padded.decode(rows), alone.decode(rows), strict=True):
        assert out.shape == expected.shape == (len(row) * spec.samples_per_frame,)
        assert expected.abs().max() > 0.1
        # Convolutions of another shape may sum in another order.
        assert (out - expected).square().mean().sqrt() / expected.square().mean().sqrt() < 1e-5


@torch.inference_mode()
def test_real_chunks_equal_the_official_cut(real: Vocoder) -> None:
    spec = SPECS["custom_voice_wide"]
    row = random_codes(spec, 7, 640)
    chunked = ChunkedVocoder(real, spec.num_codebooks, CHUNK, CONTEXT, CPU, None, use_buckets=True)
    out = chunked.decode([row])[0]
    width = spec.samples_per_frame
    expected, start = [], 0
    while start < len(row):  # the loop of the official chunked_decode
        end = min(start + CHUNK, len(row))
        context = CONTEXT if start - CONTEXT > 0 else start
        wave = real(row[start - context : end].T[None])[0]
        expected.append(wave[context * width :])
        start = end
    expected_wave = torch.cat(expected)
    assert out.shape == expected_wave.shape
    error = (out - expected_wave).square().mean().sqrt() / expected_wave.square().mean().sqrt()
    assert error < 1e-5


@torch.inference_mode()
@pytest.mark.parametrize("use_buckets", [True, False])
def test_real_references_equal_decoding_all_of_it(real: Vocoder, use_buckets: bool) -> None:
    spec = SPECS["custom_voice_wide"]
    chunked = ChunkedVocoder(
        real, spec.num_codebooks, CHUNK, CONTEXT, CPU, None, use_buckets=use_buckets
    )
    rows = [random_codes(spec, seed, frames) for seed, frames in ((1, 9), (2, 40), (3, 320))]
    fronts = [random_codes(spec, seed, frames) for seed, frames in ((4, 80), (5, 310), (6, 290))]
    joined = [torch.cat(pair) for pair in zip(fronts, rows, strict=True)]
    for row, wave, full in zip(
        rows, chunked.decode(rows, list(fronts)), chunked.decode(joined), strict=True
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
