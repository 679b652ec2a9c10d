"""Which folder each row is taken from: a row comes whole, with all its lines, takes and files, from
one folder.

A row that is ok wins over one that failed or whose file is gone. The same speech in two folders is
one row; other speech is a conflict, unless the user prefers a folder. What the target folder has
ok is never replaced.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tts_cli import signals
from tts_cli.errors import UsageError
from tts_cli.manifest.ids import IdTable, fold_id, id_hash, id_problem
from tts_cli.output.audio_file import is_whole_wav
from tts_cli.output.inside import PlainFiles
from tts_cli.output.journal import Journal
from tts_cli.output.takes import suffix_of
from tts_cli.output.writer import hash_of

MAX_NAMED = 20  # conflicts that a message lists
MAX_FOLDERS = 4095
# How good a row is.
FAILED = 0
STALE = 1  # its line is ok, but its file is gone or damaged, or what was to replace it failed
OK = 2
DISPUTED = 3  # it is ok, and in another folder too, with other speech
_MAX_TAKES = 15
_CONTENT_BITS = 46


class State(NamedTuple):
    """What is remembered of a row, in 64 bits."""

    content: int  # hash of its request and its file
    folder: int  # index of the folder it is taken from
    takes: int
    quality: int

    def pack(self) -> int:
        """As `IdTable` holds it."""
        return ((self.content << 12 | self.folder) << 4 | self.takes) << 2 | self.quality

    @classmethod
    def unpack(cls, value: int) -> State:
        """What `pack` made."""
        return cls(value >> 18, value >> 6 & 4095, value >> 2 & 15, value & 3)


class Conflict(NamedTuple):
    """One id, two different rows."""

    row_id: str
    first: int  # indices of folders
    second: int


@dataclass
class Choice:
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
        for line in journal.file_lines():
            signals.check()
            row_id = line["id"]
            if id_problem(row_id):
                if line["status"] == "ok":
                    self.num_odd += 1
                    continue
                state = State(0, folder, 0, FAILED)
            else:
                state = self._state(folder, journal, line, files)
            self._settle(row_id, state)

    def folder_of(self, row_key: int) -> int | None:
        """The folder that a row is taken from; None for a row that nobody has.

        Args:
            row_key: `id_hash` of its id.
        """
        value = self._rows.get(row_key)
        return None if value is None else State.unpack(value).folder

    def _state(
        self, folder: int, journal: Journal, line: dict[str, Any], files: PlainFiles
    ) -> State:
        row_id = line["id"]
        path = self.folders[folder] / f"{row_id}{suffix_of(line)}"
        size = files.size(path)
        quality = FAILED
        if line["status"] == "ok":
            is_ok = journal.status(row_id) == "ok"
            recorded = line.get("bytes") or size
            is_there = size is not None and (size == recorded or _is_edited(path))
            self.num_gone += is_ok and not is_there
            quality = OK if is_ok and is_there else STALE
        sha256 = line.get("sha256")
        if sha256 is None and quality == OK:  # a line of an early version
            with open(path, "rb") as file:
                sha256 = hash_of(file)
        facts = f"{row_id}\n{line['request_hash']}\n{sha256}\n{size}"
        digest = hashlib.blake2b(facts.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        content = int.from_bytes(digest, "big") >> (64 - _CONTENT_BITS)
        return State(content, folder, min(journal.top(row_id), _MAX_TAKES), quality)

    def _settle(self, row_id: str, new: State) -> None:
        row_key = id_hash(row_id)
        first_key = self._names.setdefault(id_hash(fold_id(row_id)), row_key)
        if first_key != row_key:  # one file on a file system without letter case
            other = self.folder_of(first_key)
            assert other is not None
            if not self.is_settled(other):
                self._note(Conflict(row_id, other, new.folder))
            return
        found = self._rows.get(row_key)
        old = None if found is None else State.unpack(found)
        if old is None or self._is_better(row_id, new, old):
            if old is not None:
                self.taken[old.folder] -= 1
            self.taken[new.folder] += 1
            self._rows.put(row_key, new.pack())

    def _is_better(self, row_id: str, new: State, old: State) -> bool:
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
        count = "1 row is" if self.num_conflicts == 1 else f"{self.num_conflicts} rows are"
        with_target = any(conflict.first == 0 for conflict in self.conflicts)
        remedy = "say by --prefer DIR whose rows to take"
        if with_target:
            remedy = f"--prefer {self.folders[0]} keeps what is there; or merge into another --out"
        raise UsageError(
            f"{count} other speech in another folder; nothing was written:{shown}", remedy
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
