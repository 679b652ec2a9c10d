"""Read the settings of a folder's earlier runs: those that the next run takes over, and those that
rows were synthesized with.

`runs.jsonl` is untrusted: only known settings are read, each value passes the check of its flag,
and only settings that a project file may have are taken over. These are the settings of the speech,
the delivery, and, for the same manifests, of reading them. Settings of the machine, selectors and
one-time actions are never taken over, except `--max-batch` with `--reproducible`, because the audio
depends on it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from tts_cli.config import SETTINGS, SUBTYPES, RunConfig
from tts_cli.errors import SetupError, without_user_info
from tts_cli.setting import SAMPLING_FLAGS, About, Scope, SettingFacts
from tts_cli.store.run_file import RunLog, read_report

_EACH_RUN = ("accept_truncated", "skip_invalid")  # a forgotten flag must not hide faults
_ABOUT = (About.SPEECH, About.DELIVERY, About.ROWS)
_NARROW = ("only", "takes", "retry_failed", "chapters")
# Further settings that a request hash depends on.
_OF_THE_HASH = ("max_batch",)


def is_remembered(name: str) -> bool:
    """Return whether a run takes a setting from the folder's last run if it is not given."""
    one = SETTINGS.get(name)
    if one is None or name in _EACH_RUN:
        return False
    return one.about in _ABOUT and one.scope is Scope.ANY


class BookFacts(NamedTuple):
    path: Path
    config: RunConfig  # the settings as given; those of the rows have another delivery


@dataclass(frozen=True)
class RunFacts:
    """The facts about the speech of a run from its line of `runs.jsonl`."""

    settings: Mapping[str, Any] = field(default_factory=dict)  # valid JSON values
    chosen: frozenset[str] = frozenset()  # names of settings that the user gave
    manifests: tuple[str, ...] = ()  # absolute paths; empty: a pipe or a book
    book: str | None = None  # absolute path
    is_piped: bool = False  # a manifest was a pipe
    is_narrow: bool = False  # for some rows or takes only, so its settings are not taken over
    identity: str | None = None  # of the checkpoint that synthesized
    voice_identity: str | None = None  # of the checkpoint that generated voices
    default_voice: str | None = None
    version: str | None = None  # of tts-cli
    lexicon_sha256: str | None = None

    def remembered(self, manifests: Sequence[str]) -> dict[str, Any]:
        """Return the settings that a run of these manifests takes over, by name."""
        is_same = tuple(manifests) == self.manifests
        found = {}
        for name in SETTINGS:
            is_wanted = is_remembered(name)
            if name == "max_batch":
                is_wanted = self.settings.get("reproducible") is True
            if not is_wanted or name not in self.chosen or name not in self.settings:
                continue
            if is_same or SETTINGS[name].about is not About.ROWS:
                found[name] = self.settings[name]
        return found

    def config(self, now: RunConfig) -> RunConfig:
        """Return the settings `now` with the speech settings of this run."""
        values: dict[str, Any] = {}
        sampling = dict(now.sampling)
        for name, one in SETTINGS.items():
            if name not in self.settings or not _is_of_speech(name):
                continue
            value = self.settings[name]
            if name in SAMPLING_FLAGS:
                sampling.pop(name, None)
                if value is not None and value is not False:
                    sampling[name] = value
            else:
                values[name] = Path(value) if one.kind is Path and value is not None else value
        return replace(now, **values, sampling=sampling)


def _is_of_speech(name: str) -> bool:
    return SETTINGS[name].about is About.SPEECH or name in _OF_THE_HASH


def explicit_changes(run: RunFacts, now: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Return speech settings that the user changed now: old and new value, by name."""
    values = settings_now(now)
    found = {}
    for name in sorted(now.chosen):
        if name in SETTINGS and _is_of_speech(name):
            then = run.settings.get(name, SETTINGS[name].default)
            if then != values[name]:
                found[name] = (then, values[name])
    return found


def facts_of(line: Mapping[str, Any]) -> RunFacts:
    """Read a line of `runs.jsonl` or run.json, whatever its objects contain."""
    given, told = line.get("settings", {}), line.get("settings_from")
    # Earlier versions called this setting `voices`.
    settings = {"voice_dir": given["voices"], **given} if "voices" in given else given
    settings = {name: value for name, value in settings.items() if _is_sound(name, value)}
    if isinstance(told, dict):
        chosen = frozenset(name for name in told if name in settings)
    else:  # of a version that did not record the origins
        chosen = frozenset(n for n, value in settings.items() if value != SETTINGS[n].default)
    names = line.get("manifests", [])
    folder = line.get("working_folder") or working_folder()  # earlier versions had none
    return RunFacts(
        settings=absolute_paths(settings, folder),
        chosen=chosen,
        manifests=tuple(names),
        book=line.get("book"),
        is_piped=len(line.get("read_as", [])) > len(names),
        is_narrow=any(given.get(name) for name in _NARROW),
        identity=_in(line, "model", "identity"),
        voice_identity=_in(line, "voice_model", "identity"),
        default_voice=_in(line, "model", "default_voice"),
        version=_in(line, "versions", "tts-cli"),
        lexicon_sha256=_in(line, "text", "lexicon_sha256"),
    )


def _in(line: Mapping[str, Any], name: str, inner: str) -> str | None:
    value = (line.get(name) or {}).get(inner)
    return value if isinstance(value, str) else None


def _is_sound(name: str, value: Any) -> bool:
    """Return whether a value is valid for a setting, and contains no password."""
    one = SETTINGS.get(name)
    if one is None:
        return False
    if value is None:
        return one.default is None
    if not _is_of_kind(one, value) or (isinstance(value, str) and "\0" in value):
        return False
    if isinstance(value, str) and ("***@" in value or without_user_info(value) != value):
        return False
    try:
        return one.problem(one.read(value)) is None
    except (ValueError, TypeError, OverflowError):
        return False


def _is_of_kind(one: SettingFacts, value: Any) -> bool:
    if one.kind is bool or isinstance(value, bool):
        return one.kind is bool and isinstance(value, bool)
    if one.kind in (int, float):
        return isinstance(value, (int, float) if one.kind is float else int)
    return isinstance(value, str)


def absolute_paths(settings: Mapping[str, Any], folder: str | None) -> dict[str, Any]:
    """Return settings with absolute paths. `folder` None: unknown, so paths stay as they are."""
    found = dict(settings)
    for name, value in settings.items():
        one = SETTINGS.get(name)
        if one is None or not one.names_path or not isinstance(value, str) or folder is None:
            continue
        path = os.path.normpath(os.path.join(folder, os.path.expanduser(value)))
        if one.kind is Path or os.path.exists(path):  # a model may be a repository
            found[name] = path
    return found


def settings_now(config: RunConfig) -> dict[str, Any]:
    """Return the settings of a run that starts now, with absolute paths."""
    return absolute_paths(config.as_dict(), working_folder())


def working_folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None


def without_orphans(found: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return remembered settings without those that contradict the given ones: the revision of
    another model, a subtype that the format does not have.
    """
    kept = dict(found)
    if "model" in given and given["model"] != found.get("model"):
        kept.pop("revision", None)
    subtype = kept.get("subtype")
    if "format" in given and subtype not in SUBTYPES.get(given["format"], ()):
        kept.pop("subtype", None)
    if "subtype" in given and given["subtype"] not in SUBTYPES.get(kept.get("format", "wav"), ()):
        kept.pop("format", None)
    return kept


class PastRuns:
    """The runs of a folder, by id; equal facts share an object. Raises OSError, SetupError."""

    def __init__(self, out: Path, manifests: Sequence[str]) -> None:
        self._by_id: dict[str, RunFacts] = {}
        self.manifests = tuple(manifests)
        same: dict[str, RunFacts] = {}
        lasts: dict[tuple[bool, bool], RunFacts] = {}  # by whether it is whole, and of these
        for line in RunLog(out).lines():
            found = facts_of(line)
            found = same.setdefault(repr(found), found)
            lasts[not found.is_narrow, found.manifests == tuple(manifests)] = found
            if "run_id" in line:
                self._by_id[line["run_id"]] = found
        if not lasts and (report := read_report(out)):
            lasts[False, False] = facts_of(report)
        # The run that settings are taken from.
        self.last = lasts[max(lasts)] if lasts else None

    def of(self, run_id: str | None) -> RunFacts | None:
        """Return the run that recorded a row; if it is unknown, the last one."""
        return self._by_id.get(run_id or "", self.last)


def last_run(out: Path, manifests: Sequence[str]) -> RunFacts | None:
    """Return the run that settings are taken from; None: the folder has no readable one."""
    if not os.path.isdir(out):
        return None
    try:
        return PastRuns(out, manifests).last
    except (OSError, SetupError):
        return None
