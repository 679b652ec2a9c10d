"""A folder becomes a data set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tts_cli import signals
from tts_cli.deliver.metadata import synthetic_of
from tts_cli.errors import RowError, StoppedEarly, UsageError, disk_full, is_disk_error
from tts_cli.export.audio import Audio
from tts_cli.export.card import CardFacts, card, model_of
from tts_cli.export.folder import DataSetFolder
from tts_cli.export.formats.audiofolder import AudioFolder
from tts_cli.export.formats.ljspeech import RATE_HZ, LJSpeech
from tts_cli.export.formats.nemo import NeMo
from tts_cli.export.formats.parquet import Parquet
from tts_cli.export.formats.target import Plan, Target
from tts_cli.export.formats.webdataset import WebDataset
from tts_cli.export.names import Names
from tts_cli.export.selection import Selection
from tts_cli.export.splits import Splits
from tts_cli.export.statistics import Statistics
from tts_cli.output.atomic import sync_folder
from tts_cli.output.named import Named
from tts_cli.output.run_file import versions

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

    statistics: dict[str, Any]
    num_linked: int
    num_copied: int
    num_changed: int  # made at another rate or in another format
    num_pruned: int  # files of an earlier export, removed
    aside: Named  # files that stood in the way, and no export has made so
    left: Named  # files that are named as a data set's, and are none of this one's


def export(
    selection: Selection,
    folder: DataSetFolder,
    wanted: Wanted,
    report: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> Exported:
    """Write a data set.

    Args:
        report: run.json of the folder.
        settings: of the export, for the card.
    Raises:
        UsageError: no row is wanted; nothing was written.
        SetupError: a package is missing.
        StoppedEarly: nothing more can be written.
    """
    kind = TARGETS[wanted.to]
    names = Names(kind.has_dots)
    ahead = selection.look_ahead(names)
    if not ahead.rows:
        raise UsageError(f"{selection.out}: no row is left to export", remedy=_why(selection))
    model = report.get("model")
    comment = synthetic_of(model if isinstance(model, dict) else {})
    audio = Audio(selection.out, folder.made, wanted.final_rate_hz, comment, wanted.has_links)
    rate_hz = next(iter(ahead.rates_hz)) if len(ahead.rates_hz) == 1 else None
    plan = Plan(
        folder.made,
        audio,
        names,
        wanted.splits.names,
        sorted(ahead.voices),
        rate_hz,
        wanted.shard_mb * 1_000_000,
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
    return Exported(found, *counts, num_pruned, folder.made.aside, folder.made.left)


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
    return f"left out: {reasons}" if reasons else "the journal has no rows"
