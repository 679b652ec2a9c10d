"""Export a folder as a data set.

The folder of a data set: whose it is, and what of it is left of an earlier time.

`export.json` says which folder was exported and how. It is written first, as not complete, and
last, with the statistics; a folder that is not empty and has none is not touched. Which files are
an export's stands in `export.sums`, see `made`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tts_cli import signals
from tts_cli.atomic import (
    is_part,
    read_own,
    remove_stale_parts,
    sync_folder,
    values_of,
    write_atomic,
)
from tts_cli.audio.tags import synthetic_of
from tts_cli.config import RunConfig
from tts_cli.errors import RowError, StoppedEarly, UsageError, disk_full, is_disk_error
from tts_cli.export.audio import Audio
from tts_cli.export.card import CardFacts, card, model_of
from tts_cli.export.layouts import (
    RATE_HZ,
    AudioFolder,
    ExportPlan,
    LJSpeech,
    NeMo,
    Target,
    WebDataset,
)
from tts_cli.export.made import CARD_NAME, ExportFiles
from tts_cli.export.parquet import Parquet
from tts_cli.export.row import Names
from tts_cli.export.selection import LOST, Filters, Selection
from tts_cli.export.statistics import Splits, Statistics
from tts_cli.named import Named
from tts_cli.store.files import prepare_folder
from tts_cli.store.lock import LOCK_NAME, FolderLock
from tts_cli.store.run_file import read_report
from tts_cli.store.store import Store
from tts_cli.versions import versions

log = logging.getLogger(__name__)

TARGETS: dict[str, type[Target]] = {
    "ljspeech": LJSpeech,
    "audiofolder": AudioFolder,
    "nemo": NeMo,
    "webdataset": WebDataset,
    "parquet": Parquet,
}


@dataclass(frozen=True)
class Wanted:
    """How a folder is to be exported."""

    to: str
    splits: Splits
    rate_hz: int | None = None  # None: files stay what they are, but for LJSpeech
    shard_mb: int = 1000
    has_links: bool = True

    @property
    def final_rate_hz(self) -> int | None:
        """Of all audio; None: files stay what they are."""
        return RATE_HZ if self.rate_hz is None and self.to == "ljspeech" else self.rate_hz


@dataclass(frozen=True)
class Exported:
    """What was made."""

    wanted: Wanted
    statistics: dict[str, Any]
    num_linked: int
    num_copied: int
    num_changed: int  # made at another rate or in another format
    num_pruned: int  # files of an earlier export, removed
    aside: Named  # files that stood in the way, and no export has made so
    left: Named  # files that are named as a data set's, and are none of this one's

    @property
    def lost(self) -> set[str]:
        """Reasons for which rows are left out that should be there."""
        return LOST.intersection(self.statistics["left_out"])


def export_folder(
    source: Path,
    out: Path,
    config: RunConfig,
    own: Mapping[str, Any],
    is_overwriting: bool,
    step: AbstractContextManager[Any],
) -> Exported:
    """Write a data set of what a folder holds, or bring it up to date.

    Args:
        own: the options of `export` alone that make it what it is.
        step: shows that the writing goes on.
    Raises:
        UsageError: no row is wanted, or one of the folders is none to read or write.
        SetupError: a package is missing.
        StoppedEarly: nothing more can be written.
    """
    wanted = Wanted(
        own["to"], Splits(own["splits"]), config.sample_rate, own["shard_mb"], own["link"]
    )
    filters = Filters(
        own["of_voice"],
        own["of_language"],
        own["min_s"],
        own["max_s"],
        own["max_error"],
        not own["no_suspects"],
        own["all_takes"],
    )
    settings = {**own, "sample_rate": wanted.final_rate_hz}
    Store.look(source)
    require_apart(source, out)
    if os.path.lexists(source / LOCK_NAME):
        log.warning(
            "%s: a command is writing there, or was killed: some of its rows may be left out",
            source,
        )
    selection = Selection(source, filters)
    prepare_folder(out)
    with FolderLock(out, config.take_over), step:
        data_set = DataSetFolder(out, source, settings, is_overwriting)
        return _export(selection, data_set, wanted, read_report(source), settings)


def _export(
    selection: Selection,
    folder: DataSetFolder,
    wanted: Wanted,
    report: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> Exported:
    kind = TARGETS[wanted.to]
    names = Names(kind.has_dots)
    ahead = selection.look_ahead(names)
    if not ahead.rows:
        raise UsageError(f"{selection.out}: no row is left to export", remedy=_why(selection))
    model = report.get("model")
    comment = synthetic_of(model if isinstance(model, dict) else {})
    audio = Audio(selection.out, folder.made, wanted.final_rate_hz, comment, wanted.has_links)
    rate_hz = next(iter(ahead.rates_hz)) if len(ahead.rates_hz) == 1 else None
    plan = ExportPlan(
        folder.made,
        audio,
        names,
        wanted.splits.names,
        sorted(ahead.voices),
        rate_hz,
        wanted.shard_mb * 1_000_000,
        sorted(ahead.extras),
    )
    target = kind(plan)
    statistics = Statistics()
    try:
        folder.begin(kind.folders(wanted.splits.names))
        _write_rows(selection, target, wanted.splits, statistics)
        for name in kind.folders(wanted.splits.names):
            if (folder.out / name).is_dir():
                sync_folder(folder.out / name)  # of links, which nobody has synced
        found = statistics.as_dict()
        version = versions()["tts-cli"]
        about = CardFacts(wanted.to, wanted.splits.names, kind.hub_files, report, settings, version)
        facts = {"version": version, "model": model_of(report)}
        num_pruned = folder.finish(card(about, found), found, facts)
    except OSError as error:
        if is_disk_error(error):
            raise disk_full(error, folder.out) from error
        raise StoppedEarly(f"cannot write {error.filename}: {error.strerror or error}") from error
    finally:
        folder.made.close()
    counts = audio.num_linked, audio.num_copied, audio.num_changed
    return Exported(wanted, found, *counts, num_pruned, folder.made.aside, folder.made.left)


def _write_rows(
    selection: Selection, target: Target, splits: Splits, statistics: Statistics
) -> None:
    try:
        for row in selection.rows(statistics.left_out):
            signals.check()
            split = splits.split_of(row.text)
            try:
                target.add(row, split)
            except RowError as error:
                statistics.left_out[error.message] += 1
            else:
                statistics.add(row, split)
        target.close()
    except BaseException:
        target.abort()
        raise


def _why(selection: Selection) -> str:
    statistics = Statistics()
    for _ in selection.rows(statistics.left_out):
        pass
    reasons = ", ".join(f"{count} {reason}" for reason, count in statistics.left_out.items())
    return f"left out: {reasons}" if reasons else "timings.jsonl has no rows"


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
                f"--out {self.out}: is not empty, and not an export", remedy="choose another folder"
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
            f"--out {out} and {source} contain one another", remedy="choose a folder next to it"
        )


def _read(path: Path) -> dict[str, Any] | None:
    return values_of(read_own(path, _MAX_BYTES) or b"")
