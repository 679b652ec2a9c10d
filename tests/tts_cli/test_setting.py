"""A setting is one field: all that shows or takes settings has it."""

from __future__ import annotations

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


def python(tree: Path, program: str, *args: object, **variables: str) -> str:
    """What a program says that has these sources, and those of models from here."""
    environment = {**os.environ, "PYTHONPATH": f"{tree}:{ROOT}", "XDG_CONFIG_HOME": str(tree)}
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, args)],
        env=environment | variables,
        cwd=tree,
        capture_output=True,
        text=True,
    )
    assert str(tree) in done.stdout.splitlines()[0], done.stderr
    return done.stdout + done.stderr


CLI = "import sys, tts_cli.main as m; print(m.__file__, flush=True); sys.exit(m.main(sys.argv[1:]))"


@pytest.mark.parametrize("command", ["synth", "say", "book", "validate"])
def test_help_has_it(tree: Path, command: str) -> None:
    said = python(tree, CLI, command, "--help-all")
    section = said.partition("Speech (fields of a row take precedence):\n")[2].partition("\n\n")[0]
    assert "  --warmth W  " in section
    assert "How warm it sounds. [default: as it comes]" in " ".join(section.split())


@pytest.mark.slow
def test_where_its_value_comes_from(tree: Path) -> None:
    file = tree / "tts-cli" / "tts-cli.toml"
    file.parent.mkdir(exist_ok=True)

    def shown(**variables: str) -> str:
        said = python(tree, CLI, "config", "show", "say", **variables)
        return next(line for line in said.splitlines() if "warmth" in line)

    assert shown().split() == ["warmth", "-", "built-in"]
    file.write_text("warmth = 0.5\n")
    assert shown().split()[1:3] == ["0.5", f"{file}:1"]
    assert shown(TTS_CLI_WARMTH="1.5").split()[1:3] == ["1.5", "TTS_CLI_WARMTH"]
    file.write_text("warmth = 3\n")
    said = python(tree, CLI, "config", "show", "say")
    assert f"{file}:1: warmth: --warmth must be 0 to 2, not 3.0" in said
    file.unlink()
    rows = tree / "rows.txt"
    rows.write_text("Hello.\n")
    assert "--warmth must be 0 to 2, not 3.0" in python(tree, CLI, "validate", rows, "--warmth", 3)
    said = python(tree, CLI, "validate", rows, TTS_CLI_WARMTH="x")
    assert "'--warmth' (from TTS_CLI_WARMTH): 'x' is not a valid float" in said
    assert "did you mean TTS_CLI_WARMTH" in python(tree, CLI, "validate", rows, TTS_CLI_WARMT="1")


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
