"""Finish what a command that was killed had committed, and remove what it had only prepared."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tts_cli.audio.file import is_whole_audio
from tts_cli.core import Role, Status
from tts_cli.manifest.ids import TAKES, TRUNCATED, id_problem
from tts_cli.store.atomic import find_parts, remove_part, sync_folder, token_of
from tts_cli.store.files import (
    AUDIO_SUFFIXES,
    CODES_SUFFIX,
    DERIVED_SUFFIXES,
    SOURCE_MARK,
    Inside,
    audio_suffix,
    facts_of,
    owner_of,
    take_name,
)
from tts_cli.store.journal import Journal
from tts_cli.store.take import Take, users_take


def recover(out: Path, journal: Journal, since: int) -> int:
    """Bring the files of a folder in agreement with its journal. Returns how many files got their
    names, or lost them.

    The cases, by what is found:

    - A staged file whose digest the last entry of its take has: it gets its name. Content that is
      in its way and that no entry explains becomes a take of its own, with `origin: user`.
    - Any other staged file: no entry was committed for it, so it is removed.
    - A row whose last entry since the mark replaced, moved or removed files, and that still has a
      name with the content of another take: the name is removed, or becomes that take's.
    - A file in `takes/` with the same content as the row's own file, whose take is current or
      unknown: the second name of a change that was not committed, or was finished; it is removed.
    - Any other file in `takes/` without an entry: a user's, which becomes a take.
    - Staged files of an entry that are missing: nothing is done here; the row's file is missing, so
      the plan finds that it is due.

    Args:
        journal: open to append.
        since: size of the journal when the killed command began to change the folder.
    Raises:
        OSError, DiskFull, RowError: run again; it goes on.
    """
    return _Recovery(out, journal).run(since)


@dataclass
class _Recovery:
    out: Path
    journal: Journal

    def __post_init__(self) -> None:
        self._inside = Inside(self.out)
        self._touched: set[Path] = set()
        self._count = 0

    def run(self, since: int) -> int:
        for part, path, token in list(find_parts(self.out)):
            name = os.path.relpath(path, self.out)
            digest = self._expected(name)
            if digest is not None and token == token_of(digest):
                self._finish(part, name)
            else:
                remove_part(part)
        for row_id, stale in self._stale_names(since).items():
            for name, found in stale.items():
                self._settle(row_id, name, found)
        for folder, _, names in list(os.walk(self.out / TAKES)):
            for name in names:
                self._check_take(os.path.relpath(os.path.join(folder, name), self.out))
        for touched in sorted(self._touched):
            if touched.is_dir():
                sync_folder(touched)
        return self._count

    def _expected(self, name: str) -> str | None:
        """The digest that the journal has for a name; None: it has no such name."""
        owner = owner_of(name)
        if owner is None or id_problem(owner[0]):
            return None
        row_id, number = owner
        if number is None:
            file = self.journal.file(row_id)
            if file is None:
                return None
            top = self.journal.top(row_id)
            number = top if name.startswith(f"{TRUNCATED}/") else file.take
        take = self.journal.take(row_id, number)
        if take is None:
            return None
        source = take.source or {}
        digests = {take.path: take.sha256, _codes_name(take): take.codes_sha256}
        return {**digests, source.get("path"): source.get("sha256")}.get(name)

    def _finish(self, part: Path, name: str) -> None:
        """Give a staged file of a committed entry its name."""
        path = self.out / name
        owner = owner_of(name)
        assert owner is not None
        found = facts_of(path)
        is_audio = name.endswith(AUDIO_SUFFIXES) and not name.startswith(f"{TRUNCATED}/")
        if is_audio and found is not None and self._take_with(owner[0], found[1]) is None:
            self._adopt(owner[0], name, found)
        self._inside.make_room(path)
        os.replace(part, path)
        remove_part(part)  # a second name of the same file is not renamed
        self._touched.add(path.parent)
        self._count += 1

    def _stale_names(self, since: int) -> dict[str, dict[str, str]]:
        """Rows whose entries since the mark may have replaced files, with names that do not have
        the content of the current entry, and the digests of that content.
        """
        found: dict[str, dict[str, str]] = {}
        for entry in self.journal.entries_since(since):
            row_id = entry.id
            file = None if id_problem(row_id) else self.journal.file(row_id)
            if file is not None:
                for suffix in DERIVED_SUFFIXES:  # of a row that came back
                    self._move(take_name(row_id, file.take, suffix), f"{row_id}{suffix}")
            is_first = entry.status is Status.OK and entry.source is None
            if id_problem(row_id) or (is_first and len(self.journal.numbers(row_id)) == 1):
                continue
            if removed := self.journal.removed(row_id):
                for suffix in (*AUDIO_SUFFIXES, CODES_SUFFIX, *DERIVED_SUFFIXES):
                    self._move(f"{row_id}{suffix}", take_name(row_id, removed.take, suffix))
                continue
            current = self.journal.ok_take(row_id)
            if current is None:
                continue
            expected = {current.path: current.sha256, _codes_name(current): current.codes_sha256}
            for suffix in (*AUDIO_SUFFIXES, CODES_SUFFIX):
                name = f"{row_id}{suffix}"
                facts = facts_of(self.out / name)
                if facts is not None and facts[1] != expected.get(name):
                    found.setdefault(row_id, {})[name] = facts[1]
        return found

    def _settle(self, row_id: str, name: str, sha256: str) -> None:
        """Move content that an earlier entry of the row has to its take, or remove it where that
        has it already or it can be derived; what no entry explains is a user's.
        """
        current, known = self.journal.ok_take(row_id), None
        for entry in self.journal.entries_since(0):
            source = entry.source or {}
            digests = (entry.sha256, entry.codes_sha256, source.get("sha256"))
            if entry.id == row_id and sha256 in digests:
                known = entry
        if known is None or current is None:
            return
        source = current.source or {}
        suffix = name.removeprefix(row_id)
        if known.take != current.take:
            self._move(name, take_name(row_id, known.take, suffix))
        elif suffix == CODES_SUFFIX:
            return  # of the same take
        elif sha256 == source.get("sha256") and source.get("path") is not None:
            self._move(name, str(source["path"]))
        elif source.get("kind") == "audio" and current.role is not Role.HELD:
            self._unlink(name)
        else:
            self._move(name, take_name(row_id, known.take, suffix))

    def _check_take(self, name: str) -> None:
        """Remove a file in `takes/` that is a second name of the row's own file, and give one that
        no entry explains a number.
        """
        owner = owner_of(name)
        row_id, number = owner or ("", None)
        if number is None or id_problem(row_id) or SOURCE_MARK in Path(name).name:
            return
        file = self.journal.file(row_id)
        is_current = file is not None and file.take == number
        has_entry = self.journal.status(row_id, number) is not None
        if has_entry and not is_current:
            return
        suffix = name.removeprefix(take_name(row_id, number, ""))
        found = facts_of(self.out / name)
        if found is None or suffix in DERIVED_SUFFIXES:
            return
        if found == facts_of(self.out / f"{row_id}{suffix}"):
            self._unlink(name)
        elif suffix in AUDIO_SUFFIXES and not has_entry and is_whole_audio(self.out / name):
            self._adopt(row_id, name, found, number)

    def _take_with(self, row_id: str, sha256: str) -> Take | None:
        """The take of a row whose file has a digest."""
        for number in self.journal.numbers(row_id):
            line = self.journal.spoken_line(row_id, number)
            if line is not None and sha256 in (
                line.take.sha256,
                (line.take.source or {}).get("sha256"),
            ):
                return line.take
        return None

    def _adopt(
        self, row_id: str, name: str, found: tuple[int, str], number: int | None = None
    ) -> None:
        """Record content that no entry explains as a take that a user made."""
        suffix = audio_suffix(name)
        if number is None:
            number = self.journal.next_take(row_id)
            self._move(name, take_name(row_id, number, suffix))
        base = self.journal.ok_take(row_id) or Take(row_id, Status.OK)
        self.journal.append(users_take(base, number, found, take_name(row_id, number, suffix)))

    def _move(self, old: str, new: str) -> None:
        source, target = self.out / old, self.out / new
        if facts_of(source) is None:
            return
        if os.path.lexists(target):
            if facts_of(source) == facts_of(target):
                self._unlink(old)
            return
        self._inside.make_room(target)
        os.rename(source, target)
        self._touched |= {source.parent, target.parent}
        self._count += 1

    def _unlink(self, name: str) -> None:
        path = self.out / name
        path.unlink()
        self._touched.add(path.parent)
        self._count += 1


def _codes_name(take: Take) -> str:
    """The name of the codes next to a take's audio."""
    path = str(take.path)
    return path.removesuffix(Path(path).suffix) + CODES_SUFFIX
