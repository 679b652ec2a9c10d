"""kill -9 before every call that changes a folder, of every command that does: no speech is lost.

    python tests/e2e/call_moments.py [--kills 0] [--only encode,pick] [--part 1/8] [--model DIR]

A folder is spoken and worn: one row has a second take that is chosen, one a second take and a file
that somebody has edited, another one an edited file alone. In copies of it each command is killed
before its first change to the disk (a file created, written, synced, renamed, linked, removed, a
folder made or removed), before its second, and so on, `--kills` of them or all. Then the same
command runs, and then others: most often `synth` with another text in every second row.

Behind each of them, whatever was reported ok before must be in some file, by its sum, and so must
what was edited; no take's number may stand for two speeches. The same command must end as it does
undisturbed, and in the end each row's file must be what it is then. A file of another format or
level need not stay, but what it was made of. Prints counts, and ends with 1 where one was wrong.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from kill_moments import JOURNAL, ROOT, odd_word, write_tiny_model

sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]
from warm_process import WarmProcess  # noqa: E402

AUDIO = (".wav", ".flac")
FLAGS = ("--device", "cpu", "--max-batch", "4", "--max-seconds", "0.2", "--accept-truncated")
TEXTS = ("Hello there.", "Good morning to all of you.", "Hm.", "The rain in the street.")
ROWS = [{"id": f"r{n}", "text": TEXTS[n % 4]} for n in range(5)]
CHANGED = [row | ({"text": "Something else."} if n % 2 else {}) for n, row in enumerate(ROWS)]
STORY = "# One\n\nHello there. Hm.\n\n# Two\n\nThe rain came. It went.\n"
SAID = "What is said in it."
EDITED = ("r2.wav", "r3.wav", "01-one.wav")
NEVER_WORN = ("r0", "r4")  # rows that `wear` leaves as they were spoken

# Counts calls that change what lies below a folder, and dies before one of them.
PATCH = """
import builtins, io, os, signal, threading
def _watch(root, last):
    mutex, count = threading.Lock(), 0
    def is_below(what):
        if isinstance(what, int):
            what = os.readlink(f"/proc/self/fd/{what}")
        return os.path.abspath(os.fspath(what)).startswith(root + os.sep)
    def moment():
        nonlocal count
        with mutex:
            count += 1
            if count == last:
                os.kill(os.getpid(), signal.SIGKILL)
    def watched(real, is_change=lambda *args, **named: True):
        def call(*args, **named):
            if is_change(*args, **named) and is_below(args[0]):
                moment()
            return real(*args, **named)
        return call
    for name in ("replace", "rename", "link", "symlink", "unlink", "remove", "mkdir", "rmdir",
                 "write", "fsync", "ftruncate", "utime"):
        setattr(os, name, watched(getattr(os, name)))
    os.open = watched(os.open, lambda path, flags, *_, **__: flags & os.O_CREAT)
    def writes(file, mode="r", *_, **__):
        return not isinstance(file, int) and set(mode) & set("wxa+")
    builtins.open = io.open = watched(io.open, writes)
    return lambda: count
_count = _watch(os.environ["KILL_BELOW"], int(os.environ["KILL_AT"]))
"""
PROGRAM = f"""
import sys
from tts_cli.main import main
{PATCH}
code = main(sys.argv[1:])
with io.FileIO(os.environ["KILL_COUNT"], "w") as file:
    file.write(str(_count()).encode())
sys.exit(code)
"""


@dataclass
class Place:
    """A folder that everything of one try lies in."""

    path: Path
    model: Path
    base: Path  # a checkpoint that clones

    @property
    def out(self) -> Path:
        return self.path / "out"

    def rows(self, rows: list[dict[str, Any]], name: str) -> str:
        """A manifest, beside the try."""
        path = self.path.parent / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)

    def run(self, *args: object, kill_at: int = 0) -> tuple[int, str, int]:
        """Exit code, what was said, and how many calls changed a folder."""
        counted = self.path.parent / "count"
        counted.unlink(missing_ok=True)
        env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        env |= {"KILL_BELOW": str(self.path), "KILL_AT": str(kill_at), "KILL_COUNT": str(counted)}
        process = WarmProcess(PROGRAM, [str(arg) for arg in args], env)
        said = "".join(process.communicate(timeout=300))
        count = int(counted.read_text()) if counted.exists() else 0
        return process.returncode or 0, said, count

    def synth(self, *flags: object, rows: str = "rows", out: str = "out") -> list[object]:
        """The arguments of a run."""
        manifests = {"rows": ROWS, "changed": CHANGED, "fewer": ROWS[:2], "others": OTHERS}
        manifest = self.rows(manifests[rows], "others" if rows == "others" else "rows")
        return ["synth", manifest, "--out", self.path / out, "--model", self.model, *FLAGS, *flags]

    def must(self, *args: object) -> None:
        """Run what prepares a try."""
        code, said, _ = self.run(*args)
        assert code == 0, said


OTHERS = [{"id": f"s{n}", "text": TEXTS[n]} for n in range(3)]

Command = Callable[[Place], list[object]]


@dataclass(frozen=True)
class Case:
    """A command that is killed, and what is run behind it once it was run again."""

    name: str
    command: Command
    then: tuple[Command, ...] = (lambda place: place.synth(rows="changed"),)
    before: Callable[[Place], None] = lambda place: None
    start: str = "worn"  # or bare: an empty folder
    takes: int = 0  # that each row must get


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


CASES = (
    Case("synth", lambda place: place.synth(), start="bare"),
    Case("changed", lambda place: place.synth(rows="changed"), (lambda place: place.synth(),)),
    Case("overwrite", lambda place: place.synth("--overwrite", "--seed", 9)),
    Case("takes", lambda place: place.synth("--takes", 1), takes=1),
    Case("verify", lambda place: place.synth("--verify-files")),
    Case("prune", lambda place: place.synth("--prune", rows="fewer")),
    Case("level", lambda place: place.synth("--loudness", "podcast")),
    Case("encode", lambda place: ["encode", place.out, "--loudness", "podcast"]),
    Case("format", lambda place: ["encode", place.out, "--format", "flac"]),
    Case("relevel", lambda place: ["encode", place.out, "--loudness", "podcast"], before=level),
    Case("pick", lambda place: ["pick", place.out, "r1=1", "r2=2", "r3=1"]),
    Case(
        "merge",
        lambda place: ["merge", place.out, place.path / "other", "--out", place.path / "all"],
        (lambda place: place.synth(rows="changed", out="all"),),
        before=two_folders,
    ),
    Case(
        "export",
        lambda place: ["export", place.out, "--to", "ljspeech", "--out", place.path / "lj"],
        (
            lambda place: place.synth(rows="changed"),
            lambda place: ["export", place.out, "--to", "ljspeech", "--out", place.path / "lj"],
        ),
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
    """As an editor does that writes a new file."""
    samples, rate_hz = soundfile.read(path, dtype="int16")
    path.unlink()
    soundfile.write(path, np.concatenate([samples, samples[:500]]), rate_hz, "PCM_16")


def wear(place: Place) -> None:
    """Speak a folder, choose in it, and edit it."""
    place.must(*place.synth())
    place.must(*place.synth("--takes", 1, "--only", "r1,r2"))
    place.must("pick", place.out, "r1=2")
    edit(place.out / "r2.wav")
    edit(place.out / "r3.wav")


def lines_of(out: Path) -> list[dict[str, Any]]:
    """The whole lines of a journal."""
    path = out / JOURNAL
    data = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in data if line.strip()]


def sum_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sums_below(folder: Path) -> dict[str, Path]:
    """All files, by their sums."""
    return {sum_of(path): path for path in folder.rglob("*") if path.is_file()}


def journals(place: Place) -> Iterator[Path]:
    """Folders that rows were spoken into."""
    for path in place.path.rglob(JOURNAL):
        yield path.parent


def promised(place: Place) -> dict[str, str]:
    """Sums of what journals have as ok, and what it is. What was made of other audio is not, but
    what it was made of.
    """
    found = {}
    for out in journals(place):
        for line in lines_of(out):
            source = line.get("source")
            if line["status"] == "ok" and line.get("sha256"):
                digest = line["sha256"] if source is None else source.get("sha256")
                found[digest] = f"take {line['take']} of {line['id']} in {out.name}/"
    found.pop(None, None)
    return found


def numbers_twice(place: Place) -> str:
    """A take's number that stands for two speeches, if there is any."""
    for out in journals(place):
        known: dict[tuple[str, int], str] = {}
        for line in lines_of(out):
            if line["status"] == "ok":
                digest = known.setdefault((line["id"], line["take"]), line["request_hash"])
                if digest != line["request_hash"]:
                    return f"take {line['take']} of {line['id']} is two speeches"
    return ""


def leftovers(out: Path) -> set[Path]:
    """Where rows' files of another format than their lines tell may lie."""
    lines = [line for line in lines_of(out) if line["role"] != "extra" and line.get("path")]
    suffixes = {line["id"]: Path(line["path"]).suffix for line in lines}  # of their last ones
    return {
        out / f"{row_id}{suffix}"
        for row_id, own in suffixes.items()
        for suffix in AUDIO
        if suffix != own
    }


def files_of_rows(place: Place) -> dict[str, str]:
    """Sums of the audio that commands must leave: rows' files, chapters, voices."""
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
    """A folder through a kill and what follows it."""

    place: Place
    wanted: dict[str, str] = field(default_factory=dict)  # sums, and what they are
    given_up: set[str] = field(default_factory=set)  # what users have overwritten is theirs

    def learn(self, first: bool = False) -> str:
        """What is lost, or is now promised, too."""
        found = sums_below(self.place.path)
        for digest, what in promised(self.place).items():
            if first and digest not in found:
                self.given_up.add(digest)
            elif digest not in self.given_up:
                self.wanted.setdefault(digest, what)
        if first:
            lines = [line for out in journals(self.place) for line in lines_of(out)]
            made = self.wanted.keys() | {line["sha256"] for line in lines}
            for digest, path in found.items():
                if digest not in made and path.name in EDITED:
                    self.wanted[digest] = f"edited {path.name}"
        lost = [what for digest, what in self.wanted.items() if digest not in found]
        return f"lost: {'; '.join(lost)}" if lost else numbers_twice(self.place)


@dataclass
class Series:
    """The tries of one case."""

    case: Case
    start: Path  # to be copied
    place: Place

    def begin(self) -> Try:
        """A new copy."""
        shutil.rmtree(self.place.path, ignore_errors=True)
        shutil.copytree(self.start, self.place.path, symlinks=True)
        return link_again(Try(self.place))

    def follow(self, found: Try) -> tuple[list[int], str]:
        """Run the same command, and the others; exit codes, and what is wrong."""
        codes = []
        for command in (self.case.command, *self.case.then):
            code, said, _ = self.place.run(*command(self.place))
            codes.append(code)
            if problem := odd_word(said) or found.learn():
                return codes, f"{command(self.place)[0]}: {problem}"
        return codes, self.takes_problem()

    def takes_problem(self) -> str:
        """Whether rows have other than the takes that runs which ended were asked for."""
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
    for path in found.place.path.rglob("takes/*/*"):
        own = path.parents[2] / f"{path.parent.name}{path.suffix}"
        if own.is_file() and own.read_bytes() == path.read_bytes():
            own.unlink()
            os.link(path, own)
    return found


def run_case(
    case: Case, start: Path, place: Place, kills: int, part: tuple[int, int]
) -> tuple[int, list[str]]:
    """Kill a command again and again; how often, and what was wrong."""
    series, problems = Series(case, start, place), []
    undisturbed = series.begin()
    assert not undisturbed.learn(first=True)
    code, said, num_calls = place.run(*case.command(place))
    assert code in (0, 1), said
    codes, problem = series.follow(undisturbed)
    if problem:
        problems.append(f"{case.name}: undisturbed: {problem}")
    wanted = files_of_rows(place)
    count = min(kills or num_calls, num_calls)
    moments = [1 + number * num_calls // count for number in range(count)][part[0] - 1 :: part[1]]
    for moment in moments:
        found = series.begin()
        problem = found.learn(first=True)
        place.run(*case.command(place), kill_at=moment)
        problem = problem or found.learn()
        if not problem:
            again, problem = series.follow(found)
            if not problem and (again[0] not in (code, codes[0]) or again[1:] != codes[1:]):
                problem = f"exit codes {again}, undisturbed {codes}"
            if not problem and (left := files_of_rows(place)) != wanted:
                names = sorted(name for name in left | wanted if left.get(name) != wanted.get(name))
                problem = f"other files than undisturbed: {', '.join(names)}"
        if problem:
            problems.append(f"{case.name}: killed before call {moment} of {num_calls}: {problem}")
    count = len(moments)
    print(f"{case.name}: {count} kills at {num_calls} calls, {len(problems)} wrong", flush=True)
    return count, problems


def main() -> int:
    """Run the series."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=0, help="of each command; 0: at every call")
    parser.add_argument("--only", default="", help="commands, by the names that are printed")
    parser.add_argument(
        "--part", default="1/1", help="I/N: every N-th of these kills, from the I-th"
    )
    parser.add_argument("--model", type=Path, help="another checkpoint than the tiny one")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="calls-"))
    model = options.model or write_tiny_model(folder / "model")
    from tiny_qwen3_tts import SPECS, write_checkpoint

    base = write_checkpoint(folder / "base", SPECS["base_wide"])
    worn = Place(folder / "worn", model, base)
    worn.path.mkdir()
    wear(worn)
    first, parts = map(int, options.part.split("/"))
    kills, problems = 0, []
    for case in CASES:
        if options.only and case.name not in options.only.split(","):
            continue
        start = Place(folder / f"start-{case.name}", model, base)
        if case.start == "worn":
            shutil.copytree(worn.path, start.path)
            link_again(Try(start))
        else:
            start.path.mkdir()
        case.before(start)
        tries = Place(folder / "try", model, base)
        count, wrong = run_case(case, start.path, tries, options.kills, (first, parts))
        kills += count
        problems += wrong
    print("\n".join(problems))
    print(f"{kills} kills: {len(problems)} wrong")
    shutil.rmtree(folder)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
