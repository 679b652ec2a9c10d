"""What a `Speaker` and its rows can be told, by name and type. Meanings, defaults and ranges are
those of the flags and of manifests: `config.RunConfig` and `manifest.row` have them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, get_type_hints

from tts_cli.config import RunConfig
from tts_cli.core import Row
from tts_cli.errors import UsageError
from tts_cli.named import nearest, shown

if TYPE_CHECKING:
    pass


GivenRow = str | Mapping[str, Any] | Row


StrPath = str | os.PathLike[str]


class Settings(TypedDict, total=False):
    """Settings of a `Speaker` by keyword; `tts-cli synth --help` says what each flag of the same
    name does.
    """

    accept_licence: bool
    no_graphs: bool
    reproducible: bool
    # cloning and voices
    voice: str
    free_voice: str
    voice_text: str
    made_voices: StrPath
    cast: StrPath
    ref_root: StrPath
    ref_silence: float
    # texts
    language: str
    normalize: str
    lexicon: StrPath
    strip_markup: bool
    split: str
    pause_paragraph: float
    pause_sentence: float
    pause_clause: float
    wordless: str
    # rows
    map: str
    extra: str
    # how they are spoken
    layout: str
    max_seconds: float
    retries: int
    accept_truncated: bool
    greedy: bool
    temperature: float
    top_k: int
    top_p: float
    repetition_penalty: float
    subtalker_temperature: float
    subtalker_top_k: int
    subtalker_top_p: float


class RowFields(TypedDict, total=False):
    """Fields of a row beside its text, as in a manifest; `samples/guide/manifests.md` has them."""

    id: str
    character: str
    voice: str
    language: str
    instruct: str
    ref_audio: StrPath
    ref_text: str
    clone_mode: str
    seed: int
    greedy: bool
    temperature: float
    top_k: int
    top_p: float
    repetition_penalty: float
    subtalker_greedy: bool
    subtalker_temperature: float
    subtalker_top_k: int
    subtalker_top_p: float
    max_frames: int
    max_seconds: float


class RowValues(RowFields, total=False):
    """A row of a batch: its fields, and its text."""

    text: str


class _Given(Settings, total=False):
    """With those that `Speaker` names itself."""

    model: StrPath
    revision: str
    device: str
    dtype: str
    max_batch: int
    voices: StrPath
    seed: int


_KINDS: dict[str, Any] = get_type_hints(_Given)
_PATHS = frozenset(name for name, kind in _KINDS.items() if kind == StrPath)


def config_of(given: Mapping[str, Any]) -> RunConfig:
    """Settings by keyword as those of a run; None stands for the default.

    Raises:
        UsageError: one is unknown, or has a value that it cannot have.
    """
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in _KINDS:
            close = nearest(name, list(_KINDS))
            advice = f"did you mean {close}?" if close else f"there are {', '.join(_KINDS)}"
            raise UsageError(f"unknown setting {shown(name)}", advice)
        if value is None:
            continue
        kind = (str, os.PathLike) if name in _PATHS else _KINDS[name]
        if not _is_of(value, kind):
            raise UsageError(f"{name}: must be {_NAMES[kind]}, not {shown(value)}")
        values[name] = Path(value) if name in _PATHS and name != "model" else value
    if "model" in values:
        values["model"] = os.fspath(values["model"])
    return RunConfig.from_options(values)


_NAMES: dict[Any, str] = {
    str: "text",
    (str, os.PathLike): "text or a path",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
}


def _is_of(value: object, kind: Any) -> bool:
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    return isinstance(value, (int, float) if kind is float else kind)
