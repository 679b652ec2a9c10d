"""The command line by which a run's rows can be spoken again, from what its report tells."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from tts_cli.config import SAMPLING_FLAGS, RunConfig, describe_field, flag

# What concerns one run, not how its rows sound; and where they lie, which the page itself knows.
_ONCE = {"accept_licence", "json", "verbosity", "debug", "progress", "limit", "shard", "dry_run"}
_ONCE |= {"out", "retries", "max_failures", "verify_files", "take_over"}
_ONCE |= {"overwrite", "retry_failed", "only", "takes"}
_PATHS = frozenset(["model", "voices", "ref_root", "lexicon", "cast"])
UNKNOWN_MANIFEST = "MANIFEST"


def spoken_by(report: Mapping[str, Any]) -> list[str]:
    """`synth` with the manifest and all settings that are not the default, without --out.

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
    for name in _names():
        value = settings.get(name)
        if value is None or name in _ONCE or value == describe_field(name)[0]:
            continue
        if value is True:
            args.append(flag(name))
        elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
            args += [flag(name), _absolute(str(value)) if name in _PATHS else str(value)]
    return args


def _names() -> list[str]:
    own = [entry.name for entry in fields(RunConfig) if entry.metadata.get("help")]
    return [*own, *SAMPLING_FLAGS]


def _absolute(path: str) -> str:
    """A path that holds in every folder; a model may be no path at all."""
    return os.path.abspath(path) if os.path.exists(path) else path


def _behind_dashes(name: str) -> str:
    """A file name that is not taken for a flag."""
    return f"./{name}" if name.startswith("-") else name
