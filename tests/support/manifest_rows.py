"""Manifests read as a run with some settings reads them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from models.base import ModelInfo
from tts_cli.config import RunConfig
from tts_cli.core import BadRow, Row
from tts_cli.plan.free_voices import who_speaks
from tts_cli.plan.plan import Plan
from tts_cli.plan.tally import ManifestSummary
from tts_cli.sources.item import Manifest
from tts_cli.sources.open import open_manifests, read_rows


def read(path: Path, **settings: object) -> list[Row | BadRow]:
    """Every row of a file."""
    with open_manifests([str(path)], replace(RunConfig(), **settings)) as source:  # type: ignore[arg-type]
        return list(read_rows(source))


def check_manifest(source: Manifest, config: RunConfig, info: ModelInfo) -> ManifestSummary:
    """Judge every row of a manifest and sum up, whatever a folder holds."""
    config, info, maker = who_speaks(config, info)
    return Plan(source, config, info, maker=maker, keeps=False).survey().summary
