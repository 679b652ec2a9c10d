"""On a GPU, with 256 rows at once: one that goes wrong, or memory that falls short, costs no other
row its speech. The sample voice speaks, because it ends its speech by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from workbench import Workbench

from models.qwen3_tts.model import Qwen3TTS
from models.slots.runner import SamplingSlots
from tts_cli.engine import load
from tts_cli.plan.checkpoint import model_source

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

MAX_BATCH = 256
TEXTS = (
    "The rain stopped before noon, and the harbour was full of boats again.",
    "Bring the lamp, please.",
    "Nobody had seen the letter, although it lay on the table all day.",
    "She opened the window and listened to the birds in the garden.",
)
ROWS = [{"id": f"row{number:03d}", "text": TEXTS[number % 4]} for number in range(300)]
ODD = "row007"
POISON = "~"


def synth(bench: Workbench, rows: Any, *flags: object, out: str = "out") -> int:
    """Speak rows with the sample voice on the GPU; returns the exit code."""
    given = ["--device", "cuda", "--max-batch", MAX_BATCH, *flags]
    return bench.synth(rows, *given, out=out, model=model_source(None)).code


def assert_others_spoken(bench: Workbench, failed: set[str]) -> None:
    """Every row but `failed` is ok, and its audio as long as its frames."""
    out = bench.out()
    records = out.records
    assert set(records) == {row["id"] for row in ROWS}
    assert {row_id for row_id, record in records.items() if record["status"] != "ok"} == failed
    for row_id in set(records) - failed:
        assert records[row_id]["finish_reason"] == "eos"
        assert len(out.samples(f"{row_id}.wav")) == 1920 * records[row_id]["frames"]


def with_odd_row(**changes: Any) -> list[dict[str, Any]]:
    """The rows, one of them changed."""
    return [{**row, **changes} if row["id"] == ODD else row for row in ROWS]


class TestOneRow:
    """The others are spoken, and as they are without it."""

    def test_nan(self, bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
        real = load.load_model

        def load_poisoned(*args: Any) -> Any:
            model = real(*args)
            ids = model.tokenize(POISON)
            with torch.no_grad():
                model.talker.text_embedding.weight[ids] = float("nan")
            return model

        monkeypatch.setattr(load, "load_model", load_poisoned)
        assert synth(bench, with_odd_row(text=f"Hello {POISON} there, my old friend.")) == 1
        assert_others_spoken(bench, {ODD})
        assert "NaN or infinite values twice" in bench.out().records[ODD]["error"]
        assert bench.out().report["device"]["max_batch"] == MAX_BATCH

    def test_no_end(self, bench: Workbench) -> None:
        """Its cap comes long before its end, three times."""
        assert synth(bench, with_odd_row(max_frames=6)) == 1
        assert_others_spoken(bench, {ODD})
        record = bench.out().records[ODD]
        assert (record["finish_reason"], record["attempts"]) == ("max_frames", 3)
        assert record["path"] == f"truncated/{ODD}.wav"


def test_eos_masked(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    """No row ever ends: each is told to be a runaway, after as many attempts as it has."""
    real: Callable[..., SamplingSlots] = Qwen3TTS.new_sampling

    def new_sampling(self: Qwen3TTS, num_slots: int) -> SamplingSlots:
        slots = real(self, num_slots)
        slots.suppress[self.config.codec.eos] = True
        return slots

    monkeypatch.setattr(Qwen3TTS, "new_sampling", new_sampling)
    assert synth(bench, ROWS, "--retries", 1, "--max-seconds", 4) == 1
    records = bench.out().records
    assert len(records) == len(ROWS)
    assert {record["status"] for record in records.values()} == {"failed"}
    assert {record["finish_reason"] for record in records.values()} == {"max_frames"}
    assert {record["attempts"] for record in records.values()} == {2}
    assert {record["frames"] for record in records.values()} == {50}


class TestMemory:
    """Half as many rows at once, and nothing lost."""

    def test_short_while_speaking(self, bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
        real = Qwen3TTS.decode_frames
        calls: list[int] = []

        def decode_frames(self: Qwen3TTS, bucket: int, count: int) -> None:
            real(self, bucket, count)
            calls.append(bucket)
            if bucket == MAX_BATCH and len(calls) >= 20:
                torch.empty(2**42, dtype=torch.uint8, device=self.device)  # 4 TiB

        monkeypatch.setattr(Qwen3TTS, "decode_frames", decode_frames)
        assert synth(bench, ROWS) == 0
        assert_others_spoken(bench, set())
        device = bench.out().report["device"]
        assert (device["memory_step_downs"], device["max_batch"]) == (1, MAX_BATCH // 2)
        assert max(calls[20:]) == MAX_BATCH // 2

    def test_short_while_capturing(self, bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
        """Graphs of the larger bucket are captured already and have to go."""
        real = Qwen3TTS.capture
        asked: list[int] = []

        def capture(self: Qwen3TTS, rows: int, *sizes: int) -> None:
            real(self, rows, *sizes)
            asked.append(rows)
            if rows == MAX_BATCH:
                torch.empty(2**42, dtype=torch.uint8, device=self.device)

        monkeypatch.setattr(Qwen3TTS, "capture", capture)
        assert synth(bench, ROWS) == 0
        assert asked == [MAX_BATCH, MAX_BATCH // 2]
        assert_others_spoken(bench, set())
        report = bench.out().report
        assert report["device"]["max_batch"] == MAX_BATCH // 2
        assert report["totals"]["graph_misses"] == 0
