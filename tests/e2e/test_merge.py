"""Folders of shards become one: the proof is that `synth` of the whole manifest finds it done."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_fish_speech as tiny
from made_voices import NAME, VOICE, keep
from made_voices import names as made_names
from spoken_folders import record, tone, with_file, write_folder
from tiny_fish_codec import SMALL
from workbench import Store, Workbench, as_jsonl, finish

from tts_cli.checks.verdicts import TakeVerdict, read_verdicts, write_verdicts
from tts_cli.checks.word_times import TimedWord, WordTimes, read_words, textgrid, words_vtt
from tts_cli.cli import messages as msg
from tts_cli.store.lock import FolderLock

ROWS = [{"id": f"part{n % 2}/{n:03d}", "text": f"Line number {n}."} for n in range(8)]
CAP = ("--max-seconds", 0.2, "--accept-truncated")


@pytest.fixture
def shards(bench: Workbench) -> Path:
    """The manifest, and folders `one` and `two` of its halves."""
    for part, name in ((1, "one"), (2, "two")):
        args = (*CAP, "--save-codes", "--subtitles", "srt", "--shard", f"{part}/2")
        bench.synth_once(ROWS, *args, out=name)
    return bench.folder / "rows.jsonl"


def merge(bench: Workbench, *args: object, out: str = "all", code: int = 0) -> str:
    """Merge folders, which must end with a code; returns all that is said."""
    result = bench.run("merge", *args, "--out", bench.folder / out).expect(code)
    return result.out + result.err


def names(folder: Path) -> dict[str, bytes]:
    """Everything in a folder, by path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def folder(bench: Workbench, name: str, *lines: dict[str, object], **files: bytes) -> Path:
    """A folder without speaking: each record's file is a tone."""
    audio = files or {str(line["path"]): tone(0.1) for line in lines if line["path"] is not None}
    return write_folder(bench.folder / name, lines, audio=audio)


def test_after_it_synth_has_nothing_to_do(bench: Workbench, shards: Path) -> None:
    one, two = bench.out("one"), bench.out("two")
    before = [names(part.path) for part in (one, two)]
    assert one.records
    assert two.records
    said = merge(bench, one.path, two.path)
    assert "8 rows ok, 0 failed" in said
    assert "8 rows added from 2 folders, 0 files linked, 24 copied" in said
    done = bench.out("all")
    assert done.files == {**one.files, **two.files}
    for row in ROWS:
        path = done.path / f"{row['id']}.wav"
        assert path.stat().st_nlink == 1
    assert [run["run_id"] for run in done.runs] == [
        run["run_id"] for part in (one, two) for run in part.runs
    ]
    report = done.report
    assert report["run_id"] == two.report["run_id"]
    assert report["folder"]["ok"] == 8
    assert [entry["ok"] for entry in report["merged_from"]] == [len(one.records), len(two.records)]
    flags = (*CAP, "--save-codes", "--subtitles", "srt", "--verify-files")
    again = bench.synth(shards, *flags, out="all").expect(0)
    assert msg.NOTHING_TO_DO.format(reason="") in again.out + again.err
    assert [names(part.path) for part in (one, two)] == before
    bench.run("report", done.path).expect(0)
    bench.run("encode", done.path, "--format", "flac").expect(0)
    assert len(list(done.path.rglob("*.flac"))) == 8


def test_takes_and_choices_come_along(bench: Workbench, shards: Path) -> None:
    one, two = bench.folder / "one", bench.folder / "two"
    row_id = next(iter(bench.out("two").records))
    flags = ("--save-codes", "--only", row_id, "--takes", 2)
    bench.synth(shards, *CAP, *flags, out="two").expect(0)
    bench.run("pick", two, f"{row_id}=3").expect(0)
    chosen = (two / f"{row_id}.wav").read_bytes()
    merge(bench, one, two)
    done = bench.folder / "all"
    assert (done / f"{row_id}.wav").read_bytes() == chosen
    assert json.loads((done / "takes.json").read_text())["choices"][row_id]["take"] == 3
    again = bench.synth(shards, *CAP, "--save-codes", "--subtitles", "srt", out="all")
    assert msg.NOTHING_TO_DO.format(reason="") in again.out + again.err
    bench.run("pick", done, f"{row_id}=1").expect(0)
    assert (done / f"{row_id}.wav").read_bytes() == (two / "takes" / row_id / "1.wav").read_bytes()
    assert (two / f"{row_id}.wav").read_bytes() == chosen


def test_again_changes_nothing_and_a_folder_may_come_later(bench: Workbench, shards: Path) -> None:
    one, two = bench.folder / "one", bench.folder / "two"
    merge(bench, one)
    first = names(bench.folder / "all")
    merge(bench, one)
    assert names(bench.folder / "all") == first
    merge(bench, two)
    merge(bench, one, two, out="at_once")
    later, at_once = bench.out("all"), bench.out("at_once")
    assert later.files == at_once.files
    assert later.records == at_once.records
    assert later.report == at_once.report


def test_a_row_mended_later_leaves_no_runaway(bench: Workbench) -> None:
    failed = {"status": "failed", "path": "truncated/a.wav", "error": "no end"}
    one = folder(bench, "one", record("a", **failed))
    merge(bench, one)
    assert sorted(bench.out("all").files) == ["truncated/a.wav"]
    two = folder(bench, "two", record("a", **with_file(tone(0.1))))
    merge(bench, one, two)
    assert sorted(bench.out("all").files) == ["a.wav"]
    assert bench.out("all").status() == {"a": "ok"}


def test_conflicts_are_named_before_anything_is_written(bench: Workbench) -> None:
    count = 23
    ids = [f"row{n:02d}" for n in range(count)]
    short, long = tone(0.1), tone(0.2)
    one = folder(
        bench, "one", *(record(i, **with_file(short)) for i in ids),
        **{f"{i}.wav": short for i in ids},
    )  # fmt: skip
    two = folder(
        bench, "two", *(record(i, **with_file(long)) for i in [*ids, "more"]),
        **{f"{i}.wav": long for i in [*ids, "more"]},
    )  # fmt: skip
    said = merge(bench, one, two, code=2)
    assert f"{count} rows have different audio in another folder; nothing was written" in said
    assert f"row00: {one}, {two}" in said
    assert "row19" in said
    assert "row20" not in said
    assert "and 3 more" in said
    assert "--prefer DIR" in said
    assert not list((bench.folder / "all").iterdir())
    said = merge(bench, one, two, "--prefer", two)
    assert (bench.folder / "all" / "row00.wav").read_bytes() == long
    # What a target has is never replaced.
    said = merge(bench, one, code=2)
    assert "merge into another --out" in said
    assert (bench.folder / "all" / "row00.wav").read_bytes() == long
    merge(bench, one, "--prefer", bench.folder / "all")


def test_lines_without_a_sum_are_compared_by_their_files(bench: Workbench) -> None:
    old = {"id": "a", "status": "ok", "request_hash": "cc", "path": "a.wav"}
    files = {"one": tone(0.1), "two": tone(0.1, hz=300.0), "three": tone(0.1)}
    for name, content in files.items():
        folder(bench, name, old, **{"a.wav": content})
    said = merge(bench, bench.folder / "one", bench.folder / "two", code=2)
    assert "1 row has different audio" in said
    merge(bench, bench.folder / "one", bench.folder / "three")


def test_ids_that_differ_in_letter_case_are_a_conflict(bench: Workbench) -> None:
    one = folder(bench, "one", record("a", **with_file(tone(0.1))))
    two = folder(bench, "two", record("A", **with_file(tone(0.1))))
    said = merge(bench, one, two, code=2)
    assert f"A: {one}, {two}" in said
    merge(bench, one, two, "--prefer", two)
    assert list(bench.out("all").files) == ["A.wav"]


def test_checks_come_along(bench: Workbench) -> None:
    parts = []
    for name, other in (("one", "two"), ("two", "one")):
        lines = [record(name, **with_file(tone(0.1))), record(f"of-{name}")]
        lines.append(record(f"bad-{other}", status="failed", path=None))
        lines.append(record(f"bad-{name}", **with_file(tone(0.1))))
        part = folder(bench, name, *lines)
        digest = str(with_file(tone(0.1))["sha256"])
        write_verdicts(part, [TakeVerdict(row, 1, digest, "ok") for row in (name, f"bad-{other}")])
        (part / "anchor.json").write_text("{}")  # of an early version
        parts.append(part)
    said = merge(bench, *parts)
    assert "no row's" not in said
    done = bench.folder / "all"
    assert not (done / "anchor.json").exists()
    assert [check.id for check in read_verdicts(done)] == ["one", "two"]
    merge(bench, *parts)
    assert [check.id for check in read_verdicts(done)] == ["one", "two"]


def test_times_of_words_come_along(bench: Workbench) -> None:
    """Of the row that is taken, in all their forms."""
    parts, wanted = [], {}
    for name in ("one", "two"):
        file = with_file(tone(0.1))
        part = folder(bench, name, record(f"sub/{name}", text="Hi.", **file))
        words = [TimedWord("Hi", 0.0, 0.1, 0.5, 0, 2, "dictionary")]
        times = WordTimes(f"sub/{name}", 1, file["sha256"], "some", "Hi.", 0.1, 0.5, words)
        for suffix, content in (
            (".words.json", times.encode()),
            (".words.vtt", words_vtt(times).encode()),
            (".TextGrid", textgrid(times).encode()),
        ):
            (part / f"sub/{name}{suffix}").write_bytes(content)
            wanted[f"sub/{name}{suffix}"] = content
        parts.append(part)
    said = merge(bench, *parts)
    assert "no row's" not in said
    found = names(bench.folder / "all")
    assert {name: found.get(name) for name in wanted} == wanted
    assert read_words(bench.folder / "all", "sub/two") is not None


def test_made_voices_come_along(bench: Workbench) -> None:
    good = with_file(tone(0.1))
    one = folder(bench, "one", record("a", voice=VOICE, **good))
    two = folder(bench, "two", record("b", voice=VOICE, **good))
    keep(one)
    keep(two, hz=300.0)
    said = merge(bench, one, two, code=2)
    assert f"{one}/.voices/{NAME}.wav, {two}/.voices/{NAME}.wav" in said
    assert not list((bench.folder / "all").iterdir())
    shutil.rmtree(two / ".voices")
    keep(two)
    (two / ".voices" / "timings.jsonl").write_text("")
    result = bench.run("merge", one, two, "--out", bench.folder / "all", "--json").expect(0)
    assert (result.json["voice_files_copied"], result.json["files_left"]) == (4, 1)
    assert made_names(bench.folder / "all") == made_names(one)
    assert bench.out("all").status() == {"a": "ok", "b": "ok"}


def test_shards_of_rows_in_a_made_voice(bench: Workbench) -> None:
    """Fish Speech makes up a voice where rows name none."""
    spec = replace(tiny.SPECS["small"], end_gain=1.0, num_layers=1, predictor_layers=1)
    codec = replace(SMALL, upsampling_ratios=(2, 2), upsample_rates=(8, 8, 4, 2),
                    encoder_dim=2, encoder_strides=(2, 4, 8, 8))  # fmt: skip
    bench.model = tiny.write_checkpoint(bench.folder / "fish", spec, codec=codec)
    bench.run("voices", "--model", bench.model, "--accept-licence").expect(0)
    manifest = bench.write(as_jsonl(ROWS))
    flags = (*CAP, "--free-voice", "one", "--seed", 8)
    bench.synth(manifest, *flags, "--voices-only", out="voices").expect(0)
    shared = (*flags, "--made-voices", bench.folder / "voices")
    for part, name in ((1, "one"), (2, "two")):
        bench.synth(manifest, *shared, "--shard", f"{part}/2", out=name).expect(0)
    merge(bench, bench.folder / "one", bench.folder / "two")
    assert made_names(bench.folder / "all") == made_names(bench.folder / "voices")
    assert len({line["voice"] for line in bench.out("all").lines}) == 1
    again = bench.synth(manifest, *flags, out="all")
    assert again.out.startswith(msg.nothing_to_do(8))


def test_other_settings_are_told(bench: Workbench, shards: Path) -> None:
    bench.synth(ROWS[:1], *CAP, "--temperature", 0.5, out="three").expect(0)
    three = bench.folder / "three"
    said = merge(bench, bench.folder / "one", three, "--prefer", bench.folder / "one")
    assert "different audio: " in said
    assert f"temperature: none in {bench.folder / 'one'}, 0.5 in {three}" in said
    assert "shard" not in said


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("one", "all"), "is also --out"),
        (("one", "empty"), "has no timings.jsonl"),
        (("one", "nowhere"), "is not a folder"),
        (("one", "all/inside"), "contain one another"),
        (("one", "--prefer", "two"), "is not one of the folders"),
    ],
)
def test_folders_that_cannot_be(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(bench.folder)
    for name in ("one", "two", "all/inside"):
        folder(bench, name, record("a"))
    (bench.folder / "empty").mkdir()
    bench.run("merge", *args, "--out", "all").expect(2, message)


def test_a_folder_in_use_is_refused(bench: Workbench) -> None:
    one = folder(bench, "one", record("a"))
    with FolderLock(one):
        said = merge(bench, one, code=2)
    assert "is in use by process" in said
    merge(bench, one)


def test_files_in_the_way_are_named(bench: Workbench) -> None:
    one = folder(bench, "one", record("a", **with_file(tone(0.1))))
    (bench.folder / "all").mkdir()
    (bench.folder / "all" / "a.wav").write_bytes(b"mine")
    said = merge(bench, one, code=2)
    assert "contains other files with the names of rows; nothing was written: a.wav" in said
    assert names(bench.folder / "all") == {"a.wav": b"mine"}


def test_links_where_asked_for(bench: Workbench, shards: Path) -> None:
    said = merge(bench, bench.folder / "one", bench.folder / "two", "--link")
    assert "24 files linked, 0 copied" in said
    done = bench.folder / "all"
    assert all(path.stat().st_nlink == 2 for path in done.rglob("*.wav"))
    again = bench.synth(shards, *CAP, "--save-codes", "--subtitles", "srt", out="all")
    assert msg.NOTHING_TO_DO.format(reason="") in again.out + again.err


def test_nothing_leads_outside(bench: Workbench) -> None:
    """A folder from a stranger: odd ids, paths, links, pipes."""
    secret = bench.folder / "secret"
    secret.mkdir()
    (secret / "s.wav").write_bytes(tone(0.3))
    good = with_file(tone(0.1))
    lines = [
        record("a", **good),
        record("../secret/s", path="../secret/s.wav"),
        record("/etc/x", path="/etc/passwd"),
        record("takes/x/1", path="takes/x/1.wav"),
        record("link", path="link.wav"),
        record("sub/s", path="sub/s.wav"),
        record("b", path="../secret/s.wav", **with_file(tone(0.3))),
    ]
    one = folder(bench, "one", *lines, **{"a.wav": tone(0.1)})
    (one / "link.wav").symlink_to(secret / "s.wav")
    (one / "sub").symlink_to(secret)
    os.mkfifo(one / "b.wav")
    said = merge(bench, one)
    assert "ignored 2 invalid lines" in said
    assert "ignored 1 journal line, because their ids are not valid file names" in said
    assert "3 rows have missing or damaged audio" in said
    done = bench.folder / "all"
    assert sorted(bench.out("all").files) == ["a.wav"]
    assert sorted(bench.out("all").records) == ["a", "b", "link", "sub/s"]
    assert not any(path.is_symlink() for path in done.rglob("*"))
    # A link in the target is no way out either.
    (bench.folder / "two").mkdir()
    (bench.folder / "two" / "sub").symlink_to(secret)
    three = folder(bench, "three", record("sub/t", **good))
    said = merge(bench, three, out="two", code=4)
    assert "is a link that leads out of" in said
    assert sorted(path.name for path in secret.iterdir()) == ["s.wav"]


KILL = """
import os, random
from tts_cli import signals
count = {after}
def check():
    global count
    count -= 1
    if not count:
        os.kill(os.getpid(), 9)
signals.check = check
"""


@pytest.mark.slow
def test_killed_midway_it_is_run_again(bench: Workbench, shards: Path) -> None:
    parts = [bench.folder / "one", bench.folder / "two"]
    merge(bench, *parts, out="whole")
    wanted = bench.out("whole")
    rng = random.Random(7)
    killed = 0
    for after in rng.sample(range(8, 34), 6):
        out = bench.folder / f"killed{after}"
        args = ["merge", *map(str, parts), "--out", str(out)]
        died = finish(bench.start(args, KILL.format(after=after)))
        killed += died.code == -signal.SIGKILL
        if (out / "timings.jsonl").exists():
            assert Store(out).records.items() <= wanted.records.items()
        bench.run(*args).expect(0)
        assert Store(out).files == wanted.files
        assert Store(out).lines == wanted.lines
        assert Store(out).report == wanted.report
        shutil.rmtree(out)
    assert killed >= 4


def test_subtitles_of_a_row_that_ends_with_words(bench: Workbench) -> None:
    """`a.words.vtt` was taken for the words of row `a`, and left."""
    rows = [{"id": "a.words", "text": "Good morning."}]
    bench.synth_once(rows, *CAP, "--subtitles", "vtt", out="one")
    said = merge(bench, bench.folder / "one")
    assert (bench.folder / "all/a.words.vtt").is_file()
    assert "no row's" not in said
