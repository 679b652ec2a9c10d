"""What `import tts_cli` gives: every public name, and nothing heavy before one is used."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import tts_cli

ROOT = Path(__file__).parents[2]


def names_for_type_checkers() -> dict[str, str]:
    """Name to module, as `TYPE_CHECKING` has them."""
    tree = ast.parse(Path(tts_cli.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    return {
        alias.name: str(node.module)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


@pytest.mark.parametrize("name", tts_cli.__all__)
def test_every_name_is_handed_out(name: str) -> None:
    found = getattr(tts_cli, name)
    assert found.__doc__
    assert found is getattr(importlib.import_module(names_for_type_checkers()[name]), name)
    assert getattr(tts_cli, name) is found


def test_names_are_those_that_type_checkers_see() -> None:
    assert sorted(names_for_type_checkers()) == tts_cli.__all__ == sorted(tts_cli.__all__)
    assert set(tts_cli.__all__) <= set(dir(tts_cli))
    with pytest.raises(AttributeError, match="module 'tts_cli' has no attribute 'Speeker'"):
        _ = tts_cli.Speeker  # type: ignore[attr-defined]


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    program = (
        "import sys, tts_cli\n"
        "heavy = {'torch', 'numpy', 'transformers', 'soundfile', 'click'}\n"
        "assert not heavy & sys.modules.keys()\n"
        "assert not [name for name in sys.modules if name.startswith('tts_cli.')]\n"
        "from tts_cli import RowError, Row, Settings, TtsCliError\n"
        "assert not heavy & sys.modules.keys()\n"
        "from tts_cli import Speech\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=120)


EXAMPLE = """
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tts_cli import RowError, RowValues, Settings, Speaker, Speech, TtsCliError


def rows() -> Iterator[str | RowValues]:
    yield "Good morning."
    yield {"id": "b", "text": "Good night.", "voice": "clara", "top_k": 5}


def speak(settings: Settings) -> list[NDArray[np.float32]]:
    found: list[NDArray[np.float32]] = []
    with Speaker("folder", device="cpu", seed=3, **settings) as speaker:
        try:
            speech: Speech = speaker.say("Hello", voice="clara", seed=4)
        except RowError as error:
            print(error.remedy)
        for speech in speaker.batch(rows(), ordered=False):
            if speech.is_ok:
                found.append(speech.samples)
                print(speech.timings.rtf, [part.text_end for part in speech.parts])
            speech.save("a.flac", subtype="PCM_24")
    return found


try:
    speak({"language": "english", "retries": 1})
except TtsCliError as error:
    print(error.exit_code)
"""


@pytest.mark.slow
def test_a_users_script_is_typed(tmp_path: Path) -> None:
    """mypy strict, by what the package says of itself; and it sees mistakes.

    With the project's settings, which are as strict: so the cache of `make test`'s mypy serves.
    """
    pytest.importorskip("mypy")
    assert (ROOT / "tts_cli" / "py.typed").is_file()
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    flags = ["--strict", "--config-file", str(ROOT / "pyproject.toml")]
    flags += ["--cache-dir", str(ROOT / ".mypy_cache")]
    right.write_text(EXAMPLE)
    mistaken = EXAMPLE.replace('voice="clara", seed=4', 'voise="clara", seed="4"')
    wrong.write_text(mistaken.replace("retries", "retrys"))
    command = [sys.executable, "-m", "mypy", *flags, str(right), str(wrong)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, ""), done
    mistakes = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(mistakes) == 3, done.stdout
    assert all("wrong.py" in line for line in mistakes), done.stdout
