"""What rows and lines cost: microseconds of processor a row, and memory, printed as JSON.

    python tests/goldens/rates.py [--rows 20000] [--only validate,resume]

Every command runs in a process of its own over few rows and over many; what the further rows take
is the rate. Nothing is spoken. Compare figures of the same machine, one behind the other:

    python tests/goldens/rates.py > before.json     # in one tree, and in the other
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from desk import environment, parser
from many_rows import write_done, write_manifest
from spoken_folders import many_records, write_folder

FEW = 10  # times fewer rows in the first run
PROGRAM = """
import re, resource, sys
from tts_cli.main import main
code = main(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_SELF)
with open("/proc/self/status") as file:  # ru_maxrss is the parent's, where that had more
    most = re.search(r"VmHWM:\\s+([0-9]+)", file.read())[1]
print(code, used.ru_utime + used.ru_stime, int(most) / 1024, file=sys.__stderr__)
"""
AS_WRITTEN = ("--normalize", "off")
Args = Callable[[Path], list[object]]

# Of a folder with `rows.jsonl`, `done` (all rows of it done) and `heard` (lines of four voices).
COMMANDS: dict[str, Args] = {
    "help": lambda place: ["--help"],
    "validate": lambda place: ["validate", place / "rows.jsonl", *AS_WRITTEN],
    "validate in words": lambda place: ["validate", place / "rows.jsonl"],
    "plan": lambda place: [*_run(place, "none"), "--dry-run"],
    "resume": lambda place: _run(place, "done"),
    "resume by another seed": lambda place: [*_run(place, "done"), "--dry-run", "--seed", 9],
    "pick": lambda place: ["pick", place / "heard"],
    "check": lambda place: ["check", place / "heard", "-q"],
    "report": lambda place: ["report", place / "heard", "-q", "-o", place / "page.html"],
}


def _run(place: Path, out: str) -> list[object]:
    return ["synth", place / "rows.jsonl", "--out", place / out, "--device", "cpu", *AS_WRITTEN]


def measure(args: list[object]) -> tuple[float, float]:
    """Seconds of processor, and the most MiB."""
    command = [sys.executable, "-c", PROGRAM, *map(str, args)]
    found = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    code, seconds, mib = found.stderr.splitlines()[-1].split()
    if int(code) not in (0, 1):
        raise RuntimeError(f"{args[0]} ended with {code}: {found.stderr[-500:]}")
    return float(seconds), float(mib)


def prepare(place: Path, rows: int) -> Path:
    """A folder for the commands."""
    place.mkdir()
    write_manifest(place / "rows.jsonl", rows)
    write_done(place / "rows.jsonl", place / "done")
    write_folder(place / "heard", many_records(rows), audio={})
    return place


def rates(rows: int, names: list[str]) -> dict[str, Any]:
    """Figures of each command."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        few = prepare(Path(scratch) / "few", rows // FEW)
        many = prepare(Path(scratch) / "many", rows)
        for name in names:
            base_s, base_mib = measure(COMMANDS[name](few))
            seconds, mib = measure(COMMANDS[name](many))
            further = rows - rows // FEW
            found[name] = {
                "rows": rows,
                "cpu_s": round(seconds, 3),
                "start_s": round(base_s - (seconds - base_s) / (FEW - 1), 3),
                "us_a_row": round(1e6 * (seconds - base_s) / further, 1),
                "mib": round(mib, 1),
                "bytes_a_row": round(2**20 * (mib - base_mib) / further),
            }
    return found


def main() -> int:
    """Command line."""
    known = parser(__doc__)
    known.add_argument("--rows", type=int, default=20_000)
    known.add_argument("--only", default=",".join(COMMANDS))
    options = known.parse_args()
    print(json.dumps(rates(options.rows, options.only.split(",")), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
