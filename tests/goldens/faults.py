"""Plants faults, one a room and some more, and tells which test finds each.

    python tests/goldens/faults.py [--only NAME,...] [--write] [--goldens] [--list]

Each is a few characters of one file, put into a copy of the tree, in which then the tests of its
room run. A fault of faults.json is planted where its text is, whichever file that is now: `file` is
where it was last. Where the text is gone, or stands twice, write down what it has become.

`--write` keeps what was found there and in README.md; `--goldens` lets the goldens look, too, where
the tests of its room find nothing. Ends with 1 where a fault stays hidden, or cannot be planted.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from desk import ROOT, environment, parser

FAULTS = Path(__file__).with_name("faults.json")
README = Path(__file__).with_name("README.md")
TABLE = "| fault in | what goes wrong | found by |\n|---|---|---|\n"
CODE = ("tts_cli", "models", "kernels")
COPIED = (*CODE, "tests", "pyproject.toml", "README.md")
MAX_NAMED = 5  # tests that are named of those that find a fault
PATIENCE_S = 600.0
_DIFFERING = r"^(\w+): \d+ facts, [1-9]\d* differ"


@dataclass
class Fault:
    """A mistake that somebody could make.

    Args:
        what: what goes wrong, for people.
        tests: files or folders of its room, below tests/.
        found_by: those that find it, the first few, whatever their parameters.
    """

    what: str
    file: str
    old: str
    new: str
    tests: list[str]
    found_by: list[str]


def place_of(fault: Fault, tree: Path) -> Path:
    """The file that a fault is to be planted in. Raises LookupError: there is none, or several."""
    here = tree / fault.file
    if here.is_file() and here.read_text(encoding="utf-8").count(fault.old) == 1:
        return here
    texts = {path: path.read_text(encoding="utf-8") for top in CODE for path in python(tree / top)}
    found = [path for path, text in texts.items() if fault.old in text]
    if len(found) != 1 or texts[found[0]].count(fault.old) != 1:
        names = ", ".join(str(path.relative_to(tree)) for path in found) or "nowhere"
        raise LookupError(
            f"{fault.old!r} stands {names}; write down where it is, or what it is now"
        )
    return found[0]


def python(folder: Path) -> list[Path]:
    """Its files of Python."""
    return sorted(folder.rglob("*.py"))


def copy_tree(target: Path) -> None:
    """The tree as it is here, changed files too; samples are only linked to."""
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc", ".pytest_cache")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=ignored)
        else:
            shutil.copy(source, target / name)
    (target / "samples").symlink_to(ROOT / "samples")


def run(tree: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """A command of Python in a tree."""
    return subprocess.run(
        [sys.executable, *args],
        cwd=tree,
        env={**environment(tree), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
    )


def tests_of(fault: Fault, tree: Path) -> list[str]:
    """The tests of its room. For files that have moved stand those with a test of the name of one
    that found it. Raises LookupError: there is none.
    """
    tests = tree / "tests"
    there = [name for name in fault.tests if (tests / name).exists()]
    if len(there) < len(fault.tests):
        names = {found.rpartition("::")[2] for found in fault.found_by}
        has_one = re.compile(rf"def ({'|'.join(names)})\(").search
        for path in python(tests):
            if names and has_one(path.read_text(encoding="utf-8")):
                there.append(path.relative_to(tests).as_posix())
    if not there:
        raise LookupError(f"{', '.join(fault.tests)}: no such tests; write down where they are")
    return list(dict.fromkeys(there))


def finders(tree: Path, tests: list[str]) -> list[str]:
    """The first tests that fail. Raises LookupError: they do not run."""
    named = [f"tests/{name}" for name in tests]
    flags = ("-q", "-p", "no:cacheprovider", f"--maxfail={MAX_NAMED}", "-m", "not long")
    result = run(tree, "-m", "pytest", *flags, *named)
    if result.returncode not in (0, 1):
        raise LookupError(f"pytest ended with {result.returncode}: {result.stdout[-800:]}")
    found = re.findall(r"^(?:FAILED|ERROR) tests/([^\s\[]+)", result.stdout, re.MULTILINE)
    return list(dict.fromkeys(found))


def plant(fault: Fault, tree: Path, has_goldens: bool) -> list[str]:
    """What finds a fault. Raises LookupError: it or its tests are not there."""
    path = place_of(fault, tree)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
    try:
        fault.tests = tests_of(fault, tree)
        found = finders(tree, fault.tests)
        if not found and has_goldens:
            looked = run(tree, "tests/goldens/write.py", "--look").stdout
            found = [f"goldens: {name}" for name in re.findall(_DIFFERING, looked, re.MULTILINE)]
    finally:
        path.write_text(text, encoding="utf-8")
    fault.file = path.relative_to(tree).as_posix()
    return found


def write(faults: dict[str, Fault]) -> None:
    """Keep what was found, and the table of README.md."""
    kept = {name: asdict(fault) for name, fault in faults.items()}
    FAULTS.write_text(json.dumps(kept, indent=1) + "\n")
    rows = (
        f"| {name} | {fault.what} | `{(fault.found_by or ['nothing'])[0]}` |"
        for name, fault in faults.items()
    )
    before = README.read_text(encoding="utf-8").partition(TABLE)[0]
    README.write_text(before + TABLE + "\n".join(rows) + "\n", encoding="utf-8")


def main() -> int:
    """Command line."""
    known = parser(__doc__)
    known.add_argument("--only", default="", help="names of faults, parted by commas")
    known.add_argument("--write", action="store_true", help="keep what was found")
    known.add_argument("--goldens", action="store_true", help="let them look, too")
    known.add_argument("--list", action="store_true", help="where each would be planted")
    options = known.parse_args()
    faults = {name: Fault(**entry) for name, entry in json.loads(FAULTS.read_text()).items()}
    hidden = 0
    with tempfile.TemporaryDirectory() as scratch:
        tree = ROOT if options.list else Path(scratch) / "tree"
        if not options.list:
            tree.mkdir()
            copy_tree(tree)
        for name in options.only.split(",") if options.only else faults:
            fault = faults[name]
            try:
                if options.list:
                    said = str(place_of(fault, tree).relative_to(tree))
                else:
                    fault.found_by = plant(fault, tree, options.goldens)
                    hidden += not fault.found_by
                    said = ", ".join(fault.found_by) or "HIDDEN"
            except LookupError as error:
                said = f"LOST: {error}"
                hidden += 1
            print(f"{name}: {said}", flush=True)
    if options.write:
        write(faults)
    return int(bool(hidden))


if __name__ == "__main__":
    sys.exit(main())
