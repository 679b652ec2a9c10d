"""Folders, commands and rules that the harnesses of interrupted commands share.

A folder is synthesized and worn: one row has a second take that is pinned, one a second take and a
file that a user has edited, a third one an edited file alone. A harness runs the commands of
`CASES` in copies of it, disturbs them, runs them again and compares the result with that of an
undisturbed run. `Place.run` runs a command in a fork of a process that has everything imported.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import soundfile
from disk_moments import INSIDE, enter_namespace, run
from runs import JOURNAL, ROOT, odd_word

SUPPORT = ROOT / "tests" / "support"
sys.path[:0] = [str(ROOT), str(SUPPORT)]
from warm_process import WarmProcess  # noqa: E402

AUDIO = (".wav", ".flac")
FLAGS = ("--device", "cpu", "--max-batch", "4", "--max-seconds", "0.2", "--accept-truncated")
TEXTS = ("Hello there.", "Good morning to all of you.", "Hm.", "The rain in the street.")
ROWS = [{"id": f"r{n}", "text": TEXTS[n % 4]} for n in range(5)]
CHANGED = [row | ({"text": "Something else."} if n % 2 else {}) for n, row in enumerate(ROWS)]
STORY = "# One\n\nHello there. Hm.\n\n# Two\n\nThe rain came. It went.\n"
SAID = "What is said in it."
MARK = b"Edited by a user."
EDITED = ("r2.wav", "r3.wav", "01-one.wav")
NEVER_WORN = ("r0", "r4")  # rows that `wear` does not change

PATIENCE_S, DISK_BYTES = 120.0, 1 << 28

PROGRAM = f"""
import atexit, os, sys
sys.path.insert(1, {str(SUPPORT)!r})
from tts_cli.main import main
import folder_calls
if sys.argv[1:2] == ["align"]:  # the noise of a tiny model has no words that could be found
    import fake_aligner, tts_cli.app.align
    tts_cli.app.align.SphinxAligner = lambda *_: fake_aligner.FakeAligner()
end = folder_calls.begin()
code = main(sys.argv[1:])
end()
atexit._run_exitfuncs()
sys.stdout.flush(), sys.stderr.flush()
os._exit(code)  # as `tts-cli` does
"""


@dataclass(frozen=True)
class Ran:
    """The result of a command: exit code, output, and the result of the handler of its calls."""

    code: int
    said: str
    found: dict[str, Any]


@dataclass
class Place:
    """The folder that contains everything of one try."""

    path: Path
    model: Path
    base: Path  # a checkpoint that clones
    has_no_links: bool = False  # hard links fail, as on some file systems

    @property
    def out(self) -> Path:
        return self.path / "out"

    def rows(self, rows: list[dict[str, Any]], name: str) -> str:
        """Write a manifest next to the try; returns its path."""
        path = self.path.parent / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)

    def run(self, *args: object, do: str = "kill", **how: Any) -> Ran:
        """Run a command whose calls that change the folder a handler of `folder_calls` gets; by
        default one that counts them.
        """
        result = self.path.parent / "result"
        result.unlink(missing_ok=True)
        plan = {"below": str(self.path), "result": str(result), "no_links": self.has_no_links}
        plan |= {"do": do, "how": how or ({"at": 0} if do == "kill" else {})}
        env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        env["FOLDER_CALLS"] = json.dumps(plan)
        process = WarmProcess(PROGRAM, [str(arg) for arg in args], env)
        try:
            said = "".join(process.communicate(timeout=PATIENCE_S))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            said = "Traceback: it did not end"
        found = json.loads(result.read_text()) if result.exists() else {}
        return Ran(process.returncode or 0, said, found)

    def synth(self, *flags: object, rows: str = "rows", out: str = "out") -> list[object]:
        """Return the arguments of a `synth` run."""
        manifests = {"rows": ROWS, "changed": CHANGED, "fewer": ROWS[:2], "others": OTHERS}
        manifest = self.rows(manifests[rows], "others" if rows == "others" else "rows")
        return ["synth", manifest, "--out", self.path / out, "--model", self.model, *FLAGS, *flags]

    def must(self, *args: object) -> None:
        """Run a command that prepares a try and must succeed."""
        ran = self.run(*args)
        assert ran.code == 0, ran.said


OTHERS = [{"id": f"s{n}", "text": TEXTS[n]} for n in range(3)]

Command = Callable[[Place], list[object]]


@dataclass(frozen=True)
class Case:
    """A command that is disturbed, and commands that run after it has been repeated."""

    name: str
    command: Command
    then: tuple[Command, ...] = (lambda place: place.synth(rows="changed"),)
    before: Callable[[Place], None] = lambda place: None
    start: str = "worn"  # or `bare`: an empty folder
    takes: int = 0  # takes that each row must get
    needs: str = ""  # a package, without which the case is skipped
    drops: bool = False  # the command deletes alternative takes


def level(place: Place) -> None:
    place.must("encode", place.out, "--loudness", "-30")


def two_folders(place: Place) -> None:
    place.must(*place.synth(rows="others", out="other"))


def book(*flags: object, text: str = STORY) -> Command:
    def command(place: Place) -> list[object]:
        path = place.path.parent / f"{hashlib.md5(text.encode()).hexdigest()}.md"
        path.write_text(text)
        given = ["book", path, "--out", place.out, "--model", place.model, *FLAGS]
        return [*given, "--language", "english", *flags]

    return command


def edited_book(place: Place) -> None:
    place.must(*book()(place))
    edit(place.out / "01-one.wav")


def voice(*flags: object) -> Command:
    def command(place: Place) -> list[object]:
        given = ["--ref-audio", place.path / "a.wav", "--voice-dir", place.path / "voices"]
        return ["voices", "add", "anna", *given, "--model", place.base, "--device", "cpu", *flags]

    return command


def recording(place: Place) -> None:
    wave = 0.3 * np.sin(np.arange(28_800) / 24_000 * 2 * np.pi * 330)
    soundfile.write(place.path / "a.wav", wave, 24_000, "PCM_16")


def subtitled(place: Place) -> None:
    place.must(*place.synth("--subtitles", "srt"))
    edit_text(place.out / "r1.srt")


ALIGN = ("--subtitles", "words-vtt", "--textgrid", "--device", "cpu")


def aligned(place: Place) -> None:
    place.must("align", place.out, *ALIGN)
    edit_text(place.out / "r0.words.vtt")
    place.must(*place.synth(rows="changed"))


def exported(layout: str) -> Callable[[Place], None]:
    def before(place: Place) -> None:
        place.run(*export(layout)(place))  # ends with 1: it leaves out edited files
        place.must(*place.synth(rows="changed"))

    return before


def export(layout: str) -> Command:
    return lambda place: ["export", place.out, "--to", layout, "--out", place.path / layout]


def reported(place: Place) -> None:
    place.must("report", place.out)
    place.must(*place.synth(rows="changed"))


def removed(place: Place) -> None:
    place.must(*place.synth("--prune", rows="fewer"))


CASES = (
    Case("synth", lambda place: place.synth(), start="bare"),
    Case("changed", lambda place: place.synth(rows="changed"), (lambda place: place.synth(),)),
    Case("overwrite", lambda place: place.synth("--overwrite", "--seed", 9)),
    Case("takes", lambda place: place.synth("--takes", 1), takes=1),
    Case("verify", lambda place: place.synth("--verify-files")),
    Case("prune", lambda place: place.synth("--prune", rows="fewer")),
    Case("restore", lambda place: place.synth(), before=removed),
    Case("level", lambda place: place.synth("--loudness", "podcast")),
    Case("encode", lambda place: ["encode", place.out, "--loudness", "podcast"]),
    Case("format", lambda place: ["encode", place.out, "--format", "flac"]),
    Case(
        "encode-out",
        lambda place: ["encode", place.out, "--format", "flac", "--out", place.path / "flac"],
    ),
    Case("relevel", lambda place: ["encode", place.out, "--loudness", "podcast"], before=level),
    Case("pick", lambda place: ["pick", place.out, "r1=1", "r2=2", "r3=1"]),
    Case(
        "merge",
        lambda place: ["merge", place.out, place.path / "other", "--out", place.path / "all"],
        (lambda place: place.synth(rows="changed", out="all"),),
        before=two_folders,
    ),
    Case("export", export("ljspeech"), (lambda place: place.synth(rows="changed"),)),
    *(
        Case(
            f"export-{layout}",
            export(layout),
            (lambda place: place.synth(), export(layout)),
            before=exported(layout),
        )
        for layout in ("ljspeech", "nemo")
    ),
    Case("clean", lambda place: ["clean", place.out, "--yes"], before=removed, drops=True),
    Case("report", lambda place: ["report", place.out], before=reported),
    Case(
        "subtitles",
        lambda place: place.synth("--subtitles", "srt", rows="changed"),
        (lambda place: place.synth("--subtitles", "srt"),),
        before=subtitled,
    ),
    Case(
        "align",
        lambda place: ["align", place.out, *ALIGN],
        (lambda place: place.synth(),),
        before=aligned,
        needs="pocketsphinx",
    ),
    Case("book", book(), (book(text=STORY.replace("Hm", "Well")),), start="bare"),
    Case(
        "rebook",
        book(text=STORY.replace("Hm", "Well")),
        (book(),),
        before=edited_book,
        start="bare",
    ),
    Case("voice", voice(), (voice("--ref-text", SAID),), before=recording, start="bare"),
    Case(
        "say",
        lambda place: [
            "say",
            "Hi.",
            "-o",
            place.path / "a.wav",
            "--model",
            place.model,
            *FLAGS[:2],
        ],
        start="bare",
    ),
)


def edit(path: Path) -> None:
    """Replace an audio file, as an editor does that writes a new file."""
    samples, rate_hz = soundfile.read(path, dtype="int16")
    path.unlink()
    soundfile.write(path, np.concatenate([samples, samples[:500]]), rate_hz, "PCM_16")


def edit_text(path: Path) -> None:
    """Replace a text file by an edited one."""
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data + b"\n" + MARK + b"\n")


def wear(place: Place) -> None:
    """Synthesize a folder, pin a take and edit files."""
    place.must(*place.synth())
    place.must(*place.synth("--takes", 1, "--only", "r1,r2"))
    place.must("pick", place.out, "r1=2")
    edit(place.out / "r2.wav")
    edit(place.out / "r3.wav")


def lines_of(out: Path) -> list[dict[str, Any]]:
    """Return the complete lines of a journal."""
    path = out / JOURNAL
    data = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in data if line.strip()]


def sum_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sums_below(folder: Path) -> dict[str, Path]:
    """Return all files by their SHA-256."""
    return {sum_of(path): path for path in folder.rglob("*") if path.is_file()}


def journals(place: Place) -> Iterator[Path]:
    """Yield the folders that have a journal."""
    for path in place.path.rglob(JOURNAL):
        yield path.parent


def speech_of(line: dict[str, Any], folder: str = "") -> Iterator[tuple[str, str]]:
    """SHA-256 of the speech that a line of a journal has as ok, and a description. For a file that
    was made of another one it is that of the other one.
    """
    source = line.get("source")
    if line["status"] == "ok" and line.get("sha256"):
        digest = line["sha256"] if source is None else source.get("sha256")
        if digest is not None:
            yield digest, f"take {line['take']} of {line['id']}{folder}"


def promised(place: Place) -> dict[str, str]:
    """SHA-256 of what journals have as ok, and a description of it."""
    return {
        digest: what
        for out in journals(place)
        for line in lines_of(out)
        for digest, what in speech_of(line, f" in {out.name}/")
    }


def alternatives(place: Place) -> set[str]:
    """SHA-256 of the speech of takes that are not their row's current one, and of removed rows."""
    found = set()
    for out in journals(place):
        lines = lines_of(out)
        current = {line["id"]: line for line in lines if line["role"] != "extra"}
        kept = {digest for line in current.values() for digest, _ in speech_of(line)}
        found |= {digest for line in lines for digest, _ in speech_of(line)} - kept
    return found


def numbers_twice(place: Place) -> str:
    """Name a take whose number stands for two different speeches, if there is one."""
    for out in journals(place):
        known: dict[tuple[str, int], str] = {}
        for line in lines_of(out):
            if line["status"] == "ok":
                digest = known.setdefault((line["id"], line["take"]), line["request_hash"])
                if digest != line["request_hash"]:
                    return f"take {line['take']} of {line['id']} is two speeches"
    return ""


def leftovers(out: Path) -> set[Path]:
    """Return the paths that audio of rows in an earlier format may have."""
    lines = [line for line in lines_of(out) if line["role"] != "extra" and line.get("path")]
    suffixes = {line["id"]: Path(line["path"]).suffix for line in lines}  # of their last ones
    return {
        out / f"{row_id}{suffix}"
        for row_id, own in suffixes.items()
        for suffix in AUDIO
        if suffix != own
    }


def files_of_rows(place: Place) -> dict[str, str]:
    """Return SHA-256 of the audio that commands must leave: rows, chapters, voices."""
    kept = (*AUDIO, ".safetensors")
    may_go = {path for out in journals(place) for path in leftovers(out)}
    paths = {path for path in place.path.rglob("*") if path.suffix in kept} - may_go
    names = {path.relative_to(place.path).as_posix(): path for path in paths}
    return {
        name: sum_of(path)
        for name, path in names.items()
        if not {"takes", "removed", "truncated"} & set(name.split("/")) and ".edited" not in name
    }


@dataclass
class Try:
    """A folder during a disturbance and the commands after it."""

    place: Place
    wanted: dict[str, str] = field(default_factory=dict)  # SHA-256, and what it is of
    given_up: set[str] = field(default_factory=set)  # speech that a user has overwritten or deletes
    drops: bool = False

    def learn(self, first: bool = False) -> str:
        """Add what journals promise now; returns what is lost, if anything."""
        found = sums_below(self.place.path)
        if first and self.drops:
            self.given_up |= alternatives(self.place)
        for digest, what in promised(self.place).items():
            if first and digest not in found:
                self.given_up.add(digest)
            elif digest not in self.given_up:
                self.wanted.setdefault(digest, what)
        if first:
            lines = [line for out in journals(self.place) for line in lines_of(out)]
            made = self.wanted.keys() | {line["sha256"] for line in lines}
            for digest, path in found.items():
                is_edited = path.name in EDITED or MARK in path.read_bytes()
                if digest not in made and is_edited:
                    self.wanted[digest] = f"edited {path.name}"
        lost = [what for digest, what in self.wanted.items() if digest not in found]
        return f"lost: {'; '.join(lost)}" if lost else numbers_twice(self.place)


@dataclass
class Series:
    """The tries of one case, each in a new copy of the same folder."""

    case: Case
    start: Path  # to be copied
    place: Place

    def begin(self) -> Try:
        """Make a new copy."""
        shutil.rmtree(self.place.path, ignore_errors=True)
        shutil.copytree(self.start, self.place.path, symlinks=True)
        return link_again(Try(self.place, drops=self.case.drops))

    def follow(self, found: Try) -> tuple[list[int], str]:
        """Run the command and the others; returns exit codes, and what is wrong."""
        codes = []
        for command in (self.case.command, *self.case.then):
            ran = self.place.run(*command(self.place))
            codes.append(ran.code)
            if problem := odd_word(ran.said) or found.learn():
                return codes, f"{command(self.place)[0]}: {problem}"
        return codes, self.takes_problem()

    def takes_problem(self) -> str:
        """Report rows that have not as many takes as the completed runs were asked for."""
        if not self.case.takes:
            return ""
        runs = (self.place.out / "runs.jsonl").read_bytes().splitlines()
        settings = [run["settings"] for run in map(json.loads, runs) if run["exit_code"] == 0]
        num_takes = self.case.takes * sum(
            bool(one["takes"] and not one["only"]) for one in settings
        )
        seeds: dict[str, set[int]] = {row_id: set() for row_id in NEVER_WORN}
        for line in lines_of(self.place.out):
            if line["role"] == "extra" and line["id"] in seeds:
                seeds[line["id"]].add(line["seed"])
        wrong = {row_id: len(found) for row_id, found in seeds.items() if len(found) != num_takes}
        return f"{num_takes} takes are wanted, there are {wrong}" if wrong else ""


def link_again(found: Try) -> Try:
    """A copy has no hard links: make them again, so that rows' files are takes."""
    if found.place.has_no_links:
        return found
    for path in found.place.path.rglob("takes/*/*"):
        own = path.parents[2] / f"{path.parent.name}{path.suffix}"
        if own.is_file() and own.read_bytes() == path.read_bytes():
            own.unlink()
            os.link(path, own)
    return found


def states_of(place: Place) -> dict[str, tuple[str, str | None]]:
    """Status and SHA-256 of each row by the last line of it, by folder and id."""
    return {
        f"{out.name}/{line['id']}": (line["status"], line.get("sha256"))
        for out in journals(place)
        for line in lines_of(out)
        if line["role"] != "extra"
    }


def differences(found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """The keys under which two tables differ."""
    return sorted(name for name in found | wanted if found.get(name) != wanted.get(name))


def temporary_files(place: Place) -> list[str]:
    """Files that no command that has ended may leave."""
    names = (path.name for path in place.path.rglob("*"))
    return [name for name in names if name.endswith((".part", ".tts-cli.lock"))]


@dataclass
class Undisturbed:
    """What a case does when nothing disturbs it.

    Attributes:
        before, after: audio files with their sums, before the command and after it ran twice.
        codes: exit codes of both runs.
    """

    before: dict[str, str]
    after: dict[str, str]
    states: dict[str, tuple[str, str | None]]
    codes: tuple[int, int]

    @classmethod
    def of(cls, series: Series) -> Undisturbed:
        """Run a case twice."""
        found = series.begin()
        assert not found.learn(first=True)
        place, command, before = found.place, series.case.command, files_of_rows(found.place)
        codes = []
        for _ in range(2):
            ran = place.run(*command(place))
            assert ran.code in (0, 1), ran.said
            codes.append(ran.code)
        after, states = files_of_rows(place), states_of(place)
        return cls(before, after, states, (codes[0], codes[1]))

    def rerun_problem(self, found: Try, command: Command) -> str:
        """Run the command once more in a folder that was disturbed; what is wrong, if anything."""
        ran = found.place.run(*command(found.place))
        if problem := odd_word(ran.said) or found.learn():
            return f"rerun: {problem}"
        if ran.code not in self.codes:
            return (
                f"rerun: exit code {ran.code}, undisturbed {self.codes}: {ran.said[-300:].strip()}"
            )
        if names := differences(files_of_rows(found.place), self.after):
            return f"rerun: other files than undisturbed: {', '.join(names)}"
        if names := differences(states_of(found.place), self.states):
            return f"rerun: other states than undisturbed: {', '.join(names)}"
        names = temporary_files(found.place)
        if found.drops:  # a second `clean` has nothing to delete and takes no lock
            names = [name for name in names if not name.endswith(".lock")]
        if names:
            return f"rerun: left {', '.join(names)}"
        return ""


def mount_new(kind: str, folder: Path) -> str:
    """Mount a new file system on a folder; returns why that cannot be, if it cannot."""
    image = Path(tempfile.mkdtemp(prefix="image-")) / "image"
    image.write_bytes(b"")
    os.truncate(image, DISK_BYTES)
    try:
        run(f"mkfs.{kind}", image)
        run("mount", "-t", kind, "-o", "loop", image, folder)
    except FileNotFoundError:
        return f"there is no mkfs.{kind}"
    except subprocess.CalledProcessError as error:
        return f"{kind} cannot be mounted: {error.stderr.strip()}"
    finally:
        shutil.rmtree(image.parent)  # the mount has it open
    return ""


Point = TypeVar("Point")


def chosen(points: list[Point], options: argparse.Namespace) -> list[Point]:
    """The points that --sample and --part leave."""
    first, parts = map(int, options.part.split("/"))
    if options.sample and options.sample < len(points):
        kept = sorted(random.Random(options.seed).sample(range(len(points)), options.sample))
        points = [points[place] for place in kept]
    return points[first - 1 :: parts]


def run_cases(
    doc: str | None,
    names: tuple[str, ...],
    run_case: Callable[[Series, argparse.Namespace], tuple[int, list[str]]],
) -> int:
    """Run a harness over the cases: parse its flags, prepare folders, print a table.

    Args:
        doc: the help.
        names: of the cases that are run without --only.
        run_case: returns the number of points that were tried, and what was wrong.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(names), help="commands, by their names")
    parser.add_argument("--part", default="1/1", help="I/N: every N-th point, from the I-th")
    parser.add_argument("--sample", type=int, default=0, help="points of a command; 0: all")
    parser.add_argument("--seed", type=int, default=0, help="of --sample and random choices")
    parser.add_argument("--no-links", action="store_true", help="let every hard link fail")
    parser.add_argument("--disk", default="", help="run on a new file system, such as vfat")
    parser.add_argument("--model", type=Path, help="another checkpoint than the tiny one")
    options = parser.parse_args()
    asked = options.only.split(",")
    unknown = set(asked) - {case.name for case in CASES}
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    os.environ["TTS_TESTS_WARM"] = "tts_cli"
    if options.disk and INSIDE not in os.environ and (reason := enter_namespace()):
        print(f"skipped: nothing can be mounted here: {reason}")
        return 0
    folder = Path(tempfile.mkdtemp(prefix="cases-"))
    if options.disk and (reason := mount_new(options.disk, folder)):
        folder.rmdir()
        print(f"skipped: {reason}")
        return 0
    from tiny_qwen3_tts import SPECS, write_checkpoint

    thin = SPECS["custom_voice_wide"]
    layers = {"talker": replace(thin.talker, layers=1)}
    layers["predictor"] = replace(thin.predictor, layers=1)
    thin = replace(thin, **layers, num_codebooks=2, eos_gain=2.6)
    model = options.model or write_checkpoint(folder / "model", thin, 5)
    base = write_checkpoint(folder / "base", SPECS["base_wide"]) if "voice" in asked else model
    # Everything is made under the same path: some files contain it.
    place, worn = Place(folder / "try", model, base, options.no_links), folder / "worn"
    place.path.mkdir()
    cases = [case for case in CASES if case.name in asked]
    if any(case.start == "worn" for case in cases):
        wear(place)
    place.path.rename(worn)
    table, problems = [f"{'command':16} points  wrong"], []
    for case in cases:
        if case.needs and importlib.util.find_spec(case.needs) is None:
            table.append(f"{case.name:16} skipped: {case.needs} is not installed")
            continue
        start = folder / f"start-{case.name}"
        shutil.copytree(worn, place.path) if case.start == "worn" else place.path.mkdir()
        case.before(link_again(Try(place)).place)
        place.path.rename(start)
        count, wrong = run_case(Series(case, start, place), options)
        shutil.rmtree(place.path)
        table.append(f"{case.name:16} {count:6} {len(wrong):6}")
        print(table[-1], *wrong, sep="\n  ", flush=True)
        problems += wrong
    print("\n".join(table))
    print(f"{len(problems)} wrong")
    if options.disk:
        run("umount", "--lazy", folder)
    shutil.rmtree(folder)
    return int(bool(problems))
