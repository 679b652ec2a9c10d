"""Every command in the README and the pages: it parses, and it runs where it can.

What needs no released checkpoint and no GPU is run, page by page and in the order of the page, on
rows without words, which cost no speech; what is one text or a book is spoken by the sample voice.
The others are parsed only, for a reason that stands in `PARSED`, or have a test of their own that
runs them (`ELSEWHERE`).
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import soundfile
from make_epub import small_epub
from make_xlsx import workbook
from tiny_qwen3_tts import SPECS, write_checkpoint
from workbench import Store, Workbench

from tts_cli.cli import messages as msg
from tts_cli.main import cli

ROOT = Path(__file__).parents[2]
PATTERNS = ("README.md", "samples/**/*.md", "models/*/README.md")
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in PATTERNS
    for path in ROOT.glob(pattern)
    if path.parent.name != "book"  # what is spoken, not read
)
PARSED = {  # only parsed: what stands in a command, and why that is not run
    r"(Qwen|fishaudio|Audio8)/|--model (DIR|PATH)": "needs a released checkpoint",
    r"profile --synthetic|synth .*--model synthetic:": "needs a GPU, or minutes",
    r"--workers|--ray-address": "starts Ray: tests/e2e runs it",
    r"^(check|encode|export) ": "needs rows with words: tests/e2e runs it on such",
    r"sentences\.jsonl|\bMANIFEST\b": "needs rows that are not in the repository",
    r"^review |--only retakes|--only rejected|--approved": "serves a page, or needs decisions",
    r"^mark |--mark c2pa": "needs the extra mark: tests/e2e runs it",
    r"^report ryan/": "needs a folder that a released model made",
}
RECIPES = ("audiobook", "course", "dataset", "game")
ELSEWHERE = {  # run by a test of their own
    "samples/guide/listening.md": "test_listening_guide.py",
    "samples/guide/books.md": "../e2e/test_sample_chapter.py",
    "samples/guide/quality.md": "../e2e/test_verify.py",
    **{f"samples/guide/recipe_{name}.md": "test_page_commands.py" for name in RECIPES},
}
# What makes a command shorter without making it another one.
SHORTER = {
    r"profile .*--device cpu": ("--batches", "1", "--frames", "2", "--repeats", "1"),
    r"synth samples/manifest\.jsonl": ("--dry-run",),
}
WORDLESS = "..."
RECIPE_NEEDS = {
    "audiobook": ("av", "pocketsphinx"),
    "course": ("pyloudnorm",),
    "dataset": ("pocketsphinx", "pyarrow"),
    "game": ("pyloudnorm",),
}
# What each recipe leaves: files of audio, and the least seconds of each.
RECIPE_AUDIO = {
    "audiobook": {"novel/01-low-water.wav": 60.0, "novel/02-high-water.wav": 20.0},
    "course": {"course/lesson1/03.mp3": 1.0, "course/lesson2/02.mp3": 2.0},
    "dataset": {"wavs/intro/001.wav": 1.0, "wavs/intro/003.wav": 1.0},
    "game": {"game/act1/guard_01.wav": 2.0, "opus/act1/captain_01.opus": 1.0},
}
RECIPE_FILES = {
    "audiobook": ("novel/book.m4b", "novel/01-low-water.srt", "novel/report.html"),
    "course": ("course/lesson1/03.srt", "course/report.html"),
    "dataset": ("data/README.md", "wavs/report.html"),
    "game": ("game/takes/act1/guard_01/3.wav", "game/report.html"),
}


def code_lines(page: str) -> Iterator[str]:
    """Indented and fenced lines, those that go on behind a backslash put together."""
    joined, is_fenced = "", False
    for line in (ROOT / page).read_text(encoding="utf-8").splitlines():
        is_fenced ^= line.startswith("```")
        if not is_fenced and not line.startswith("    "):
            joined = ""
        elif line.endswith("\\"):
            joined += line[:-1].strip() + " "
        else:
            yield joined + line.strip()
            joined = ""


def commands(page: str) -> list[list[str]]:
    """Arguments of every `tts-cli` in the code of a page."""
    found = []
    for line in code_lines(page):
        line = re.sub(r'^eval "\$\((.*)\)"$', r"\1", line)
        for part in re.split(r"\s\|\s|&&|;", line):
            match = re.match(r"(?:[A-Z_]+=\S+\s+)?tts-cli\s+([a-z].*)", part.strip())
            if match:
                found.append(shlex.split(match[1], comments=True))
    return found


def reason(page: str, args: list[str]) -> str | None:
    """Why a command is not run here; None: it is."""
    if page in ELSEWHERE:
        return ELSEWHERE[page]
    line = " ".join(args)
    return next((why for pattern, why in PARSED.items() if re.search(pattern, line)), None)


def parse(args: list[str]) -> click.Context:
    """Let click read a command's words and values, as it would before it runs it."""
    ctx = click.Context(cli, info_name="tts-cli", **cli.context_settings)
    group: click.Command = cli
    while isinstance(group, click.Group) and args and not args[0].startswith("-"):
        name, *args = args
        command = group.get_command(ctx, name)
        assert command is not None, f"no command {name}"
        ctx, group = click.Context(command, parent=ctx, info_name=name), command
    return group.make_context(ctx.info_name, list(args), parent=ctx.parent)


RUN = [page for page in PAGES if any(reason(page, args) is None for args in commands(page))]


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that pages speak of."""
    rows = [{"id": f"intro/{n:03d}", "text": WORDLESS} for n in range(1, 7)]
    for name in ("lines", "manifest", "chapters", "chapter"):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "lines.txt").write_text(f"{WORDLESS}\n" * 3)
    (tmp_path / "lines.csv").write_text(f"wavs/a1.wav,7,{WORDLESS}\nwavs/a2.wav,8,{WORDLESS}\n")
    cue = f"1\n00:00:01,000 --> 00:00:02,000\n{WORDLESS}\n"
    (tmp_path / "film.srt").write_text(cue)
    header = ["Line ID", "Dialogue", "Character", "Notes"]
    (tmp_path / "script.xlsx").write_bytes(workbook([header, ["a1", WORDLESS, "Anna", "warm"]]))
    (tmp_path / "cast.toml").write_text('[Anna]\nvoice = "clara"\n')
    (tmp_path / "words.tsv").write_text("Nguyen\twin\n")
    (tmp_path / "mark.pem").write_text("a key")
    small_epub(tmp_path / "novel.epub", "<h1>One</h1><p>Hello.</p>")
    for name in ("wavs", "game", "signed"):
        (tmp_path / name).mkdir()
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TTS_CLI_DEVICE", "cpu")
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_commands_parse(page: str, workplace: Path) -> None:
    for args in commands(page):
        try:
            parse(args)
        except click.ClickException as error:
            pytest.fail(f"{page}: tts-cli {shlex.join(args)}: {error.format_message()}")


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_sentences(page: str) -> None:
    """They are shortened (`tts-cli warmup --model ...`): only names and flags are looked at."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for line in re.findall(r"`tts-cli ([a-z][^`]*)`", text):
        ctx, words = (
            click.Context(cli, info_name="tts-cli", **cli.context_settings),
            line.replace("\\|", "|").split(),
        )
        command: click.Command | None = cli
        while isinstance(command, click.Group) and words and re.fullmatch("[a-z]+", words[0]):
            command = command.get_command(ctx, words.pop(0))
        assert command is not None, f"{page}: {line}"
        flags = {flag for param in command.params for flag in param.opts}
        assert {word for word in words if word.startswith("-")} <= flags, f"{page}: {line}"


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN)
def test_commands_run(page: str, workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench = Workbench(workplace, ROOT / "samples" / "voice" / "checkpoint", capsys)
    if page != "samples/guide/outputs.md":  # the others speak of a folder that is there
        bench.run("synth", "lines.jsonl", "--out", "wavs/").expect(0)
    for args in commands(page):
        if reason(page, args) is not None:
            continue
        if args[0] == "book":
            pytest.importorskip("av", reason="PyAV (extra m4b) is not installed")
        line = " ".join(args)
        more = [
            word for pattern, words in SHORTER.items() if re.search(pattern, line) for word in words
        ]
        here = ["cpu" if word.startswith("cuda:") else word for word in args]
        result = bench.run(*here, *more)
        assert result.code == 0, (line, result.err)


def test_what_is_not_run_has_a_reason_that_is_still_true() -> None:
    lines = [" ".join(args) for page in PAGES for args in commands(page)]
    for pattern in (*PARSED, *SHORTER):
        assert any(re.search(pattern, line) for line in lines), pattern
    for page, test in ELSEWHERE.items():
        assert page in PAGES
        assert (Path(__file__).parent / test).is_file(), test
    assert len(lines) > 50


def test_shards_become_one_folder(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The commands of the page on scaling."""
    page = "samples/guide/scaling.md"
    model = write_checkpoint(workplace / "model", SPECS["custom_voice_wide"])
    with_model = ("--model", model, "--max-seconds", "0.2", "--accept-truncated", "--device", "cpu")
    bench = Workbench(workplace, model, capsys)
    lines = workplace / "lines.jsonl"
    lines.write_text(lines.read_text().replace(WORDLESS, "Hello."))
    (workplace / "wavs").rmdir()
    parts = [args for args in commands(page) if "--device" in args]
    for args in parts:
        bench.run(*args, *with_model).expect(0)
    (merge,) = (args for args in commands(page) if args[0] == "merge")
    bench.run(*merge).expect(0)
    counts = [len(Store(part).records) for part in (workplace / "parts").iterdir()]
    assert len(counts) == len(parts)
    assert all(counts)
    again = bench.run(
        "synth", "lines.jsonl", "--out", "wavs/", "--verify-files", *with_model
    ).expect(0)
    assert msg.NOTHING_TO_DO.format(reason="") in again.out + again.err
    assert len(Store(workplace / "wavs").records) == sum(counts) == 6
    assert len(Store(workplace / "wavs").runs) == len(parts)
    bench.run("report", "wavs/").expect(0)


@pytest.mark.long
@pytest.mark.parametrize("name", RECIPES)
def test_recipe_works_by_pasting(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in RECIPE_NEEDS[name]:
        pytest.importorskip(package)
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TTS_CLI_DEVICE", "cpu")
    bench = Workbench(tmp_path, ROOT / "samples" / "voice" / "checkpoint", capsys)
    ran = 0
    for args in commands(f"samples/guide/recipe_{name}.md"):
        if any("Qwen/" in arg for arg in args):  # a released checkpoint
            continue
        result = bench.run(*args)
        assert result.code == 0, (args, result.err)
        ran += 1
    assert ran >= 5
    for path, seconds in RECIPE_AUDIO[name].items():
        assert soundfile.info(tmp_path / path).duration >= seconds, path
    for path in RECIPE_FILES[name]:
        assert (tmp_path / path).stat().st_size > 0, path
