"""Manifests read as a run with some settings reads them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tts_cli.config import RunConfig
from tts_cli.core import BadRow, Row
from tts_cli.manifest.manifest import open_manifests, read_rows


def read(path: Path, **settings: object) -> list[Row | BadRow]:
    """Every row of a file."""
    with open_manifests([str(path)], replace(RunConfig(), **settings)) as source:  # type: ignore[arg-type]
        return list(read_rows(source))
