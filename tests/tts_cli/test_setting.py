"""A setting is one field: all that shows or takes settings has it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tts_cli.setting import either

ROOT = Path(__file__).parents[2]
FIELD = """
    warmth: float | None = Topic.SPEECH.setting(None, "How warm it sounds.", "as it comes",
        limits=Range(0.0, 2.0), metavar="W")
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources with one more field in them."""
    tree = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "tts_cli", tree / "tts_cli", ignore=shutil.ignore_patterns("*.pyc"))
    config = tree / "tts_cli" / "config.py"
    before, mark, after = config.read_text().partition("    # fmt: on\n")
    config.write_text(before + FIELD.removeprefix("\n") + mark + after)
    return tree


def python(tree: Path, program: str, *args: str) -> str:
    """What a program says that has these sources, and those of models from here."""
    environment = {**os.environ, "PYTHONPATH": f"{tree}:{ROOT}", "XDG_CONFIG_HOME": str(tree)}
    done = subprocess.run(
        [sys.executable, "-c", program, *args],
        env=environment,
        cwd=tree,
        capture_output=True,
        text=True,
    )
    assert str(tree) in done.stdout.splitlines()[0], done.stderr
    return done.stdout + done.stderr


COMMANDS = """
import contextlib, io, json, os, sys
from pathlib import Path
import tts_cli.main as m
print(m.__file__)
Path("tts-cli").mkdir(exist_ok=True)
for text, variables, args in json.loads(sys.argv[1]):
    Path("tts-cli/tts-cli.toml").write_text(text)
    said, before = io.StringIO(), dict(os.environ)
    os.environ.update(variables)
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        m.main(args)
    os.environ.clear()
    os.environ.update(before)
    print(json.dumps(said.getvalue()))
"""


def commands(tree: Path, *steps: tuple[str, dict[str, str], list[str]]) -> list[str]:
    """What commands say, one after the other in one process.

    Args:
        steps: the settings file, variables and arguments of each.
    """
    return [json.loads(line) for line in python(tree, COMMANDS, json.dumps(steps)).splitlines()[1:]]


def test_help_has_it(tree: Path) -> None:
    steps = (("", {}, [name, "--help-all"]) for name in ("synth", "say", "book", "validate"))
    for said in commands(tree, *steps):
        title = "Speech (fields of a row take precedence):\n"
        section = said.partition(title)[2].partition("\n\n")[0]
        assert "  --warmth W  " in section
        assert "How warm it sounds. [default: as it comes]" in " ".join(section.split())


def test_where_its_value_comes_from(tree: Path) -> None:
    rows, file = tree / "rows.txt", tree / "tts-cli" / "tts-cli.toml"
    rows.write_text("Hello.\n")
    show, validate = ["config", "show", "say"], ["validate", str(rows)]
    *shown, wrong, flag, variable, misspelt = commands(
        tree,
        ("", {}, show),
        ("warmth = 0.5\n", {}, show),
        ("warmth = 0.5\n", {"TTS_CLI_WARMTH": "1.5"}, show),
        ("warmth = 3\n", {}, show),
        ("", {}, [*validate, "--warmth", "3"]),
        ("", {"TTS_CLI_WARMTH": "x"}, validate),
        ("", {"TTS_CLI_WARMT": "1"}, validate),
    )
    found = [next(line.split() for line in said.splitlines() if "warmth" in line) for said in shown]
    assert found[0] == ["warmth", "-", "built-in"]
    assert found[1][1:3] == ["0.5", f"{file}:1"]
    assert found[2][1:3] == ["1.5", "TTS_CLI_WARMTH"]
    assert f"{file}:1: warmth: --warmth must be 0 to 2, not 3.0" in wrong
    assert "--warmth must be 0 to 2, not 3.0" in flag
    assert "'--warmth' (from TTS_CLI_WARMTH): 'x' is not a valid float" in variable
    assert "did you mean TTS_CLI_WARMTH" in misspelt


def test_who_reads_settings_back_has_it(tree: Path) -> None:
    program = """if True:
        import tts_cli.config as config
        from pathlib import Path
        from tts_cli.store.merge import differences
        from tts_cli.library.settings import config_of
        from tts_cli.checks.page.build import spoken_by
        print(config.__file__)
        settings = config_of({"warmth": 0.5}).as_dict()
        print(spoken_by({"settings": settings}))
        reports = [{"settings": {"warmth": value}} for value in (0.5, 1.0)]
        print(*differences([Path("a"), Path("b")], reports))
        try:
            config_of({"warmth": "very"})
        except Exception as error:
            print(error)
    """
    assert python(tree, program).splitlines()[1:] == [
        "['synth', 'MANIFEST', '--warmth', '0.5']",
        "warmth: 0.5 in a, 1.0 in b",
        "warmth: must be a number, not 'very'",
    ]


def test_words_and_numbers() -> None:
    check = either("auto|[0-9]{1,3}", "auto or a number")
    assert [check(text) for text in ("auto", "12")] == [None, None]
    assert check("12a") == "'12a': must be auto or a number"
