"""The command line as a user meets it: help, messages, exit codes."""

from __future__ import annotations

import importlib
import json
import logging
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from cases import cases

from tts_cli import main as main_module
from tts_cli.cli import messages as msg
from tts_cli.errors import DiskFull, Interrupted, ManifestError, SetupError, UsageError
from tts_cli.main import COMMANDS, GROUPS, cli, main

CASES = cases(__file__)["main"]

PANIC = type("PanicException", (BaseException,), {})  # as libraries written in Rust raise it
Install = Callable[[Callable[[], Any]], None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Make `tts-cli doctor` run a function of the test."""

    def use(function: Callable[[], Any]) -> None:
        from tts_cli.cli.options import common_options

        @click.command("doctor")
        @common_options
        def command(**_: Any) -> Any:
            return function()

        def get(self: Any, ctx: click.Context, name: str) -> click.Command:
            return command

        monkeypatch.setattr(main_module.LazyGroup, "get_command", get)

    return use


def raising(error: BaseException) -> Callable[[], Any]:
    def function() -> Any:
        raise error

    return function


def test_help_lists_every_command_without_importing_one() -> None:
    program = """
        import sys
        from tts_cli.main import main
        code = main(["--help"])
        heavy = {"torch", "numpy", "soundfile", "rich", "transformers", "kernels"}
        print(code, sorted(heavy & set(sys.modules)))
        print([name for name in sys.modules if name.startswith("models.")])
        print([name for name in sys.modules if name.startswith("tts_cli.cli.")])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True
    )
    *text, state, tables, imported = done.stdout.splitlines()
    assert state == "0 []", done.stderr
    assert tables == "['models.sampling']"  # the settings that are flags; no torch
    names = ("options", "screen")
    light = [f"tts_cli.cli.{name}" for name in names]
    assert imported == str(light)
    for name, help_text in COMMANDS.items():
        assert any(line.split() == [name, *help_text.split()] for line in text)


@pytest.mark.slow
def test_help_of_no_command_needs_torch() -> None:
    program = """
        import sys
        from tts_cli.main import COMMANDS, main
        for name in COMMANDS:
            code = main([name, "--help"])
            print("\\nSTATE", name, code, sorted({"torch", "transformers"} & set(sys.modules)))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True
    )
    states = [line for line in done.stdout.splitlines() if line.startswith("STATE")]
    assert states == [f"STATE {name} 0 []" for name in COMMANDS], done.stderr
    assert all(f"Usage: tts-cli {name}" in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_are_called_as_listed(name: str) -> None:
    command = importlib.import_module(f"tts_cli.cli.{name}").command
    assert isinstance(command, click.Command)
    assert command.name == name
    assert {"-v", "-q", "--debug", "--json"} <= {
        flag for param in command.params for flag in param.opts
    }


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [
        "tts-cli",
        "python",
        "torch",
        "triton",
        "transformers",
    ]


def test_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    for heading in GROUPS:
        assert f"\n{heading}:\n" in err


def test_help_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    said = {}
    for args in (["help"], ["--help"], ["help", "check"], ["check", "-h"], ["voices", "add", "-h"]):
        assert main(args) == 0
        said[" ".join(args)] = capsys.readouterr().out
    assert said["help"] == said["--help"]
    assert said["help check"] == said["check -h"]
    assert main(["help", "voices", "add"]) == 0
    assert capsys.readouterr().out == said["voices add -h"]
    assert main(["help", "chekc"]) == 2
    assert "did you mean 'check'?" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["synth", "book", "say", "validate"])
def test_short_help_and_all_of_it(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What most runs use, at most 24; --help-all has every option, wherever it stands."""
    assert main([name, "-h"]) == 0
    short = capsys.readouterr().out
    assert main([name, "nothing", "--help-all"]) == 0
    whole = capsys.readouterr().out
    flags = re.compile(r"^  (?:-\w, )?(--[a-z-]+)", re.MULTILINE)
    few, many = flags.findall(short), flags.findall(whole)
    assert {"--model", "--voice", "--seed", "--out"} <= set(few) < set(many)
    assert len(few) <= 24
    assert "--help-all" in few
    command: click.Command = importlib.import_module(f"tts_cli.cli.{name}").command
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    assert len(many) == len(options) + 2
    after = "MANIFEST is" if name == "synth" else "Common options"
    assert short.index("Examples:") < short.index(after)


@pytest.mark.parametrize(("args", "words"), CASES["usage_errors"])
def test_usage_errors(args: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (UsageError("bad flag", "try x"), 2, "Error: bad flag; try x\n"),
        (ManifestError("bad file"), 2, "Error: bad file\n"),
        (SetupError("no device"), 3, "Error: no device\n"),
        (DiskFull("full"), 4, "Error: full\n"),
        (Interrupted(signal.SIGTERM), 143, "Stopped by SIGTERM\n"),
        (Interrupted(signal.SIGINT), 130, "Interrupted\n"),
        (KeyboardInterrupt(), 130, "Interrupted\n"),
        (PANIC("oh\nat line 1"), 4, "a library has failed: oh; see whether the files"),
        (ZeroDivisionError("oh"), 4, "internal error: ZeroDivisionError: oh; run again with"),
        (OSError(28, "No space left on device"), 4, "cannot write to stdout: No space left"),
        (
            OSError(28, "No space left", "f"),
            4,
            "cannot write f: No space left; free some space and run the same command "
            "again: finished rows are safe",
        ),
        (
            OSError(30, "Read-only", "f"),
            4,
            "cannot write f: Read-only; choose a writable folder, or make this one "
            "writable; finished rows are safe",
        ),
        (
            OSError(5, "I/O error", "f"),
            4,
            "cannot write f: I/O error; check the disk, and run the same command "
            "again: finished rows are safe",
        ),
        (OSError(12, "Cannot allocate memory"), 4, "there is not enough memory: [Errno 12] Cannot"),
        (
            MemoryError(),
            4,
            "Error: there is not enough memory: MemoryError; close other programs, or "
            "synthesize fewer rows at a time (--max-batch), and run the same command "
            "again: finished rows are safe",
        ),
        (
            RuntimeError("can't allocate memory: you"),
            4,
            "there is not enough memory: can't allocate",
        ),
        (OSError(13, "Permission denied", "f"), 3, "f: permission denied; check its permissions"),
        (click.UsageError("odd"), 2, "odd"),
        (click.FileError("f", "gone"), 2, "gone"),
    ],
)
def test_errors_become_messages_and_codes(
    install: Install,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    words: str,
) -> None:
    install(raising(error))
    assert main(["doctor"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert "Traceback" not in err
    assert ("internal error" in err) == isinstance(error, ZeroDivisionError)


def test_a_signal_that_a_library_turned_into_its_own_error(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    """A SIGTERM while torch was imported ended as `internal error: ImportError`, with code 4."""

    def fail() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except BaseException as error:
            raise ImportError("cannot import name 'x'") from error

    install(fail)
    assert main(["doctor"]) == 143
    assert capsys.readouterr().err == "Stopped by SIGTERM\n"


@pytest.mark.parametrize("error", [ValueError("odd"), SetupError("missing")])
def test_debug_shows_the_traceback(
    install: Install, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    install(raising(error))
    main(["doctor", "--debug"])
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(("result", "code"), [(None, 0), (0, 0), (1, 1), (2, 2)])
def test_a_command_returns_its_exit_code(install: Install, result: Any, code: int) -> None:
    install(lambda: result)
    assert main(["doctor"]) == code


@pytest.mark.parametrize(
    ("flags", "seen"),
    [
        ([], ["info", "warning: warn", "Error: err"]),
        (["-v"], ["debug", "info", "warning: warn", "Error: err"]),
        (["-q"], ["warning: warn", "Error: err"]),
    ],
)
def test_how_much_is_said(
    install: Install, capsys: pytest.CaptureFixture[str], flags: list[str], seen: list[str]
) -> None:
    def talk() -> None:
        log = logging.getLogger("tts_cli.somewhere")
        log.debug("debug")
        log.info("info")
        log.warning("warn")
        log.error("err")
        logging.getLogger("some.library").info("chatter")

    install(talk)
    main(["doctor", *flags])
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == seen


def test_debug_says_when_and_where_and_what_libraries_say(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    """It said no more than -v."""

    def talk() -> None:
        log = logging.getLogger("tts_cli.somewhere")
        try:
            raise ValueError("odd")
        except ValueError:
            log.debug("caught", exc_info=True)
        taker = threading.Thread(target=log.info, args=("hello",), name="taker-1")
        taker.start()
        taker.join()
        logging.getLogger("some.library").info("chatter")
        logging.getLogger("some.library").debug("whispers")

    install(talk)
    level = logging.getLogger().level
    main(["doctor", "--debug"])
    err = capsys.readouterr().err
    when = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"
    assert re.search(rf"^{when} DEBUG MainThread tts_cli.somewhere: caught\nTraceback", err)
    assert re.search(rf"^{when} INFO taker-1 tts_cli.somewhere: hello$", err, re.MULTILINE)
    assert re.search(rf"^{when} INFO MainThread some.library: chatter$", err, re.MULTILINE)
    assert "whispers" not in err
    assert logging.getLogger().level == level
    main(["doctor", "-v"])
    assert capsys.readouterr().err == "caught\nhello\n"


def test_nothing_is_left_behind(install: Install) -> None:
    before = signal.getsignal(signal.SIGTERM), list(logging.getLogger().handlers)
    install(raising(ValueError()))
    main(["doctor"])
    assert (signal.getsignal(signal.SIGTERM), logging.getLogger().handlers) == before


def test_warnings_of_libraries_are_not_for_users(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    def warn() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.warn("deprecated somewhere", FutureWarning, stacklevel=1)

    install(warn)
    main(["doctor"])
    assert capsys.readouterr().err == ""


def test_outside_the_main_thread(install: Install) -> None:
    install(lambda: 0)
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(main(["doctor"])))
    thread.start()
    thread.join()
    assert codes == [0]


@pytest.mark.slow
@pytest.mark.parametrize(("signal_number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals(signal_number: int, code: int) -> None:
    program = textwrap.dedent("""
        import sys
        from tts_cli.main import main
        class Stdin:
            def __init__(self, buffer): self.buffer, self.given = self, buffer
            def read(self, size=-1):
                print("ready", flush=True)
                return self.given.read(size)
        sys.stdin = Stdin(sys.stdin.buffer)
        sys.exit(main(["validate", "-", "--manifest-format", "txt"]))
    """)
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A suite started in the background ignores SIGINT, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        timer = threading.Timer(0.1, process.send_signal, [signal_number])
        timer.start()
        try:
            assert process.wait(timeout=30) == code
        finally:
            timer.cancel()
            process.kill()
        assert "Traceback" not in process.stderr.read()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("--help >&-", 3, "Error: cannot write to stdout: it is closed"),
        ("validate - <&-", 2, "Error: <stdin>: is closed"),
    ],
)
def test_closed_streams(line: str, code: int, words: str) -> None:
    """Both ended as `internal error: AttributeError`; the journal could become number 1."""
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m tts_cli {line}"], stderr=subprocess.PIPE, text=True
    )
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr


def test_a_reader_that_went_away() -> None:
    """`tts-cli ... | head -0` must neither complain nor claim that rows failed."""
    program = "import sys; from tts_cli.main import main; sys.exit(main(['doctor']))"
    body = textwrap.dedent("""
        import click
        from tts_cli import main as module
        @click.command("doctor")
        def command():
            for _ in range(100000):
                click.echo("x" * 100)
        module.LazyGroup.get_command = lambda *_: command
    """)
    process = subprocess.Popen(
        [sys.executable, "-c", body + program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.wait(timeout=30) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


class TestValidate:
    """`tts-cli validate` on real files, with the sample voice's description."""

    @pytest.fixture(autouse=True)
    def sample_voice(self, monkeypatch: pytest.MonkeyPatch, make_info: Callable[..., Any]) -> None:
        from tts_cli.app import look

        monkeypatch.setattr(look, "read_info", lambda config: make_info())

    def test_good(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "m.txt"
        path.write_text("Hello there.\n" * 3)
        assert main(["validate", str(path)]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        assert out.splitlines()[:3] == [
            ": ".join(msg.PLAN_ROWS).format(good=3, invalid=0),
            "text: 36 characters",
            "longest text: 12 characters, id 000001",
        ]

    def test_bad(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "m.jsonl"
        path.write_text('{"text": "a", "id": "x"}\n{"id": "X", "text": "b"}\n{"text": 1}\n')
        assert main(["validate", str(path), "--json"]) == 2
        out, err = capsys.readouterr()
        summary = json.loads(out)
        assert (summary["rows"], summary["bad_rows"]) == (1, 2)
        assert [row["line"] for row in summary["bad"]] == [2, 3]
        assert err.splitlines()[0].startswith(f"Error: {path}:2: id 'X' is already used by line 1")
        assert main(["validate", str(path), "--skip-invalid"]) == 0
        assert capsys.readouterr().err.startswith("warning: ")

    @pytest.mark.parametrize(
        ("args", "code", "words"),
        [
            (["nowhere.jsonl"], 2, "nowhere.jsonl: no such file"),
            (["."], 2, "is a folder"),
            (["EMPTY"], 2, "contains no rows"),
            (["GOOD", "--voice", "klara"], 2, "did you mean 'clara'?"),
            (["GOOD", "--format", "mp3", "--subtype", "PCM_24"], 2, "does not exist in mp3"),
        ],
    )
    def test_unusable(
        self,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        args: list[str],
        code: int,
        words: str,
    ) -> None:
        (tmp_path / "GOOD.txt").write_text("hi\n")
        (tmp_path / "EMPTY.txt").write_text("\n")
        args[0] = {name: str(tmp_path / f"{name}.txt") for name in ("GOOD", "EMPTY")}.get(
            args[0], args[0]
        )
        assert main(["validate", *args]) == code
        out, err = capsys.readouterr()
        assert out == ""
        assert words in err

    def test_a_small_disk(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from tts_cli.app import look

        usage = type("Usage", (), {"total": 10**6, "free": 10})
        monkeypatch.setattr(look.shutil, "disk_usage", lambda _: usage)
        path = tmp_path / "m.txt"
        path.write_text("hi\n")
        assert main(["validate", str(path), "--out", str(tmp_path / "out")]) == 3
        assert "free some space" in capsys.readouterr().err
        assert not (tmp_path / "out").exists()

        # A resumed run needs less than the whole manifest, so it is not refused.
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "timings.jsonl").touch()
        assert main(["validate", str(path), "--out", str(tmp_path / "out")]) == 0

    def test_a_table_on_a_terminal(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from tts_cli.cli import validate

        monkeypatch.setattr(validate.sys.stdout, "isatty", lambda: True, raising=False)
        path = tmp_path / "m[red].txt"
        path.write_text("hi\n" * 2)
        assert main(["validate", str(path)]) == 0
        assert msg.PLAN_ROWS[1].format(good=2, invalid=0) in capsys.readouterr().out


def test_the_group_is_lazy() -> None:
    assert set(cli.commands) == set()
