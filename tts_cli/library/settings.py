"""Names and types of the keywords of `Speaker` and its rows, for type checkers. `config.SETTINGS`
defines the settings, and `sources.row` the fields of rows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

from tts_cli.config import SETTINGS, RunConfig
from tts_cli.core import Row
from tts_cli.errors import UsageError
from tts_cli.named import nearest, shown
from tts_cli.setting import flag, setting_meant

GivenRow = str | Mapping[str, Any] | Row
StrPath = str | os.PathLike[str]


class Manner(TypedDict, total=False):
    """Settings of one row or of all rows."""

    voice: str
    language: str
    greedy: bool
    temperature: float
    top_k: int
    top_p: float
    repetition_penalty: float
    subtalker_temperature: float
    subtalker_top_k: int
    subtalker_top_p: float
    max_seconds: float


class Settings(Manner, total=False):
    """Settings of a `Speaker` by keyword; `tts-cli synth --help` describes the flags of the same
    names.
    """

    accept_licence: bool
    no_graphs: bool
    reproducible: bool
    # cloning and voices
    free_voice: str
    voice_text: str
    made_voices: StrPath
    cast: StrPath
    ref_root: StrPath
    ref_silence: float
    # texts
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
    # synthesis
    layout: str
    retries: int
    accept_truncated: bool
    # verification
    verify: StrPath
    retakes: int
    verify_device: str
    # alignment
    words: StrPath


class RowFields(Manner, total=False):
    """Fields of a row except its text, as in a manifest; see `samples/guide/manifests.md`."""

    id: str
    character: str
    instruct: str
    ref_audio: StrPath
    ref_text: str
    clone_mode: str
    seed: int
    subtalker_greedy: bool
    max_frames: int
    speed: float
    duration_s: float
    lexicon: str


class RowValues(RowFields, total=False):
    """A row of a batch."""

    text: str


KEYWORDS = {name: one for name, one in SETTINGS.items() if one.is_keyword}


def config_of(given: Mapping[str, Any]) -> RunConfig:
    """Return the settings of keywords; None means the default. Raises UsageError for an unknown
    keyword or an invalid value.
    """
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in KEYWORDS:
            close = setting_meant(flag(name), KEYWORDS) or nearest(name, list(KEYWORDS))
            advice = (
                f"did you mean {close}?" if close else f"the settings are {', '.join(KEYWORDS)}"
            )
            raise UsageError(f"unknown setting {shown(name)}", advice)
        if value is None:
            continue
        kind = KEYWORDS[name].kind
        types, words = _TYPES[Path if KEYWORDS[name].names_path else kind]
        if not isinstance(value, types) or isinstance(value, bool) is not (kind is bool):
            raise UsageError(f"{name}: must be {words}, not {shown(value)}")
        values[name] = kind(value) if KEYWORDS[name].names_path else value
    return RunConfig.from_options(values)


_TYPES: dict[type, tuple[Any, str]] = {
    str: (str, "text"),
    Path: ((str, os.PathLike), "text or a path"),
    int: (int, "a whole number"),
    float: ((int, float), "a number"),
    bool: (bool, "True or False"),
}
