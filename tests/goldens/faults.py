"""Plants faults, one a room and some more, and tells which test finds each.

    python tests/goldens/faults.py [--only NAME,...] [--write] [--goldens] [--list]

Each is a few characters of one file, put into a copy of the tree, in which then the tests of its
room run. A fault is planted where its text is, whichever file that is now: `file` is where it was
last. Where the text is gone, or stands twice, write down what it has become.

`--write` keeps what was found in faults.json; `--goldens` lets the goldens look, too, where the
room's tests find nothing. Ends with 1 where a fault stays hidden, or cannot be planted any more.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).with_name("faults.json")
CODE = ("tts_cli", "models", "kernels")
COPIED = (*CODE, "tests", "pyproject.toml", "README.md")
MOST_NAMED = 5  # tests that are named of those that find a fault
PATIENCE_S = 600.0
_DIFFERING = r"^(\w+): \d+ facts, [1-9]\d* differ"


@dataclass(frozen=True)
class Fault:
    """A mistake that somebody could make.

    Args:
        what: what goes wrong, for people.
        tests: files or folders of its room, below tests/.
    """

    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


FAULTS = {
    "manifest": Fault(
        "an id may leave the output folder by `..`",
        "tts_cli/manifest/ids.py",
        'if part in (".", ".."):',
        'if part == ".":',
        ("tts_cli/manifest/test_ids.py",),
    ),
    "requests": Fault(
        "a row's seed 0 is taken for none",
        "tts_cli/manifest/request.py",
        "row.seed if row.seed is not None else row_seed(config.seed, row.id)",
        "row.seed or row_seed(config.seed, row.id)",
        ("tts_cli/manifest/test_request.py", "tts_cli/manifest/test_seeds.py"),
    ),
    "text": Fault(
        "pauses in [pause 200 MS] are seconds",
        "tts_cli/text/pauses.py",
        '(1000 if found[2].lower() == "ms" else 1)',
        '(1000 if found[2] == "ms" else 1)',
        ("tts_cli/text/test_pauses.py",),
    ),
    "deliver": Fault(
        "pauses between parts count without the silence that the parts keep",
        "tts_cli/deliver/join.py",
        "max(0, round(seconds * rate_hz) - kept)",
        "max(0, round(seconds * rate_hz))",
        ("tts_cli/deliver/test_join.py",),
    ),
    "engine": Fault(
        "short rows starve behind long ones",
        "tts_cli/engine/scheduler.py",
        "if age > self.window:",
        "if age > 100 * self.window:",
        ("tts_cli/engine/test_scheduler.py",),
    ),
    "voices": Fault(
        "another silence behind the reference is the same voice",
        "tts_cli/voices/resolve.py",
        "reference_digest(facts.content, mode, text, self.silence_s)",
        "reference_digest(facts.content, mode, text, 0.0)",
        ("tts_cli/voices", "e2e/test_clone.py"),
    ),
    "output/takes": Fault(
        "a damaged take can be chosen",
        "tts_cli/output/takes.py",
        'if found is None or found[0] != line.get("bytes", found[0]):',
        "if found is None:",
        ("tts_cli/output/test_takes.py",),
    ),
    "output/journal": Fault(
        "a torn last line is not cut off",
        "tts_cli/output/journal.py",
        "            os.ftruncate(self._handle, whole_bytes)\n",
        "            pass\n",
        ("tts_cli/output/test_journal.py",),
    ),
    "output/hashes": Fault(
        "a chosen take no longer fits its row under another cap",
        "tts_cli/output/hashes.py",
        'for name in ("seed", "sampling", "max_frames", "shapes"):',
        'for name in ("seed", "sampling", "shapes"):',
        ("tts_cli/output/test_hashes.py", "e2e/test_takes.py"),
    ),
    "output/disk": Fault(
        "files are not synced before they have their names",
        "tts_cli/output/atomic.py",
        "        view = view[os.write(handle, view) :]\n    os.fsync(handle)\n",
        "        view = view[os.write(handle, view) :]\n",
        ("tts_cli/output/test_atomic.py", "tts_cli/output/test_writer.py"),
    ),
    "run/plan/place": Fault(
        "a row that is spoken again overwrites its last take",
        "tts_cli/run/plan/choice.py",
        "Place(top + journal.was_spoken(row_id, top), role, True)",
        "Place(top, role, True)",
        ("tts_cli/run/plan", "e2e/test_takes.py"),
    ),
    "run/plan/standing": Fault(
        "--verify-files looks at sizes alone",
        "tts_cli/run/plan/standing.py",
        "self.writer.is_whole(row_id, size, self.journal.file_sum(row_id, file.take))",
        "self.writer.is_whole(row_id, size, None)",
        ("tts_cli/run/plan", "e2e/test_resume.py"),
    ),
    "run/remake": Fault(
        "new files are made of audio that is not what was written",
        "tts_cli/run/remake/kept.py",
        "if hash_of(file) != kept.sha256:",
        'if hash_of(file) == "":',
        ("e2e/test_encode.py",),
    ),
    "run/retries": Fault(
        "one retry less than was asked for",
        "tts_cli/run/retry.py",
        "attempt <= self.retries",
        "attempt < self.retries",
        ("tts_cli/run/test_retry.py",),
    ),
    "run/failures": Fault(
        "one row more may fail than --max-failures allows",
        "tts_cli/run/records.py",
        "failed <= self.failures_allowed:",
        "failed <= self.failures_allowed + 1:",
        ("e2e/test_failed_rows.py",),
    ),
    "listen": Fault(
        "a check of audio that was replaced still counts",
        "tts_cli/listen/judgement.py",
        "if check is not None and check.fits(speech.sha256):",
        "if check is not None:",
        ("tts_cli/listen/test_judgement.py", "tts_cli/listen/page/test_content.py"),
    ),
    "export": Fault(
        "the same text in other letters gets into two splits",
        "tts_cli/export/splits.py",
        'unicodedata.normalize("NFKC", text).casefold().split()',
        'unicodedata.normalize("NFKC", text).split()',
        ("tts_cli/export",),
    ),
    "merge": Fault(
        "other audio under one id and request is taken for the same",
        "tts_cli/merge/rows.py",
        "{line['request_hash']}\\n{sha256}\\n{size}",
        "{line['request_hash']}\\n{size}",
        ("tts_cli/merge", "e2e/test_merge.py"),
    ),
    "book": Fault(
        "a sentence that stands twice is one row",
        "tts_cli/book/script.py",
        "content_id(text, voice, seen[text, voice])",
        "content_id(text, voice, 1)",
        ("tts_cli/book/test_script.py",),
    ),
    "speaker": Fault(
        "`say` gives what was not spoken well",
        "tts_cli/speaker/speaker.py",
        "        if speech.error is not None:\n            raise RowError(speech.error)\n",
        "",
        ("tts_cli/speaker/test_speaker.py",),
    ),
    "workers": Fault(
        "what a worker staged that was given up stays in the folder",
        "tts_cli/workers/dealer.py",
        "                self._drop(one)\n                continue",
        "                continue",
        ("tts_cli/workers/test_dealer.py", "tts_cli/workers/test_cluster.py"),
    ),
    "commands": Fault(
        "what to type next lacks --retry-failed",
        "tts_cli/commands/summary.py",
        "        if not config.retry_failed:\n",
        "        if config.retry_failed:\n",
        ("tts_cli/commands/test_summary.py",),
    ),
    "main": Fault(
        "a reader of stdout that went away is some failed rows",
        "tts_cli/main.py",
        "EXIT_PIPE = 128 + 13",
        "EXIT_PIPE = 1",
        ("tts_cli/test_main.py",),
    ),
    "config": Fault(
        "any even --max-batch is a power of two",
        "tts_cli/config.py",
        "self.max_batch & (self.max_batch - 1)",
        "self.max_batch % 2",
        ("tts_cli/test_config.py", "e2e/test_command_line.py"),
    ),
    "models/prompt": Fault(
        "a speaker's dialect is lost where the language is said to be Chinese",
        "models/qwen3_tts/prompt.py",
        'if language in ("auto", "chinese") and speaker in config.dialects:',
        'if language == "auto" and speaker in config.dialects:',
        ("models/qwen3_tts/test_prompt.py",),
    ),
    "models/slots": Fault(
        "a row that moves to another slot gets that one's history",
        "models/slots/sampling.py",
        "for tensor in (self.seeds, self.seen, *self.columns.values()):",
        "for tensor in (self.seeds, *self.columns.values()):",
        ("models/slots/test_sampling.py",),
    ),
    "kernels": Fault(
        "shifts of negative numbers draw in copies of the sign",
        "kernels/sampling/draws.py",
        "return (x >> bits) & ((1 << (64 - bits)) - 1)",
        "return x >> bits",
        ("kernels/sampling/test_draws.py",),
    ),
}


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
    env = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *args],
        cwd=tree,
        env={**env, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
    )


def finders(tree: Path, tests: tuple[str, ...]) -> list[str]:
    """The first tests that fail. Raises LookupError: some of the files are gone."""
    named = [f"tests/{name}" for name in tests]
    if gone := [name for name in named if not (tree / name).exists()]:
        raise LookupError(f"{', '.join(gone)}: no such tests; write down where they are")
    flags = ("-q", "-p", "no:cacheprovider", f"--maxfail={MOST_NAMED}", "-m", "not long")
    result = run(tree, "-m", "pytest", *flags, *named)
    if result.returncode not in (0, 1):
        raise LookupError(f"pytest ended with {result.returncode}: {result.stdout[-800:]}")
    return re.findall(r"^(?:FAILED|ERROR) tests/(\S+)", result.stdout, re.MULTILINE)


def plant(name: str, fault: Fault, tree: Path, has_goldens: bool) -> dict[str, Any]:
    """What finds a fault."""
    try:
        path = place_of(fault, tree)
    except LookupError as error:
        return {"lost": str(error)}
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
    try:
        found = finders(tree, fault.tests)
        if not found and has_goldens:
            looked = run(tree, "tests/goldens/write.py", "--look").stdout
            found = [f"goldens: {name}" for name in re.findall(_DIFFERING, looked, re.MULTILINE)]
    except LookupError as error:
        return {"lost": str(error)}
    finally:
        path.write_text(text, encoding="utf-8")
    return {"file": path.relative_to(tree).as_posix(), "what": fault.what, "found_by": found}


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="names of faults, parted by commas")
    parser.add_argument("--write", action="store_true", help="keep what was found")
    parser.add_argument("--goldens", action="store_true", help="let them look, too")
    parser.add_argument("--list", action="store_true", help="where each would be planted")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(FAULTS)
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    hidden = 0
    with tempfile.TemporaryDirectory() as scratch:
        tree = ROOT if options.list else Path(scratch) / "tree"
        if not options.list:
            tree.mkdir()
            copy_tree(tree)
        for name in names:
            if options.list:
                try:
                    print(f"{name}: {place_of(FAULTS[name], tree).relative_to(tree)}")
                except LookupError as error:
                    print(f"{name}: LOST: {error}")
                    hidden += 1
                continue
            found = plant(name, FAULTS[name], tree, options.goldens)
            hidden += not found.get("found_by")
            print(
                f"{name}: {found.get('lost') or ', '.join(found['found_by']) or 'HIDDEN'}",
                flush=True,
            )
            kept[name] = found
    if options.write and not options.list:
        ordered = {name: kept[name] for name in FAULTS if name in kept}
        RESULTS.write_text(json.dumps(ordered, indent=1) + "\n")
    return int(bool(hidden))


if __name__ == "__main__":
    sys.exit(main())
