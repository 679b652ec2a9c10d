"""The vocoder of Fish Speech against the official codec, and what chunks and batches rely on.

`golden_codec.safetensors` was made by tests/oracle/make_fish_codec_golden.py.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import official_fish_codec as official
import pytest
import tiny_fish_codec as tiny
import torch
from fakes import cut_by, lanes_runner, record
from safetensors import safe_open
from safetensors.torch import load_file
from synthetic import load_synthetic
from tiny_vocoder import in_two_lanes
from torch import Tensor

from models.device.graphs import CudaCapturer
from models.dual_ar.codec import DACVocoder
from models.dual_ar.config import CodecConfig
from models.fish_speech.family import released_config
from models.vocoder.chunks import Cutting
from models.vocoder.lanes import Lanes
from models.vocoder.runner import VocoderRunner, vocoder_runner

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parent / "golden_codec.safetensors"
VARIANTS = tuple(tiny.VARIANTS)
CPU = torch.device("cpu")
# Two float32 programs that add in another order: measured 5e-6 at most on these codecs.
SAME = 3e-5
LAYOUTS = pytest.mark.parametrize("make", [vocoder_runner, lanes_runner], ids=["alone", "lanes"])


@pytest.fixture(params=VARIANTS)
def vocoder(request: pytest.FixtureRequest) -> DACVocoder:
    """Each tiny vocoder in turn, float32 on the CPU."""
    config = tiny.VARIANTS[request.param]
    return tiny.build(config, tiny.random_tensors(config))


@pytest.fixture
def small() -> DACVocoder:
    return tiny.build(tiny.SMALL, tiny.random_tensors(tiny.SMALL))


def largest_difference(a: Tensor, b: Tensor) -> float:
    assert a.shape == b.shape, (a.shape, b.shape)
    return (a - b).abs().max().item()


@pytest.fixture(params=VARIANTS)
def golden(request: pytest.FixtureRequest) -> dict[str, Any]:
    """A tiny codec, its codes and every so many of the samples the official package makes."""
    with safe_open(GOLDEN, "pt") as file:
        notes = {key: value for key, value in file.metadata().items() if key != "made_by"}
    content, variant = load_file(GOLDEN), request.param
    config = tiny.VARIANTS[variant]
    tensors = tiny.random_tensors(config, json.loads(notes["seeds"])[variant])
    message = "the tiny codec changed: make the golden file anew"
    assert tiny.digest(tensors) == json.loads(notes["digests"])[variant], message
    found = {name.removeprefix(f"{variant}."): value for name, value in content.items()}
    return found | {"vocoder": tiny.build(config, tensors), "step": int(notes["sample_step"])}


# Parity


def test_stored_official_samples(golden) -> None:
    vocoder, codes = golden["vocoder"], golden["batch.codes"].long()
    expected = golden["batch.samples"]
    assert largest_difference(vocoder(codes)[:, :: golden["step"]], expected) <= SAME
    assert largest_difference(vocoder(codes[1:])[:, :: golden["step"]], expected[1:]) <= SAME


@LAYOUTS
def test_chunks_equal_the_official_one_shot(golden, make) -> None:
    """The official code decodes a row at once; so long a row takes four chunks here."""
    if "long.codes" not in golden:
        golden["long.codes"] = golden["batch.codes"]
        golden["long.samples"] = golden["batch.samples"]
    vocoder = golden["vocoder"]
    runner = make(_cut(vocoder, 90), None)
    for codes, expected in zip(golden["long.codes"].long(), golden["long.samples"], strict=True):
        (samples,) = runner.decode([codes.t().contiguous()])
        assert largest_difference(samples[:: golden["step"]], expected) <= SAME


def _cut(vocoder: DACVocoder, chunk: int) -> DACVocoder:
    """The same in chunks of that length, which are exact."""
    context = vocoder.config.frames.max_positions - chunk
    return cut_by(vocoder, Cutting(chunk, context, renders_windows=True))


@pytest.mark.oracle
@pytest.mark.parametrize("oracle", official.ORACLES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_official_decoder(variant, oracle) -> None:
    if not official.is_installed(oracle):
        pytest.skip(f"needs the code of {oracle} on the path")
    config = tiny.VARIANTS[variant]
    tensors = tiny.random_tensors(config, seed=3)
    dac = official.build(config, tensors, oracle)
    vocoder = tiny.build(config, tensors)
    for batch, frames in ((1, 1), (2, 2), (1, 3), (3, 7), (2, 50)):
        codes = tiny.random_codes(config, batch, frames)
        expected = official.decode(dac, codes)
        assert expected.square().mean().sqrt() > 0.02
        assert largest_difference(vocoder(codes), expected) <= SAME
    beyond = codes + 2**14
    assert largest_difference(vocoder(beyond), official.decode(dac, beyond)) <= SAME


# Shapes, causality, chunks


def test_what_is_beyond_a_codebook_counts_as_its_last_entry(small) -> None:
    last = torch.tensor(small.config.codebook_sizes)[None, :, None] - 1
    codes = last.expand(1, -1, 6)
    assert torch.equal(small(codes + 1000), small(codes))


def test_rows_one_behind_the_other_do_not_hear_each_other(vocoder) -> None:
    codes = functools.partial(tiny.random_codes, vocoder.config, 2)
    for found, expected in in_two_lanes(vocoder, codes, vocoder):
        assert largest_difference(found, expected) <= SAME


def test_chunks_are_what_rope_tables_allow(small: DACVocoder) -> None:
    """A chunk and its context were 4,096 frames whatever the codec: long rows ended the run."""
    assert CodecConfig.released().frames.max_positions == 4096
    assert small.cut.chunk_frames + small.cut.left_context == small.config.frames.max_positions
    frames = small.config.frames.max_positions + 100
    codes = tiny.random_codes(small.config, 1, frames)[0].t().contiguous()
    (samples,) = vocoder_runner(small, None).decode([codes])
    assert len(samples) == frames * small.config.samples_per_frame


def test_a_short_left_context_would_be_heard(small) -> None:
    """Proof that the test above could fail: the transformer looks back 2 * 4 frames."""
    codes = tiny.random_codes(small.config, 1, 60)
    cut = Cutting(12, 2, renders_windows=True)
    (samples,) = vocoder_runner(cut_by(small, cut), None).decode([codes[0].t().contiguous()])
    assert largest_difference(samples, small(codes)[0]) > 100 * SAME


def test_render_looks_back_as_far_as_said(vocoder) -> None:
    context, kept = vocoder.context_frames, 10 * vocoder.samples_per_frame
    latents = vocoder.latents(tiny.random_codes(vocoder.config, 1, context + 30))
    samples = vocoder.render(latents)[:, -kept:]
    enough = vocoder.render(latents[:, -10 - context :])[:, -kept:]
    assert largest_difference(enough, samples) <= SAME
    less = vocoder.render(latents[:, -10 - context // 2 :])[:, -kept:]
    assert largest_difference(less, samples) > 10 * SAME


def test_rope_tables_are_those_of_training(small) -> None:
    """Rounded to bfloat16, whatever the dtype of the weights."""
    for table in (small.rope_cos, small.rope_sin):
        assert table.dtype == torch.float32
        assert torch.equal(table, table.bfloat16().float())


@pytest.mark.gpu
def test_chunks_in_graphs_equal_one_shot_on_the_cpu() -> None:
    """Every bucket that rows of up to 100 frames need is a graph, and none of them is heard."""
    config = tiny.VARIANTS["released_rates"]
    tensors = tiny.random_tensors(config)
    device = torch.device("cuda")
    network = tiny.build(config, tensors, device="cuda")
    lanes = Lanes(_cut(network, 32), CudaCapturer(device))
    runner = VocoderRunner(lanes.network, lanes)
    alone = tiny.build(config, tensors)
    lengths = (1, 31, 32, 33, 64, 65, 100, 77, 5)
    rows = [tiny.random_codes(config, 1, n, n)[0].t().contiguous() for n in lengths]
    with torch.inference_mode(), torch.backends.cudnn.flags(allow_tf32=False):
        record(runner, 4, 100)
        for _ in range(2):
            found = runner.decode([row.to(device) for row in rows])
            for row, samples in zip(rows, found, strict=True):
                assert largest_difference(samples.cpu(), alone(row.t()[None])[0]) <= 10 * SAME
    assert [graphs.stats.misses for graphs in lanes.runners] == [0, 0, 0]
    assert all(graphs.stats.hits for graphs in lanes.runners)


@pytest.mark.gpu
def test_bfloat16_at_released_size() -> None:
    """Random weights: samples are neither silent nor clipped. Their sines amplify rounding: on a
    CPU and of ten frames the official codec in bfloat16 was 12.5 % off float32, this one 11.3 %.
    """
    device = torch.device("cuda")
    made = []
    for dtype in (torch.float32, torch.bfloat16):
        model = load_synthetic("fish-s2-pro", device, dtype, False, 7, released_config(1, 1))
        vocoder = model.vocoder.network
        codes = tiny.random_codes(vocoder.config, 2, 64, 5).cuda()
        with torch.backends.cudnn.flags(allow_tf32=False):
            made.append(vocoder(codes))
    expected, samples = made
    level = expected.square().mean().sqrt()
    assert 0.01 < level < 0.5
    assert (samples - expected).square().mean().sqrt() / level <= 0.15
