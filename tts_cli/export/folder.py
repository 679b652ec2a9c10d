"""The folder of a data set: whose it is, and what of it is left of an earlier time.

`export.json` says which folder was exported and how. It is written first, as not complete, and
last, with the statistics; a folder that is not empty and has none is not touched.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tts_cli.errors import UsageError
from tts_cli.export.formats.target import AUDIO_SUFFIXES
from tts_cli.output.atomic import is_part, remove_stale_parts, write_atomic
from tts_cli.output.folder_lock import LOCK_NAME
from tts_cli.output.plain_file import require_plain_file

STATE_NAME = "export.json"
CARD_NAME = "README.md"
SCHEMA = 1
_MAX_BYTES = 1 << 24
_FOLDER_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,31}")
_MADE = re.compile(r"metadata(_\w+)?\.csv|metadata\.jsonl|\w+_manifest\.jsonl|speakers\.json")
_SUFFIXES = (*AUDIO_SUFFIXES, ".tar", ".parquet")


class DataSetFolder:
    """A folder that is empty, or has an export of the same folder. Its lock is held.

    Args:
        out: existing folder.
        source: that is exported.
        settings: of the export, as JSON has them.
        is_overwriting: an export with other settings may be replaced.
    Raises:
        UsageError: it is neither.
    """

    def __init__(
        self, out: Path, source: Path, settings: Mapping[str, Any], is_overwriting: bool
    ) -> None:
        self.out = out
        state = {"schema": SCHEMA, "source": _source_of(source), "settings": settings}
        self._state: dict[str, Any] = json.loads(json.dumps(state))
        self._folders: set[str] = set()
        if any(name != LOCK_NAME and not is_part(name) for name in os.listdir(out)):
            self._require_ours(is_overwriting)
        remove_stale_parts(out)

    def _require_ours(self, is_overwriting: bool) -> None:
        found = _read(self.out / STATE_NAME)
        if found is None:
            raise UsageError(
                f"--out {self.out}: is not empty, and no export", remedy="choose another folder"
            )
        if found.get("source") != self._state["source"]:
            raise UsageError(
                f"--out {self.out}: is an export of another folder",
                remedy="choose another folder",
            )
        if found.get("settings") != self._state["settings"] and not is_overwriting:
            raise UsageError(
                f"--out {self.out}: is an export with other settings",
                remedy="add --overwrite to replace it, or choose another folder",
            )
        folders = found.get("folders")
        names = folders if isinstance(folders, list) else []
        self._folders = {
            name for name in names if isinstance(name, str) and _FOLDER_NAME.fullmatch(name)
        }

    def begin(self, folders: Sequence[str]) -> None:
        """Say that an export is under way. Raises DiskFull, OSError.

        Args:
            folders: at the top, that it makes.
        """
        self._folders |= set(folders)
        self._write({"folders": sorted(self._folders), "is_complete": False})

    def finish(self, card: str, statistics: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        """Say that it is done. Raises DiskFull, OSError."""
        write_atomic(self.out / CARD_NAME, card.encode())
        more = {"folders": sorted(self._folders), "is_complete": True}
        self._write({**more, **about, "statistics": statistics})

    def prune(self, is_made: Callable[[str], bool]) -> int:
        """Remove files of an earlier export that this one has not made; how many.

        Args:
            is_made: whether a name is of this one.
        """
        removed = 0
        for top in ("", *self._folders):
            place = self.out / top
            if not place.is_dir() or place.is_symlink():
                continue
            with os.scandir(place) as entries:
                for entry in entries:
                    name = f"{top}/{entry.name}" if top else entry.name
                    is_ours = _MADE.fullmatch(entry.name) is not None
                    is_ours |= bool(top) and entry.name.endswith(_SUFFIXES)
                    if is_ours and entry.is_file(follow_symlinks=False) and not is_made(name):
                        os.unlink(entry.path)
                        removed += 1
            if top:
                with contextlib.suppress(OSError):  # it is not empty
                    os.rmdir(place)
        return removed

    def _write(self, values: Mapping[str, Any]) -> None:
        text = json.dumps({**self._state, **values}, indent=2, ensure_ascii=False) + "\n"
        write_atomic(self.out / STATE_NAME, text.encode())


def _source_of(source: Path) -> dict[str, str]:
    """What tells a folder from another one. Data sets are published: of a path they have the name
    and a digest.
    """
    path = source.resolve()
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    return {"name": path.name, "path_digest": digest}


def require_apart(source: Path, out: Path) -> None:
    """Raise UsageError if one folder lies in the other."""
    first, second = source.resolve(), out.resolve()
    if first == second or first in second.parents or second in first.parents:
        raise UsageError(
            f"--out {out} and {source} lie in one another", remedy="choose a folder beside it"
        )


def _read(path: Path) -> dict[str, Any] | None:
    if not require_plain_file(path):
        return None
    with open(path, "rb") as file:
        raw = file.read(_MAX_BYTES)
    try:
        values = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None
