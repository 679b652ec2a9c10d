"""Rows that the manifest no longer has: told, taken out by --prune, back without being spoken."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from workbench import THREE, UP_TO_A_SECOND, Rows, Workbench, finish

from tts_cli.cli import messages as msg

ROWS, FLAGS = THREE, UP_TO_A_SECOND
DONE = msg.nothing_to_do(1) + "\n"
PRUNED = {"a.wav", "takes/sub/b/1.wav", "takes/c/1.wav"}


class TestTold:
    def test_and_nothing_else(self, done: Workbench) -> None:
        before = done.out().files
        result = done.synth(ROWS[:1], *FLAGS)
        manifest, out = done.folder / "rows.jsonl", done.out().path
        line = f"2 rows in {out}/ are no longer in {manifest}: "
        assert result.out.startswith(DONE + line)
        assert result.out.endswith("; --prune removes them\n")
        assert set(result.out.split(": ")[2].split(";")[0].split(", ")) == {"c", "sub/b"}
        assert done.out().files == before
        assert result.code == 0

    def test_beside_what_is_spoken(self, done: Workbench) -> None:
        result = done.synth([*ROWS[:2], {"id": "d", "text": "New."}], *FLAGS)
        assert f"1 row in {done.out().path}/ is no longer in " in result.out
        assert "rows.jsonl: c; --prune removes it\n" in result.out
        assert done.out().report["totals"]["strays"] == 1

    def test_by_a_dry_run(self, done: Workbench) -> None:
        before = done.out().files
        result = done.synth(ROWS[:2], *FLAGS, "--dry-run", "--prune")
        assert "no longer in the manifest: 1 row, moved to takes/: c\n" in result.out
        found = json.loads(done.synth(ROWS[:2], *FLAGS, "--dry-run", "--json").out)
        assert (found["strays"], found["back"]) == (1, 0)
        assert done.out().files == before

    @pytest.mark.parametrize(
        "flags", [("--limit", 1), ("--only", "a"), ("--shard", "1/2"), ("--prune", "--limit", 1)]
    )
    def test_rows_behind_flags_are_none(self, done: Workbench, flags: tuple[str, ...]) -> None:
        before = done.out().files
        assert "no longer" not in done.synth(ROWS, *FLAGS, *flags).out
        assert done.out().files == before

    def test_rows_of_a_renamed_project_were_of_another_manifest(self, done: Workbench) -> None:
        moved = done.folder / "moved"
        moved.mkdir()
        done.out().path.rename(moved / "wavs")
        manifest = done.write(ROWS[:2]).rename(moved / "rows.jsonl")
        given = ("--out", moved / "wavs", "--model", done.model, "--device", "cpu", *FLAGS)
        result = done.run("synth", manifest, *given)
        assert "rows.jsonl: c; --prune removes it\n" in result.out

    def test_a_manifest_that_was_renamed_left_its_rows_without_a_word(
        self, done: Workbench
    ) -> None:
        (done.folder / "rows.jsonl").unlink()
        result = done.synth(done.write(ROWS[:2], "renamed.jsonl"), *FLAGS, "--prune")
        assert "renamed.jsonl: c; not removed: from a pipe, an unknown run or a " in (result.out)
        done.synth(done.write([*ROWS[:2], {"id": "d", "text": "New."}], "renamed.jsonl"), *FLAGS)
        again = done.run("again", done.out().path, "--print").expect(0)
        assert len(again.out.splitlines()) == 1
        assert "renamed.jsonl" in again.out
        assert f"{done.folder / 'rows.jsonl'}: no such file" in again.err

    def test_another_manifest_with_the_same_ids_replaced_rows_without_a_word(
        self, done: Workbench
    ) -> None:
        """As the numbers of lines are, in two plain texts."""
        other = [{"id": "a", "text": "Goodbye."}, ROWS[1]]
        told = "1 row replaces a row of"
        assert f"{told} {done.folder / 'rows.jsonl'} with the same ids: a. The earlier" in (
            done.synth(done.write(other, "other.jsonl"), *FLAGS).err
        )
        edited = done.write([{**other[0], "text": "So long."}, ROWS[1]], "other.jsonl")
        assert told not in done.synth(edited, *FLAGS).err

    def test_rows_of_other_manifests_are_none(self, done: Workbench) -> None:
        other = done.write([{"id": "d", "text": "New."}], "other.jsonl")
        assert "no longer" not in done.synth(other, *FLAGS, "--prune").out
        both = [done.folder / "rows.jsonl", other]
        given = ("--out", done.out().path, "--model", done.model, "--device", "cpu", *FLAGS)
        done.write(ROWS[:2])
        assert "no longer" not in done.run("synth", other, *given, "--prune").out
        assert ": c; --prune removes it" in done.run("synth", *both, *given).out

    def test_rows_of_a_pipe_stay(self, bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
        text = "".join(json.dumps(row) + "\n" for row in ROWS)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        bench.run(*bench.command("-", *FLAGS)).expect(0)
        before = bench.out().files
        result = bench.synth(ROWS[:2], *FLAGS, "--prune")
        assert "rows.jsonl: c; not removed: from a pipe, an unknown run or" in result.out
        assert bench.out().files == before

    def test_rows_of_unknown_runs_stay(self, done: Workbench) -> None:
        (done.out().path / "runs.jsonl").unlink()
        before = done.out().files
        result = done.synth(ROWS[:2], *FLAGS, "--prune")
        assert "rows.jsonl: c; not removed: from a pipe, an unknown run or" in result.out
        assert done.out().files == before


class TestPruned:
    def test_moved_and_back(self, done: Workbench) -> None:
        done.synth(ROWS, *FLAGS, "--only", "sub/b", "--takes", 2).expect(0)
        done.run("pick", done.out().path, "sub/b=3").expect(0)
        before = done.out().files
        result = done.synth(ROWS[:1], *FLAGS, "--prune")
        out = done.out().path
        manifest = done.folder / "rows.jsonl"
        assert result.out.startswith(f"{DONE}2 rows are no longer in {manifest}: ")
        assert result.out.endswith(f"; moved to {out}/takes/\n")
        moved = {"sub/b.wav": "takes/sub/b/3.wav", "c.wav": "takes/c/1.wav"}
        files = done.out().files
        assert files == {moved.get(name, name): data for name, data in before.items()}
        folder = done.out().report["folder"]
        assert (folder["ok"], folder["failed"]) == (1, 0)
        assert json.loads((out / "takes.json").read_text())["choices"] == {}
        assert done.synth(ROWS[:1], *FLAGS, "--prune").out == DONE
        assert "has no row 'c'" in done.run("pick", out, "c=1").err
        # Back without being spoken, the chosen take too.
        lines = len(done.out().lines)
        result = done.synth(ROWS, *FLAGS)
        assert result.out == msg.nothing_to_do(3) + "\n"
        assert "2 rows are restored" in result.err
        assert done.out().files == before
        assert len(done.out().lines) == lines + 2
        assert json.loads((out / "takes.json").read_text())["choices"]["sub/b"]["take"] == 3

    def test_no_command_shows_them(self, done: Workbench) -> None:
        done.synth(ROWS[:1], *FLAGS, "--prune")
        out = done.out().path
        assert "1 row checked" in done.run("check", out).out
        data = done.folder / "data"
        done.run("export", out, "--to", "ljspeech", "--out", data).expect(0)
        assert (data / "metadata.csv").read_text().count("\n") == 1
        assert "1 file written" in done.run("encode", out, "--format", "flac").out
        merged = done.folder / "merged"
        assert "1 row ok, 0 failed" in done.run("merge", out, "--out", merged).out
        assert set(done.out("merged").records) == {"a"}

    def test_beside_what_is_spoken(self, done: Workbench) -> None:
        result = done.synth([ROWS[0], {"id": "d", "text": "New."}], *FLAGS, "--prune")
        assert "2 rows are no longer in " in result.out
        assert set(done.out().files) == {*PRUNED, "d.wav"}
        totals = done.out().report["totals"]
        assert (totals["strays"], totals["removed"], totals["ok"]) == (2, 2, 1)

    def test_another_text_is_another_take(self, done: Workbench) -> None:
        old = done.out().files["c.wav"]
        done.synth(ROWS[:2], *FLAGS, "--prune")
        changed = [*ROWS[:2], {"id": "c", "text": "Quite another text."}]
        assert done.synth(changed, *FLAGS).summary.startswith(msg.synthesized(1, 3))
        assert done.out().records["c"]["take"] == 2
        new = done.out().files["c.wav"]
        done.synth(ROWS[:2], *FLAGS, "--prune")
        files = done.out().files
        assert (files["takes/c/1.wav"], files["takes/c/2.wav"]) == (old, new)
        assert done.synth(changed, *FLAGS).out.startswith(msg.NOTHING_TO_DO.format(reason=""))
        assert done.out().files["c.wav"] == new

    def test_waits_for_ids_that_can_be_read(self, done: Workbench) -> None:
        before = done.out().files
        rows = [ROWS[0], {"id": "sub/b!", "text": "Good morning."}]
        result = done.synth(rows, *FLAGS, "--prune", "--skip-invalid")
        assert "no row is removed while some ids of the manifest cannot be read" in result.err
        assert done.out().files == before

    def test_rows_of_a_killed_run(self, bench: Workbench) -> None:
        """Its manifests are known: they were written down before its first row."""
        slow = "import tts_cli.store.files as w, time\nreal = w.AudioWriter.make\n"
        slow += "w.AudioWriter.make = lambda *a, **k: (real(*a, **k), time.sleep(0.4))[0]"
        process = bench.start(bench.command(bench.write(ROWS), *FLAGS), slow)
        bench.wait_for_rows(1, process)
        process.kill()
        finish(process)
        (first,) = bench.out().runs
        assert (first["ended"], first["totals"]) == (None, None)
        spoken = bench.out().lines[0]["id"]
        left = [row for row in ROWS if row["id"] != spoken]
        result = bench.synth(left, *FLAGS, "--prune")
        assert "1 row is no longer in " in result.out
        assert f"takes/{spoken}/1.wav" in bench.out().files


BAD: Rows = [ROWS[0], {"id": "no id!", "text": "Hm."}]


class TestGhosts:
    def fails(self, bench: Workbench) -> bool:
        """Whether `check` tells of rows without audio; random weights are suspect in any case."""
        return "failed (no audio)" in bench.run("check", bench.out().path).out

    def test_a_mended_row_leaves_no_trace(self, bench: Workbench) -> None:
        bench.synth(BAD, *FLAGS, "--skip-invalid").expect(1)
        assert self.fails(bench)
        bench.synth([ROWS[0], ROWS[2]], *FLAGS).expect(0)
        assert not self.fails(bench)
        assert bench.out().report["folder"]["failed"] == 0

    def test_one_that_is_still_bad_stays(self, bench: Workbench) -> None:
        bench.synth(BAD, *FLAGS, "--skip-invalid")
        lines = bench.out().lines
        bench.synth(BAD, *FLAGS, "--skip-invalid").expect(1)
        assert bench.out().lines == lines


BOOK = """# The Ferry

The ferryman had not slept, and the river was high that night.

{} turned her head, and she did not look at the river any more.

He waited for her on the bank until the first snow of the year came.
"""


class TestBooks:
    @pytest.fixture
    def checkpoint(self, longer: Path) -> Path:
        return longer

    def speak(self, bench: Workbench, text: str, *flags: object) -> Any:
        path = bench.folder / "story.md"
        path.write_text(text)
        given = ("--out", bench.out().path, "--model", bench.model, "--device", "cpu", *FLAGS)
        return bench.run("book", path, *given, *flags)

    def test_another_book_is_refused(self, bench: Workbench) -> None:
        self.speak(bench, BOOK.format("Ann")).expect(0)
        before = bench.out().files
        other = "# Other\n\nQuite another book is in here, and it has no river in it.\n"
        self.speak(bench, other).expect(
            2, f"{bench.out().path}: contains another book: only 0 of its 4 rows are in this one"
        )
        assert bench.out().files == before
        self.speak(bench, other, "--prune").expect(0)
        assert sum(name.startswith("takes/sentences/") for name in bench.out().files) == 4
