"""`run.json`: what a run was asked, what it ran on, what came of it, and what its folder holds.

Without the last it is also the run's line of `runs.jsonl`.

`runs.jsonl`: a line for every run before its first row, and one at its end, also where it was
stopped early. The last one counts; of a run that was killed there is only the first.
"""

from __future__ import annotations

import json
import os
import platform
import secrets
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tts_cli.atomic import (
    MAX_LINE_BYTES,
    lines_in,
    open_to_append,
    read_own,
    require_plain_file,
    values_of,
    write_all,
    write_atomic,
)
from tts_cli.config import SETTINGS
from tts_cli.errors import SetupError, writing
from tts_cli.setting import About

if TYPE_CHECKING:
    from tts_cli.store.index import FolderRows


REPORT_NAME = "run.json"
MODEL, MODEL_IDENTITY = "model", "identity of the model"  # beside settings, see `settings_of`
LENGTH_SLACK_S = 5.0
LEAST_PACE_S = 20.0  # of expected audio, before a folder's own pace is believed
_MAX_REPORT_BYTES = 1 << 24
PACKAGES = (
    "tts-cli",
    "torch",
    "triton",
    "transformers",
    "numpy",
    "ray",
    "soundfile",
    "soxr",
    "pyloudnorm",
    "safetensors",
)

OWN_PACKAGE = PACKAGES[:1]


@dataclass
class Totals:
    """Sums over a run. Load, capture and wall time are apart: wall_s is speaking and writing.

    While rows are spoken `app.tally.RunTally` counts under its lock; before and after the
    command's own thread fills in the rest.
    """

    rows: int = 0  # [rows] selected rows, including invalid and skipped ones
    ok: int = 0  # [rows] rows that were synthesized
    takes: int = 0  # [takes] takes synthesized in addition to the rows' own
    failed: int = 0  # [rows] rows that failed, including invalid ones
    skipped: int = 0  # [rows] rows that were already done
    # [rows] rows whose files were converted from audio or codes in the folder, without synthesis
    remade: int = 0
    # [rows] rows of the folder that are no longer in the manifest; not in any other total (since
    # 0.4)
    strays: int = 0
    removed: int = 0  # [rows] the `strays` that this run removed with `--prune` (since 0.4)
    retried: int = 0  # [rows] rows that needed more than one attempt
    frames: int = 0  # frames of the audio, without retries
    audio_s: float = 0.0  # length of the audio, without retries
    expected_s: float = 0.0  # usual length of the audio for these texts; 0: not known
    wordless: int = 0  # [rows] ok rows without a letter or digit, whose audio is silence
    suspect: int = 0  # [rows] ok rows that were flagged as suspect
    decoded_s: float = 0.0  # length of all generated audio, including runaways and retries
    wall_s: float = 0.0  # time for synthesizing and writing
    load_s: float = 0.0  # time to load the checkpoint, not in `wall_s`
    capture_s: float = 0.0  # time to allocate slots and capture graphs, not in `wall_s`
    references: int = 0  # [number] reference recordings that were encoded; several rows may use one
    reference_ms: float = 0.0  # time to encode the recordings, on the device
    # time to read, check and resample the recordings, while the device works
    reference_load_ms: float = 0.0
    graph_hits: int = 0  # [steps] steps that used a graph
    graph_misses: int = 0  # [steps] steps that had no graph
    peak_memory_bytes: int | None = None  # peak memory of the device; null: not measured
    is_interrupted: bool = False  # whether the run was stopped early
    # [rows] failed rows that were never synthesized, because they are invalid in the manifest
    bad_rows: int = 0
    # number of steps without a graph, by kind
    graph_misses_by: dict[str, int] = field(default_factory=dict)

    @property
    def xrt(self) -> float | None:
        """`audio_s` / `wall_s`, the effective speed; higher is better."""
        return self.audio_s / self.wall_s if self.wall_s and self.audio_s else None

    @property
    def is_length_off(self) -> bool:
        """Whether the kept audio is a third longer or shorter than its texts usually take. Short
        texts take what they like: the first seconds do not count.
        """
        off_s = abs(self.audio_s - self.expected_s)
        return self.expected_s > 0 and off_s > max(self.expected_s / 3, LENGTH_SLACK_S)

    @property
    def total_xrt(self) -> float | None:
        """`decoded_s` / `wall_s`."""
        return self.decoded_s / self.wall_s if self.wall_s and self.decoded_s else None

    @property
    def rtf(self) -> float | None:
        """`wall_s` / `audio_s`; lower is better."""
        return self.wall_s / self.audio_s if self.wall_s and self.audio_s else None

    def as_dict(self) -> dict[str, Any]:
        """What a report says of them."""
        sums = {**asdict(self), "xrt": self.xrt, "total_xrt": self.total_xrt, "rtf": self.rtf}
        return {name: _rounded(value) for name, value in sums.items()}


def versions(packages: Iterable[str] | None = None) -> dict[str, str | None]:
    """Installed versions, read without importing anything; None if absent."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in PACKAGES if packages is None else packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def commit() -> str | None:
    """The checkout's commit, with `+` when it has changes; None outside a checkout."""
    folder = Path(__file__).resolve().parent

    def git(*args: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(folder), *args],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
        return done.stdout.strip()

    try:
        return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def with_folder(report: Mapping[str, Any], folder: FolderTotals | None) -> dict[str, Any]:
    """The content of run.json, which is what `synth --json` prints too."""
    sums = {} if folder is None else asdict(folder)
    return {
        **report,
        # [object] totals of all runs of the folder; not in `runs.jsonl`
        "folder": {name: _rounded(value) for name, value in sums.items()},
    }


def _rounded(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


def write_report(out: Path, report: Mapping[str, Any]) -> Path:
    """Write run.json, whole or not at all. Raises DiskFull."""
    path = out / REPORT_NAME
    write_atomic(path, (json.dumps(report, indent=2) + "\n").encode())
    return path


def read_report(out: Path) -> dict[str, Any]:
    """run.json of a folder; empty where there is none that makes sense.

    Raises:
        SetupError: it is no plain file.
        OSError: it cannot be read.
    """
    return values_of(read_own(out / REPORT_NAME, _MAX_REPORT_BYTES) or b"") or {}


def settings_of(report: Mapping[str, Any], about: Collection[About]) -> dict[str, Any]:
    """The model of a run and its settings of some kinds, by name; what a report lacks is left out.

    Args:
        report: run.json or a line of runs.jsonl; may hold anything.
    """
    model, settings = report.get("model"), report.get("settings")
    found: dict[str, Any] = {}
    if isinstance(model, dict):
        names = {"source": MODEL, "identity": MODEL_IDENTITY}
        found |= {names[name]: model.get(name) for name in names}
    if isinstance(settings, dict):
        found |= {
            name: value
            for name, value in settings.items()
            if name != MODEL and name in SETTINGS and SETTINGS[name].about in about
        }
    return found


def measured_xrt(out: Path) -> float | None:
    """Audio seconds a wall second of the folder's last run, or None."""
    try:
        xrt = read_report(out)["totals"]["xrt"]
    except (OSError, SetupError, TypeError, KeyError):
        return None
    return float(xrt) if isinstance(xrt, (int, float)) and 0 < xrt < 1e9 else None


def measured_pace(out: Path, identity: str) -> float | None:
    """Return the seconds of audio per expected second, over a folder's runs with a model; None
    where they are too few seconds to tell.
    """
    audio_s = expected_s = 0.0
    try:
        for line in RunLog(out).lines():
            model, totals = line.get("model"), line.get("totals")
            if not isinstance(model, dict) or not isinstance(totals, dict):
                continue
            if model.get("identity") == identity:
                audio_s += float(totals["audio_s"])
                expected_s += float(totals["expected_s"])
    except (OSError, SetupError, TypeError, KeyError, ValueError):
        return None
    pace = audio_s / expected_s if expected_s >= LEAST_PACE_S else 0.0
    return pace if 0.1 < pace < 10 else None


RUNS_NAME = "runs.jsonl"


@dataclass(frozen=True)
class FolderTotals:
    """What a folder holds, all runs together; `folder` in run.json."""

    ok: int  # [rows] rows whose last line is ok
    failed: int  # [rows] rows whose last line is failed
    audio_s: float  # length of the audio of the ok rows
    # [number] runs that ended; null while the folder has rows older than `runs.jsonl`
    runs: int | None
    # time that these runs took for synthesizing and writing; null: as for `runs`
    wall_s: float | None


def new_run_id(now: datetime) -> str:
    """A name for a run: its second, and something random."""
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def last_of_runs(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of several lines of one run the last, in the order of the first ones."""
    found: dict[str, dict[str, Any]] = {}
    for place, values in enumerate(lines):
        run_id = values.get("run_id")
        found[run_id if isinstance(run_id, str) else f"\n{place}"] = values
    return list(found.values())


class RunLog:
    """The runs of one output folder, whose lock must be held to append.

    Raises:
        SetupError: the file is there, but is no plain file.
    """

    def __init__(self, out: Path) -> None:
        self.path = out / RUNS_NAME
        require_plain_file(self.path)

    def append(self, report: Mapping[str, Any]) -> None:
        """Add a line. Raises DiskFull, OSError; nothing is added then."""
        handle = open_to_append(self.path)
        try:
            with writing(self.path):
                size = _cut_torn(handle)
                try:
                    write_all(handle, (json.dumps(report, allow_nan=False) + "\n").encode())
                except OSError:
                    os.ftruncate(handle, size)
                    raise
        finally:
            os.close(handle)

    def totals(self, rows: FolderRows) -> FolderTotals:
        """What the folder holds. Raises OSError."""
        runs, wall_s = (None, None) if rows.has_first_lines else self._sums()
        return FolderTotals(rows.ok, rows.failed, rows.audio_s, runs, wall_s)

    def _sums(self) -> tuple[int, float]:
        """Number and wall seconds of the runs; lines that make no sense are passed over."""
        runs, wall_s = 0, 0.0
        for line in self.lines():
            seconds = _wall_s(line)
            if seconds is not None:
                runs += 1
                wall_s += seconds
        return runs, wall_s

    def lines(self) -> Iterator[dict[str, Any]]:
        """The runs, whatever their fields are; lines that are no objects are passed over. Raises
        OSError.
        """
        for raw in lines_in(self.path):
            if (values := values_of(raw)) is not None:
                yield values


def _wall_s(line: Mapping[str, Any]) -> float | None:
    try:
        seconds = line["totals"]["wall_s"]
    except (LookupError, TypeError):
        return None
    return seconds if isinstance(seconds, (int, float)) and 0 <= seconds < 1e12 else None


def _cut_torn(handle: int) -> int:
    """Cut off a last line that a crash has torn; returns the size of the file."""
    size = end = os.fstat(handle).st_size
    while end:
        start = max(0, end - MAX_LINE_BYTES)
        os.lseek(handle, start, os.SEEK_SET)
        newline = os.read(handle, end - start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        os.ftruncate(handle, end)
    return end
