"""Export an output folder as a data set.

`export.json` in the data set states which folder was exported, how, and all figures.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tts_cli import signals
from tts_cli.atomic import parse_line, read_own
from tts_cli.audio.tags import comment_of_model
from tts_cli.errors import RowError, StoppedEarly, UsageError, writing
from tts_cli.export.artifacts import STATE_NAME, Artifacts, replacing
from tts_cli.export.audio import AudioReader
from tts_cli.export.card import card, model_of
from tts_cli.export.layouts import (
    LJSPEECH_RATE_HZ,
    AudioFolder,
    Layout,
    LayoutContext,
    LJSpeech,
    NamedFiles,
    NeMo,
    WebDataset,
)
from tts_cli.export.parquet import Parquet
from tts_cli.export.row import Names
from tts_cli.export.selection import LOST, ExportOptions, Selection
from tts_cli.export.statistics import Splits, Statistics
from tts_cli.sources.naming import delivered_names
from tts_cli.store.lock import LOCK_NAME
from tts_cli.store.run_file import read_report
from tts_cli.store.store import Store
from tts_cli.versions import versions

log = logging.getLogger(__name__)

LAYOUTS: dict[str, type[Layout]] = {
    "ljspeech": LJSpeech,
    "audiofolder": AudioFolder,
    "nemo": NeMo,
    "webdataset": WebDataset,
    "parquet": Parquet,
    "files": NamedFiles,
}
SCHEMA = 2  # of export.json; since 2 there is a list of files
_MAX_STATE_BYTES = 1 << 24
_LATER = ("name_by", "approved")  # settings that export.json has only if they are given


@dataclass(frozen=True)
class Exported:
    statistics: dict[str, Any]
    rate_hz: int | None  # that all audio was converted to; None: it was not converted
    files: dict[str, int]  # see `AudioReader`

    @property
    def lost(self) -> set[str]:
        """Reasons why rows were left out that should be exported."""
        return LOST.intersection(self.statistics["left_out"])


def export_folder(
    source: Path,
    out: Path,
    options: ExportOptions,
    *,
    is_overwriting: bool,
    takes_over: bool,
    step: AbstractContextManager[Any],
) -> Exported:
    """Write a data set of a folder, in place of an earlier export of it if there is one.

    Args:
        is_overwriting: whether an export with other settings may be replaced.
        takes_over: see `FolderLock`.
        step: shows progress.
    Raises:
        UsageError: no row is wanted, or one of the folders cannot be read or replaced.
        SetupError: a package is missing.
        StoppedEarly: the disk failed.
    """
    splits = Splits(options.splits)
    Store.read_only(source)
    if out.is_symlink() or out.name in ("", ".."):
        out = out.resolve()
    first, second = source.resolve(), out.resolve()
    if first == second or first in second.parents or second in first.parents:
        raise UsageError(
            f"--out {out} and {source} contain one another", remedy="choose a folder next to it"
        )
    if os.path.lexists(source / LOCK_NAME):
        log.warning(
            "%s: a command is writing there, or was killed: some of its rows may be left out",
            source,
        )
    if options.to == "ljspeech" and options.sample_rate is None:
        options = replace(options, sample_rate=LJSPEECH_RATE_HZ)
    state = _state_of(source, options)
    selection = Selection(source, options)

    def require_ours() -> None:
        _require_ours(out, state, is_overwriting)

    with writing(out, StoppedEarly), step, replacing(out, takes_over, require_ours) as artifacts:
        return _export(selection, options, splits, artifacts, state)


def _export(
    selection: Selection,
    options: ExportOptions,
    splits: Splits,
    artifacts: Artifacts,
    state: Mapping[str, Any],
) -> Exported:
    overview, kind = selection.overview(), LAYOUTS[options.to]
    if not overview.rows:
        reasons = ", ".join(f"{count} {reason}" for reason, count in overview.left_out.items())
        raise UsageError(
            f"{selection.out}: no row is left to export",
            remedy=f"left out: {reasons}" if reasons else "timings.jsonl has no rows",
        )
    report = read_report(selection.out)
    comment = comment_of_model(report.get("model", {}))
    given: dict[tuple[str, int], str] = {}
    if options.name_by is not None:
        rows = selection.rows(Counter())
        values = (((row.id, row.values["take"]), {**row.extra, **row.values}) for row in rows)
        given = delivered_names(options.name_by, values)
    audio = AudioReader(selection.out, options.sample_rate, comment, options.link)
    native_hz = next(iter(overview.rates_hz)) if len(overview.rates_hz) == 1 else None
    layout = kind(
        LayoutContext(
            artifacts,
            audio,
            Names(kind.has_dots, given),
            splits.names,
            sorted(overview.voices),
            options.sample_rate or native_hz,
            options.shard_mb * 1_000_000,
            sorted(overview.extras),
        )
    )
    statistics = Statistics(overview.left_out)
    try:
        for row in selection.rows(Counter()):
            signals.check()
            split = splits.split_of(row.values["text"])
            try:
                layout.add(row, split)
            except RowError as error:
                statistics.left_out[error.message] += 1
            else:
                statistics.add(row, split)
    finally:
        layout.close()
    found, version = statistics.as_dict(), versions()["tts-cli"]
    settings = state["settings"]
    text = card(options.to, kind.hub_files, splits.names, found, settings, report, version)
    readme = text.encode()
    artifacts.add("README.md", readme, hashlib.sha256(readme).hexdigest())
    facts = {"version": version, "model": model_of(report), "statistics": found}
    artifacts.complete(
        (json.dumps({**state, **facts}, indent=2, ensure_ascii=False) + "\n").encode()
    )
    return Exported(found, options.sample_rate, audio.files)


def _state_of(source: Path, options: ExportOptions) -> dict[str, Any]:
    """Return the identity of an export, as JSON has it. Data sets are published, so it has only
    the name and a digest of the folder's path.
    """
    path = source.resolve()
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    state = {
        "schema": SCHEMA,
        "source": {"name": path.name, "path_digest": digest},
        "settings": {k: one for k, one in asdict(options).items() if one or k not in _LATER},
    }
    return dict(json.loads(json.dumps(state)))


def _require_ours(out: Path, state: Mapping[str, Any], is_overwriting: bool) -> None:
    """Raise UsageError unless a folder is empty, missing or an export that may be replaced."""
    if not out.exists() or not any(out.iterdir()):
        return
    found = parse_line(read_own(out / STATE_NAME, _MAX_STATE_BYTES) or b"")
    problem, remedy = "", "choose another folder"
    if found is None:
        problem = "is not empty, and not an export"
    elif found.get("source") != state["source"]:
        problem = "is an export of another folder"
    elif found.get("settings") != state["settings"] and not is_overwriting:
        problem = "is an export with other settings"
        remedy = "add --overwrite to replace it, or choose another folder"
    if problem:
        raise UsageError(f"--out {out}: {problem}", remedy)
