"""The command line by which a run's rows can be spoken again, from what its report tells.

The report may be a stranger's, and the line is pasted: it says how rows sound and how the manifest
is read, nothing else, and no value can be taken for another flag.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from tts_cli.config import (
    SAMPLING_FLAGS,
    About,
    RunConfig,
    Scope,
    about_of,
    describe_field,
    flag,
    scope_of,
)

_TAKEN_OVER = (About.SPEECH, About.DELIVERY, About.ROWS)
_PATHS = frozenset(["model", "clone_model", "made_voices", "voices", "lexicon", "cast"])
UNKNOWN_MANIFEST = "MANIFEST"


def spoken_by(report: Mapping[str, Any]) -> list[str]:
    """`synth` with the manifest and the settings of the speech that are not the default, without
    --out.

    Args:
        report: run.json or a line of runs.jsonl; may lack anything.
    """
    manifests = report.get("manifests")
    manifests = manifests if isinstance(manifests, list) else []
    names = [name for name in manifests if isinstance(name, str)]
    args = ["synth", *(_behind_dashes(name) for name in names or [UNKNOWN_MANIFEST])]
    settings = report.get("settings")
    if not isinstance(settings, dict):
        return args
    for name in _names(settings):
        value, default = settings.get(name), describe_field(name)[0]
        if value is None or value == default:
            continue
        if default is False:
            args += [flag(name)] * (value is True)
        elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
            args += [flag(name), _absolute(str(value)) if name in _PATHS else str(value)]
    return args


def _names(settings: Mapping[str, Any]) -> list[str]:
    names = [*(entry.name for entry in fields(RunConfig)), *SAMPLING_FLAGS]
    taken = [
        name for name in names if about_of(name) in _TAKEN_OVER and scope_of(name) is Scope.ANY
    ]
    if settings.get("reproducible") is True:  # then audio depends on it
        taken.append("max_batch")
    return taken


def _absolute(path: str) -> str:
    """A path that holds in every folder; a model may be no path at all."""
    return os.path.abspath(path) if os.path.exists(path) else path


def _behind_dashes(name: str) -> str:
    """A file name that is not taken for a flag."""
    return f"./{name}" if name.startswith("-") else name
