"""Speakers on a GPU: graphs are captured in one thread and replayed in others, rooms grow, and a
closed speaker leaves neither memory nor settings behind.
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from workbench import Workbench

from tts_cli import Speaker
from tts_cli.engine import load
from tts_cli.engine.load import ScopedSetting, read_tf32, write_tf32
from tts_cli.plan.checkpoint import model_source

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

TEXTS = (
    "The rain stopped before noon, and the harbour was full of boats again.",
    "Bring the lamp, please.",
    "Nobody had seen the letter, although it lay on the table all day.",
)
SYNTHETIC: dict[str, Any] = {"model": "synthetic:qwen3-tts-0.6b", "max_seconds": 2.0}
LEFT_BYTES = 256 * 2**20  # workspaces of libraries, which stay with the process


def misses(speaker: Speaker) -> int:
    return sum(runner.stats.misses for runner in speaker.session.loaded.model.graph_runners())


def replays(speaker: Speaker) -> int:
    return sum(runner.stats.hits for runner in speaker.session.loaded.model.graph_runners())


def rows() -> Iterator[dict[str, Any]]:
    for number in itertools.count():
        yield {"text": TEXTS[number % 3], "max_seconds": 0.5 + number % 4 / 2}


def test_one_row_at_a_time_is_what_synth_writes(bench: Workbench) -> None:
    """The same bucket throughout, so the same bytes, whoever spoke before."""
    given = [{"text": text, "voice": "clara"} for text in TEXTS]
    flags = ("--device", "cuda", "--max-batch", 1)
    bench.synth(given, *flags, model=model_source(None)).expect(0)
    with Speaker(device="cuda", max_batch=1) as speaker:
        for _ in range(2):
            for speech in speaker.batch(given):
                saved = speech.save(bench.folder / "saved.wav")
                path = bench.out().path / f"{speech.id}.wav"
                assert saved.read_bytes() == path.read_bytes()
        alone = speaker.say(TEXTS[0], voice="clara").save(bench.folder / "alone.wav")
        assert alone.read_bytes() == (bench.out().path / "000001.wav").read_bytes()
        assert misses(speaker) == 0
        assert replays(speaker) > 0


@pytest.mark.parametrize("ordered", [True, False])
def test_rows_without_end(ordered: bool) -> None:
    """Random weights of a released size, graphs captured here and replayed in other threads."""
    with Speaker(device="cuda", max_batch=32, **SYNTHETIC) as speaker:
        for _ in range(3):
            for count, speech in enumerate(speaker.batch(rows(), ordered=ordered), 1):
                assert speech.is_ok
                assert speech.samples.any()
                if count == 100:
                    break
        assert speaker.say("Hm.").is_ok
        assert misses(speaker) == 0


def test_the_room_grows_once() -> None:
    with Speaker(device="cuda", max_batch=8, **SYNTHETIC) as speaker:
        before = speaker.session.loaded.room
        reserved = torch.cuda.memory_reserved()
        long = {"text": TEXTS[0], "max_seconds": 20}
        given = [*itertools.islice(rows(), 20), long, *itertools.islice(rows(), 20), long]
        found = list(speaker.batch(given))
        assert [speech.is_ok for speech in found] == [True] * len(given)
        assert found[20].seconds == pytest.approx(20, abs=0.1)
        after = speaker.session.loaded.room
        assert before is not None
        assert after is not None
        assert after.max_frames > before.max_frames
        assert speaker.session.loaded.batch.rows == 8
        assert misses(speaker) == 0
        print(f"room {before} -> {after}, recaptured in {speaker.session.loaded.capture_s:.1f} s")
        assert torch.cuda.memory_reserved() - reserved < 8 * 2**30


def test_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = ScopedSetting(read_tf32, write_tf32, (False, False))
    monkeypatch.setattr(load, "TF32", fresh)  # other tests keep sessions
    device = torch.cuda.current_device()
    flags = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    try:
        gc.collect()
        torch.cuda.empty_cache()
        before = torch.cuda.memory_reserved()
        with Speaker(device="cuda", max_batch=16, **SYNTHETIC) as speaker:
            assert not torch.backends.cuda.matmul.allow_tf32
            next(speaker.batch(rows()))
            assert torch.cuda.memory_reserved() > before + LEFT_BYTES
        del speaker
        gc.collect()
        torch.cuda.empty_cache()
        assert torch.cuda.memory_reserved() - before < LEFT_BYTES
        assert torch.backends.cuda.matmul.allow_tf32
        assert torch.backends.cudnn.allow_tf32
        assert torch.cuda.current_device() == device
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = flags
