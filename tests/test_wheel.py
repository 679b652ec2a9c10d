"""The wheel holds all that speaking needs: built, put into an empty folder, and run from there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import soundfile

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent


def run(*command: str, cwd: Path, **environment: str) -> str:
    """A command's stdout; its stderr when it fails."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_installed_wheel_speaks_a_row(tmp_path: Path) -> None:
    """A list of packages by hand once had to be kept up with every new folder."""
    pip = ("-m", "pip", "--disable-pip-version-check", "-q")
    flags = ("--no-deps", "--no-index")
    built = ("wheel", *flags, "--no-build-isolation", "-w", str(tmp_path), str(ROOT))
    run(*pip, *built, cwd=tmp_path)
    (wheel,) = tmp_path.glob("tts_cli-*.whl")
    site = tmp_path / "site"
    run(*pip, "install", *flags, "--target", str(site), str(wheel), cwd=tmp_path)
    assert not (site / "tests").exists()
    assert not (site / "samples").exists()
    work = tmp_path / "work"
    work.mkdir()
    (work / "lines.txt").write_text("Good morning.\n")
    program = "import sys, tts_cli.main as m; print(m.__file__); sys.exit(m.main())"
    out = run("-c", program, "synth", "lines.txt", "--out", "wavs", cwd=work, PYTHONPATH=str(site))
    assert out.startswith(str(site))
    assert soundfile.info(work / "wavs" / "000001.wav").duration > 0.5
    run("-c", program, "report", "wavs", cwd=work, PYTHONPATH=str(site))
    assert "<script>" in (work / "wavs" / "report.html").read_text(encoding="utf-8")
