"""On a GPU the vocoder runs beside the frames: every row gets the codes and samples, bit for bit,
that it gets where one stream does one thing after the other.

The queue is full before a run starts and closed, so that rows meet in the same batches every time.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from clones import cloned
from engine_harness import attempt_of, row_of
from on_gpu import lent
from synthetic import load_synthetic
from tiny_qwen3_tts import write_checkpoint
from torch import Tensor

from models.base import SpeechRequest
from models.device.streams import WorkStreams
from models.fish_speech.family import released_config
from models.registry import load_model
from models.slots.model import SpeechModel
from tts_cli.engine.loop import Engine
from tts_cli.engine.pieces import Attempt
from tts_cli.engine.scheduler import BatchSize
from tts_cli.engine.vocoder import to_int16

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

MAX_BATCH, FRAMES, REFERENCE_FRAMES, ROWS, RUNS = 32, 64, 40, 400, 3


def load(name: str, folder: str) -> Any:
    if name == "fish":
        config = released_config(4, 2)
        device = torch.device("cuda")
        return load_synthetic("fish-s2-pro", device, torch.bfloat16, True, main=config)
    if name == "qwen":
        return load_model("synthetic:qwen3-tts-0.6b", "cuda", torch.bfloat16, use_graphs=True)
    return load_model(folder, "cuda", torch.float32, use_graphs=name == "clones")


def prepare(model: Any) -> Any:
    model.allocate(MAX_BATCH, 512 + FRAMES, FRAMES, max_trailing=256)
    model.capture(MAX_BATCH, FRAMES, REFERENCE_FRAMES if model.info.can_clone else 0)
    for runner in model.graph_runners():
        assert runner.stats.failures == {}
    return model


@pytest.fixture(scope="module", params=["fish", "qwen", "clones", "eager clones"])
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SpeechModel]:
    folder = write_checkpoint(tmp_path_factory.mktemp("voice"), "base_wide")
    yield from lent(prepare(load(request.param, str(folder))))


def requests(model: Any) -> list[SpeechRequest]:
    """Rows of many lengths; those of a model that clones stand behind references or not."""
    rows = [
        SpeechRequest(
            "the thing " * (1 + row % 5),
            sampling=model.info.sampling,
            seed=row,
            max_frames=FRAMES - row * 7 % 40,
        )
        for row in range(ROWS)
    ]
    if model.info.family == "qwen3_tts" and model.info.type == "base":
        return cloned(model, rows, REFERENCE_FRAMES)
    if model.info.voices:
        return [replace(row, voice=model.info.voices[0]) for row in rows]
    return rows


def speak(
    model: Any,
    items: list[SpeechRequest],
    streams: WorkStreams | None = None,
    is_int16: bool = False,
) -> tuple[Engine, list[Attempt], list[list[int]]]:
    """An engine that has run, its ended jobs by row, and the rows of each vocoder batch."""
    jobs: queue.Queue[Attempt | None] = queue.Queue()
    ended: dict[int, Attempt] = {}
    batches: dict[int, list[int]] = {}

    def sink(attempt: Attempt) -> None:
        ended[row_of(attempt)] = attempt
        batches.setdefault(id(attempt.vocoder), []).append(row_of(attempt))
        engine.retries.put([])

    engine = Engine(
        model,
        model.device,
        BatchSize(MAX_BATCH),
        jobs,
        sink,
        lambda attempt: None,
        is_int16=is_int16,
    )
    if streams is not None:
        engine.streams = engine.vocoder.streams = streams
    for row, item in enumerate(items):
        jobs.put(attempt_of(row, model.prompt(item)))
    jobs.put(None)
    engine.run()
    assert sorted(ended) == list(range(len(items)))
    for attempt in ended.values():
        attempt.wait()
    return engine, [ended[row] for row in range(len(items))], list(batches.values())


def assert_same(
    found: list[Attempt], expected: list[Attempt], as_samples: Callable[[Tensor], Tensor]
) -> None:
    for row, (attempt, other) in enumerate(zip(found, expected, strict=True)):
        assert attempt.finish == other.finish
        assert attempt.codes is not None
        assert attempt.samples is not None
        assert torch.equal(attempt.codes, other.codes), f"codes of row {row}"
        assert torch.equal(attempt.samples, as_samples(other.samples)), f"samples of row {row}"


def test_a_run_beside_itself_equals_one_after_the_other(model: Any) -> None:
    items = requests(model)
    one_stream = WorkStreams(torch.device("cpu"))
    _, expected, batches = speak(model, items, one_stream)
    assert len(batches) > 1
    for index in range(RUNS):
        is_int16 = index == RUNS - 1
        engine, found, again = speak(model, items, is_int16=is_int16)
        assert again == batches
        assert_same(found, expected, to_int16 if is_int16 else lambda samples: samples)
        if is_int16:
            assert not any(attempt.is_noise for attempt in found)
        share = engine.busy.share()
        assert share is not None
        assert 0 < share <= 1


def test_samples_are_those_of_the_vocoder_alone(model: Any) -> None:
    _, ended, batches = speak(model, requests(model))
    for rows in batches:
        batch = [ended[row] for row in rows]
        codes = [attempt.codes.to(model.device) for attempt in batch if attempt.codes is not None]
        references = [attempt.reference_codes for attempt in batch]
        has_reference = any(reference is not None for reference in references)
        waves = model.decode_audio(codes, references if has_reference else None)
        for row, attempt, wave in zip(rows, batch, waves, strict=True):
            assert torch.equal(attempt.samples, wave.cpu()), f"row {row}"


def test_frames_have_the_high_priority(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, set[int]] = {}
    for name in ("prefill", "decode_frames", "decode_audio"):
        call = getattr(model, name)

        def watched(*args: Any, name: str = name, call: Any = call) -> Any:
            seen.setdefault(name, set()).add(torch.cuda.current_stream().priority)
            return call(*args)

        monkeypatch.setattr(model, name, watched)
    before = torch.cuda.current_stream()
    speak(model, requests(model)[:80])
    assert torch.cuda.current_stream() == before
    assert seen.pop("decode_audio") == {0}
    assert seen["prefill"] == seen["decode_frames"]
    assert max(seen["decode_frames"]) < 0


def test_no_row_is_lost_when_memory_runs_out(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Halves go to other lanes, and rows that start again to other buckets: they round differently.
    calls = {"decode_audio": 0, "decode_frames": 0}
    failing = {"decode_audio": {1, 2}, "decode_frames": {40}}
    for name in calls:
        call = getattr(model, name)

        def sometimes(*args: Any, name: str = name, call: Any = call) -> Any:
            found = call(*args)
            calls[name] += 1
            if calls[name] - 1 in failing[name]:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return found

        monkeypatch.setattr(model, name, sometimes)
    engine, found, _ = speak(model, requests(model))
    assert engine.shrinks == 1
    for attempt in found:
        assert attempt.finish in ("eos", "max_frames")
        assert attempt.samples is not None
        assert len(attempt.samples) == attempt.frames * model.info.samples_per_frame
        assert bool(attempt.samples.isfinite().all())


def test_a_model_captured_again_speaks_the_same(model: Any) -> None:
    items = requests(model)[:60]
    _, expected, _ = speak(model, items)
    prepare(model)
    misses = [runner.stats.misses for runner in model.graph_runners()]
    _, found, _ = speak(model, items)
    assert_same(found, expected, lambda samples: samples)
    assert [runner.stats.misses for runner in model.graph_runners()] == misses
