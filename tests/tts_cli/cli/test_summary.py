"""What a run says at its end, and what it tells to type next."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import cases

from tts_cli.app.totals import add_result, run_totals
from tts_cli.cli import messages as msg
from tts_cli.cli.summary import next_step, summary_lines, take_lines
from tts_cli.config import RunConfig
from tts_cli.core import Finish, Role, Status
from tts_cli.engine.session import SessionFacts
from tts_cli.events import Event, Events
from tts_cli.store.entry import JournalEntry
from tts_cli.store.store import takes_bytes

CASES = cases(__file__)["summary"]

OUT = Path("wavs")
PLACE = msg.PLACE.format(folder="wavs/")
ARGS = ["synth", "my lines.jsonl", "--out", "wavs"]
TYPED = "tts-cli synth 'my lines.jsonl' --out wavs"


def failures(*records: tuple[str, str, str | None], num_invalid: int = 0) -> Events:
    """Of rows with an id, a reason and a finish_reason."""
    events = Events()
    for row_id, error, reason in records:
        end = None if reason is None else Finish(reason)
        take = JournalEntry(row_id, Status.FAILED, error=error, finish_reason=end, attempts=1)
        add_result(events, Event.FAILED, take)
    for _ in range(num_invalid):
        events.add(Event.RECORDED_INVALID)
    return events


def lines(events: Events, facts: SessionFacts | None = None, wall_s: float = 0.0) -> list[str]:
    return summary_lines(run_totals(events, facts, wall_s=wall_s), events, OUT)


def synthesized(count: int = 1, **facts: float) -> Events:
    """Of rows that are ok, and pending before."""
    events = Events()
    for _ in range(count):
        events.add(Event.PENDING)
        events.add(Event.SYNTHESIZED, **facts)
    return events


def test_closing_lines() -> None:
    events = failures(("a/b", "no end", "max_frames"))
    for kind, count in ((Event.PENDING, 7), (Event.DONE, 3), (Event.SYNTHESIZED, 6)):
        for _ in range(count):
            events.add(kind, **({"audio_s": 100.0} if kind is Event.SYNTHESIZED else {}))
    first, speed, load, failed, place = lines(events, SessionFacts(load_s=3.0), wall_s=2.0)
    assert first == msg.synthesized(6, 10, done=3, failed=1)
    assert speed == msg.SPEED.format(audio="10 min 00 s", wall="2.0 s", xrt=300.0)
    assert load == msg.SETUP.format(load="3.0 s")
    assert failed == "failed: a/b: no end"
    assert place == PLACE
    assert lines(synthesized()) == [msg.synthesized(1, 1), PLACE]
    graphs = SessionFacts(graph_hits=3, graph_misses=1)
    assert msg.NO_GRAPH.format(misses=1, steps=4) in lines(Events(), graphs)


@pytest.mark.parametrize(
    ("audio_s", "expected_s", "is_told"), CASES["audio_that_does_not_fit_its_texts"]
)
def test_audio_that_does_not_fit_its_texts(
    audio_s: float, expected_s: float, is_told: bool
) -> None:
    line = msg.LENGTH_IS_OFF.format(audio_s=audio_s, expected_s=expected_s)
    found = lines(synthesized(audio_s=audio_s, expected_s=expected_s))
    assert found[1:-1] == ([line] if is_told else [])


def test_rows_to_know_of_are_counted() -> None:
    assert lines(synthesized(1, is_suspect=1))[1] == msg.SUSPECT.format(rows="1 row is")
    assert lines(synthesized(3, is_suspect=1))[1] == msg.SUSPECT.format(rows="3 rows are")
    assert lines(synthesized(2, is_silent=1))[1] == msg.SILENT.format(rows="2 rows are")


def test_five_failures_and_a_count() -> None:
    """Thousands may fail; the summary, and what is kept for it, stay short."""
    why = "why\n" + "x" * 500
    many = failures(*((f"row{number}", why, None) for number in range(1000)), num_invalid=2)
    assert len(many.groups(Event.FAILED)) < 30
    found = lines(many)
    assert found[0] == msg.synthesized(0, 0, failed=1002)
    assert found[1].startswith("failed: row0: why xxx")
    assert len(found[1]) < 200
    assert found[5].startswith("failed: row4: ")
    assert found[6] == msg.FAILED_MORE.format(count=995)
    assert found[7] == msg.FAILED_INVALID.format(rows="2 invalid rows")


class TestNextStep:
    """The command to type, as a shell takes it."""

    def step(
        self,
        *flags: str,
        found: Events | None = None,
        is_stopped: bool = False,
        config: RunConfig | None = None,
    ) -> str | None:
        events = found or Events()
        return next_step([*ARGS, *flags], config or RunConfig(), events, is_stopped=is_stopped)

    def test_rows_that_failed(self) -> None:
        found = failures(("a", "cannot write", None))
        said = msg.NEXT_FAILED.format(command=f"{TYPED} --retry-failed")
        assert self.step(found=found) == said
        assert self.step("--overwrite", found=found) == said  # the two exclude each other
        again = RunConfig(retry_failed=True)
        assert self.step("--retry-failed", found=found, config=again) == said

    def test_runaways_need_more_seeds(self) -> None:
        """The same seeds would fail in the same way."""
        found = failures(("a", "no end", "max_frames"))
        said = msg.NEXT_FAILED.format(command=f"{TYPED} --retry-failed --retries")
        assert self.step(found=found) == f"{said} 6"
        assert self.step(found=found, config=RunConfig(retries=80)) == f"{said} 100"
        end = msg.RETRIES_USED_UP.format(count=100)
        assert self.step(found=found, config=RunConfig(retries=100)) == end

    def test_rows_that_no_seed_helps(self) -> None:
        """The same command would fail in the same way."""
        found = Events()
        add_result(
            found,
            Event.FAILED,
            JournalEntry("a", Status.FAILED, error="its text has no letter or digit"),
        )
        assert self.step(found=found) == msg.NEXT_FIX_CAUSES.format(command=TYPED)

    def test_bad_rows_want_mending(self) -> None:
        assert self.step(found=failures(num_invalid=1)) == msg.NEXT_FIXED.format(command=TYPED)


class TestTakes:
    def test_what_failed_of_them(self) -> None:
        config = RunConfig(takes=2)
        found = Events()
        add_result(
            found, Event.FAILED, JournalEntry("a", Status.FAILED, 3, Role.EXTRA, error="no end")
        )
        args = [*ARGS, "--takes", "2", "--only", "a"]
        assert next_step(args, config, found, is_stopped=False) is None, "the row's file is fine"
        assert found.of(Event.FAILED).first == ["a, take 3"]
        add_result(
            found, Event.FAILED, JournalEntry("b", Status.FAILED, error="no end", attempts=1)
        )
        wanted = msg.NEXT_FAILED.format(command=f"{TYPED} --only a --retry-failed")
        assert next_step(args, config, found, is_stopped=False) == wanted
        args[args.index("--takes") : args.index("--only")] = ["--takes=2"]
        assert next_step(args, config, found, is_stopped=False) == wanted

    def test_lines(self, tmp_path: Path) -> None:
        assert take_lines(0, 0, tmp_path, 0) == []
        (tmp_path / "takes/a").mkdir(parents=True)
        (tmp_path / "takes/a/1.wav").write_bytes(bytes(2000))
        (tmp_path / "takes/a/2.wav").write_bytes(bytes(5000))
        (tmp_path / "takes/a/3.source.wav").write_bytes(bytes(9000))  # of a converted file
        first, choose, room = take_lines(3, 2, tmp_path, takes_bytes(tmp_path))
        assert first == f"3 more takes of 2 rows in {tmp_path}/takes/"
        assert choose == msg.CHOOSE_TAKES.format(command=f"tts-cli pick {tmp_path}")
        assert room == msg.TAKES_SIZE.format(size="7.0 kB")
