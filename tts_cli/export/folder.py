"""The folder of a data set: whose it is, and what of it is left of an earlier time.

`export.json` says which folder was exported and how. It is written first, as not complete, and
last, with the statistics; a folder that is not empty and has none is not touched. Which files are
an export's stands in `export.sums`, see `made`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tts_cli.errors import UsageError
from tts_cli.export.made import CARD_NAME, ExportFiles
from tts_cli.output.atomic import is_part, remove_stale_parts, write_atomic
from tts_cli.output.folder_lock import LOCK_NAME
from tts_cli.output.plain_file import require_plain_file

STATE_NAME = "export.json"
SCHEMA = 2  # since 2 there is a list of files
_MAX_BYTES = 1 << 24


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
        has_list = False
        if any(name != LOCK_NAME and not is_part(name) for name in os.listdir(out)):
            has_list = self._require_ours(is_overwriting) == SCHEMA
        self.made = ExportFiles(out, has_list)
        remove_stale_parts(out)

    def _require_ours(self, is_overwriting: bool) -> Any:
        """The schema of the export that is there. Raises UsageError."""
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
        return found.get("schema")

    def begin(self, folders: Sequence[str]) -> None:
        """Say that an export is under way.

        Args:
            folders: at the top, that it makes.
        Raises:
            UsageError, SetupError: something else stands where files must go.
            DiskFull, OSError: nothing can be written.
        """
        self.made.require_room(folders)
        self._write({"is_complete": False})
        self.made.begin()

    def finish(self, card: str, statistics: Mapping[str, Any], about: Mapping[str, Any]) -> int:
        """Say that it is done; how many files of earlier exports were removed. Raises DiskFull,
        OSError.
        """
        content = card.encode()
        self.made.claim(CARD_NAME, hashlib.sha256(content).hexdigest())
        write_atomic(self.out / CARD_NAME, content)
        num_pruned = self.made.prune()
        self.made.finish()
        self._write({"is_complete": True, **about, "statistics": statistics})
        return num_pruned

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
