"""Packages that come with extras: the code's table, that of `pyproject.toml`, what is said."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from make_epub import small_epub
from make_xlsx import workbook
from tiny_qwen3_tts import SPECS, write_checkpoint

from tts_cli import extras
from tts_cli.errors import SetupError
from tts_cli.extras import Package, all_extras

ROOT = Path(__file__).resolve().parents[2]
NOT_OURS = {"browser", "dev", "resample", "clone", "xlsx"}  # for tests; three name nothing more


def test_the_table_is_that_of_the_project() -> None:
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared: dict[str, Any] = {
        name: {re.split(r"[;\s]", entry)[0] for entry in entries}
        for name, entries in project["optional-dependencies"].items()
        if name not in NOT_OURS
    }
    ours = {
        name: {f"{package.name}>={package.min_version}" for package in extra.packages}
        for name, extra in all_extras().items()
    }
    assert ours == declared


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ("15.1.0", "av is 15.1.0, at least 16 is needed"),
        ("9.0", "av is 9.0, at least 16 is needed"),
        ("16.0.0", None),
        ("16", None),
        ("18.1.0rc1", None),
    ],
)
def test_versions(monkeypatch: pytest.MonkeyPatch, found: str, problem: str | None) -> None:
    """PyAV 13 was let in, and had no chapter marks after the whole book was spoken."""
    monkeypatch.setattr(extras, "version", lambda name: found)
    monkeypatch.setattr(extras, "find_spec", lambda name: object())
    assert Package("av", "av", "16").problem() == problem
    if problem is not None:
        with pytest.raises(SetupError) as caught:
            extras.require("m4b", "av", "--join m4b")
        assert str(caught.value) == f'--join m4b needs av: {problem}; pip install "av>=16"'


def test_packages_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert (
        Package("no-such-package", "nothing", "1").problem() == "no-such-package is not installed"
    )
    (tmp_path / "broken_package.py").write_text("raise AttributeError('numpy 1 only\\nmore')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(extras, "version", lambda name: "2.0")
    broken = Package("broken", "broken_package", "1")
    assert extras.Extra("a test", (broken,)).problems() == [
        "broken cannot be imported: numpy 1 only"
    ]


@pytest.mark.long
def test_small_commands_run_with_the_lowest_versions(tmp_path: Path) -> None:
    """With the torch and numpy that are here. PyAV 13, pyloudnorm 0.1.1 and pyarrow 15 were named
    as enough: the first two ended books as internal errors once all was spoken.
    """
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    (site,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (site / "zz_what_is_here.pth").write_text(sysconfig.get_path("purelib"))  # behind its own
    packages = [
        f"{package.name}=={package.min_version}"
        for name, extra in all_extras().items()
        for package in extra.packages
        if name not in ("gpu", "ray")  # which goes with torch, and which a cluster decides
    ]
    install = (python, "-m", "pip", "install", "-q", "--no-deps", *packages)
    if subprocess.run(install, capture_output=True).returncode:
        pytest.skip("the packages cannot be had here")
    write_checkpoint(tmp_path / "model", SPECS["custom_voice"])
    small_epub(tmp_path / "story.epub", "<h1>One</h1><p>It rained.</p><p>All day long.</p>")
    rows = [["id", "text"], ["a", "Hello there."], ["b", "Good morning, all."]]
    (tmp_path / "lines.xlsx").write_bytes(workbook(rows))
    (tmp_path / "cues.srt").write_text("1\n00:00:01,000 --> 00:00:02,500\nHello there.\n")
    flags = "--model model --device cpu --max-seconds 1 --accept-truncated --loudness podcast"
    for line, code in (
        ("doctor --json", 0),
        (f"book story.epub --out book --join m4b --language english {flags}", 0),
        (f"synth lines.xlsx --out wavs --highpass 60 {flags}", 0),
        ("export wavs --to parquet --out parquet", 0),
        ("export wavs --to webdataset --out shards", 0),
        (f"synth cues.srt --out cues {flags}", 0),
        ("lexicon test 21 --normalize german", 0),
        ("check wavs --asr pocketsphinx", 1),  # which hears no words in random weights
    ):
        done = subprocess.run(
            [python, "-m", "tts_cli", *line.split()],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, (line, done.stderr)
        if line.startswith("doctor"):
            rows = {row["name"]: row for row in json.loads(done.stdout)}
            assert all(rows[f"extra {name}"]["status"] == "ok" for name in all_extras())
            assert rows["extra m4b"]["detail"].startswith("av 16.")
    assert list((tmp_path / "book").glob("*.m4b"))
