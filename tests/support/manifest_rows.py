"""Manifests read as a run with some settings reads them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from models.base import ModelInfo
from tts_cli.cli.messages import note_lines
from tts_cli.config import RunConfig
from tts_cli.core import BadRow, Row
from tts_cli.plan.free_voices import who_speaks
from tts_cli.plan.plan import Plan
from tts_cli.sources.item import Manifest
from tts_cli.sources.open import open_manifests, read_rows


def read(path: Path, **settings: object) -> list[Row | BadRow]:
    """Every row of a file."""
    with open_manifests([str(path)], replace(RunConfig(), **settings)) as source:  # type: ignore[arg-type]
        return list(read_rows(source))


def check_manifest(source: Manifest, config: RunConfig, info: ModelInfo) -> Plan:
    """Check and count every row of a manifest, whatever a folder contains."""
    config, info, maker = who_speaks(config, info)
    plan = Plan(source, config, info, maker=maker, keeps=False)
    plan.read()
    return plan


def warnings_of(plan: Plan) -> list[str]:
    """The warnings about the rows of a manifest."""
    return note_lines(plan.events, plan.source.name)
