"""Takes: more of a row, chosen ones, and that nothing is lost by speaking again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from workbench import THREE, UP_TO_A_SECOND, Result, Workbench

from tts_cli.cli import messages as msg
from tts_cli.named import counted

ROWS, FLAGS = THREE, UP_TO_A_SECOND


def pick(bench: Workbench, *choices: str) -> Result:
    return bench.run("pick", bench.out().path, *choices)


def choices(bench: Workbench) -> dict[str, Any]:
    found = json.loads((bench.out().path / "takes.json").read_text())
    assert found["schema"] == 1
    return dict(found["choices"])


def audio(bench: Workbench, name: str) -> bytes:
    return (bench.out().path / name).read_bytes()


class TestMoreTakes:
    def test_of_one_row(self, done: Workbench) -> None:
        before = done.out().files
        result = done.synth(ROWS, *FLAGS, "--only", "a", "--takes", 3).expect(0)
        assert result.summary == msg.synthesized(0, 1, done=1)
        assert "3 more takes of 1 row in " in result.out
        after = done.out().files
        assert {name: after[name] for name in before} == before
        takes = [after[name] for name in ("a.wav", *(f"takes/a/{n}.wav" for n in (2, 3, 4)))]
        assert len(set(takes)) == 4
        assert len(after) == len(before) + 3
        assert choices(done)["a"]["take"] == 1
        assert done.synth(ROWS, *FLAGS).out == msg.nothing_to_do(3) + "\n"
        folder = done.out().report["folder"]
        assert (folder["ok"], folder["failed"]) == (3, 0)

    def test_pick_lasts(self, done: Workbench) -> None:
        done.synth(ROWS, *FLAGS, "--only", "a", "--takes", 2).expect(0)
        first, chosen = audio(done, "a.wav"), audio(done, "takes/a/3.wav")
        assert pick(done, "a=3").out.startswith("a: take 3 (seed ")
        assert audio(done, "a.wav") == chosen
        assert audio(done, "takes/a/1.wav") == first
        assert not (done.out().path / "takes/a/3.wav").exists()
        assert choices(done)["a"]["held"] is True
        # Neither another seed nor a plain run replaces it.
        for flags in ((), ("--temperature", 0.4)):
            done.synth([ROWS[0]], *FLAGS, *flags)
            assert audio(done, "a.wav") == chosen
        assert (
            "pinned takes: 1 still fit, 0 do not fit" in done.synth(ROWS, *FLAGS, "--dry-run").out
        )
        # Another text does.
        changed = [{**ROWS[0], "text": "Hello you."}, *ROWS[1:]]
        dry = done.synth(changed, *FLAGS, "--dry-run")
        assert "pinned takes: 0 still fit, 1 do not fit any more" in dry.out
        result = done.synth(changed, *FLAGS)
        assert msg.PIN_DROPPED % (msg.PIN_CAUSES, msg.REDO, "") in result.err
        assert audio(done, "a.wav") != chosen
        assert audio(done, "takes/a/3.wav") == chosen
        assert done.synth(changed, *FLAGS).out.startswith(msg.nothing_to_do(3))
        assert choices(done)["a"] == {**choices(done)["a"], "take": 4, "held": False}

    def test_of_rows_that_are_not_spoken_yet(self, bench: Workbench) -> None:
        result = bench.synth(ROWS, *FLAGS, "--takes", 2, "--only", "a,c").expect(0)
        assert result.summary == msg.synthesized(2, 2)
        assert "4 more takes of 2 rows in " in result.out
        wanted = {f"takes/{row}/{n}.wav" for row in "ac" for n in (2, 3)} | {"a.wav", "c.wav"}
        assert set(bench.out().files) == wanted
        assert bench.out().report["totals"]["takes"] == 4
        assert bench.out().report["folder"]["ok"] == 2
        # Takes have seeds of their own, and are the same wherever they are made.
        bench.synth(ROWS, *FLAGS, "--takes", 2, out="all").expect(0)
        again = bench.out("all").files
        assert {name: again[name] for name in wanted} == {
            name: data for name, data in bench.out().files.items() if name in wanted
        }

    def test_a_run_that_was_killed_is_gone_on_with(self, done: Workbench) -> None:
        """Rows that it had served got one take more."""
        done.synth(ROWS, *FLAGS, "--takes", 2).expect(0)
        wanted, out = done.out().files, done.out().path
        journal, runs = out / "timings.jsonl", out / "runs.jsonl"
        whole, ended = journal.read_bytes(), runs.read_bytes().splitlines(True)
        for left in (1, 4, 0):
            journal.write_bytes(b"".join(whole.splitlines(True)[: -left or None]))
            runs.write_bytes(ended[0])
            result = done.synth(ROWS, *FLAGS, "--takes", 2).expect(0)
            assert done.out().files == wanted, left
        assert "the last run was interrupted, but its takes are complete" in result.out
        # That has ended now, so there are as many more. Runs that did not count by what they spoke.
        for num_takes, only, told in (
            (2, (), "6 more takes of 3 rows"),
            (4, ("--only", "a"), "2 more takes of 1 row "),
            (3, ("--only", "a,c"), "1 more take of 1 row "),
        ):
            result = done.synth(ROWS, *FLAGS, "--takes", num_takes, *only)
            assert told in result.out, result
            runs.write_bytes(b"".join(runs.read_bytes().splitlines(True)[:2]))

    def test_rows_that_draw_nothing_have_one(self, done: Workbench) -> None:
        rows = [{**ROWS[0], "greedy": True}]
        result = done.synth(rows, *FLAGS, "--takes", 2, "--accept-truncated")
        assert "1 row is greedy, so every take would be the same" in result.err


class TestOverwrite:
    def test_another_seed_is_a_choice(self, done: Workbench) -> None:
        """A plain run silently replaced it."""
        before = done.out().files
        done.synth(ROWS, *FLAGS, "--overwrite", "--seed", 9, "--limit", 1).expect(0)
        chosen = audio(done, "a.wav")
        assert chosen != before["a.wav"] == audio(done, "takes/a/1.wav")
        assert choices(done)["a"] == {**choices(done)["a"], "take": 2, "held": True}
        assert done.synth(ROWS, *FLAGS).out == msg.nothing_to_do(3) + "\n"
        assert audio(done, "a.wav") == chosen
        pick(done, "a=seed:0").expect(0)
        assert audio(done, "a.wav") == before["a.wav"]
        pick(done, "a=seed:9").expect(0)
        assert audio(done, "a.wav") == chosen

    def test_a_row_that_fails_keeps_its_file(self, done: Workbench) -> None:
        before = done.out().files
        rows = [{**ROWS[0], "text": "Other.", "max_frames": 2}, *ROWS[1:]]
        done.synth(rows, *FLAGS).expect(1)
        assert audio(done, "a.wav") == before["a.wav"]
        folder = done.out().report["folder"]
        assert (folder["ok"], folder["failed"]) == (2, 1)
        done.synth(rows, *FLAGS, "--retry-failed", "--accept-truncated").expect(0)
        assert audio(done, "takes/a/1.wav") == before["a.wav"]
        assert audio(done, "a.wav") != before["a.wav"]
        assert done.out().records["a"]["take"] == 2


class TestPick:
    @pytest.fixture
    def taken(self, done: Workbench) -> Workbench:
        done.synth(ROWS, *FLAGS, "--only", "a", "--takes", 1).expect(0)
        return done

    def test_a_format_keeps_the_choice(self, taken: Workbench) -> None:
        """Its file is made of what is kept, or spoken with its own seed."""
        pick(taken, "a=2").expect(0)
        before = taken.out().files
        for flags in (("--subtype", "PCM_24"), ("--subtype", "PCM_16")):
            made = taken.synth(ROWS, *FLAGS, *flags)
            assert made.out == msg.NOTHING_BUT_CONVERTED.format(files=counted(3, "file")) + "\n"
            line = taken.out().records["a"]
            assert (line["take"], line["role"], line["path"]) == (2, "held", "a.wav")
            assert taken.synth(ROWS, *FLAGS, *flags).out.startswith(
                msg.NOTHING_TO_DO.format(reason="")
            )
        assert {name: taken.out().files[name] for name in before} == before
        # With codes, which were not kept.
        spoken = taken.synth(ROWS, *FLAGS, "--format", "flac", "--save-codes")
        assert spoken.summary == msg.synthesized(3, 3)
        assert msg.CANNOT_CONVERT.split(";")[0].split(":")[0] % msg.rows_are(3) in spoken.err
        line = taken.out().records["a"]
        assert (line["take"], line["role"]) == (3, "held")
        assert audio(taken, "takes/a/2.wav") == before["a.wav"]
        assert taken.synth(ROWS, *FLAGS, "--forget", "all").out.startswith(
            msg.NOTHING_BUT_CONVERTED.format(files=counted(3, "file"))
        )
        assert audio(taken, "a.wav") == before["a.wav"]

    def test_a_pinned_take_of_these_settings_is_counted(self, taken: Workbench) -> None:
        pick(taken, "a=1").expect(0)
        out = taken.synth(ROWS, *FLAGS, "--dry-run").out
        assert "pinned takes: 1 still fit, 0 do not fit" in out

    def test_what_is_not_there(self, taken: Workbench) -> None:
        before = taken.out().lines
        for choice, said in {
            "a=7": "a has no take 7; its takes are: take 1 (seed ",
            "a=seed:77": "a has no take of seed 77; its takes are: take 1 (seed ",
            "b=1": "has no row 'b' (nearest: 'sub/b'",
            "a": "'a' is not of the form ID=TAKE or ID=seed:N, such as line7=2",
        }.items():
            pick(taken, "c=1", choice).expect(2, said)
        pick(taken, "a=1", "a=2").expect(2)
        assert taken.out().lines == before
        taken.run("pick", taken.folder, "a=1").expect(
            2, "has no timings.jsonl; give an output folder of synth"
        )

    def test_a_list(self, taken: Workbench) -> None:
        pick(taken, "c=1").expect(0)
        found = taken.run("pick", taken.out().path, "--json").json
        assert [(take["id"], take["take"], take["chosen"]) for take in found] == [
            ("a", 1, "yes"), ("a", 2, None), ("c", 1, "held"),
        ]  # fmt: skip
        lines = pick(taken).out.splitlines()
        assert lines[1].split()[:4] == ["row", "take", "chosen", "seed"]
        assert len(lines) == 5

    def test_an_old_line_without_a_hash_of_content(self, done: Workbench) -> None:
        path = done.out().path / "timings.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            del line["content_hash"], line["role"]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        pick(done, "a=1").expect(0)
        assert done.synth(ROWS, *FLAGS, "--only", "a", "--seed", 4).out.startswith(
            msg.NOTHING_TO_DO.format(reason="")
        )
        rows = [{**ROWS[0], "voice": "emil"}]
        assert done.synth(rows, *FLAGS, "--seed", 4).summary == msg.synthesized(1, 1)


class TestOnly:
    def test_a_row_that_the_manifest_lacks(self, done: Workbench) -> None:
        before = done.out().lines
        done.synth(ROWS, *FLAGS, "--only", "a,d", "--overwrite").expect(
            2, "rows.jsonl has no row 'd'"
        )
        assert done.out().lines == before
