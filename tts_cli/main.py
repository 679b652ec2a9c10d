"""The command group, and the one place that converts errors to messages and exit codes.

A command is imported when it is used, so `--help` needs no torch. Each command module has a click
command called `command`, which returns the exit code (None is 0).
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import logging
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

import click

from tts_cli import signals, startup
from tts_cli.cli.options import LOGGERS, PREFIX, WARNINGS_LOGGER, Invocation
from tts_cli.cli.screen import (
    echo,
    flush,
    is_stdout_error,
    open_closed_streams,
    silence,
    stdout_error,
)
from tts_cli.errors import (
    Interrupted,
    SetupError,
    StoppedEarly,
    TtsCliError,
    UsageError,
    disk_full,
    first_line,
    is_disk_error,
    is_out_of_memory,
    is_panic,
    out_of_memory,
)
from tts_cli.named import nearest, printable

log = logging.getLogger("tts_cli")

GROUPS = {
    "Synthesize": {
        "synth": "Synthesize every row of a manifest into a folder.",
        "say": "Synthesize one text into a file.",
        "book": "Synthesize a book, one file per chapter.",
        "again": "Run the command that filled a folder again.",
        "validate": "Check a manifest without loading a model.",
        "voices": "List voices, and make voice files for cloning.",
        "mark": "Verify the marks of generated audio; make a key for them.",
        "lexicon": "Show how words, numbers and abbreviations will be read.",
    },
    "Review": {
        "review": "Decide about the rows of a folder in a browser.",
        "report": "Make a web page to listen to the rows of a folder.",
        "check": "Flag rows that may sound wrong.",
        "align": "Find the time of each word of a row.",
        "pick": "Choose the current take of a row.",
        "clean": "Delete alternative takes and the files of removed rows.",
    },
    "Deliver": {
        "encode": "Convert files to another format, sample rate or loudness.",
        "merge": "Join output folders into one.",
        "export": "Export a data set for training.",
    },
    "Models and machine": {
        "models": "List, download and convert checkpoints.",
        "doctor": "Check this machine, and list what is missing.",
        "warmup": "Compile kernels and capture graphs before a run.",
        "profile": "Measure how fast this machine synthesizes.",
        "config": "Show the settings, and where each one comes from.",
        "completion": "Print the completion script for your shell.",
    },
}
COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()}
HELP_FLAGS = {"-h", "--help", "--help-all"}
EXIT_PIPE = 128 + 13  # as shells report SIGPIPE


class LazyGroup(click.Group):
    """A group that imports a command only to run it or to show its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"tts_cli.cli.{cmd_name}").command
        assert isinstance(command, click.Command), cmd_name
        signals.check()
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(_unknown_command(args[0]))
        name, command, rest = super().resolve_command(ctx, args)
        is_help = ctx.resilient_parsing or HELP_FLAGS & set(rest)
        if name and command and not is_help:
            from tts_cli.cli.settings_files import use_settings, warn_of_unknown_variables

            warn_of_unknown_variables(ctx)
            use_settings(ctx, name, command, rest)
        return name, command, rest

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # click would end with 1: some rows failed
            silence(sys.stdout)
            return EXIT_PIPE

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, COMMANDS))
        for heading, commands in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(widest), text) for name, text in commands.items()])


def _unknown_command(name: str) -> str:
    from tts_cli.cli.other_tools import command_meant

    if meant := command_meant(name):
        return f"no such command {name!r}; {meant}"
    close = nearest(name, list(COMMANDS))
    advice = f"did you mean '{close}'?" if close else "see tts-cli --help"
    return f"no such command {name!r}; {advice}"


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from tts_cli.versions import versions

    found = versions()
    echo(f"tts-cli {found.pop('tts-cli') or '(not installed, run from its source)'}")
    for name in ("python", "torch", "triton", "transformers"):
        echo(f"{name} {found[name] or 'not installed'}")
    ctx.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`tts-cli help COMMAND` shows examples and options. Exit codes: 0 all rows done; "
    "1 some rows failed or are suspect; 2 error in the command line or manifest; 3 something is "
    "missing on this machine; 4 stopped early; 129, 130 or 143 stopped by SIGHUP, Ctrl-C or "
    "SIGTERM.",
)
@click.option(
    "--version",
    "-V",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    allow_from_autoenv=False,  # users may set TTS_CLI_VERSION for their own purposes
    callback=_print_version,
    help="Show versions and exit.",
)
def cli() -> None:
    """Synthesize texts into speech, in batches, on your own machine.

    \b
    Examples:
      tts-cli say "Hello there."
      tts-cli synth lines.jsonl --out wavs/
      tts-cli report wavs/
    """


class _Formatter(logging.Formatter):
    """Plain lines, with a label for warnings and errors; time, thread and module with --debug."""

    def __init__(self, invocation: Invocation) -> None:
        super().__init__("%(asctime)s %(levelname)s %(threadName)s %(name)s: %(message)s")
        self._invocation = invocation

    def format(self, record: logging.LogRecord) -> str:
        if self._invocation.is_debug:
            return printable(super().format(record))
        is_labelled = record.levelno >= logging.WARNING and not getattr(record, "is_asked_for", 0)
        label = ""
        if is_labelled:  # errors as click words them; scripts look for "warning" in lower case
            label = "warning: " if record.levelno == logging.WARNING else "Error: "
        return label + printable(record.getMessage())


@contextlib.contextmanager
def _logging(invocation: Invocation) -> Iterator[None]:
    """Log to stderr within the block, as the options request, and restore logging afterwards."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter(invocation))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.INFO)
    logging.getLogger(WARNINGS_LOGGER).setLevel(logging.ERROR)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.setLevel(level)
        root.removeHandler(handler)


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. Without `args`, those of `sys.argv`."""
    startup.begin_command()
    startup.set_openmp_policy()
    invocation = Invocation(args=list(sys.argv[1:] if args is None else args))
    open_closed_streams()
    with _logging(invocation), signals.watching():
        return _run(invocation)


def _run(invocation: Invocation) -> int:
    try:
        signals.check()
        code = cli.main(
            invocation.args,
            prog_name="tts-cli",
            standalone_mode=False,
            obj=invocation,
            auto_envvar_prefix=PREFIX,
        )
        flush()
        signals.check()  # its exception may have got lost
        return int(code or 0)
    except (click.Abort, KeyboardInterrupt):
        return _report(Interrupted(signal.SIGINT))
    except (Interrupted, StoppedEarly) as error:
        return _report(error)
    except Exception as error:
        number = signals.received()
        if number is None:
            return _explain(error)
        return _report(Interrupted(number))  # a library converted its exception
    except BaseException as error:
        if not is_panic(error):
            raise
        remedy = "see whether the files that it was given are whole, and where they come from"
        return _report(StoppedEarly(f"a library has failed: {first_line(error)}", remedy))


def _explain(error: Exception) -> int:
    if isinstance(error, click.ClickException):
        from tts_cli.cli.other_tools import explain

        text = io.StringIO()
        explain(error).show(text)
        click.echo(printable(text.getvalue()), nl=False, err=True)
        return 2
    if isinstance(error, BrokenPipeError):
        silence(sys.stdout)
        return EXIT_PIPE
    if isinstance(error, OSError) and is_stdout_error(error):
        error = stdout_error(error)
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        path = str(error.filename)
        error = UsageError(f"{path[:60]}{'...' * (len(path) > 60)}: the name or path is too long")
    if isinstance(error, PermissionError) and error.filename:
        remedy = "check its permissions, and those of the folders above"
        error = SetupError(f"{os.fsdecode(error.filename)}: permission denied", remedy)
    if isinstance(error, OSError) and error.filename and is_disk_error(error):
        error = disk_full(error, os.fsdecode(error.filename))
    if is_out_of_memory(error):
        error = out_of_memory(error)
    if _is_of_torchs_import(error):
        remedy = f"install it: {startup.TORCH}; `tts-cli doctor` tells what else is missing"
        error = SetupError(f"torch cannot be imported: {first_line(error)}", remedy)
    if not isinstance(error, TtsCliError):
        kind = type(error).__name__
        error = StoppedEarly(f"internal error: {kind}: {error}", "run again with --debug")
    return _report(error)


def _is_of_torchs_import(error: Exception) -> bool:
    """Whether importing torch failed: torch, or a library that it loads, is missing."""
    if not isinstance(error, (ImportError, OSError)) or sys.modules.get("torch") is not None:
        return False
    frames = traceback.walk_tb(error.__traceback__)
    name = getattr(error, "name", None) or ""
    return name.split(".")[0] == "torch" or any(
        frame.f_globals.get("__name__") == "torch" for frame, _ in frames
    )


def _report(error: TtsCliError | Interrupted) -> int:
    """Log an error, with its traceback if --debug is given. Return the exit code."""
    is_asked_for = isinstance(error, Interrupted)
    log.error("%s", error, exc_info=True, extra={"is_asked_for": is_asked_for})
    with contextlib.suppress(OSError, ValueError):
        flush()
    return error.exit_code
