"""Plant faults in a copy of the tree, one at a time, and report which tests find each.

    python tests/goldens/faults.py [--only NAME,...] [--room ROOM] [--held | --seen] [--write]

A fault of faults.json is a few changed characters of one file. `tests` are the files that may find
it, so that one fault takes seconds. The text is searched for in all files, so that code may move;
if it is gone or ambiguous, LOST is printed and faults.json must be corrected.

Half of the faults are held out (`held`): whoever cuts or rewrites tests does not look at them, and
checks them at the end. `--write` stores the tests that found each fault. The exit code is 1 if a
fault is not found or lost.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from desk import ROOT, environment, parser
from warm_process import WarmProcess

FAULTS = Path(__file__).with_name("faults.json")
CODE = ("tts_cli", "models", "kernels")
COPIED = (*CODE, "tests", "pyproject.toml", "README.md")
MAX_NAMED = 3  # tests that are stored for a fault
TIMEOUT_S = 600.0
PROGRAM = "import sys, pytest\nsys.exit(pytest.main(sys.argv[1:]))"  # in a process that has torch


@dataclass
class Fault:
    """A mistake that a programmer could make.

    Args:
        what: the effect for a user.
        tests: files or folders below tests/ that may find it.
        found_by: the first tests that found it.
        held: it is held out while tests are changed.
    """

    what: str
    file: str
    old: str
    new: str
    tests: list[str]
    found_by: list[str]
    held: bool = False


def place_of(fault: Fault, tree: Path) -> Path:
    """Return the file that contains the text of a fault. Raises LookupError: none, or several."""
    here = tree / fault.file
    if here.is_file() and here.read_text(encoding="utf-8").count(fault.old) == 1:
        return here
    paths = [path for top in CODE for path in sorted((tree / top).rglob("*.py"))]
    found = [path for path in paths if fault.old in path.read_text(encoding="utf-8")]
    if len(found) != 1 or found[0].read_text(encoding="utf-8").count(fault.old) != 1:
        names = ", ".join(str(path.relative_to(tree)) for path in found) or "no file"
        raise LookupError(f"{fault.old!r} is in {names}; correct `file` or `old`")
    return found[0]


def copy_tree(target: Path) -> None:
    """Copy the tree with uncommitted changes; samples are linked."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name)
        else:
            shutil.copy(source, target / name)
    (target / "samples").symlink_to(ROOT / "samples")


def finders(fault: Fault, tree: Path) -> list[str]:
    """Plant a fault, run its tests and return the first that fail. Raises LookupError: the fault or
    its tests are missing, or pytest could not run them.
    """
    path = place_of(fault, tree)
    missing = [name for name in fault.tests if not (tree / "tests" / name).exists()]
    if missing:
        raise LookupError(f"{', '.join(missing)}: no such tests; correct `tests`")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
    flags = ("-q", "-p", "no:cacheprovider", f"--maxfail={MAX_NAMED}", "-m", "not long")
    # Plugins of packages that the server has imported are not rewritten.
    flags += ("-W", "ignore::pytest.PytestAssertRewriteWarning")
    args = [*flags, *(f"tests/{name}" for name in fault.tests)]
    process = WarmProcess(PROGRAM, args, environment(tree))
    try:
        printed = "".join(process.communicate(timeout=TIMEOUT_S))
    except subprocess.TimeoutExpired:
        process.kill()
        return ["the time limit"]
    finally:
        path.write_text(text, encoding="utf-8")
    found = re.findall(r"^(?:FAILED|ERROR) tests/([^\s\[]+)", printed, re.MULTILINE)
    if process.returncode and not found:
        raise LookupError(f"pytest ended with {process.returncode}: {printed[-800:]}")
    return list(dict.fromkeys(found))


def main() -> int:
    """Command line."""
    options = parser(__doc__)
    options.add_argument("--only", default="", help="names of faults, separated by commas")
    options.add_argument("--room", default="", help="faults whose names start with this")
    group = options.add_mutually_exclusive_group()
    group.add_argument("--held", action="store_true", help="only held out faults")
    group.add_argument("--seen", action="store_true", help="all but held out faults")
    options.add_argument("--write", action="store_true", help="store the tests that found them")
    given = options.parse_args()
    faults = {name: Fault(**entry) for name, entry in json.loads(FAULTS.read_text()).items()}
    names = given.only.split(",") if given.only else list(faults)
    names = [
        name
        for name in names
        if name.startswith(given.room)
        and not (given.held and not faults[name].held)
        and not (given.seen and faults[name].held)
    ]
    num_hidden = 0
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        tree.mkdir()
        copy_tree(tree)
        os.chdir(tree)
        for name in names:
            try:
                found = finders(faults[name], tree)
            except LookupError as error:
                print(f"{name}: LOST: {error}", flush=True)
                num_hidden += 1
                continue
            faults[name].found_by = found
            num_hidden += not found
            print(f"{name}: {', '.join(found) or 'NOT FOUND'}", flush=True)
    print(f"{len(names) - num_hidden} of {len(names)} faults found")
    if given.write:
        stored = {name: asdict(fault) for name, fault in faults.items()}
        FAULTS.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n")
    return int(num_hidden > 0)


if __name__ == "__main__":
    sys.exit(main())
