"""kill -9 while rows are spoken anew: no take is lost, and no row's file is anything but a take.

    python tests/e2e/take_moments.py [--kills 20] [--rows 40] [--seed 0] [--model DIR]

A manifest is spoken once, then once more by `--overwrite --seed 9`, undisturbed. Then copies of the
first folder are spoken anew so, and killed at random moments. After every kill each row's file must
be one of its two takes, whole, and each line have its file. A plain run must then find nothing to
do and make every file what the journal says, and a last `--overwrite --seed 9` give what the
undisturbed one gave.

Ends with 1 at the first difference, and keeps the folder then.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from kill_moments import (
    LOCK,
    Work,
    end_of,
    files_of,
    odd_word,
    parser_of,
    speak_undisturbed,
    write_work,
)

AGAIN = ("--overwrite", "--seed", "9")


def lines_of(out: Path) -> list[dict[str, Any]]:
    """The whole lines of a journal."""
    data = (out / "timings.jsonl").read_bytes().split(b"\n")[:-1]
    return [json.loads(line) for line in data]


def rows_files(files: dict[str, str]) -> dict[str, str]:
    """Those that are no takes, their list left out."""
    return {
        name: digest
        for name, digest in files.items()
        if not name.startswith("takes") and not name.endswith((".part", LOCK))
    }


def problem_amid(out: Path, old: dict[str, str], new: dict[str, str]) -> str | None:
    """What is wrong with a folder whose run was just killed."""
    found = files_of(out)
    for name, digest in rows_files(found).items():
        if name.endswith(".wav") and digest not in (old[name], new[name]):
            return f"{name} is no take"
    last = {(line["id"], line["take"]): line for line in lines_of(out)}
    for line in last.values():
        if line["status"] == "ok" and found.get(line["path"]) != line["sha256"]:
            kept = f"takes/{line['id']}/{line['take']}.wav"
            if found.get(kept) != line["sha256"]:
                return f"take {line['take']} of {line['id']} is recorded, and not there"
    return None


def problem_after(out: Path, said: str) -> str | None:
    """What is wrong once a plain run has been there."""
    found = files_of(out)
    if "nothing to do" not in said:
        return f"rows were spoken that had takes: {said[-300:]}"
    chosen = {line["id"]: line for line in lines_of(out) if line["role"] != "extra"}
    for row_id, line in chosen.items():
        if found[f"{row_id}.wav"] != line["sha256"]:
            return f"{row_id}.wav is not take {line['take']}"
    path = out / "takes.json"
    choices = json.loads(path.read_text())["choices"] if path.exists() else {}
    for row_id, choice in choices.items():
        if choice["take"] != chosen[row_id]["take"]:
            return f"takes.json tells of take {choice['take']} of {row_id}"
    return None


def run(work: Work, out: Path, *flags: str, kill_after_s: float | None = None) -> tuple[int, str]:
    """Exit code and all that was said."""
    process: subprocess.Popen[str] = work.start(out, *flags)
    if kill_after_s is not None:
        try:
            said, _ = process.communicate(timeout=kill_after_s)
            return process.returncode, said
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
    return end_of(process)


def spoil(work: Work, first: Path, out: Path, new: dict[str, str], moments: list[float]) -> str:
    """One folder, killed at these moments; what is wrong, or nothing."""
    shutil.copytree(first, out)
    old = rows_files(files_of(first))
    for moment_s in moments:
        _, said = run(work, out, *AGAIN, kill_after_s=moment_s)
        rows = sum(line["seed"] is not None for line in lines_of(out)) - len(work.rows)
        print(f"killed after {moment_s:.2f} s: {rows} lines more", flush=True)
        problem = problem_amid(out, old, new) or odd_word(said)
        code, said = (0, "") if problem else run(work, out)
        problem = problem or problem_after(out, said) or odd_word(said)
        if problem or code:
            return problem or f"exit {code}: {said[-500:]}"
    code, said = run(work, out, *AGAIN)
    found = files_of(out)
    if code or rows_files(found) != new:
        return f"files are not those of an undisturbed run: {said[-500:]}"
    lost = [row for row in work.rows if found.get(f"takes/{row}/1.wav") != old[f"{row}.wav"]]
    return f"first takes are lost: {', '.join(lost[:5])}" if lost else ""


def main() -> int:
    """Run the series."""
    parser = parser_of(__doc__, 40)
    parser.add_argument("--kills", type=int, default=20)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="takes-"))
    work = write_work(folder, options.rows, options.model)
    _, whole_s = speak_undisturbed(work, folder / "first")
    shutil.copytree(folder / "first", folder / "again")
    code, said = run(work, folder / "again", *AGAIN)
    assert code == 0, said
    new = rows_files(files_of(folder / "again"))
    dice = random.Random(options.seed)
    for number in range(0, options.kills, 2):
        # The first half of a run loads the model.
        moments = [dice.uniform(0.4, 1.1) * whole_s for _ in range(2)]
        if problem := spoil(work, folder / "first", folder / f"run{number}", new, moments):
            print(f"WRONG: {problem}\nkept: {folder / f'run{number}'}")
            return 1
    print(f"{options.kills} kills: no take lost, every file a take")
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
