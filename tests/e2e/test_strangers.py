"""A folder that somebody else has made: whatever its lines say, no command leaves it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import string
from collections.abc import Callable, Sequence
from pathlib import Path

import outside
import pytest
from bounds import bounded
from fake_aligner import FakeAligner
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from properties import TIMES
from spoken_folders import record, tone, with_file, write_folder
from spoken_folders import run as run_line
from workbench import Workbench

from tts_cli.checks.verdicts import OK, TakeVerdict

pytestmark = pytest.mark.slow

SOUND = tone(0.4)
FILE = with_file(SOUND)
NAMES = ("..", ".", "", "mine", "takes", "truncated", "removed", ".voices", "a.wav", "CON", "nul.x")
ODD_NAMES = ("#", "#1", "#:7", "-o", "a b", "x\ny", "\x1b[31m", "\ud800", "\0", "\\", "~", "$(id)")
PARTS = st.sampled_from((*NAMES, *ODD_NAMES))
IDS = st.builds("/".join, st.lists(PARTS, min_size=1, max_size=5))
RUN = ("--max-seconds", 0.1, "--accept-truncated", "--retries", 0)
MODEL_FREE: Sequence[Sequence[str]] = (
    ("pick", "hp"),
    ("check", "hp", "--pick", "best"),
    ("report", "hp"),
    ("encode", "hp", "--format", "flac"),
    ("encode", "hp", "--format", "flac", "--out", "new"),
    ("merge", "hp", "--out", "new"),
    *(("export", "hp", "--to", to, "--out", "new") for to in ("ljspeech", "audiofolder", "nemo")),
    ("export", "hp", "--to", "webdataset", "--out", "new", "--all-takes"),
)


def stranger(place: Path, row_id: str, said: str | None = None) -> Path:
    """A folder with a row of an id, two takes of it, and all files that tell of it.

    Args:
        place: the folder around; nothing in it may be touched but what a command is to make.
        said: an id that the lines say first.
    """
    out = place / "hp"
    lines = [
        record("good", **FILE),
        record(row_id, **FILE),
        record(row_id, take=2, role="extra", path=f"takes/{row_id}/2.wav", **FILE),
        record(row_id, take=3, role="held", path=f"takes/{row_id}/3.wav", **FILE),
    ]
    write_folder(out, lines, audio={"good.wav": SOUND, "mine.wav": SOUND})
    for name in (row_id, *(f"takes/{row_id}/{take}" for take in (1, 2, 3))):
        path = Path(os.path.normpath(out / f"{name}.wav"))
        if path.is_relative_to(place):
            with contextlib.suppress(OSError, ValueError):  # no file has such a name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(SOUND)
    if said is not None:
        text = (out / "timings.jsonl").read_text()
        ours = json.dumps(row_id)
        text = text.replace(f'"id": {ours}', f'"id": {json.dumps(said)}')
        text = text.replace('"write_ms"', f'"id": {ours}, "write_ms"')
        (out / "timings.jsonl").write_text(text)
    check = TakeVerdict(row_id, 1, str(FILE["sha256"]), OK).to_line()
    (out / "checks.jsonl").write_text(check)
    (out / "takes.json").write_text(json.dumps({"choices": {row_id: {"take": 2}}}))
    sentence = {"id": row_id, "start_s": 0, "end_s": 0.1}
    made = {"path": "mine.wav", "key": "", "bytes": len(SOUND), "sentences": [sentence]}
    chapter = {**made, "sample_rate_hz": 8000, "samples": 1}
    book = {"schema": 1, "chapters": [chapter], "files": []}
    (out / "book.json").write_text(json.dumps(book, indent=1))
    return out


def run(bench: Workbench, place: Path, *args: object) -> None:
    """Run a command in a folder; what it makes lies in `hp` and `new`, whatever it is told."""
    before = {path: path.read_bytes() for path in place.glob("*") if path.is_file()}
    with outside.watched(place) as touched:
        result = bench.run(*args)
    assert not touched, (args, touched)
    assert {path: path.read_bytes() for path in place.glob("*") if path.is_file()} == before, args
    assert "internal error" not in result.err, (args, result.err)
    assert "\x1b" not in result.out + result.err, args
    shutil.rmtree(place / "new", ignore_errors=True)


@pytest.mark.parametrize("tries", [2, pytest.param(300 * TIMES, marks=pytest.mark.long)])
def test_ids_of_a_stranger(bench: Workbench, monkeypatch: pytest.MonkeyPatch, tries: int) -> None:
    """`pick hp ../mine=2` replaced mine.wav beside the folder, and removed its codes."""
    manifest = bench.write([{"id": "good", "text": "Hello."}])
    book = bench.write("# One\n\nHello there.\n", "book.md")

    @settings(
        max_examples=tries,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(IDS, st.none() | st.just("good") | IDS)
    @example("../mine", None)
    @example("../mine", "good")
    @example("#../../../mine:1", None)
    @example("takes/good/2", None)
    def holds(row_id: str, said: str | None) -> None:
        place = bench.folder / "place"
        for folder in (place, bench.folder / "kept"):
            shutil.rmtree(folder, ignore_errors=True)
        place.mkdir()
        monkeypatch.chdir(place)
        stranger(place, row_id, said)
        for name in ("mine.wav", "mine.flac", "mine.codes.safetensors"):
            (place / name).write_text("somebody's")
        shutil.copytree(place / "hp", bench.folder / "kept", symlinks=True)
        names = {name for name in (row_id, said) if name and "\0" not in name}
        picks = [("pick", "hp", "--", f"{name}={take}") for name in names for take in (1, 2, 3)]
        given_model = ("--model", bench.model, "--device", "cpu", *RUN)
        speaking = [
            ("synth", manifest, "--out", "hp", *given_model, "--takes", 1),
            ("synth", manifest, "--out", "hp", *given_model, "--only", "suspects", "--overwrite"),
            ("book", book, "--out", "hp", *given_model),
        ]
        for args in (*MODEL_FREE, *picks, *speaking):
            run(bench, place, *args)
            shutil.rmtree(place / "hp")
            shutil.copytree(bench.folder / "kept", place / "hp", symlinks=True)

    holds()


def test_takes_whose_lines_say_odd_things(bench: Workbench) -> None:
    """`pick` ended as an internal error, or never."""
    odd = {
        "seed": "x",
        "suspect": 5,
        "remarks": "no",
        "attempts": 10**15,
        "audio_s": "long",
        "voice": 7,
    }
    lines = [
        record("a", **FILE),
        record("a", take=2, role="extra", path="b.wav", **{**FILE, **odd}),
    ]
    out = write_folder(bench.folder / "hp", lines)
    bench.run("pick", out, "a=seed:9").expect(
        2, "its takes are: take 1 (seed 7, 4.00 s); take 2 (seed None, 0.00 s)"
    )
    bench.run("pick", out).expect(0)
    bench.run("pick", out, "a=3").expect(2)


@pytest.mark.parametrize("number", [10**12, 2**53 - 1, 2**20 - 1])
def test_take_numbers_of_any_size(bench: Workbench, number: int) -> None:
    """`pick`, `synth` and `--prune` counted up to the highest number, for ever."""
    lines = [
        record("a", **FILE),
        record("a", take=number, role="extra", path=f"takes/a/{number}.wav", **FILE),
        record("gone", **FILE),
        record("gone", take=number, role="held", path=f"takes/gone/{number}.wav", **FILE),
    ]
    files = ("a.wav", "gone.wav", f"takes/a/{number}.wav", f"takes/gone/{number}.wav")
    out = write_folder(bench.folder / "hp", lines, audio=dict.fromkeys(files, SOUND))
    manifest = bench.write([{"id": "a", "text": "Hello."}])
    listed = bench.run("pick", out, "a=7").expect(2)
    assert f"take {number} " in listed.err or number > 2**20
    plain = ("--out", out, "--forget", "all", *RUN)
    bench.synth(manifest, *plain, "--takes", 2).expect(0)
    bench.synth(manifest, *plain, "--redo", "all", "--seed", 5).expect(0)
    bench.synth(manifest, "--out", out, "--prune", *RUN).expect(0)
    written = (out / "timings.jsonl").read_text().splitlines()
    takes = [json.loads(line)["take"] for line in written]
    assert {2, 3, 4} <= set(takes)
    for args in (("pick", out), ("report", out)):
        assert bench.run(*args).code == 0, args


CONTROLS = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\u2066\u200f"


def test_nothing_of_a_stranger_reaches_the_terminal(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`check` printed the settings of run.json with their escape codes."""
    odd = {name: f"x{CONTROLS}" for name in ("text", "voice", "language", "error", "instruct")}
    odd |= {"extra": {f"x{CONTROLS}": f"x{CONTROLS}"}}
    lines = [
        record("a", **FILE, **{**odd, "error": None}, suspect=[f"x{CONTROLS}"]),
        record("a", take=2, role="extra", path="takes/a/2.wav", **{**FILE, **odd}),
        record("b", **{**odd, "status": "failed", "path": None, "finish_reason": "early"}),
    ]
    settings = {name: f"x{CONTROLS}" for name in ("voice", "language", "instruct", "model")}
    report = run_line(manifests=[f"m{CONTROLS}.jsonl"], settings=settings, model=settings)
    audio = {"a.wav": SOUND, "takes/a/2.wav": SOUND}
    write_folder(bench.folder / "hp", lines, audio=audio, runs=[report])
    (bench.folder / "tts-cli.toml").write_text(f"voice = {json.dumps(CONTROLS[:-3])}\n")
    (bench.folder / "cast.toml").write_text(f"[{json.dumps('x' + CONTROLS)}]\nvoice = 1\n")
    book = "# One \u202e\x9b\n\nHello \u202e there.\n"
    manifest = bench.write("text,v\u202e\x9b\nHello.,1\n", "m.csv")
    monkeypatch.chdir(bench.folder)
    for args in (
        *MODEL_FREE,
        ("check", "hp", "--json"),
        ("export", "hp", "--to", "ljspeech", "--out", "new", "--json"),
        ("voices", "--out", "hp"),
        ("config", "show", "synth"),
        ("validate", manifest),
        ("validate", bench.write([{"text": "Hi."}]), "--cast", "cast.toml"),
        ("book", bench.write(book, "b.md"), "--out", "book", "--dry-run"),
        ("synth", manifest, "--out", f"no{CONTROLS}", "--vioce", f"x{CONTROLS}"),
        ("lexicon", "test", f"x{CONTROLS}"),
    ):
        result = bench.run(*args)
        shutil.rmtree("new", ignore_errors=True)
        found = set(CONTROLS) & set(result.out + result.err) - set(string.printable)
        assert not found, (args, result)
        assert "internal error" not in result.err, (args, result)


OWN = ("timings.jsonl", "runs.jsonl", "run.json", "checks.jsonl", "takes.json", "book.json")
BESIDE = ("good.words.json", "good.srt", "good.wav", "good.codes.safetensors")
KINDS: Sequence[Callable[[Path], None]] = (os.mkfifo, lambda path: path.symlink_to("/dev/zero"))


@pytest.mark.parametrize("name", [*OWN, *BESIDE])
def test_special_files_are_not_waited_for(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """`takes.json` as a pipe was waited for, and as a link to /dev/zero it filled the memory."""
    if name != "good.wav":  # of those, no aligner's process reads one
        monkeypatch.setattr("tts_cli.app.align.SphinxAligner", lambda *_: FakeAligner())
    place = bench.folder / "place"
    place.mkdir()
    monkeypatch.chdir(place)
    manifest = bench.write([{"id": "good", "text": "Hello."}])
    book = bench.write("# One\n\nHello there.\n", "book.md")
    given_model = ("--model", bench.model, "--device", "cpu", *RUN)
    stranger(place, "other")
    shutil.copytree("hp", bench.folder / "kept")
    commands = (
        *MODEL_FREE,
        ("pick", "hp", "other=3"),
        ("align", "hp", "--textgrid", "--subtitles", "words-vtt"),
        ("synth", manifest, "--out", "hp", *given_model, "--subtitles", "srt", "--save-codes"),
        ("validate", manifest, "--out", "hp", *given_model),
        ("book", book, "--out", "hp", *given_model),
    )
    for number, args in enumerate(commands):
        shutil.rmtree("hp")
        shutil.copytree(bench.folder / "kept", "hp")
        (place / "hp" / name).unlink(missing_ok=True)
        KINDS[number % 2](place / "hp" / name)
        with bounded(f"{args} with {name}", place):
            result = bench.run(*args)
        assert "internal error" not in result.err, (args, result)
        assert result.code in (0, 1, 2, 3), (args, result)
        shutil.rmtree("new", ignore_errors=True)


@pytest.mark.parametrize("flag", ["--lexicon", "--cast", "--only"])
def test_a_pipe_is_taken_from_the_command_line_alone(bench: Workbench, flag: str) -> None:
    """A shell's `<(...)` is read; a pipe that lies in a folder would be waited for."""
    content = {"--lexicon": "Hm\tHum\n", "--cast": "[anna]\n", "--only": "a\n"}[flag]
    mark = "@" * (flag == "--only")
    pipe = bench.folder / "pipe"
    os.mkfifo(pipe)
    command = [*bench.command(bench.write([{"id": "a", "text": "Hm."}])), "--dry-run"]
    with bounded(flag, bench.folder):
        result = bench.run(*command, flag, f"{mark}{pipe}")
    assert (result.code, "is not a regular file" in result.err) == (2, True)
    reading, writing = os.pipe()
    os.write(writing, content.encode())
    os.close(writing)
    result = bench.run(*command, flag, f"{mark}/dev/fd/{reading}")
    os.close(reading)
    assert result.code == 0, result
