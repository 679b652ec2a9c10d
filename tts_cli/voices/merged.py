"""Merge the made voices of several folders.

A folder may come from anybody: no link in it is followed out of it, and what is damaged stays where
it is. What nothing tells of, since a run was killed before, is no voice yet.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tts_cli import signals
from tts_cli.atomic import is_part
from tts_cli.errors import RowError, SetupError, StoppedEarly, UsageError
from tts_cli.events import Count
from tts_cli.named import counted
from tts_cli.sources.ids import VOICES
from tts_cli.voices.generated import files_of, json_last
from tts_cli.voices.voice_store import VoiceStore, WholeFiles

log = logging.getLogger(__name__)

_REMEDY = (
    ", and synth then synthesizes the rows of the other one again; shards share one voice if "
    "it is generated once with --voices-only and all get it with --made-voices DIR"
)


class _File(NamedTuple):
    folder: int  # index of the one it is taken from
    content: str  # of it, what speech depends on
    is_settled: bool  # others lose against it


class MergedVoices:
    """The made voices of folders.

    Args:
        folders: the one that gets them first; what it has whole is never replaced.
        is_settled: whether what a folder has, by its index, wins over all that come behind it.
        left: learns the files in `.voices` that are no voice's.
    Raises:
        SetupError: a folder cannot be read.
    """

    def __init__(
        self, folders: Sequence[Path], is_settled: Callable[[int], bool], left: Count
    ) -> None:
        self.num_copied = 0  # files
        self._folders = folders
        self._is_settled = is_settled
        self._files: dict[str, dict[str, _File]] = {}  # voice -> its files, by name
        self._is_target_disputed = False
        self._conflicts, self._outvoted, self._damaged = Count(), Count(), Count()
        for index, out in enumerate(folders):
            folder = out / VOICES
            if folder.is_symlink() or not folder.is_dir():
                continue
            for voice, whole in VoiceStore(out=out).generated():
                self._add(index, voice, whole)
            known = {name for names in files_of(folder).values() for name in names}
            for name in sorted(os.listdir(folder)) if index else ():
                if name not in known and not is_part(name):
                    left.add(f"{VOICES}/{name}")

    def require_no_conflicts(self) -> None:
        """Raise UsageError if folders have other voices under one name, and SetupError if the
        target cannot have any.
        """
        if self._conflicts.count:
            count = self._conflicts.count
            what = counted(count, "generated voice is", "generated voices are")
            remedy = "choose the folder whose voice to use, with --prefer DIR"
            if self._is_target_disputed:
                remedy = f"--prefer {self._folders[0]} keeps the existing voice"
            raise UsageError(
                f"{what} different in another folder; nothing was written:\n  "
                f"{self._conflicts.and_more()}",
                remedy + _REMEDY,
            )
        if any(self._files.values()):
            VoiceStore(out=self._folders[0]).require_folder()

    def run(self) -> None:
        """Copy what the target lacks; done again, it finds what is there.

        Raises:
            DiskFull: no room.
            StoppedEarly: a file cannot be written.
        """
        if self._damaged.count:
            log.warning("damaged files of generated voices: %s", self._damaged.and_more())
        if self._outvoted.count:
            log.warning(
                "generated voices that differ; the first of each two stays, and synth "
                "synthesizes the rows of the other one again: %s",
                self._outvoted.and_more(),
            )
        made = VoiceStore(out=self._folders[0])
        for files in self._files.values():
            for name in sorted(files, key=json_last):
                if (index := files[name].folder) == 0:
                    continue
                signals.check()
                path = self._folders[index] / VOICES / name
                try:
                    made.copy(path)
                except (SetupError, RowError) as error:
                    reason = error.message if isinstance(error, SetupError) else error
                    raise StoppedEarly(
                        f"cannot copy {path}: {reason}",
                        "remove what is in its way, and run the command again",
                    ) from error
                self.num_copied += 1

    def _add(self, index: int, voice: str, whole: WholeFiles) -> None:
        """Learn what a folder has of a voice."""
        for problem in whole.problems:
            self._damaged.add(problem)
        found = {name: stored.digest for name, stored in whole.stored.items()}
        if whole.made is not None:
            told = whole.made.path.with_suffix(".json").name
            found |= {**whole.made.sums, told: whole.made.text}
        known = self._files.setdefault(voice, {})
        other = [name for name in found if name in known and known[name].content != found[name]]
        if not other:
            is_settled = self._is_settled(index)
            for name, content in found.items():
                file = known.setdefault(name, _File(index, content, is_settled))
                # Where the target has it of a merge that was killed, it counts as its source does.
                known[name] = file._replace(is_settled=file.is_settled or is_settled)
            return
        name = max(other, key=lambda one: one.endswith(".wav"))  # which can be listened to
        first, _, is_settled = known[name]
        named = self._outvoted if is_settled else self._conflicts
        named.add(", ".join(str(self._folders[place] / VOICES / name) for place in (first, index)))
        self._is_target_disputed |= first == 0 and not is_settled
