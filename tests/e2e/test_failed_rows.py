"""One row failing never ends the batch: runaways, NaN, texts too long, things in the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from workbench import MakeCheckpoint, Workbench

from tts_cli.cli import messages as msg
from tts_cli.engine.pieces import Attempt
from tts_cli.engine.scheduler import Scheduler
from tts_cli.seeds import attempt_seed, row_seed

TEXTS = ("Hello there.", "Good morning.", "Hm.", "The rain in the street.")
ROWS = [{"id": f"row{number}", "text": TEXTS[number % 4]} for number in range(8)]
FLAGS = ("--max-seconds", 1, "--save-codes")
FRAME_S = 0.0025


@pytest.fixture
def short_caps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Usual caps of 64 frames and three a byte, as frames of 80 ms get; here they are shorter."""
    monkeypatch.setattr("tts_cli.text.words.CAP_S", 64 * FRAME_S)
    monkeypatch.setattr("tts_cli.text.words.CAP_S_PER_BYTE", 3 * FRAME_S)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The seeds of all attempts, in order."""
    seeds: list[int] = []
    offer = Scheduler.offer

    def noted(
        self: Scheduler[Attempt], item: Attempt, estimate: float, tokens: int = 0, **more: bool
    ) -> None:
        seeds.append(item.prompt.request.seed)
        offer(self, item, estimate, tokens, **more)

    monkeypatch.setattr(Scheduler, "offer", noted)
    return seeds


class TestRunaways:
    """Rows that reach their cap: other seeds first, then reported, never passed off as speech."""

    ROW = ({"id": "sub/x", "text": "Hello there.", "max_frames": 12},)

    def test_retried_then_failed_and_kept_apart(self, bench: Workbench, endless: Path) -> None:
        result = bench.synth(self.ROW, "--save-codes", model=endless).expect(1)
        assert result.out.startswith(msg.synthesized(0, 1, failed=1) + "\n")
        reason = (
            "its audio did not end within 12 frames (0.0 s) in 3 attempts; its audio is in "
            "truncated/"
        )
        assert f"warning: row sub/x failed: {reason}\n" in result.err
        out = bench.out()
        record = out.records["sub/x"]
        assert (record["status"], record["finish_reason"]) == ("failed", "max_frames")
        assert (record["attempts"], record["frames"]) == (3, 12)
        assert record["path"] == "truncated/sub/x.wav"
        assert list(out.files) == ["truncated/sub/x.codes.safetensors", "truncated/sub/x.wav"]
        assert len(out.samples(record["path"])) == 12 * 60
        totals = out.report["totals"]
        assert totals["audio_s"] == 0
        assert totals["decoded_s"] == pytest.approx(3 * 12 * FRAME_S)
        # The audio and the seed are those of the last attempt.
        first = row_seed(0, "sub/x")
        assert record["seed"] == attempt_seed(first, 3)
        row = {**self.ROW[0], "seed": record["seed"]}
        flags = ("--save-codes", "--accept-truncated")
        bench.synth([row], *flags, model=endless, out="again").expect(0)
        assert list(bench.out("again").files.values()) == list(out.files.values())

    @pytest.mark.parametrize("again", [(), ("--retry-failed",)])
    def test_a_rerun_goes_on_with_further_seeds(
        self, bench: Workbench, endless: Path, drawn: list[int], again: tuple[str, ...]
    ) -> None:
        """It began with the same seeds, which ended as they had before."""
        bench.synth(self.ROW, "--retries", 1, model=endless).expect(1)
        bench.synth(self.ROW, "--retries", 2, *again, model=endless).expect(1)
        record = bench.out().records["sub/x"]
        first = row_seed(0, "sub/x")
        assert drawn == [first, *(attempt_seed(first, number) for number in (2, 3, 4, 5))]
        assert (record["attempts"], record["seed"]) == (5, drawn[-1])
        assert "in 5 attempts" in record["error"]
        other = [{**self.ROW[0], "max_frames": 11}]  # where the first seed may do
        bench.synth(other, "--retries", 0, model=endless).expect(1)
        assert drawn[5:] == [first]


class TestEarlyEnds:
    """Rows whose speech is too short for their text: like runaways."""

    ROW = ({"id": "x", "text": "Good morning, all of you."},)
    FLAGS = (*FLAGS, "--split", "off")

    @pytest.fixture
    def hasty(self, make_checkpoint: MakeCheckpoint) -> Path:
        """A checkpoint that says it speaks far slower than it does."""
        folder = make_checkpoint()
        config = json.loads((folder / "config.json").read_text())
        config |= {"least_frames_per_letter": 50, "longest_chars": 20}
        (folder / "config.json").write_text(json.dumps(config))
        return folder

    def test_retried_then_failed_and_kept_apart(self, bench: Workbench, hasty: Path) -> None:
        bench.synth(self.ROW, *self.FLAGS, model=hasty).expect(
            1, "1 row is longer than the 20 characters or so"
        )
        out = bench.out()
        record = out.records["x"]
        assert (record["status"], record["finish_reason"]) == ("failed", "early")
        assert (record["attempts"], record["path"]) == (3, "truncated/x.wav")
        length = f"{record['frames']} frames ({record['audio_s']:.1f} s)"
        assert record["error"] == (
            f"its audio ended after {length} in 3 attempts; its text takes at least 402 frames; "
            "its audio is in truncated/"
        )
        assert list(out.files) == ["truncated/x.codes.safetensors", "truncated/x.wav"]
        assert record["seed"] == row_seed(row_seed(0, "x"), "attempt 3")


class TestNaN:
    def test_only_its_own_row_fails(self, bench: Workbench, poisoned: Path) -> None:
        bad = {"id": "bad", "text": "Good ~ morning."}
        bench.synth_once(ROWS, *FLAGS, model=poisoned, out="clean")
        rows = [*ROWS[:2], bad, *ROWS[2:]]
        bench.synth(rows, *FLAGS, model=poisoned).expect(
            1, "row bad failed: the model returned NaN or infinite values twice"
        )
        record = bench.out().records["bad"]
        assert (record["status"], record["attempts"], record["path"]) == ("failed", 2, None)
        assert record["latency_ms"] > 0
        assert bench.out().files == bench.out("clean").files


@pytest.mark.parametrize("limit", ["2", "10%"])
def test_a_wrong_checkpoint_does_not_fail_everything(
    bench: Workbench, endless: Path, limit: str
) -> None:
    """A hundred thousand rows were spoken to their caps three times over before anybody looked."""
    rows = [{"id": f"row{number:02d}", "text": "Hm.", "max_frames": 4} for number in range(24)]
    flags = ("--max-failures", limit, "--retries", 0, "--max-batch", 2)
    bench.synth(rows, *flags, model=endless).expect(
        4, "rows have failed, more than --max-failures allows"
    )
    assert 3 <= len(bench.out().records) < len(rows)
    assert bench.out().report["exit_code"] == 4
    bench.synth(rows, "--max-failures", "1/2", model=endless).expect(2)


@pytest.mark.usefixtures("short_caps")
def test_a_text_longer_than_the_cache_fails_alone(
    bench: Workbench, make_checkpoint: MakeCheckpoint
) -> None:
    small = make_checkpoint()
    config = json.loads((small / "config.json").read_text())
    config["talker_config"]["max_position_embeddings"] = 300
    (small / "config.json").write_text(json.dumps(config))
    rows = [*ROWS[:2], {"id": "long", "text": "A" * 200}, {"id": "capped", "text": "B" * 200}]
    rows[-1] |= {"max_frames": 50}
    bench.synth(rows, "--accept-truncated", model=small).expect(1)
    error = bench.out().records["long"]["error"]
    assert error == (
        "210 prompt tokens and 664 frames are more than the 300 positions of this checkpoint; "
        "split the text or lower max_frames"
    )
    assert bench.out().status() == {"row0": "ok", "row1": "ok", "long": "failed", "capped": "ok"}
    told = bench.run("validate", bench.write(rows), "--model", small)
    assert told.code == 1  # as synth ends
    assert f":3: id 'long': {error}; the row will fail" in told.err
    assert "capped" not in told.err
