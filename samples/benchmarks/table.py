"""All parts one after the other, whatever becomes of each; what is known so far is on disk."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parts import PARTS, Part
from process import ROOT, CommandFailed, Commands
from whole_run import Figures, Place

if TYPE_CHECKING:
    from baseline import Baseline

KERNELS = ("auto", "portable")


class Table:
    """What was measured so far.

    Args:
        folder: for manifests, audio (removed again), what commands said, and `table.json`.
        budget_s: no part is begun behind so many seconds; None: there is time.
        flags: of every command, such as --device.
    """

    def __init__(
        self, folder: Path, repeats: int, budget_s: float | None, flags: Sequence[str]
    ) -> None:
        self.folder = folder
        self.repeats = repeats
        self.budget_s = budget_s
        self.flags = tuple(flags)
        self.started_s = time.monotonic()
        self.found: list[Figures] = []
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "commands.log"
        self.log.write_text("")

    def measure(self, chosen: Sequence[Part], kernels: str) -> None:
        """Measure parts with one kind of kernels, in one process as far as it lasts."""
        with Commands(self.log) as commands:
            flags = (*self.flags, "--kernels", kernels)
            place = Place(self.folder, commands, flags, self.repeats)
            for part in chosen:
                self._add(part, kernels, place)

    def _add(self, part: Part, kernels: str, place: Place) -> None:
        started_s = time.monotonic()
        entry: Figures = {"part": part.name, "kernels": kernels}
        if self.budget_s is not None and started_s - self.started_s > self.budget_s:
            entry["error"] = "left out: no time"
        else:
            try:
                entry["figures"] = part.measure(place)
                entry["lines"] = part.lines(entry["figures"])
            except CommandFailed as error:
                entry["error"] = str(error)
            except Exception:  # the next part may do better
                entry["error"] = traceback.format_exc(limit=-3)
        entry["took_s"] = round(time.monotonic() - started_s, 1)
        self.found.append(entry)
        said = entry.get("lines") or entry.get("error")
        print(f"# {part.name}, {kernels}, {entry['took_s']} s: {said}", flush=True)
        self.write()

    def write(self) -> None:
        """Put all figures into `table.json`."""
        report = {"about": about(), "parts": self.found}
        (self.folder / "table.json").write_text(json.dumps(report, indent=1) + "\n")

    def times(self) -> dict[str, float]:
        """As `times_of` what was found."""
        return times_of({"parts": self.found})

    def markdown(self) -> str:
        """The table: a line for each figure, a column for each kind of kernels."""
        cells: dict[str, dict[str, str]] = {}
        for entry in self.found:
            lines = entry.get("lines") or {entry["part"]: "failed, see table.json"}
            for name, value in lines.items():
                cells.setdefault(name, {})[entry["kernels"]] = value
        kinds = [kind for kind in KERNELS if any(entry["kernels"] == kind for entry in self.found)]
        head = ["what", *(f"`--kernels {kind}`" for kind in kinds)]
        rows = [[name, *(of.get(kind, "") for kind in kinds)] for name, of in cells.items()]
        lines = [f"| {' | '.join(row)} |" for row in [head, *rows]]
        return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])


def conditions_of(report: Any) -> dict[str, object]:
    """What must be alike for two tables to be compared."""
    about = report["about"]
    return {
        "GPU or driver": about["device"],
        "version of torch": about["torch"],
        "version of triton": about["triton"],
    }


def times_of(report: Any) -> dict[str, float]:
    """What each part of a table took, by its name: ms of frames and of the vocoder, ms a second of
    speech of whole runs.
    """
    found = {}
    for entry in report["parts"]:
        figures, name = entry.get("figures", {}), f"{entry['part']} ({entry['kernels']})"
        for one in figures.get("results", []):
            found[f"{name}, batch {one['batch']}"] = float(one["p50_ms"])
        if "xrt" in figures:
            found[name] = 1000 / float(figures["xrt"])
    return found


def about() -> dict[str, Any]:
    """What it was measured on."""
    from importlib import metadata

    found: dict[str, Any] = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    for package in ("torch", "triton"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    found["python"] = sys.version.split()[0]
    asked = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    found["device"] = _said(asked)
    found["commit"] = _said(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"])
    return found


def _said(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def run(
    folder: Path,
    names: Sequence[str] | None,
    kernels: Sequence[str],
    repeats: int,
    budget_s: float | None,
    flags: Sequence[str],
    against: Baseline | None = None,
) -> int:
    """Measure and print. Returns 1 if a part failed, or is slower than before.

    Args:
        names: of parts; None: the usual ones.
    Raises:
        UsageError: nothing of this can be compared with `against`.
    """
    if against is not None:
        against.require_like(conditions_of({"about": about()}))
    table = Table(folder, repeats, budget_s, flags)
    try:
        for kind in kernels:
            is_wanted = "is_usual" if kind == "auto" else "is_for_portable"
            chosen = [
                part
                for part in PARTS
                if (part.name in names if names is not None else getattr(part, is_wanted))
            ]
            table.measure(chosen, kind)
    finally:
        table.write()
        print(table.markdown(), flush=True)
    slower = [] if against is None else against.slower(table.times())
    for one in slower:
        print(
            f"slower: {one['what']}: {one['now']:.3f} ms, before {one['before']:.3f} "
            f"(+{100 * one['more']:.1f} %)"
        )
    return int(bool(slower) or any("error" in entry for entry in table.found))
