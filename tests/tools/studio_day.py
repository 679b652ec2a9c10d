"""A studio's day: from a script's spreadsheet to delivered files, timed, nothing spoken twice.

    python tests/tools/studio_day.py [--rows 2000] [--out DIR]

A workbook as a script comes out of a spreadsheet is spoken with a cast of twenty characters, and
the report opened. Twelve lines are spoken again and other takes of them chosen, the format changes,
one line of text is edited, and what is delivered is looked at. Commands are typed as a user would,
`--map` as the first message names it; each is timed, by the clock and by the processor, and behind
each the journal tells what was spoken for it. A tiny random checkpoint speaks.

Where Chromium and playwright are, the report is opened in it too. Ends with 1 if something is
wrong, and keeps the folder then, or where --out names it.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import random
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from runs import JOURNAL, ROOT, odd_word, write_tiny_model

from tts_cli.cli import messages as msg

PATIENCE_S = 3600.0
SCRIPT = "script.xlsx"
SHEET = "Script EN"
HEADER = ("Line ID", "Character", "Dialogue", "Notes")
VOICES = ("dora", "emil", "fang")  # of the tiny checkpoint
CHARACTERS = (
    "Mira", "Old Tom", "Captain Reyes", "Dr. Weber", "Guard 1", "Guard 2", "The Miller's Wife",
    "Ines", "Brother Anselm", "Jonas", "Lady Carrow", "Pip", "Smith (young)", "Smith (old)",
    "Innkeeper", "Ferryman", "Señora Vidal", "Watchman", "Radio", "Narrator",
)  # fmt: skip
OPENINGS = ("Listen,", "I tell you,", "Before the bell rings,", "By the old bridge", "Every night",
            "If you ask me,", "Somewhere in the fog", "They say that")  # fmt: skip
WHO = ("the ferryman", "a stranger in gray", "my sister", "the captain's dog", "nobody we know",
       "the last of the guards", "that clockmaker", "an honest thief")  # fmt: skip
WHAT = ("waits for the boat", "hides a letter", "counts the lamps", "sings to the river",
        "closes the gate", "sells us bread", "knows the way home", "lost a silver key")  # fmt: skip
ENDINGS = ("and asks for nothing.", "until the rain stops.", "but never on a Sunday.",
           "does he not?", "and you will thank me later!", "so keep your voice down.")  # fmt: skip
NOTES = ("", "", "whispered", "from far away", "Angry; see the storyboard, page 12")
NUM_RETAKES = 12
MAX_RETRIES = 3  # runs for what failed
EDITED = "No. I have changed my mind, and so has the river."


def text_of(number: int) -> str:
    """A line of dialogue; none of the first 3,072 is like another."""
    found = []
    for words in (OPENINGS, WHO, WHAT, ENDINGS):
        number, place = divmod(number, len(words))
        found.append(words[place])
    return " ".join(found)


def id_of(number: int) -> str:
    """What the script calls a line."""
    return f"Q{number // 100:02d}_{number:05d}"


def write_script(path: Path, num_rows: int) -> None:
    """The workbook."""
    import openpyxl

    dice = random.Random(0)
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = SHEET
    sheet.append(HEADER)
    for number in range(num_rows):
        character = CHARACTERS[number] if number < len(CHARACTERS) else dice.choice(CHARACTERS)
        sheet.append((id_of(number), character, text_of(number), dice.choice(NOTES)))
    book.save(path)


def edit_script(path: Path, number: int) -> None:
    """Write another text into one line, as somebody does who opens the workbook and saves it."""
    import openpyxl

    book = openpyxl.load_workbook(path)
    book[SHEET].cell(number + 2, HEADER.index("Dialogue") + 1).value = EDITED
    book.save(path)


def notes_of(path: Path) -> dict[str, str]:
    """What the workbook has beside each line."""
    import openpyxl

    rows = openpyxl.load_workbook(path)[SHEET].iter_rows(min_row=2, values_only=True)
    return {str(row[0]): str(row[3] or "") for row in rows}


def write_cast(path: Path) -> None:
    """How each character speaks."""
    tables = []
    for number, name in enumerate(CHARACTERS):
        lines = [f'["{name}"]', f'voice = "{VOICES[number % len(VOICES)]}"', f"seed = {number}"]
        if number % 3 == 2:
            lines.append("temperature = 0.8")
        tables.append("\n".join(lines) + "\n")
    path.write_text("\n".join(tables), encoding="utf-8")


def sha256_of(path: Path) -> str:
    """Of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@dataclass(frozen=True)
class Step:
    """A command, and what came of it."""

    name: str
    typed: str
    said: str  # on stdout and stderr
    wall_s: float
    cpu_s: float
    spoken: Counter[str]  # what the journal has more than before it, by role, or failed


@dataclass
class Day:
    """The commands of a day in a folder, and what they left.

    Args:
        folder: the working folder; the audio goes into `wavs` in it.
    """

    folder: Path
    steps: list[Step] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def out(self) -> Path:
        """Where the audio lies."""
        return self.folder / "wavs"

    def lines(self) -> list[dict[str, Any]]:
        """All of the journal."""
        path = self.out / JOURNAL
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def speeches(self) -> dict[tuple[Any, ...], dict[str, Any]]:
        """The first line of everything that was spoken, failures too. A take that is chosen, or
        whose file is made anew, gets a line more, which tells of the same run and the same moment.
        """
        found: dict[tuple[Any, ...], dict[str, Any]] = {}
        for line in self.lines():
            if line["attempts"]:
                key = (line["id"], line["take"], line["run_id"], line["started"])
                found.setdefault(key, line)
        return found

    def rows(self) -> dict[str, dict[str, Any]]:
        """The last line of the take that is each row's file."""
        return {line["id"]: line for line in self.lines() if line["role"] != "extra"}

    def run(self, name: str, *args: str, code: int | None = 0) -> str:
        """Type a command; what it said. It must end with this code, or None: any."""
        before = self.speeches().keys()
        typed = shlex.join(["tts-cli", *args])
        started_s, used_s = time.monotonic(), children_s()
        result = subprocess.run(
            [sys.executable, "-m", "tts_cli", *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
            timeout=PATIENCE_S,
            env=environment(self.folder),
        )
        wall_s, cpu_s = time.monotonic() - started_s, children_s() - used_s
        new = [line for key, line in self.speeches().items() if key not in before]
        spoken = Counter(line["role"] if line["status"] == "ok" else "failed" for line in new)
        self.steps.append(Step(name, typed, result.stdout, wall_s, cpu_s, spoken))
        print(f"$ {shortened(typed)}\n{shortened(result.stdout, 600).rstrip()}", flush=True)
        self.expect(code in (None, result.returncode), f"{name}: exit {result.returncode}")
        self.expect(not odd_word(result.stdout), f"{name}: {odd_word(result.stdout)}")
        return result.stdout

    def expect(self, is_so: bool, otherwise: str) -> None:
        """Note what is wrong, and go on."""
        if not is_so:
            print(f"WRONG: {otherwise}", flush=True)
            self.problems.append(otherwise)

    def expect_spoken(self, **wanted: int) -> None:
        """How much the last command may have spoken, by role."""
        step = self.steps[-1]
        self.expect(
            dict(step.spoken) == wanted, f"{step.name}: spoken {dict(step.spoken)}, not {wanted}"
        )

    def file_of(self, line: dict[str, Any]) -> Path:
        """The row's own file, which a take in `takes/` may be the same as."""
        return self.out / f"{line['id']}{Path(line['path']).suffix}"

    def expect_files(self) -> dict[str, str]:
        """SHA-256 of each row's file, which must be what its line says; so must the take's."""
        found = {}
        for row_id, line in self.rows().items():
            for path in {self.out / line["path"], self.file_of(line)}:
                found[row_id] = sha256_of(path) if path.is_file() else ""
                self.expect(found[row_id] == line["sha256"], f"{path} is not what its line says")
        return found


def children_s() -> float:
    """Processor seconds of all commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def environment(folder: Path) -> dict[str, str]:
    """That of a user whose settings are those of the working folder alone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TTS_CLI_")}
    own = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "XDG_CONFIG_HOME": str(folder)}
    return {**kept, **own}


def shortened(text: str, most: int = 160) -> str:
    """A text with its middle left out if it is long."""
    return text if len(text) <= most else f"{text[: most * 2 // 3]} ... {text[-most // 3 :]}"


def opened_ms(page: Path) -> float | None:
    """Milliseconds until Chromium has the report; None where there is none."""
    chromium = os.environ.get("TTS_TESTS_CHROMIUM") or shutil.which("chromium")
    if chromium is None or importlib.util.find_spec("playwright") is None:
        return None
    from playwright.sync_api import sync_playwright

    flags = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        window = browser.new_page()
        window.goto(page.resolve().as_uri())
        window.wait_for_selector("html[data-ready]", state="attached")
        found = window.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
        browser.close()
    return float(found)


def speak(day: Day, num_rows: int) -> list[str]:
    """Morning: the script is checked and spoken. Returns the arguments of `synth`."""
    said = day.run("wrong header", "validate", SCRIPT, code=2)
    advice = re.search(r"add (--map .+? --extra keep) ", said)
    if advice is None:
        sys.exit(f"no --map is named: {said}")
    flags = [*shlex.split(advice[1]), "--cast", "cast.toml"]
    said = day.run("check", "validate", SCRIPT, *flags)
    day.expect(f"{num_rows:,} good, 0 invalid" in said, "the check does not count the rows")
    synth = ["synth", SCRIPT, *flags, "--out", "wavs"]
    said = day.run("speak", *synth, code=None)
    for _ in range(MAX_RETRIES):  # some speech of a random checkpoint ends at once
        advice = re.search(msg.NEXT_FAILED.format(command="tts-cli (.+)"), said, re.MULTILINE)
        if advice is None:
            break
        said = day.run("speak failed", *shlex.split(advice[1]), code=None)
    spoken = sum(step.spoken["own"] for step in day.steps)
    day.expect(spoken == num_rows, f"{spoken} rows of {num_rows} are spoken")
    rows = day.rows()
    day.expect(all(line["status"] == "ok" for line in rows.values()), "rows have failed")
    day.expect(len(rows) == num_rows, f"{len(rows)} rows are recorded")
    day.expect(len({line["character"] for line in rows.values()}) == 20, "not all characters speak")
    notes = {row_id: line["extra"].get("Notes", "") for row_id, line in rows.items()}
    day.expect(notes == notes_of(day.folder / SCRIPT), "notes are not kept")
    day.expect_files()
    return synth


def open_report(day: Day, name: str) -> str:
    """Make the report and open it; a line about it."""
    day.run(name, "report", "wavs")
    day.expect_spoken()
    page = day.out / "report.html"
    took_ms = opened_ms(page)
    opened = "no Chromium to open it" if took_ms is None else f"open in {took_ms:.0f} ms"
    return f"{name}: {page.stat().st_size / 1e6:.1f} MB, {opened}"


def choose(day: Day, synth: list[str]) -> None:
    """Noon: twelve lines get two more takes, and one of these each; a plain run leaves them."""
    before = day.expect_files()
    chosen = sorted(before)[:: len(before) // NUM_RETAKES][:NUM_RETAKES]
    day.run("retakes", *synth, "--only", ",".join(chosen), "--takes", "2")
    day.expect_spoken(extra=2 * NUM_RETAKES)
    day.expect(day.expect_files() == before, "retakes have changed files of rows")
    takes = dict(zip(chosen, [2, 3] * NUM_RETAKES, strict=False))
    day.run("pick", "pick", "wavs", *(f"{row_id}={take}" for row_id, take in takes.items()))
    day.expect_spoken()
    after = day.expect_files()
    spoken = {(line["id"], line["take"]): line["sha256"] for line in day.speeches().values()}
    wanted = {row_id: spoken[row_id, takes.get(row_id, 1)] for row_id in before}
    day.expect(after == wanted, "files are not the takes that were chosen")
    day.expect(all(after[row_id] != before[row_id] for row_id in chosen), "a retake is the same")
    said = day.run("again", *synth)
    day.expect_spoken()
    day.expect(msg.NOTHING_TO_DO.format(reason="") in said, "a plain run finds something to do")
    day.expect(day.expect_files() == after, "a plain run has changed files")


def change_format(day: Day) -> None:
    """Afternoon: the same speech as FLAC."""
    import numpy as np
    import soundfile

    old = {row_id: day.file_of(line) for row_id, line in day.rows().items()}
    samples = {row_id: soundfile.read(path, dtype="int16")[0] for row_id, path in old.items()}
    takes = {row_id: line["take"] for row_id, line in day.rows().items()}
    day.run("format", "encode", "wavs", "--format", "flac")
    day.expect_spoken()
    day.expect_files()
    for row_id, line in day.rows().items():
        path = day.file_of(line)
        is_same = path.suffix == ".flac" and line["take"] == takes[row_id]
        is_same = is_same and np.array_equal(
            soundfile.read(path, dtype="int16")[0], samples[row_id]
        )
        day.expect(is_same, f"{row_id}: {path.name} is not what {old[row_id].name} was")


def edit(day: Day, synth: list[str]) -> None:
    """A line is rewritten: it alone is spoken, and what it was stays a take."""
    before, rows = day.expect_files(), day.rows()
    number = next(n for n in count(1) if rows[id_of(n)]["take"] == 1)
    row_id = id_of(number)
    edit_script(day.folder / SCRIPT, number)
    day.run("edited line", *synth)
    day.expect_spoken(own=1)
    after = day.expect_files()
    changed = [name for name in before if after[name] != before[name]]
    day.expect(changed == [row_id], f"changed are {changed[:5]}, not {row_id}")
    day.expect(day.rows()[row_id]["text"] == EDITED, f"{row_id} has not the new text")
    kept = day.out / "takes" / row_id / f"1{Path(rows[row_id]['path']).suffix}"
    is_kept = kept.is_file() and sha256_of(kept) == before[row_id]
    day.expect(is_kept, f"{kept} is not the audio that was replaced")


def deliver(day: Day, num_rows: int) -> str:
    """Evening: every line once, in the format that was asked for; what lies there, in a line."""
    rows, suffix = day.rows(), ".flac"
    wanted = {f"{row_id}{suffix}" for row_id in map(id_of, range(num_rows))}
    recorded = {day.file_of(line).name for line in rows.values()}
    day.expect(recorded == wanted, f"{len(recorded)} {suffix} files are recorded")
    found = {path.name for path in day.out.iterdir() if path.suffix == suffix}
    day.expect(found == wanted, f"{len(found)} {suffix} files lie there")
    choices = json.loads((day.out / "takes.json").read_text(encoding="utf-8"))["choices"]
    day.expect(
        all(choice["take"] == rows[row_id]["take"] for row_id, choice in choices.items()),
        "takes.json and the journal differ",
    )
    held = sum(line["role"] == "held" for line in rows.values())
    day.expect(held == NUM_RETAKES, f"{held} chosen takes are files of rows")
    day.expect_files()
    size = sum(path.stat().st_size for path in day.out.iterdir() if path.suffix == suffix)
    return f"delivered: {len(found):,} {suffix} files, {size / 1e6:.1f} MB, {held} chosen takes"


def expect_once(day: Day) -> None:
    """Nothing is spoken twice: a row's words stand in the journal once with the same seed. What
    failed is told apart.
    """
    speeches = [line for line in day.speeches().values() if line["status"] == "ok"]
    twice = Counter((line["id"], line["content_hash"], line["seed"]) for line in speeches)
    again = [key for key, times in twice.items() if times > 1]
    day.expect(not again, f"{len(again)} speeches were made twice, such as {again[:1]}")
    lines = map(json.loads, (day.out / "runs.jsonl").read_text().splitlines())
    runs = [run for run in lines if run["totals"] is not None]  # a run's first line has none
    told = sum(run["totals"]["ok"] + run["totals"]["takes"] for run in runs)
    day.expect(told == len(speeches), f"runs tell of {told} speeches, lines of {len(speeches)}")


def table(day: Day) -> list[str]:
    """A line a command."""
    roles = ("own", "held", "extra", "failed")
    named = " ".join(f"{role:>6}" for role in roles)
    lines = [f"{'step':14} {'wall s':>8} {'CPU s':>8} {named}  command"]
    for step in day.steps:
        numbers = " ".join(f"{step.spoken[role]:6d}" for role in roles)
        typed = shortened(step.typed, 60)
        lines.append(f"{step.name:14} {step.wall_s:8.2f} {step.cpu_s:8.2f} {numbers}  {typed}")
    spoken = sum((step.spoken for step in day.steps), Counter[str]())
    numbers = " ".join(f"{spoken[role]:6d}" for role in roles)
    wall_s, cpu_s = (sum(getattr(step, name) for step in day.steps) for name in ("wall_s", "cpu_s"))
    return [*lines, f"{'total':14} {wall_s:8.2f} {cpu_s:8.2f} {numbers}  {len(day.steps)} commands"]


def spend(day: Day, num_rows: int) -> list[str]:
    """All of it; what is to be said of it besides the table."""
    synth = speak(day, num_rows)
    notes = [open_report(day, "report")]
    choose(day, synth)
    change_format(day)
    synth = [*synth, "--format", "flac"]
    edit(day, synth)
    notes.append(open_report(day, "last report"))
    notes.append(deliver(day, num_rows))
    expect_once(day)
    return notes


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=2000, help="lines of the script (2000)")
    parser.add_argument("--out", type=Path, help="an empty folder, kept (one that is removed)")
    options = parser.parse_args()
    if not 2 * len(CHARACTERS) <= options.rows <= 3072:
        parser.error("--rows is 40 to 3072")
    folder = options.out or Path(tempfile.mkdtemp(prefix="studio-"))
    folder.mkdir(parents=True, exist_ok=True)
    model = write_tiny_model(folder / "model").resolve()
    settings = f'model = {json.dumps(str(model))}\ndevice = "cpu"\n'
    (folder / "tts-cli.toml").write_text(settings, encoding="utf-8")
    write_script(folder / SCRIPT, options.rows)
    write_cast(folder / "cast.toml")
    day = Day(folder)
    notes = spend(day, options.rows)
    print("\n".join(["", *table(day), *notes, *day.problems, f"{len(day.problems)} wrong"]))
    if day.problems:
        print(f"kept: {folder}")
    elif options.out is None:
        shutil.rmtree(folder)
    return int(bool(day.problems))


if __name__ == "__main__":
    sys.exit(main())
