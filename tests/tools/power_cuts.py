"""A power cut at every moment of a command: what was synced is kept, a rerun does the rest.

    python tests/tools/power_cuts.py [--sample N] [--only synth,pick] [--part 1/8] [--seed 0]

Each command runs once in a copy of a folder (see `folder_cases.py`), and its calls that change the
folder are logged with their data. For every prefix of the log the folder is written anew as a disk
may have it after a cut at that moment. The content of a file is durable once the file is synced. A
name (of a new file or folder, a rename, a link, a removal) is durable once the folder with the name
is synced; a rename is durable whole or not at all. Of what is not durable

dropped  nothing is on the disk: a file without synced content is empty
random   each name and each content is there with a probability of 1/2
torn     all names are there; contents are missing, cut off in the middle, or zeros from there on

States that are equal are tried once. In each, everything that synced lines of the journal have as
ok must be in some file. Then the same command must complete the folder as undisturbed. The model is
stricter than most file systems, which keep the order of names.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from folder_cases import Place, Series, Undisturbed, chosen, run_cases, speech_of, sums_below
from runs import JOURNAL

NAMES = (
    *("synth", "changed", "level", "format", "encode", "encode-out", "relevel", "pick"),
    *("book", "rebook", "merge", "prune", "restore"),
)
VARIANTS = ("dropped", "random", "torn")

Data = tuple[bytes, int]  # content and mtime
EMPTY: Data = (b"", 0)


@dataclass
class Disk:
    """What is on a disk and what is on its way there, after the first events of a log.

    Attributes:
        folders: inode -> names with their inodes, as they are durable.
        pending: changes of names that are not: lists of folder, name, inode or None.
        written: inode -> content as programs see it.
        synced: inode -> content that is durable.
        journals: inodes that had the name of a journal.
    """

    folders: dict[int, dict[str, int]] = field(default_factory=dict)
    pending: list[list[tuple[int, str, int | None]]] = field(default_factory=list)
    written: dict[int, Data] = field(default_factory=dict)
    synced: dict[int, Data] = field(default_factory=dict)
    journals: set[int] = field(default_factory=set)

    def take(self, event: list[Any]) -> None:
        """Do what an event of `folder_calls.Recorder` says."""
        kind, *rest = event
        if kind == "folder":
            self.folders[rest[0]] = {}
        elif kind == "data":
            inode, data, mtime_ns = rest
            self.written[inode] = (data.encode("latin-1"), mtime_ns)
        elif kind == "names":
            entries = [(folder, name, inode) for folder, name, inode in rest[0]]
            self.pending.append(entries)
            self.journals |= {inode for _, name, inode in entries if inode and name == JOURNAL}
        elif rest[0] in self.folders:
            pending, self.pending = self.pending, []
            for change in pending:
                if any(folder == rest[0] for folder, _, _ in change):
                    apply(change, self.folders)
                else:
                    self.pending.append(change)
        else:
            self.synced[rest[0]] = self.written[rest[0]]

    def settle(self) -> None:
        """Make everything durable."""
        for change in self.pending:
            apply(change, self.folders)
        self.pending, self.synced = [], dict(self.written)

    def after_cut(self, variant: str, rng: random.Random) -> Disk:
        """A disk as a cut may leave it."""
        folders = copy.deepcopy(self.folders)
        for change in self.pending:
            if variant == "torn" or (variant == "random" and rng.random() < 0.5):
                apply(change, folders)
        contents = {}
        for inode, new in self.written.items():
            old = self.synced.get(inode, EMPTY)
            if new[0] == old[0] or variant == "dropped":
                contents[inode] = old
            elif variant == "random":
                contents[inode] = rng.choice((old, new))
            else:
                contents[inode] = (rng.choice(torn(old[0], new[0])), new[1])
        return Disk(folders, synced=contents)

    def tree(self, root: int) -> dict[str, int | None]:
        """The paths below a folder, with the inodes of files and None for folders."""
        found: dict[str, int | None] = {}
        for name, inode in self.folders[root].items():
            found[name] = None if inode in self.folders else inode
            if inode in self.folders:
                below = self.tree(inode)
                found |= {f"{name}/{path}": deeper for path, deeper in below.items()}
        return found

    def write(self, root: int, target: Path) -> None:
        """Write what is durable into a new folder."""
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        first: dict[int, Path] = {}
        for name, inode in self.tree(root).items():
            path = target / name
            if inode is None:
                path.mkdir()
            elif inode in first:
                os.link(first[inode], path)
            else:
                data, mtime_ns = self.synced.get(inode, EMPTY)
                path.write_bytes(data)
                os.utime(path, ns=(mtime_ns, mtime_ns))
                first[inode] = path

    def state(self, root: int) -> frozenset[tuple[str, bytes | None]]:
        """Paths and contents, to tell equal states."""
        tree = self.tree(root).items()
        return frozenset(
            (path, None if inode is None else self.synced.get(inode, EMPTY)[0])
            for path, inode in tree
        )

    def promised(self) -> dict[str, str]:
        """SHA-256 of the speech that synced lines of journals have as ok, and what it is."""
        lines = [
            json.loads(line)
            for inode in self.journals
            for line in self.synced.get(inode, EMPTY)[0].split(b"\n")[:-1]
            if line.strip()
        ]
        return {digest: what for line in lines for digest, what in speech_of(line)}


def apply(change: list[tuple[int, str, int | None]], folders: dict[int, dict[str, int]]) -> None:
    """Set or remove names."""
    for folder, name, inode in change:
        if inode is None:
            folders[folder].pop(name, None)
        else:
            folders[folder][name] = inode


def torn(old: bytes, new: bytes) -> list[bytes]:
    """What a file may have whose content is being changed."""
    if old.startswith(new):  # cut off
        return [old, new]
    start = len(old) if new.startswith(old) else 0
    half = start + (len(new) - start) // 2
    return [new[:start], new[:half], new[:half] + bytes(len(new) - half)]


@dataclass(frozen=True)
class Cut:
    """A cut after some events, and the state that it leaves."""

    moment: int
    variant: str
    left: Disk
    promised: dict[str, str]


def cuts(found: dict[str, Any], seed: int) -> list[Cut]:
    """All different states that cuts may leave."""
    root, events, first = found["root"], found["events"], found["before"]
    disk = Disk()
    for event in events[:first]:
        disk.take(event)
    disk.settle()
    rng, seen, states = random.Random(seed), set(), []
    for moment, event in enumerate(events[first:], 1):
        disk.take(event)
        for variant in VARIANTS:
            left = disk.after_cut(variant, rng)
            if (state := left.state(root)) not in seen:
                seen.add(state)
                states.append(Cut(moment, variant, left, disk.promised()))
    return states


def cut_problem(series: Series, cut: Cut, root: int, undisturbed: Undisturbed) -> str:
    """Write a state, look for lost speech, and run the command; what is wrong, if anything."""
    found = series.begin()
    if problem := found.learn(first=True):
        return problem
    place: Place = found.place
    cut.left.write(root, place.path)
    found.wanted |= {
        digest: what for digest, what in cut.promised.items() if digest not in found.given_up
    }
    sums = sums_below(place.path)
    if lost := [what for digest, what in found.wanted.items() if digest not in sums]:
        return f"lost: {'; '.join(lost)}"
    return undisturbed.rerun_problem(found, series.case.command)


def run_case(series: Series, options: argparse.Namespace) -> tuple[int, list[str]]:
    """Cut the power at all moments of a command; returns how often, and what was wrong."""
    case, place = series.case, series.place
    undisturbed = Undisturbed.of(series)
    series.begin()
    ran = place.run(*case.command(place), do="log")
    assert ran.code == undisturbed.codes[0], ran.said
    num_events = len(ran.found["events"]) - ran.found["before"]
    points, problems = chosen(cuts(ran.found, options.seed), options), []
    for cut in points:
        if problem := cut_problem(series, cut, ran.found["root"], undisturbed):
            moment = f"cut after event {cut.moment} of {num_events}, {cut.variant}"
            problems.append(f"{case.name}: {moment}: {problem}")
    return len(points), problems


if __name__ == "__main__":
    sys.exit(run_cases(__doc__, NAMES, run_case))
