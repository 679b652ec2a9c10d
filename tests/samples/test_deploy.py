"""What ships beside the tool: the Slurm array with made-up tasks, the Dockerfile as far as text
tells, and `make` with the CPU build of PyTorch.
"""

from __future__ import annotations

import fnmatch
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from workbench import ROOT

from tts_cli.cli import messages as msg

DEPLOY = ROOT / "samples" / "deploy"
ARRAY = DEPLOY / "slurm_array.sh"


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A folder with `tts-cli` on its PATH, and six rows that need no model: they have no words."""
    program = tmp_path / "bin" / "tts-cli"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tts_cli "$@"\n')
    program.chmod(0o755)
    (tmp_path / "lines.txt").write_text("...\n" * 6)
    return tmp_path


def run_task(cluster: Path, task: int, *args: str, **variables: str) -> tuple[int, str]:
    """Exit code and everything said of an array's task."""
    done = subprocess.run(
        [str(ARRAY), *args],
        cwd=cluster,
        env={
            "PATH": f"{cluster / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "HOME": str(cluster),
            "SLURM_ARRAY_TASK_ID": str(task),
            **variables,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout


def test_an_array_speaks_every_row_once(cluster: Path) -> None:
    for task in (1, 2):
        code, said = run_task(cluster, task, "2", "lines.txt", "wavs", "--format", "flac")
        assert code == 0, said
    parts = [
        {path.name for path in (cluster / "wavs" / f"part-{n}-of-2").glob("*.flac")} for n in (1, 2)
    ]
    assert len(parts[0] | parts[1]) == 6
    assert all(parts)
    assert not parts[0] & parts[1]
    # Requeued, with the lock of a run on a node that is gone.
    lock = cluster / "wavs" / "part-2-of-2" / ".tts-cli.lock"
    lock.write_text('{"pid": 1, "host": "gone", "boot": "another"}')
    args = ("2", "lines.txt", "wavs", "--format", "flac")
    code, said = run_task(cluster, 2, *args, SLURM_RESTART_COUNT="1")
    assert code == 0, said
    assert msg.NOTHING_TO_DO.format(reason="") in said


@pytest.mark.parametrize(
    ("task", "args", "words"),
    [
        (1, ["2", "lines.txt"], "usage: sbatch --array=1-N"),
        (3, ["2", "lines.txt", "wavs"], "--shard 3/2: the part must be 1 to 2"),
        (0, ["2", "lines.txt", "wavs"], "--shard 0/2: the part must be 1 to 2"),
    ],
)
def test_an_array_that_does_not_fit(cluster: Path, task: int, args: list[str], words: str) -> None:
    code, said = run_task(cluster, task, *args)
    assert code == 2
    assert words in said
    assert not (cluster / "wavs").exists()


def dockerfile() -> list[list[str]]:
    """Instructions with their words."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [line.split() for line in lines]


def test_the_image_copies_what_is_there_and_what_is_built_of() -> None:
    ignore = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    let_in = [line[1:] for line in ignore if line.startswith("!")]
    copied = [name for name, *words in dockerfile() if name == "COPY" for name in words[:-1]]
    for name in copied:
        assert (ROOT / name).exists(), name
        assert any(fnmatch.fnmatch(name, pattern) for pattern in let_in), name
    # Everything that the wheel is made of.
    for name in ("kernels", "models", "tts_cli", "samples/voice", "pyproject.toml", "README.md"):
        assert name in copied


def test_the_image_runs_as_a_user_with_caches_as_volumes() -> None:
    names = [words[0] for words in dockerfile()]
    (user,) = [words[1] for words in dockerfile() if words[0] == "USER"]
    assert user not in ("root", "0")
    assert names.index("USER") > max(i for i, name in enumerate(names) if name == "RUN")
    (volumes,) = [" ".join(words[1:]) for words in dockerfile() if words[0] == "VOLUME"]
    (settings,) = [words[1:] for words in dockerfile() if words[0] == "ENV"]
    values = dict(word.split("=", 1) for word in settings)
    for name in ("HF_HOME", "TRITON_CACHE_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "HOME"):
        folder = values[name].split("/")[1]
        assert f'"/{folder}"' in volumes, name


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize("torch", ["cpu", "torch==2.12.0", None])
def test_make_chooses_the_build_of_torch(torch: str | None, tmp_path: Path) -> None:
    flags = [] if torch is None else [f"TORCH={torch}"]
    said = subprocess.run(
        ["make", "-n", "demo", f"VENV={tmp_path / 'venv'}", *flags],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert ("--torch-backend cpu" in said) == (torch == "cpu")
    wanted = {"cpu": '"torch==2.13.0+cpu"', None: '"torch==2.13.0"'}.get(torch, f'"{torch}"')
    assert f"/pip install --quiet {wanted}" in said
