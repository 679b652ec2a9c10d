"""The files that a book's earlier run has made, and what somebody has made of them since.

One that is made of the same as before stays, edited or not. One that is to be replaced or removed,
and is not what was written, gets a second name first: `01-the-mill.edited.wav`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from tts_cli.audio.file import is_whole_audio
from tts_cli.book.book_file import MadeFile
from tts_cli.config import SUBTYPES
from tts_cli.folder.atomic import link_whole
from tts_cli.folder.takes import facts_of

log = logging.getLogger(__name__)


class OwnFiles:
    """Those of one output folder, whose lock is held.

    Args:
        before: as `book.json` tells them; those without a key were claimed by a run that died.
    """

    def __init__(self, out: Path, before: Collection[MadeFile]) -> None:
        self._out = out
        self._before = before

    def made(self, name: str, key: str) -> MadeFile:
        """A file that is there now."""
        facts = facts_of(self._out / name)
        assert facts is not None, name
        return MadeFile(name, key, *facts)

    def kept(self, name: str, key: str) -> MadeFile | None:
        """The file of an earlier run, if it was made of the same, and is not gone or cut."""
        made = next((one for one in self._before if (one.path, one.key) == (name, key)), None)
        path = self._out / name
        try:
            if made is None or not path.is_file():
                return None
            if path.stat().st_size == made.bytes:
                return made
            if path.suffix.removeprefix(".") in SUBTYPES and not is_whole_audio(path):
                return None
        except OSError:
            return None
        log.info("%s was edited since it was made, and stays; without it it is made again", name)
        return made

    @contextmanager
    def replacing(self, name: str) -> Iterator[None]:
        """Make a file inside of this block."""
        second = self._spare(name)
        yield
        if second is not None and facts_of(second) == facts_of(self._out / name):
            second.unlink()  # of a run that died when it had made it
        elif second is not None:
            self._tell(name, second)

    def remove(self, kept: Collection[str]) -> None:
        """Remove the files of an earlier run but for those of these names."""
        for name in {file.path for file in self._before} - set(kept):
            try:
                second = self._spare(name)
                (self._out / name).unlink(missing_ok=True)
            except OSError as error:
                log.warning("%s cannot be removed: %s", self._out / name, error.strerror)
            else:
                if second is not None:
                    self._tell(name, second)

    def _spare(self, name: str) -> Path | None:
        """Give a file that is not what was written its second name, which is returned."""
        path = self._out / name
        ours = [file for file in self._before if file.path == name and file.key]
        found = facts_of(path)
        if not ours or found is None or any(_is_of(file, found) for file in ours):
            return None
        for number in count(1):
            mark = ".edited" if number == 1 else f".edited-{number}"
            second = path.with_name(f"{path.stem}{mark}{path.suffix}")
            facts = facts_of(second)
            if facts == found:
                return second
            if facts is None and not second.exists():
                link_whole(path, second)
                return second
        return None

    def _tell(self, name: str, second: Path) -> None:
        log.warning("%s was edited since it was made, and is kept as %s", name, second)


def _is_of(file: MadeFile, found: tuple[int, str]) -> bool:
    """Whether a file is what was written."""
    return file.bytes == found[0] and file.sha256 in (None, found[1])
