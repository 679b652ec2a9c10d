"""An output folder into which results are committed as in a run.

The samples and codes of a result are all one number, its value, so that a file says which result it
is of.
"""

from __future__ import annotations

import hashlib
import os
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from folder_calls import Killer, watch
from safetensors.numpy import load_file
from tasks import task_of

from models.base import ModelInfo, SpeechRequest
from tts_cli.atomic import part_of, token_of
from tts_cli.config import RunConfig
from tts_cli.core import Finish, Result, Role, TakeRef, Task
from tts_cli.store.commit import Commits
from tts_cli.store.entry import JournalEntry
from tts_cli.store.journal import Journal
from tts_cli.store.mark import MARK_NAME
from tts_cli.store.reencode import ReencodeJob
from tts_cli.store.sources import find_source
from tts_cli.store.store import LIST_NAME, Store

OWN_FILES = ("timings.jsonl", LIST_NAME, "runs.jsonl", "run.json")
CODES = ".codes.safetensors"
EDITED_SAMPLES = 2000  # of a file that a user edited, which may be next to codes of the original


class Killed(BaseException):
    """Stands for the death of the process."""


def result(
    row_id: str, value: int = 1, take: int = 1, role: Role = Role.OWN, **more: Any
) -> tuple[Task, Result]:
    """A task and its result.

    Args:
        more: fields of the result.
    """
    task = task_of(row_id, SpeechRequest(f"Text {value}."), request_hash=f"{row_id} {value}")
    samples, codes = np.full(1200 + value, value, np.int16), np.full((2, 4), value)
    spoken = Result(Finish.EOS, samples=samples, codes=codes, frames=2)
    return replace(task, place=TakeRef(take, role)), replace(spoken, **more)


class StoreBench:
    """An output folder and the commands that change it. Each opens it and closes it again.

    Args:
        settings: of all commands; files of codes are saved unless told otherwise.
    """

    def __init__(self, out: Path, info: ModelInfo, **settings: Any) -> None:
        self.out = out
        self.info = info
        self.settings = {"save_codes": True, **settings}

    @contextmanager
    def opened(self, **settings: Any) -> Iterator[Store]:
        """The folder, open to be changed."""
        with Store(self.out, RunConfig(**{**self.settings, **settings}), self.info) as store:
            store.open()
            yield store

    def keep(
        self,
        value: int,
        take: int = 1,
        role: Role = Role.OWN,
        row_id: str = "a",
        *,
        save_codes: bool = True,
        format: str = "wav",
    ) -> JournalEntry:
        """Commit a result."""
        with self.opened(save_codes=save_codes, format=format) as store:
            return store.results.commit([result(row_id, value, take, role)])[0]

    def fail(self, value: int, take: int = 1, row_id: str = "a") -> JournalEntry:
        """Commit a result whose audio is cut off."""
        with self.opened() as store:
            failed = result(row_id, value, take, error="no end", finish=Finish.MAX_FRAMES)
            return store.results.commit([failed])[0]

    def pin(self, take: int, row_id: str = "a") -> bool:
        """Pin a take."""
        with self.opened() as store:
            return store.pin(row_id, take)

    def remove(self, *row_ids: str) -> list[tuple[str, str]]:
        """Remove rows."""
        with self.opened() as store:
            return store.remove(row_ids or ("a",))

    def restore(self, *row_ids: str) -> None:
        """Restore removed rows."""
        with self.opened() as store:
            store.restore(row_ids or ("a",))

    def reencode(self, row_id: str = "a", **settings: Any) -> JournalEntry:
        """Convert the current file of a row."""
        with self.opened(**settings) as store:
            entry = store.journal.ok_take(row_id)
            assert entry is not None
            source = find_source(self.out, entry, self.info.sample_rate_hz, has_model=False)
            made = store.reencode([ReencodeJob(entry, source)])
            assert made.failed == []
            found = store.journal.ok_take(row_id)
            assert found is not None
            return found

    def recover(self) -> None:
        """Open the folder and close it again."""
        with self.opened():
            pass

    def edit(self, name: str, value: int, num_samples: int = EDITED_SAMPLES) -> bytes:
        """Write an audio file as an editor does that replaces it; returns its content."""
        path = self.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        samples = np.full(num_samples, value, np.int16)
        soundfile.write(path, samples, self.info.sample_rate_hz, "PCM_16")
        return path.read_bytes()

    def value(self, name: str) -> int:
        """The value of an audio file, and of its codes if it has some."""
        path = self.out / name
        samples, _ = soundfile.read(path, dtype="int16")
        codes = path.with_name(path.name.removesuffix(path.suffix) + CODES)
        if codes.exists() and len(samples) != EDITED_SAMPLES:
            assert (load_file(codes)["codes"] == samples[0]).all(), f"{name} has other codes"
        return int(samples[0])

    def samples_of(self, name: str) -> tuple[int, int]:
        """The first sample of an audio file, and how many it has."""
        samples, _ = soundfile.read(self.out / name, dtype="int16")
        return int(samples[0]), len(samples)

    def values(self) -> dict[str, int]:
        """The values of all audio files, by name."""
        return {name: self.value(name) for name in self.files() if name.endswith((".wav", ".flac"))}

    def files(self) -> dict[str, bytes]:
        """All files but the journal and its kin, by name; hidden ones too."""
        return {
            path.relative_to(self.out).as_posix(): path.read_bytes()
            for path in sorted(self.out.rglob("*"))
            if path.is_file() and path.name not in OWN_FILES
        }

    def audio(self) -> set[str]:
        """The digests of all audio files, whatever their names are."""
        return {digest(data) for name, data in self.files().items() if ".wav" in name}

    @property
    def entries(self) -> list[JournalEntry]:
        """All entries of the journal."""
        return list(Store.read_only(self.out).journal.entries_since(0))

    def facts(self, row_id: str = "a") -> list[tuple[int, str, str, str | None]]:
        """JournalEntry, status, role and origin of each entry of a row."""
        return [
            (one.take, one.status.value, one.role.value, one.origin)
            for one in self.entries
            if one.id == row_id
        ]

    def row(self, row_id: str = "a") -> tuple[Any, ...]:
        """What a reader of the folder finds of a row: its take, state and the value of its file."""
        journal = Store.read_only(self.out).journal
        file = journal.row(row_id)
        if file.current is None:
            return ()
        entry = journal.take(row_id, file.take)
        assert entry is not None
        path = self.out / str(entry.path)
        is_whole = path.is_file() and digest(path.read_bytes()) == entry.sha256
        facts = (file.take, file.is_held, file.has_failed, file.is_removed)
        return (*facts, self.value(str(entry.path)) if is_whole else "no file")

    def mark(self, size: int = 0) -> None:
        """Leave the mark of a command that was killed.

        Args:
            size: of the journal when that command began.
        """
        (self.out / MARK_NAME).write_text(f'{{"journal_bytes": {size}}}')

    def stage(self, name: str, data: bytes, sha256: str | None = None) -> Path:
        """Leave a staged file."""
        part = Path(part_of(self.out / name, token_of(sha256 or digest(data))))
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        return part

    def killed_after_commit(self, patch: Any, act: Callable[[], object]) -> None:
        """Run a command that is killed when its entry is in the journal, and before its files have
        their names.

        Args:
            patch: pytest's `monkeypatch`.
        """

        def killed(*_: Any) -> None:
            raise Killed

        with patch.context() as patched:
            patched.setattr(Commits, "_finish", killed)
            try:
                act()
            except Killed:
                return
        raise AssertionError("nothing was committed")


def digest(data: bytes) -> str:
    """The SHA-256 of some content."""
    return hashlib.sha256(data).hexdigest()


def is_done(journal: Journal, row_id: str, request_hash: str, delivery_hash: str) -> bool:
    """Whether the first take of a row is recorded ok with these hashes."""
    found = journal.row(row_id).number(1)
    return found is not None and found.status == "ok" and found.is_of(request_hash, delivery_hash)


def killed_at(moment: int, out: Path, act: Callable[[], object]) -> bool:
    """Run a command in a forked process that is killed before its n-th change of the folder.
    Returns whether it was; False: it had ended before.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks where threads are
        child = os.fork()
    if child == 0:
        try:
            watch(str(out), Killer(moment))
            act()
            os._exit(0)
        except BaseException:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False
