"""What tells of rows: journals, runs, checks. Each file is written anew, whole, so that
a merge that was killed leaves the old one or the new one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from tts_cli import signals
from tts_cli.config import About, about_of
from tts_cli.manifest.ids import id_hash
from tts_cli.merge.rows import Choice
from tts_cli.output.atomic import written_whole
from tts_cli.output.checks import CHECKS_NAME
from tts_cli.output.journal import JOURNAL_NAME, MAX_LINE_BYTES, sound_lines
from tts_cli.output.plain_file import require_plain_file
from tts_cli.output.run_log import RUNS_NAME, FolderTotals

MERGED_FROM = "merged_from"
_COMPARED = (About.SPEECH, About.DELIVERY)  # how rows sound


def write_journal(choice: Choice) -> None:
    """Put the lines of every chosen row behind those that the target has. Raises DiskFull,
    OSError.
    """
    out = choice.folders[0]
    with written_whole(out / JOURNAL_NAME) as part, open(part, "xb") as file:
        for index, folder in enumerate(choice.folders):
            if index == 0:
                if require_plain_file(out / JOURNAL_NAME):
                    file.writelines(raw for _, raw in sound_lines(out))
                continue
            for row_key, raw in sound_lines(folder):
                if choice.folder_of(row_key) == index:
                    file.write(raw)
            signals.check()


def write_runs(folders: list[Path]) -> None:
    """Put all runs of all folders into the target's, which is the first, by time, each once:
    its end, unless it was killed. Raises DiskFull, OSError.
    """
    found: dict[str, tuple[str, int, int]] = {}  # run id -> start, folder, place
    for index, folder in enumerate(folders):
        for place, values in _run_lines(folder):
            if values["run_id"] not in found or values.get("totals") is not None:
                found[values["run_id"]] = (str(values.get("started")), index, place)
    if not found:
        return
    target = folders[0] / RUNS_NAME
    files: dict[int, BinaryIO] = {}
    try:
        with written_whole(target) as part, open(part, "xb") as file:
            for _, index, place in sorted(found.values()):
                if index not in files:
                    files[index] = open(folders[index] / RUNS_NAME, "rb")  # noqa: SIM115
                files[index].seek(place)
                file.write(files[index].readline(MAX_LINE_BYTES))
    finally:
        for one in files.values():
            one.close()


def _run_lines(folder: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Whole lines of runs that have a name, and their places."""
    if not require_plain_file(folder / RUNS_NAME):
        return
    place = 0
    with open(folder / RUNS_NAME, "rb") as file:
        while raw := file.readline(MAX_LINE_BYTES):
            values = _object(raw)
            if raw.endswith(b"\n") and isinstance(values.get("run_id"), str):
                yield place, values
            place += len(raw)


def write_checks(choice: Choice) -> None:
    """Put together what `check` found of the chosen rows. Raises DiskFull, OSError."""
    out = choice.folders[0]
    if not any(require_plain_file(folder / CHECKS_NAME) for folder in choice.folders):
        return
    with written_whole(out / CHECKS_NAME) as part, open(part, "xb") as file:
        for index, folder in enumerate(choice.folders):
            for raw in _lines(folder / CHECKS_NAME):
                row_id = _object(raw).get("id")
                if isinstance(row_id, str) and choice.folder_of(id_hash(row_id)) == index:
                    file.write(raw)


def _lines(path: Path) -> Iterator[bytes]:
    """Whole lines of a file; none where there is none."""
    if not require_plain_file(path):
        return
    with open(path, "rb") as file:
        while raw := file.readline(MAX_LINE_BYTES):
            if raw.endswith(b"\n"):
                yield raw


def merged_report(
    folders: list[Path], reports: list[dict[str, Any]], totals: list[FolderTotals | None]
) -> dict[str, Any]:
    """The last run of all folders, and where the target's rows are from.

    Args:
        reports: of all folders, the target's first.
        totals: of the folders behind the target; None: of the target.
    """
    spoken = [report for report in reports if report.get("run_id") or report.get("settings")]
    last = max(spoken, key=lambda report: str(report.get("ended")), default={})
    earlier = reports[0].get(MERGED_FROM)
    found = {
        entry["folder"]: entry
        for entry in (earlier if isinstance(earlier, list) else [])
        if isinstance(entry, dict) and isinstance(entry.get("folder"), str)
    }
    for folder, sums in zip(folders[1:], totals[1:], strict=True):
        name = str(folder.resolve())
        found[name] = {"folder": name, **({} if sums is None else asdict(sums))}
    return {**last, MERGED_FROM: [found[name] for name in sorted(found)]}


def differences(folders: list[Path], reports: list[dict[str, Any]]) -> Iterator[str]:
    """What the last runs of two folders had otherwise, in words: each folder against the first one
    that tells it.
    """
    known: dict[str, tuple[Path, Any]] = {}
    for folder, report in zip(folders, reports, strict=True):
        facts = _facts(report)
        for name, value in facts.items():
            first = known.setdefault(name, (folder, value))
            if first[1] != value:
                yield f"{name}: {_shown(first[1])} in {first[0]}, {_shown(value)} in {folder}"


def _facts(report: dict[str, Any]) -> dict[str, Any]:
    model, settings = report.get("model"), report.get("settings")
    found: dict[str, Any] = {}
    if isinstance(model, dict):
        names = {"source": "model", "identity": "identity of the model"}
        found |= {names[name]: model.get(name) for name in names}
    if isinstance(settings, dict):
        found |= {
            name: value
            for name, value in settings.items()
            if name != "model" and about_of(name) in _COMPARED
        }
    return found


def _shown(value: Any) -> str:
    text = str(value) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _object(raw: bytes) -> dict[str, Any]:
    try:
        values = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}
