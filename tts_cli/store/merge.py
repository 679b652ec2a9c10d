"""Merge output folders: choose the folder that each row comes from, and commit its takes.

A row comes whole, with all its takes and files, from one folder. A row that is ok wins over one
that failed or whose file is missing. The same speech in two folders is one row; other speech is a
conflict, unless the user prefers a folder. Rows of the target that are ok are never replaced.

Folders are untrusted: links in them are not followed, and names of files follow from ids.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from tts_cli import signals
from tts_cli.atomic import (
    atomic_path,
    is_part,
    iter_file_lines,
    link_or_copy,
    parse_line,
    part_of,
    remove_part,
    require_plain_file,
    sync_file,
    token_of,
    write_atomic,
)
from tts_cli.audio.file import is_whole_wav
from tts_cli.core import Status
from tts_cli.errors import RowError, StoppedEarly, UsageError, disk_full, is_disk_error
from tts_cli.events import Count
from tts_cli.named import counted, shown_value
from tts_cli.setting import About
from tts_cli.sources.ids import TRUNCATED, VOICES, fold_id, id_problem
from tts_cli.sqlite import memory_database
from tts_cli.store.commit import Commits, RowChange, source_name
from tts_cli.store.derived import DERIVED_NAME
from tts_cli.store.entry import CopiedLine, JournalEntry, Moved
from tts_cli.store.files import (
    CHECKS_NAME,
    CODES_SUFFIX,
    DERIVED_SUFFIXES,
    JOURNAL_NAME,
    NESTED_SUFFIXES,
    REVIEWS_NAME,
    PathGuard,
    PlainFiles,
    SharedNames,
    audio_suffix,
    file_sha256,
    is_same,
    owner_of,
    take_name,
)
from tts_cli.store.index import key_of
from tts_cli.store.journal import Journal
from tts_cli.store.lock import LOCK_NAME
from tts_cli.store.mark import MARK_NAME
from tts_cli.store.run_file import REPORT_NAME, RUNS_NAME, FolderTotals, settings_of
from tts_cli.store.upgrade import OLD_JOURNAL

MERGED_FROM = "merged_from"
_REMEDY = "remove what is in the way, and run the command again"
_COMPARED = (About.SPEECH, About.DELIVERY)  # how rows sound
_BATCH = 256  # rows with one fsync of the journal
# Files that are merged differently or written again.
_OWN_NAMES = frozenset(
    (
        JOURNAL_NAME,
        RUNS_NAME,
        REPORT_NAME,
        "takes.json",
        "anchor.json",
        CHECKS_NAME,
        REVIEWS_NAME,
        "report.html",
    )
) | {LOCK_NAME, MARK_NAME, DERIVED_NAME, OLD_JOURNAL}


def merge_runs(folders: list[Path]) -> None:
    """Add the runs of all folders to the first one's list, by time, without duplicates. Of each run
    its last line counts. Raises DiskFull, OSError.
    """
    found: dict[str, tuple[str, bytes]] = {}  # run id -> start and line
    for folder in folders:
        for raw in iter_file_lines(folder / RUNS_NAME):
            values = parse_line(raw) or {}
            run_id = values.get("run_id")
            is_first = run_id not in found or values.get("totals") is not None
            if raw.endswith(b"\n") and isinstance(run_id, str) and is_first:
                found[run_id] = (str(values.get("started")), raw)
    if found:
        lines = sorted(found.values(), key=lambda one: one[0])
        write_atomic(folders[0] / RUNS_NAME, b"".join(raw for _, raw in lines))


def write_lines(origins: Origins, name: str) -> None:
    """Merge a JSON Lines file of all folders: lines with the id of a chosen row, and lines without
    an id, without duplicates. Raises DiskFull, OSError.
    """
    folders, seen = origins.folders, set()
    if not any(require_plain_file(folder / name) for folder in folders):
        return
    with atomic_path(folders[0] / name) as part, open(part, "xb") as file:
        for index, folder in enumerate(folders):
            for raw in iter_file_lines(folder / name):
                row_id = (parse_line(raw) or {}).get("id")
                is_other = row_id and origins.folder_of(str(row_id)) != index
                digest = hashlib.blake2b(raw, digest_size=8).digest()
                if raw.endswith(b"\n") and not is_other and digest not in seen:
                    seen.add(digest)
                    file.write(raw)


def merged_report(
    folders: list[Path], reports: list[dict[str, Any]], totals: list[FolderTotals | None]
) -> dict[str, Any]:
    """Return the last run of all folders, and the folders that the target's rows come from.

    Args:
        reports: of all folders, the target's first.
        totals: of all folders; that of the target is not used.
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
    """Describe the differences between the last runs of folders. Each setting is compared with that
    of the first folder that has it.
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
# The quality of a row.
FAILED = 0
STALE = 1  # its entry is ok, but its file is missing or damaged, or its successor failed
OK = 2
DISPUTED = 3  # it is ok, and another folder has it with other speech
_CREATE = """
CREATE TABLE claims (
    name INTEGER PRIMARY KEY, row INTEGER, content INTEGER, folder INTEGER, takes INTEGER,
    quality INTEGER
)
"""  # `name` is the key of the id as a file system without letter case has it


class Claim(NamedTuple):
    row: int  # see `key_of`
    content: int  # hash of its request and its file, with a sign
    folder: int  # index of the folder that the row is taken from
    takes: int
    quality: int


@dataclass
class Origins:
    """The folder that each row comes from.

    Args:
        folders: the target first, then the preferred ones, then the others.
        num_preferred: preferred folders, not counting the target.
        is_target_preferred: rows of the target win without a conflict.
    """

    folders: Sequence[Path]
    num_preferred: int = 0
    is_target_preferred: bool = False
    num_same: int = 0  # rows that a further folder has too, with the same speech
    num_invalid: int = 0  # lines whose ids cannot be names of files, left out
    num_missing: int = 0  # rows that are ok by their lines, but whose files are missing or damaged
    taken: Counter[int] = field(default_factory=Counter)  # folder -> rows

    def __post_init__(self) -> None:
        self._claims = memory_database(_CREATE)
        self._conflicts = Count(most=MAX_NAMED)  # rows with different speech, and their folders
        self._is_target_disputed = False

    def add(self, folder: int, journal: Journal) -> None:
        """Add the rows of a folder. Raises OSError."""
        files = PlainFiles(self.folders[folder])
        for take in journal.takes():
            signals.check()
            if id_problem(take.id):
                if take.is_ok:
                    self.num_invalid += 1
                    continue
                claim = Claim(key_of(take.id), 0, folder, 0, FAILED)
            else:
                claim = self._claim_of(folder, journal, take, files)
            self._settle(take.id, claim)

    def folder_of(self, row_id: str) -> int | None:
        """Return the folder that a row comes from; None: no folder has it."""
        claim = self._claim(row_id)
        return None if claim is None or claim.row != key_of(row_id) else claim.folder

    def _claim(self, row_id: str) -> Claim | None:
        query = "SELECT row, content, folder, takes, quality FROM claims WHERE name = ?"
        found = self._claims.execute(query, (key_of(fold_id(row_id)),)).fetchone()
        return None if found is None else Claim(*found)

    def _put(self, row_id: str, claim: Claim) -> None:
        values = (key_of(fold_id(row_id)), *claim)
        self._claims.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?, ?)", values)

    def _claim_of(
        self, folder: int, journal: Journal, take: JournalEntry, files: PlainFiles
    ) -> Claim:
        path = self.folders[folder] / f"{take.id}{audio_suffix(take.path)}"
        size = files.size(path)
        quality = FAILED
        if take.is_ok:
            is_ok = journal.row(take.id).status is Status.OK
            recorded = take.bytes or size
            is_there = size is not None and (size == recorded or _is_edited(path))
            self.num_missing += is_ok and not is_there
            quality = OK if is_ok and is_there else STALE
        sha256 = take.sha256
        if sha256 is None and quality == OK:  # a line of an early version
            with open(path, "rb") as file:
                sha256 = file_sha256(file)
        facts = f"{take.id}\n{take.request_hash}\n{sha256}\n{size}"
        digest = hashlib.blake2b(facts.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        content = int.from_bytes(digest, "big", signed=True)
        return Claim(key_of(take.id), content, folder, journal.row(take.id).top, quality)

    def _settle(self, row_id: str, new: Claim) -> None:
        old = self._claim(row_id)
        if old is not None and old.row != new.row:  # one file on such a file system
            self._note_conflict(row_id, old, new)
        elif old is None or self._is_better(row_id, new, old):
            if old is not None:
                self.taken[old.folder] -= 1
            self.taken[new.folder] += 1
            self._put(row_id, new)

    def _is_better(self, row_id: str, new: Claim, old: Claim) -> bool:
        if new.quality != old.quality or new.quality < OK:
            return new.quality > old.quality
        if new.content == old.content:
            self.num_same += 1
            return new.takes > old.takes and old.folder != 0
        if self._note_conflict(row_id, old, new):
            self._put(row_id, old._replace(quality=DISPUTED))
        return False

    def is_settled(self, folder: int) -> bool:
        return self.is_target_preferred if folder == 0 else folder <= self.num_preferred

    def _note_conflict(self, row_id: str, old: Claim, new: Claim) -> bool:
        """Record that two folders have a row, unless the first one wins."""
        if self.is_settled(old.folder):
            return False
        self._conflicts.add(f"{row_id}: {self.folders[old.folder]}, {self.folders[new.folder]}")
        self._is_target_disputed = self._is_target_disputed or old.folder == 0
        return True

    def require_no_conflicts(self) -> None:
        """Raise UsageError if folders have different speech under the same id."""
        found = self._conflicts
        if not found.count:
            return
        more = found.count - len(found.first)
        lines = [*found.first, *([f"and {more} more"] if more else [])]
        shown = "".join(f"\n  {line}" for line in lines)
        count = counted(found.count, "row has", "rows have")
        remedy = "choose the folder whose rows to use, with --prefer DIR"
        if self._is_target_disputed:
            remedy = (
                f"--prefer {self.folders[0]} keeps the existing audio; or merge into another --out"
            )
        raise UsageError(
            f"{count} different audio in another folder; nothing was written:{shown}", remedy
        )


def _is_edited(path: Path) -> bool:
    try:
        return path.suffix == ".wav" and is_whole_wav(path)
    except OSError:
        return False


class Merger:
    """Commits the rows of other folders to the target, whose lock is held.

    Args:
        has_links: make hard links instead of copies, if the file system has them.
    """

    def __init__(self, origins: Origins, *, has_links: bool) -> None:
        self.out = origins.folders[0]
        self.left = Count(is_sorted=True)  # files that belong to no row
        self.num_linked = 0
        self.num_copied = 0
        self._origins = origins
        self._has_links = has_links
        self._inside = PathGuard(self.out)

    def require_room(self, target: Journal | None) -> None:
        """Raise UsageError if other files have new rows' names. `target` None: no journal yet."""
        in_the_way = Count(most=MAX_NAMED)
        for folder, journal in self._sources():
            for take in journal.takes():
                if not self._is_from(take, folder) or take.path is None:
                    continue
                if target is not None and target.row(take.id).current is not None:
                    continue
                path = self.out / take.path
                if os.path.lexists(path) and not is_same(self._folder(folder) / take.path, path):
                    in_the_way.add(take.path)
        if in_the_way.count:
            raise UsageError(
                f"{self.out} contains other files with the names of rows; nothing was "
                f"written: {in_the_way.and_more()}",
                remedy="move them away, or merge into another --out",
            )

    def run(self, commits: Commits) -> None:
        """Commit every chosen row. Raises DiskFull, StoppedEarly: a rerun commits the rest."""
        for index, journal in self._sources():
            shared: SharedNames | None = None
            rows = (take for take in journal.takes() if self._is_from(take, index))
            while batch := list(islice(rows, _BATCH)):
                changes: list[RowChange] = []
                try:
                    for take in batch:
                        signals.check()
                        changes += self._changes(index, journal, take)
                    commits.commit(*changes)
                    for take in batch:
                        own = self._folder(index) / take.id
                        if any(os.path.lexists(f"{own}{one}") for one in NESTED_SUFFIXES):
                            shared = shared or SharedNames(one.id for one in journal.takes())
                        self._copy_derived(index, take.id, shared)
                except (OSError, RowError) as error:
                    if isinstance(error, OSError) and is_disk_error(error):
                        raise disk_full(error, self.out) from error
                    raise StoppedEarly(f"{self.out}: {error}", _REMEDY) from error
            self._find_left(index)

    def _sources(self) -> Iterator[tuple[int, Journal]]:
        for index, folder in enumerate(self._origins.folders):
            if index and self._origins.taken[index]:
                yield index, Journal(folder, is_read_only=True, is_known=True)

    def _folder(self, index: int) -> Path:
        return self._origins.folders[index]

    def _is_from(self, take: JournalEntry, index: int) -> bool:
        is_odd = bool(id_problem(take.id)) and take.is_ok
        return not is_odd and self._origins.folder_of(take.id) == index

    def _changes(self, index: int, journal: Journal, row: JournalEntry) -> Iterator[RowChange]:
        """Yield the changes that copy all takes of a row to the target, in line order."""
        current = journal.file(row.id)
        lines = []
        for one in journal.row(row.id).takes:
            last, good = journal.line(row.id, one.take), journal.last_ok_line(row.id, one.take)
            if good is not None and last is not None and not last.take.is_ok:
                lines.append((0, good))
            if last is not None:
                lines.append((one.offset, last))
        for _, line in sorted(lines, key=lambda one: one[0]):
            is_current = current is not None and current.take == line.take.take
            take, path = line.take, line.take.path
            if take.path is not None and not take.path.startswith(f"{TRUNCATED}/"):
                suffix = audio_suffix(take.path)
                own, home = f"{row.id}{suffix}", take_name(row.id, take.take, suffix)
                line = line.changed(path=own if is_current else home)
                path = row.path if is_current else home
            yield self._change(index, line, path)

    def _change(self, index: int, line: CopiedLine, path: str | None) -> RowChange:
        take = line.take
        if take.path is None or path is None or id_problem(take.id):
            return RowChange(line)
        suffix = audio_suffix(take.path)
        audio = self._stage(index, path, take.path, take.sha256)
        if audio is not None:
            line = line.changed(sha256=audio.sha256)
        old, new = (one.removesuffix(suffix) + CODES_SUFFIX for one in (path, take.path))
        codes = self._stage(index, old, new, take.codes_sha256)
        if codes is not None:
            line = line.changed(codes_sha256=codes.sha256)
        made_from, source = None, take.source or {}
        if source.get("kind") == "audio" and isinstance(source.get("path"), str):
            ending = audio_suffix(str(source["path"]).removesuffix(".original"))
            name = source_name(take.id, take.take, ending)
            made_from = self._stage(index, str(source["path"]), name, None)
            if made_from is not None:
                line = line.changed(source={**source, "path": name, "sha256": made_from.sha256})
        staged = (one for one in (audio, codes, made_from) if one is not None)
        return RowChange(line, tuple(staged))

    def _stage(self, index: int, name: str, target: str, sha256: str | None) -> Moved | None:
        """Stage a file of a folder, if it exists, as a file of the target.

        Args:
            sha256: as recorded; None: the file is read.
        """
        if not self._is_plain(index, name):
            return None
        source, path = self._folder(index) / name, self.out / target
        if sha256 is None:
            with open(source, "rb") as file:
                sha256 = file_sha256(file)
        self._inside.make_room(path)
        part = Path(part_of(path, token_of(sha256)))
        remove_part(part)
        self._place(source, part)
        sync_file(part)
        return Moved(os.path.relpath(part, self.out), sha256, target)

    def _place(self, source: Path, target: Path) -> None:
        if link_or_copy(source, target, has_links=self._has_links):
            self.num_linked += 1
        else:
            self.num_copied += 1

    def _is_plain(self, index: int, name: str) -> bool:
        """Whether a folder has a regular file that belongs to a row."""
        owner = owner_of(name.removesuffix(".original"))
        if owner is None or id_problem(owner[0]):
            return False
        return PlainFiles(self._folder(index)).size(self._folder(index) / name) is not None

    def _copy_derived(self, index: int, row_id: str, shared: SharedNames | None) -> None:
        """Copy subtitles and word times of a row that the target does not have."""
        for suffix in DERIVED_SUFFIXES if id_problem(row_id) is None else ():
            name = f"{row_id}{suffix}"
            is_others = shared is not None and shared.owner(row_id, suffix) is not None
            target = self.out / name
            if is_others or not self._is_plain(index, name) or os.path.lexists(target):
                continue
            with atomic_path(target) as part:
                self._place(self._folder(index) / name, part)

    def _find_left(self, index: int) -> None:
        """Add the files of a folder that belong to no row to `left`, except those in `.voices`."""
        top = self._folder(index)
        for folder, folders, names in os.walk(top):
            folders[:] = [one for one in folders if one != VOICES]
            for name in names:
                path = Path(folder, name)
                relative = path.relative_to(top).as_posix()
                if relative in _OWN_NAMES or is_part(name):
                    continue
                owner = owner_of(relative.removesuffix(".original"))
                is_plain = path.is_file() and not path.is_symlink()
                if owner is None or not is_plain or not self._is_owned(owner[0], relative):
                    self.left.add(relative)

    def _is_owned(self, row_id: str, name: str) -> bool:
        tails = [tail for long, tail in NESTED_SUFFIXES.items() if name.endswith(long)]
        ids = [row_id, *(row_id + tail for tail in tails)]
        return any(
            id_problem(one) is None and self._origins.folder_of(one) is not None for one in ids
        )
