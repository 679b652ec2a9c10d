"""The end of a run in plain words: what came of the rows, where they are, and what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tts_cli.manifest.ids import REMOVED, TAKES
from tts_cli.output.journal import JOURNAL_NAME

if TYPE_CHECKING:
    from tts_cli.config import RunConfig
    from tts_cli.output.run_file import Totals
    from tts_cli.run.plan.strays import Strays
    from tts_cli.run.records import Failures

MAX_REASON_CHARS = 160
MAX_RETRIES = 100


def summary_lines(
    totals: Totals, out: Path, failures: Failures, left_out: str = "were done already"
) -> list[str]:
    """What came of the rows of a run.

    Args:
        out: the output folder.
        failures: of this run.
        left_out: why rows were skipped.
    """
    return [
        *_row_lines(totals, left_out),
        *_cost_lines(totals),
        *_failure_lines(failures, totals.failed - failures.count),
        f"audio, {JOURNAL_NAME} and run.json are in {_folder(out)}",
    ]


def reread_lines(rows: int) -> list[str]:
    """What is said of rows spoken anew for what is taken out of their texts, or typed, now."""
    if not rows:
        return []
    were = "1 row was" if rows == 1 else f"{rows} rows were"
    return [
        f"{were} done, and due again for signs in the text that nobody sees, or that a voice is "
        "now given as typed ones"
    ]


def take_lines(totals: Totals, rows: int, num_same: int, out: Path) -> list[str]:
    """What came of takes.

    Args:
        rows: that takes were to be spoken of.
        num_same: rows spoken again that came out as they were.
    """
    from tts_cli.output.takes import room_of_takes
    from tts_cli.output.writer import shown_size

    lines = []
    if totals.takes:
        takes = "1 more take" if totals.takes == 1 else f"{totals.takes} more takes"
        lines.append(f"{takes} of {rows} row{'s' * (rows > 1)} in {_folder(out / TAKES)}")
        lines.append(f"choose by: {shlex.join(['tts-cli', 'pick', str(out)])} ID=TAKE")
    if num_same:
        rows_are = "1 row is" if num_same == 1 else f"{num_same} rows are"
        lines.append(
            f"{rows_are} byte for byte what was there: the same seed gives the same audio; "
            "--seed N gives another, --takes N more"
        )
    if size := room_of_takes(out):
        lines.append(f"takes that are not chosen hold {shown_size(size)} in {TAKES}/")
    return lines


def stray_lines(strays: Strays | None, manifest: str, out: Path) -> list[str]:
    """What is told of rows that the manifest no longer has.

    Args:
        strays: None: nobody has looked for them.
    """
    from tts_cli.run.plan.strays import Stray

    if strays is None:
        return []
    left, unknown = strays.found[Stray.LEFT], strays.found[Stray.UNKNOWN]
    lines, rest = [], left.count - strays.removed
    if strays.removed:
        audio = f"taken out, into {_folder(out / REMOVED)}"
        lines.append(f"{_counted(strays.removed)} no longer in {manifest}: {left}; {audio}")
    lines += [f"not taken out: {row_id}: {_short(reason)}" for row_id, reason in strays.stayed[:5]]
    if rest and not strays.stayed:
        them = "it" if rest == 1 else "them"
        rows = f"{_counted(rest, f' in {_folder(out)}')} no longer in {manifest}: {left}"
        lines.append(f"{rows}; --prune takes {them} out")
    if unknown.count:
        rows = f"{_counted(unknown.count, f' in {_folder(out)}')} not in {manifest}: {unknown}"
        lines.append(f"{rows}; spoken from a pipe or by a run that nobody knows, and kept")
    return lines


def _row_lines(totals: Totals, left_out: str) -> list[str]:
    lines = [f"{totals.ok} of {totals.rows} rows spoken"]
    if totals.skipped:
        lines[0] += f", {totals.skipped} {left_out}"
    if totals.remade:
        lines[0] += f", {totals.remade} files made of what was kept"
    if totals.failed:
        lines[0] += f", {totals.failed} failed"
    if totals.xrt is not None:
        lines.append(
            f"{totals.audio_s:,.1f} s of audio in {totals.wall_s:,.1f} s, "
            f"{totals.xrt:,.1f} times real time"
        )
    if totals.is_length_off:
        lines.append(
            f"audio {totals.audio_s:,.0f} s where about {totals.expected_s:,.0f} s were expected: "
            "words may be missing or repeated"
        )
    if totals.wordless:
        lines.append(f"{_counted(totals.wordless)} silent: no letter or digit in the text")
    if totals.suspect:
        lines.append(f"{_counted(totals.suspect)} suspect; {JOURNAL_NAME} says why")
    return lines


def _cost_lines(totals: Totals) -> list[str]:
    lines = []
    if totals.load_s or totals.capture_s:
        graphs = ""
        if totals.graph_hits or totals.graph_misses:
            graphs = f", graphs {totals.capture_s:.1f} s"
        lines.append(f"before that: loading {totals.load_s:.1f} s{graphs}")
    if totals.references:
        lines.append(
            f"{totals.references} references encoded in {totals.reference_ms / 1000:,.2f} s"
        )
    if totals.graph_misses:
        lines.append(
            f"{totals.graph_misses} of {totals.graph_hits + totals.graph_misses} steps had no graph"
        )
    return lines


def _failure_lines(failures: Failures, num_bad: int) -> list[str]:
    lines = [f"failed: {row_id}: {_short(reason)}" for row_id, reason in failures.first]
    if failures.count > len(lines):
        lines.append(f"failed: {failures.count - len(lines)} more; {JOURNAL_NAME} has them all")
    if num_bad:
        lines.append(f"failed: {_counted(num_bad)} bad in the manifest, as told before")
    return lines


def next_step(
    args: Sequence[str], config: RunConfig, failures: Failures, num_bad: int, is_stopped: bool
) -> str | None:
    """What to type next, or None where nothing is left to do.

    Args:
        args: the command line as it was given, without the program's name.
        num_bad: rows that are bad in the manifest.
        is_stopped: not every row was tried.
    """
    if is_stopped:
        return f"stopped early; next, for the rest: {_command(args)}"
    if failures.count:
        # Overwriting would speak the others again as well.
        again = [arg for arg in args if arg != "--overwrite"]
        if failures.count == failures.extras:
            return f"next, for as many takes once more: {_command(args)}"
        again = _without(again, "--takes")
        if not config.retry_failed:
            again.append("--retry-failed")
        if failures.runaways:  # the same seeds would end the same way
            again = _without(again, "--retries")
            again += ["--retries", str(min(MAX_RETRIES, 2 * config.retries + 2))]
        return f"next, for what failed: {_command(again)}"
    if num_bad:
        return f"next, with the bad rows mended: {_command(args)}"
    return None


def _without(args: Sequence[str], flag: str) -> list[str]:
    """A command line without an option and its value."""
    behind = {index + 1 for index, arg in enumerate(args) if arg == flag}
    return [
        arg
        for index, arg in enumerate(args)
        if index not in behind and arg != flag and not arg.startswith(f"{flag}=")
    ]


def _command(args: Sequence[str]) -> str:
    """A command line to be copied into a shell."""
    is_piped = "-" in args
    note = " (with the manifest on stdin)" if is_piped else ""
    return f"{shlex.join(['tts-cli', *args])}{note}"


def _folder(out: Path) -> str:
    return f"{out}/" if str(out) != "/" else "/"


def _short(reason: str) -> str:
    line = " ".join(reason.split())
    return line if len(line) <= MAX_REASON_CHARS else line[: MAX_REASON_CHARS - 3] + "..."


def _counted(rows: int, where: str = "") -> str:
    return f"1 row{where} is" if rows == 1 else f"{rows} rows{where} are"
