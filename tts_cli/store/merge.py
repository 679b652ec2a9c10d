"""Merge the files that tell of rows: journals, runs, checks. Each is written anew, whole, so that a
merge that was killed leaves the old one or the new one.

Which folder each row is taken from: a row comes whole, with all its lines, takes and files, from
one folder.

A row that is ok wins over one that failed or whose file is gone. The same speech in two folders is
one row; other speech is a conflict, unless the user prefers a folder. What the target folder has
ok is never replaced.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from tts_cli import signals
from tts_cli.audio.file import is_whole_wav
from tts_cli.core import Status
from tts_cli.errors import UsageError
from tts_cli.manifest.ids import IdTable, fold_id, id_hash, id_problem
from tts_cli.named import counted, shown_value
from tts_cli.plain import open_plain
from tts_cli.setting import About
from tts_cli.store.atomic import (
    MAX_LINE_BYTES,
    lines_in,
    require_plain_file,
    values_of,
    written_whole,
)
from tts_cli.store.derived import DERIVED_NAME
from tts_cli.store.files import CHECKS_NAME, JOURNAL_NAME, PlainFiles, audio_suffix, hash_of
from tts_cli.store.journal import Journal, sound_lines
from tts_cli.store.run_file import RUNS_NAME, FolderTotals, settings_of
from tts_cli.store.take import Take

MERGED_FROM = "merged_from"
_COMPARED = (About.SPEECH, About.DELIVERY)  # how rows sound


def write_journal(origins: Origins) -> None:
    """Put the lines of every chosen row behind those that the target has. Raises DiskFull,
    OSError.
    """
    out = origins.folders[0]
    with written_whole(out / JOURNAL_NAME) as part, open(part, "xb") as file:
        for index, folder in enumerate(origins.folders):
            if index == 0:
                if require_plain_file(out / JOURNAL_NAME):
                    file.writelines(raw for _, raw in sound_lines(out))
                continue
            for row_key, raw in sound_lines(folder):
                if origins.folder_of(row_key) == index:
                    file.write(raw)
            signals.check()


def write_runs(folders: list[Path]) -> None:
    """Put all runs of all folders into the target's, which is the first, by time, each once:
    its end, unless it was killed. Raises DiskFull, OSError.
    """
    found: dict[str, tuple[str, int, int]] = {}  # run id -> start, folder, place
    for index, folder in enumerate(folders):
        for place, values in _run_lines(folder):
            if values["run_id"] not in found or values.get("totals") is not None:
                found[values["run_id"]] = (str(values.get("started")), index, place)
    if not found:
        return
    target = folders[0] / RUNS_NAME
    files: dict[int, BinaryIO] = {}
    try:
        with written_whole(target) as part, open(part, "xb") as file:
            for _, index, place in sorted(found.values()):
                if index not in files:
                    files[index] = open_plain(folders[index] / RUNS_NAME)
                files[index].seek(place)
                file.write(files[index].readline(MAX_LINE_BYTES))
    finally:
        for one in files.values():
            one.close()


def _run_lines(folder: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Whole lines of runs that have a name, and their places."""
    place = 0
    for raw in lines_in(folder / RUNS_NAME):
        values = values_of(raw) or {}
        if raw.endswith(b"\n") and isinstance(values.get("run_id"), str):
            yield place, values
        place += len(raw)


def write_checks(origins: Origins) -> None:
    """Put together what `check` found of the chosen rows. Raises DiskFull, OSError."""
    out = origins.folders[0]
    if not any(require_plain_file(folder / CHECKS_NAME) for folder in origins.folders):
        return
    with written_whole(out / CHECKS_NAME) as part, open(part, "xb") as file:
        for index, folder in enumerate(origins.folders):
            for raw in lines_in(folder / CHECKS_NAME):
                row_id = (values_of(raw) or {}).get("id") if raw.endswith(b"\n") else None
                if isinstance(row_id, str) and origins.folder_of(id_hash(row_id)) == index:
                    file.write(raw)


def write_derived(folders: list[Path]) -> None:
    """Put together which files were made of rows' audio. Raises DiskFull, OSError."""
    if not any(require_plain_file(folder / DERIVED_NAME) for folder in folders):
        return
    with written_whole(folders[0] / DERIVED_NAME) as part, open(part, "xb") as file:
        for folder in folders:
            for raw in lines_in(folder / DERIVED_NAME):
                file.write(raw if raw.endswith(b"\n") else raw + b"\n")


def merged_report(
    folders: list[Path], reports: list[dict[str, Any]], totals: list[FolderTotals | None]
) -> dict[str, Any]:
    """The last run of all folders, and where the target's rows are from.

    Args:
        reports: of all folders, the target's first.
        totals: of the folders behind the target; None: of the target.
    """
    spoken = [report for report in reports if report.get("run_id") or report.get("settings")]
    last = max(spoken, key=lambda report: str(report.get("ended")), default={})
    earlier = reports[0].get(MERGED_FROM)
    found = {
        entry["folder"]: entry
        for entry in (earlier if isinstance(earlier, list) else [])
        if isinstance(entry, dict) and isinstance(entry.get("folder"), str)
    }
    for folder, sums in zip(folders[1:], totals[1:], strict=True):
        name = str(folder.resolve())
        found[name] = {"folder": name, **({} if sums is None else asdict(sums))}
    return {**last, MERGED_FROM: [found[name] for name in sorted(found)]}


def differences(folders: list[Path], reports: list[dict[str, Any]]) -> Iterator[str]:
    """What the last runs of two folders had otherwise, in words: each folder against the first one
    that tells it.
    """
    known: dict[str, tuple[Path, Any]] = {}
    for folder, report in zip(folders, reports, strict=True):
        facts = settings_of(report, _COMPARED)
        for name, value in facts.items():
            first = known.setdefault(name, (folder, value))
            if first[1] != value:
                held, found = shown_value(first[1]), shown_value(value)
                yield f"{name}: {held} in {first[0]}, {found} in {folder}"


MAX_NAMED = 20  # conflicts that a message lists
MAX_FOLDERS = 4095
# How good a row is.
FAILED = 0
STALE = 1  # its line is ok, but its file is gone or damaged, or what was to replace it failed
OK = 2
DISPUTED = 3  # it is ok, and in another folder too, with other speech
_MAX_TAKES = 15
_CONTENT_BITS = 46


class Claim(NamedTuple):
    """A folder's claim to have a row, in 64 bits."""

    content: int  # hash of its request and its file
    folder: int  # index of the folder it is taken from
    takes: int
    quality: int

    def pack(self) -> int:
        """As `IdTable` holds it."""
        return ((self.content << 12 | self.folder) << 4 | self.takes) << 2 | self.quality

    @classmethod
    def unpack(cls, value: int) -> Claim:
        """What `pack` made."""
        return cls(value >> 18, value >> 6 & 4095, value >> 2 & 15, value & 3)


class Conflict(NamedTuple):
    """One id, two different rows."""

    row_id: str
    first: int  # indices of folders
    second: int


@dataclass
class Origins:
    """Which folder each row is taken from.

    Args:
        folders: the target first, then those that are preferred, then the others.
        num_preferred: of the folders behind the target.
        is_target_preferred: what the target has wins, and nothing is said.
    """

    folders: Sequence[Path]
    num_preferred: int = 0
    is_target_preferred: bool = False
    conflicts: list[Conflict] = field(default_factory=list)  # the first ones
    num_conflicts: int = 0
    num_same: int = 0  # rows that a further folder has too, with the same speech
    num_odd: int = 0  # lines whose ids name no file, left out
    num_gone: int = 0  # rows that are ok by their lines, and whose files are gone or damaged
    taken: Counter[int] = field(default_factory=Counter)  # folder -> rows

    def __post_init__(self) -> None:
        if len(self.folders) > MAX_FOLDERS:
            count = len(self.folders)
            raise UsageError(f"{count} folders are too many", "merge some of them first")
        self._rows = IdTable()
        self._names = IdTable()  # ids as a file system without letter case has them

    def add(self, folder: int, journal: Journal) -> None:
        """Learn the rows of a folder. Raises OSError."""
        files = PlainFiles(self.folders[folder])
        for take in journal.takes():
            signals.check()
            if id_problem(take.id):
                if take.is_ok:
                    self.num_odd += 1
                    continue
                state = Claim(0, folder, 0, FAILED)
            else:
                state = self._state(folder, journal, take, files)
            self._settle(take.id, state)

    def folder_of(self, row_key: int) -> int | None:
        """The folder that a row is taken from; None for a row that nobody has.

        Args:
            row_key: `id_hash` of its id.
        """
        value = self._rows.get(row_key)
        return None if value is None else Claim.unpack(value).folder

    def _state(self, folder: int, journal: Journal, take: Take, files: PlainFiles) -> Claim:
        path = self.folders[folder] / f"{take.id}{audio_suffix(take.path)}"
        size = files.size(path)
        quality = FAILED
        if take.is_ok:
            is_ok = journal.status(take.id) is Status.OK
            recorded = take.bytes or size
            is_there = size is not None and (size == recorded or _is_edited(path))
            self.num_gone += is_ok and not is_there
            quality = OK if is_ok and is_there else STALE
        sha256 = take.sha256
        if sha256 is None and quality == OK:  # a line of an early version
            with open(path, "rb") as file:
                sha256 = hash_of(file)
        facts = f"{take.id}\n{take.request_hash}\n{sha256}\n{size}"
        digest = hashlib.blake2b(facts.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        content = int.from_bytes(digest, "big") >> (64 - _CONTENT_BITS)
        return Claim(content, folder, min(journal.top(take.id), _MAX_TAKES), quality)

    def _settle(self, row_id: str, new: Claim) -> None:
        row_key = id_hash(row_id)
        first_key = self._names.setdefault(id_hash(fold_id(row_id)), row_key)
        if first_key != row_key:  # one file on a file system without letter case
            other = self.folder_of(first_key)
            if other is not None and not self.is_settled(other):
                self._note(Conflict(row_id, other, new.folder))
            return
        found = self._rows.get(row_key)
        old = None if found is None else Claim.unpack(found)
        if old is None or self._is_better(row_id, new, old):
            if old is not None:
                self.taken[old.folder] -= 1
            self.taken[new.folder] += 1
            self._rows.put(row_key, new.pack())

    def _is_better(self, row_id: str, new: Claim, old: Claim) -> bool:
        if new.quality != old.quality or new.quality < OK:
            return new.quality > old.quality
        if new.content == old.content:
            self.num_same += 1
            return new.takes > old.takes and old.folder != 0
        if not self.is_settled(old.folder):
            self._note(Conflict(row_id, old.folder, new.folder))
            self._rows.put(id_hash(row_id), old._replace(quality=DISPUTED).pack())
        return False

    def is_settled(self, folder: int) -> bool:
        """Whether a folder's rows win over those of all that come behind it."""
        return self.is_target_preferred if folder == 0 else folder <= self.num_preferred

    def _note(self, conflict: Conflict) -> None:
        self.num_conflicts += 1
        if len(self.conflicts) < MAX_NAMED:
            self.conflicts.append(conflict)

    def require_agreement(self) -> None:
        """Raise UsageError if folders have other speech under the same id."""
        if not self.num_conflicts:
            return
        shown = "".join(f"\n  {line}" for line in self._shown_conflicts())
        count = counted(self.num_conflicts, "row has", "rows have")
        with_target = any(conflict.first == 0 for conflict in self.conflicts)
        remedy = "choose the folder whose rows to use, with --prefer DIR"
        if with_target:
            remedy = (
                f"--prefer {self.folders[0]} keeps the existing audio; or merge into another --out"
            )
        raise UsageError(
            f"{count} different audio in another folder; nothing was written:{shown}", remedy
        )

    def _shown_conflicts(self) -> Iterator[str]:
        for conflict in self.conflicts:
            first, second = self.folders[conflict.first], self.folders[conflict.second]
            yield f"{conflict.row_id}: {first}, {second}"
        if self.num_conflicts > len(self.conflicts):
            yield f"and {self.num_conflicts - len(self.conflicts)} more"


def _is_edited(path: Path) -> bool:
    """Whether a file of another size than recorded is a WAV that somebody has edited."""
    try:
        return path.suffix == ".wav" and is_whole_wav(path)
    except OSError:
        return False
