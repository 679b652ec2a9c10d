"""The wheel holds all that speaking needs: built, put into an empty folder, and run from there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import soundfile
from warm_process import run_warm

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent


PROGRAM = """
import tts_cli.main
print(tts_cli.main.__file__)
assert tts_cli.main.main(["synth", "lines.txt", "--out", "wavs"]) == 0
with tts_cli.Speaker() as speaker:
    speaker.say("Good morning.").save("a.wav")
assert tts_cli.main.main(["report", "wavs"]) == 0
"""


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


PIP = ("-m", "pip", "--disable-pip-version-check", "-q")
FLAGS = ("--no-deps", "--no-index")
HEAVY = ("torch", "transformers")  # not for what speaks nothing


def build(folder: Path) -> Path:
    """The wheel of this checkout."""
    built = ("wheel", *FLAGS, "--no-build-isolation", "-w", str(folder), str(ROOT))
    run(*PIP, *built, cwd=folder)
    (wheel,) = folder.glob("tts_cli-*.whl")
    return wheel


@pytest.mark.long
@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_every_python_installs_the_wheel_and_validates(version: str, tmp_path: Path) -> None:
    """Fetches what the wheel requires, but for what only speaking needs."""
    works = [sys.executable] if sys.version.startswith(f"{version}.") else []
    works += [found] if (found := shutil.which(f"python{version}")) else []
    for python in works:
        if subprocess.run([python, "-c", ""], capture_output=True).returncode == 0:
            break
    else:
        pytest.skip(f"no Python {version} here")
    wheel = build(tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        lines = archive.read(name).decode().splitlines()
    needs = [line.removeprefix("Requires-Dist: ") for line in lines if "Requires-Dist: " in line]
    light = [need for need in needs if "extra ==" not in need and not need.startswith(HEAVY)]
    assert len(light) == len([need for need in needs if "extra ==" not in need]) - len(HEAVY)
    subprocess.run([python, "-m", "venv", str(tmp_path / "venv")], check=True)
    own = str(tmp_path / "venv" / "bin" / "python")
    for packages in (light, ["--no-deps", str(wheel)]):
        subprocess.run([own, *PIP, "install", *packages], check=True, capture_output=True)
    manifest = tmp_path / "lines.txt"
    manifest.write_text("Good morning.\n")
    for args in (["validate", str(manifest)], ["voices"], ["--help"]):
        command = [str(tmp_path / "venv" / "bin" / "tts-cli"), *args]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        assert done.stdout


def test_an_installed_wheel_speaks_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of packages by hand once had to be kept up with every new folder."""
    wheel = build(tmp_path)
    site = tmp_path / "site"
    run(*PIP, "install", *FLAGS, "--target", str(site), str(wheel), cwd=tmp_path)
    assert not (site / "tests").exists()
    assert not (site / "samples").exists()
    assert (site / "kernels" / "launch").is_dir()
    assert not (site / "kernels" / "bench").exists()
    work = tmp_path / "work"
    work.mkdir()
    (work / "lines.txt").write_text("Good morning.\n")
    monkeypatch.chdir(work)
    out = run_warm(PROGRAM, PYTHONPATH=str(site))
    assert out.startswith(str(site))
    assert soundfile.info(work / "wavs" / "000001.wav").duration > 0.5
    assert (work / "a.wav").read_bytes() == ((work / "wavs" / "000001.wav").read_bytes()), (
        "not what synth wrote"
    )
    assert (site / "tts_cli" / "py.typed").is_file()
    assert "<script>" in (work / "wavs" / "report.html").read_text(encoding="utf-8")
