"""Find the commands that filled a folder, to run them again.

The folder is untrusted: a command always writes to the folder that the user named. What it would
read outside of that folder, or download, is returned for the user to confirm.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tts_cli.config import SETTINGS
from tts_cli.errors import SetupError, TtsCliError, UsageError
from tts_cli.plan.checkpoint import is_at_hand
from tts_cli.plan.remembered import RunFacts, facts_of, working_folder
from tts_cli.setting import flag
from tts_cli.store.run_file import RunLog, read_report

_MODELS = ("model", "clone_model")


@dataclass(frozen=True)
class Rerun:
    words: list[str]  # the command and its input files
    out: Path
    settings: Mapping[str, Any]  # settings that the folder remembers for it, by name
    outside: list[str] = field(default_factory=list)  # files elsewhere, and downloads
    paths: Sequence[str] = ()  # of the manifests, or of the book
    sheet: str | None = None  # of a workbook, if the user chose one

    @property
    def is_book(self) -> bool:
        return self.words[0] == "book"

    def command(self, flags: Sequence[str] = ()) -> list[str]:
        """Return the command as words, with further flags and --out."""
        out = os.path.abspath(self.out) if str(self.out).startswith("-") else str(self.out)
        return [*self.words, *flags, "--out", out]

    def whole(self, flags: Sequence[str] = ()) -> list[str]:
        """Return the command as words, with further flags and the remembered settings as flags."""
        return self.command([*flags_of(self.settings), *flags])


def reruns_of(out: Path, gone: list[str]) -> list[Rerun]:
    """Return the commands that filled a folder, one for each book or group of manifests. Raises
    UsageError if no run is recorded or a manifest was a pipe, and SetupError if the runs cannot be
    read.

    Args:
        gone: gets the manifests that are left out because only others exist.
    """
    try:
        found = [facts_of(line) for line in RunLog(out).lines()] or [facts_of(read_report(out))]
    except OSError as error:
        raise SetupError(f"{error.filename or out}: {error.strerror or error}") from error
    whole = [one for one in found if not one.is_narrow] or found
    lasts = {_key(one): one for one in whole if one.settings}
    shards: dict[tuple[Any, ...], set[Any]] = {}
    for one in whole:
        shards.setdefault(_key(one), set()).add(one.settings.get("shard"))
    if not lasts:
        raise UsageError(
            f"{out}: no run is recorded there", "give the output folder of `synth` or `book`"
        )
    if any(one.is_piped or not (one.book or one.manifests) for one in lasts.values()):
        raise UsageError(
            f"{out}: a manifest came from a pipe, which cannot be read again",
            f"run the command that wrote it: ... | tts-cli synth - --out {out}",
        )
    lost = [key for key, one in lasts.items() if not any(map(os.path.exists, _inputs(one)))]
    if len(lost) < len(lasts):  # without a manifest that was renamed, the others can be read
        gone += [path for key in lost for path in _inputs(lasts.pop(key))]
    return [
        _rerun(one, out, next(iter(shards[key])) if len(shards[key]) == 1 else None)
        for key, one in lasts.items()
        if not any(
            one.book == other.book and set(one.manifests) < set(other.manifests)
            for other in lasts.values()
        )
    ]


def outside_of(out: Path, reruns: Sequence[Rerun]) -> str:
    """Return which files elsewhere and which downloads commands need, for messages."""
    outside = dict.fromkeys(path for one in reruns for path in one.outside)
    message = f"{out} names files elsewhere, or models to download: {', '.join(outside)}"
    return message if outside else ""


def _sheet(run: RunFacts) -> str | None:
    """Return the sheet of a workbook if the user chose one; each sheet counts as a manifest."""
    return run.settings.get("sheet") if "sheet" in run.chosen else None


def _key(run: RunFacts) -> tuple[Any, ...]:
    return run.book, run.manifests, _sheet(run)


def _inputs(run: RunFacts) -> list[str]:
    return list(run.manifests) if run.book is None else [run.book]


def _rerun(run: RunFacts, out: Path, shard: str | None) -> Rerun:
    """Return the command of a run. `shard`: the only part of the manifest in the folder."""
    inputs = _inputs(run)
    words = ["synth" if run.book is None else "book", *inputs]
    words += flags_of({"sheet": _sheet(run), "shard": shard})
    settings = run.remembered(run.manifests)
    paths = inputs + [
        str(value)
        for name, value in settings.items()
        if SETTINGS[name].names_path and os.path.isabs(str(value))
    ]
    outside = [path for path in dict.fromkeys(paths) if not _is_near(path, out)]
    outside += [
        f"{flag(name)} {settings[name]} (to download)"
        for name in _MODELS
        if name in settings and not is_at_hand(settings[name], settings.get("revision"))
    ]
    return Rerun(words, out, settings, outside, inputs, _sheet(run))


def _is_near(path: str, out: Path) -> bool:
    """Whether a path is in a folder, or in the working folder if that contains both."""
    project = working_folder() or ""
    too_large = (os.sep, os.path.realpath(Path.home()))
    if _is_inside(path, str(out)):
        return True
    return project not in ("", *too_large) and all(
        _is_inside(one, project) for one in (path, str(out))
    )


def _is_inside(path: str, folder: str) -> bool:
    real, folder = os.path.realpath(path), os.path.realpath(folder)
    return os.path.commonpath([real, folder]) == folder


def short_command(out: Path) -> list[str] | None:
    """Return `again DIR` as words, or None if it would not repeat what filled the folder."""
    try:
        found = reruns_of(out, [])
    except TtsCliError:
        return None
    return ["again", str(out)] if len(found) == 1 and not found[0].outside else None


def flags_of(settings: Mapping[str, Any]) -> list[str]:
    """Return settings as words of a command line. No value can be mistaken for a flag."""
    words = []
    for name, value in settings.items():
        if value is True:
            words.append(flag(name))
        elif str(value).startswith("-"):
            words.append(f"{flag(name)}={value}")
        elif value is not None and value is not False:
            words += [flag(name), str(value)]
    return words
