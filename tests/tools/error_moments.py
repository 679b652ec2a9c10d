"""Every call that changes a folder returns an error once: rows are as before or as after.

    python tests/tools/error_moments.py [--sample N] [--only synth,pick] [--part 1/8]

In copies of a folder (see `folder_cases.py`) the n-th open for writing, write, fsync, rename, link,
unlink, mkdir, rmdir or truncate of a command fails with ENOSPC or EIO, n = 1, 2, ... until none is
left: once, and in a second try with all later calls of its kind. A write that fails has written
half of its data. Hard links also fail with errors of file systems that have none (EPERM, EMLINK,
EOPNOTSUPP), all of them; then the command must end as if they worked.

After each error every audio file must be what it is before or after an undisturbed run, nothing
that was reported ok or that a user edited may be lost, and the command must end with a documented
code. If an fsync of a file failed, that file is not synced again, and the command ends with 3 or 4.
The same command must then complete the folder as undisturbed, and leave no temporary file.
"""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from folder_cases import (
    AUDIO,
    Ran,
    Series,
    Undisturbed,
    chosen,
    differences,
    files_of_rows,
    run_cases,
)
from runs import odd_word

CODES = (0, 1, 3, 4)
KINDS = ("open", "write", "fsync", "rename", "link", "unlink", "mkdir", "rmdir", "truncate")
NAMES = (
    *("synth", "changed", "level", "format", "encode", "encode-out", "relevel"),
    *("pick", "book", "rebook", "merge", "prune", "restore"),
)
# Files that say nothing that the journal does not say: a command may warn and go on.
MAY_GO_ON = ("run.json", "runs.jsonl", "takes.json")


@dataclass(frozen=True)
class Fault:
    """Which calls of a command fail, and how."""

    kind: str
    at: int
    code: int
    is_sticky: bool = False
    is_harmless: bool = False  # the command must end as if nothing were wrong

    def __str__(self) -> str:
        name = errno.errorcode[self.code]
        return f"{self.kind} {self.at}{' and later' if self.is_sticky else ''}, {name}"

    def how(self) -> dict[str, Any]:
        """The arguments of the handler."""
        fields = ("kind", "at", "code", "is_sticky")
        return {name: getattr(self, name) for name in fields}


def faults(counts: dict[str, int]) -> list[Fault]:
    """All faults of a command that makes so many calls of each kind."""
    found = [
        Fault(kind, at, code, is_sticky)
        for kind in KINDS
        for at in range(1, counts.get(kind, 0) + 1)
        for code in (errno.ENOSPC, errno.EIO)
        for is_sticky in (False, True)
    ]
    if counts.get("link"):
        codes = (errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP)
        found += [Fault("link", 1, code, True, is_harmless=True) for code in codes]
    return found


def state_problem(now: dict[str, str], names: set[str], undisturbed: Undisturbed) -> str:
    """Which audio is neither what it was before nor what it is after, if there is any.

    Args:
        now: audio files that must be right, with their sums.
        names: all audio files that are there.
    """
    before, after = undisturbed.before, undisturbed.after
    odd = [name for name in now if now[name] not in (before.get(name), after.get(name))]
    rows = stems(before) & stems(after)
    gone = [row for row in rows if not any(f"{row}{suffix}" in names for suffix in AUDIO)]
    if odd:
        return f"neither before nor after: {', '.join(sorted(odd))}"
    return f"gone: {', '.join(sorted(gone))}" if gone else ""


def stems(names: Iterable[str]) -> set[str]:
    return {name.rpartition(".")[0] for name in names if name.endswith(AUDIO)}


def end_problem(ran: Ran, fault: Fault, codes: tuple[int, int]) -> str:
    """What is wrong with how a command ended."""
    if problem := odd_word(ran.said):
        return problem
    if ran.code not in (codes if fault.is_harmless else CODES):
        return f"exit code {ran.code}: {ran.said[-300:].strip()}"
    if retried := ran.found["retried"]:
        return f"synced again after a failed fsync: {', '.join(map(short, retried))}"
    failed = short(ran.found["failed"])
    is_own = any(failed.startswith((name, f".{name}.")) for name in MAY_GO_ON)
    if fault.kind == "fsync" and failed and not is_own and ran.code not in (3, 4):
        return f"exit code {ran.code} after a failed fsync of {failed}"
    return ""


def short(path: str) -> str:
    return path.rpartition("/")[2]


def run_case(series: Series, options: argparse.Namespace) -> tuple[int, list[str]]:
    """Fail the calls of a command; returns the number of faults tried, and what was wrong."""
    case, place, problems = series.case, series.place, []
    undisturbed = Undisturbed.of(series)
    series.begin()
    none = Fault("none", 0, errno.EIO).how()
    counts = place.run(*case.command(place), do="fail", **none).found["counts"]
    points = chosen(faults(counts), options)
    for fault in points:
        found = series.begin()
        problem = found.learn(first=True)
        ran = place.run(*case.command(place), do="fail", **fault.how())
        names = {path.relative_to(place.path).as_posix() for path in place.path.rglob("*")}
        now = files_of_rows(place)
        if fault.is_harmless and now != undisturbed.after:
            problem = (
                f"other files than with links: {', '.join(differences(now, undisturbed.after))}"
            )
        problem = (
            problem
            or end_problem(ran, fault, undisturbed.codes)
            or found.learn()
            or state_problem(now, names, undisturbed)
            or undisturbed.rerun_problem(found, case.command)
        )
        if problem:
            problems.append(
                f"{case.name}: {fault} ({short(ran.found.get('failed', ''))}): {problem}"
            )
    return len(points), problems


if __name__ == "__main__":
    sys.exit(run_cases(__doc__, NAMES, run_case))
