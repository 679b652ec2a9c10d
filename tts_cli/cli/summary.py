"""Print the end of a run: the results, where they are, and what to type next.

Also explains options and commands that have another name in other tools. click would suggest the
option with the most similar spelling, which for `--output` is `--layout`.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tts_cli.cli import messages as msg
from tts_cli.cli.screen import show_or_warn, shown_duration
from tts_cli.config import REDO_ALL, REDO_CHANGED
from tts_cli.events import Event
from tts_cli.named import counted, shortened, shown_size
from tts_cli.plain import read_table
from tts_cli.setting import meant
from tts_cli.sources.ids import TAKES

if TYPE_CHECKING:
    from tts_cli.app.run import Outcome
    from tts_cli.app.tally import Failures, Totals
    from tts_cli.app.verify import Verified
    from tts_cli.config import RunConfig
    from tts_cli.plan.plan import Plan
    from tts_cli.plan.strays import Strays


MAX_REASON_CHARS = 160
MAX_NAMED = 20  # rows that were checked
MAX_RETRIES = 100


def show_outcome(outcome: Outcome, args: Sequence[str]) -> int:
    """Print the results of a run and the next step. Return the exit code, or raise its error.

    Args:
        args: the command line, without the program's name.
    """
    config, exit_code = outcome.plan.config, outcome.exit_code
    if config.voices_only:
        return _show_voices(outcome)
    if config.json:
        exit_code = show_or_warn(json.dumps(outcome.report, indent=2), exit_code, is_json=True)
    elif not outcome.plan.needs_model:
        show_or_warn("\n".join(_unspoken_lines(outcome, args)))
    elif config.verbosity >= 0:
        show_or_warn("\n".join(_spoken_lines(outcome, args)))
    if outcome.error is not None:
        raise outcome.error
    return exit_code


def _show_voices(outcome: Outcome) -> int:
    """Print the files of the generated voices."""
    plan = outcome.plan
    wav = plan.voices.made.wav
    if plan.config.json:
        found = [{**facts, "path": wav(facts["voice"])} for facts in plan.voices.facts()]
        return show_or_warn(json.dumps(found, indent=2), is_json=True)
    paths = [wav(voice) for voice in plan.voices.asks]
    return show_or_warn("\n".join(paths or [msg.NO_VOICES]))


def _spoken_lines(outcome: Outcome, args: Sequence[str]) -> list[str]:
    plan, totals, num = outcome.plan, outcome.totals, outcome.plan.events.num
    config, failures, out = plan.config, outcome.failures, plan.folder.out
    lines = summary_lines(totals, out, failures, is_retry=config.retry_failed)
    lines[1:1] = again_lines(num(Event.EARLY), num(Event.REREAD))
    lines[-1:-1] = stray_lines(outcome.strays, plan.source.name, out)
    room = outcome.takes_bytes
    if outcome.verified is None:
        lines[-1:-1] = take_lines(totals, num(Event.EXTRA_TAKES), out, room)
    lines += verified_lines(outcome.verified, args)
    num_bad = totals.failed - failures.count
    is_stopped = outcome.error is not None
    listen = msg.NEXT_LISTEN.format(command=shlex.join(["tts-cli", "report", _folder(out)]))
    return [*lines, next_step(args, config, failures, num_bad, is_stopped) or listen]


def verified_lines(verified: Verified | None, args: Sequence[str]) -> list[str]:
    """Return the lines about rows that were checked during the run.

    Args:
        verified: None without --verify.
        args: the command line, without the program's name.
    """
    if verified is None:
        return []
    fixed, suspects = verified.mended, verified.suspects
    first = msg.VERIFIED.format(
        rows=msg.rows(verified.rows),
        right=verified.right,
        fixed=len(fixed),
        suspect=len(suspects),
    )
    if verified.failed:
        first += ", " + msg.FAILED_COUNT.format(failed=len(verified.failed))
    lines = [first]
    if fixed:
        more = f" and {len(fixed) - MAX_NAMED} more" if len(fixed) > MAX_NAMED else ""
        lines.append(msg.RETRIED.format(ids=", ".join(fixed[:MAX_NAMED]) + more))
    for one in suspects[:MAX_NAMED]:
        reasons = ", ".join(f"{reason.kind} ({reason.text})" for reason in one.reasons)
        lines.append(msg.STILL_SUSPECT.format(id=one.row.id, reasons=_short(reasons)))
    if len(suspects) > MAX_NAMED:
        lines.append(msg.STILL_SUSPECT_MORE.format(count=len(suspects) - MAX_NAMED))
    tried = verified.tried
    lines += [msg.NO_TAKE_PASSED.format(id=row_id) for row_id in tried[:MAX_NAMED]]
    if len(suspects) > len(tried):
        lines.append(msg.NEXT_RETAKES.format(command=_command(args)))
    return lines


def _unspoken_lines(outcome: Outcome, args: Sequence[str]) -> list[str]:
    """Return the lines of a run that had nothing to synthesize."""
    plan = outcome.plan
    strays = stray_lines(outcome.strays, plan.source.name, plan.folder.out)
    verified = verified_lines(outcome.verified, args)
    return [_nothing_to_do(plan), *strays, *verified]


def _nothing_to_do(plan: Plan) -> str:
    num = plan.events.num
    done, failing = num(Event.DONE), num(Event.FAILING)
    converted, not_converted = num(Event.CONVERTED), num(Event.NOT_CONVERTED)
    if converted or not_converted:
        parts = [msg.NOTHING_BUT_CONVERTED.format(files=counted(converted, "file"))]
        parts += [msg.ALL_DONE.format(rows=msg.rows_are(done))] if done else []
        if not_converted:
            parts.append(msg.NOT_CONVERTED.format(files=counted(not_converted, "file")))
        return "; ".join(parts)
    reason = msg.NOTHING_TO_DO.format(reason=_reason(plan))
    return reason + (f"; {msg.INVALID_COUNT.format(count=failing)}" if failing else "")


def _reason(plan: Plan) -> str:
    """Return why a run has nothing to do."""
    config, num = plan.config, plan.events.num
    done, silent = num(Event.DONE), num(Event.SILENT)
    if num(Event.SERVED):
        return msg.TAKES_COMPLETE
    if config.only and not num(Event.SELECTED):
        return msg.NO_SUSPECTS if "suspects" in config.only else msg.NO_ROW
    if config.only and done and not silent and not config.retry_failed:
        rows = ("all " if done > 1 else "") + msg.rows_are(done)
        return msg.DONE_BUT_SELECTED.format(rows=rows)
    if silent:
        return msg.SILENT_AND_DONE.format(rows=msg.rows_are(silent), done=done)
    if config.retry_failed:
        return msg.NONE_FAILED
    if done:
        return msg.all_done(done)
    return msg.NONE_VALID if num(Event.FAILING) else msg.SHARD_IS_EMPTY


def summary_lines(
    totals: Totals, out: Path, failures: Failures, *, is_retry: bool = False
) -> list[str]:
    """Return the lines of a run's summary.

    Args:
        out: the output folder.
        failures: of this run.
        is_retry: the run had --retry-failed, so skipped rows are those that had not failed.
    """
    return [
        *_row_lines(totals, is_retry),
        *_cost_lines(totals),
        *_failure_lines(failures, totals.failed - failures.count),
        msg.PLACE.format(folder=_folder(out)),
    ]


def again_lines(early: int, reread: int) -> list[str]:
    """Return the lines about done rows that a newer version synthesizes again.

    Args:
        early: rows of a version that was never published.
        reread: rows whose text is read differently now.
    """
    lines = [msg.EARLY_VERSION.format(rows=msg.rows_were(early))] if early else []
    return lines + ([msg.REREAD.format(rows=msg.rows_were(reread))] if reread else [])


def take_lines(totals: Totals, rows: int, out: Path, room: int) -> list[str]:
    """Return the lines about takes.

    Args:
        rows: rows that more takes were requested for.
        room: bytes of the alternative takes.
    """
    lines = []
    if totals.takes:
        takes = counted(totals.takes, "more take")
        folder = _folder(out / TAKES)
        lines.append(msg.MORE_TAKES.format(takes=takes, rows=msg.rows(rows), folder=folder))
        command = shlex.join(["tts-cli", "pick", str(out)])
        lines.append(msg.CHOOSE_TAKES.format(command=command))
    if room:
        lines.append(msg.TAKES_SIZE.format(size=shown_size(room)))
    return lines


def stray_lines(strays: Strays | None, manifest: str, out: Path) -> list[str]:
    """Return the lines about rows that the manifest no longer has.

    Args:
        strays: None if the run did not look for them.
    """
    if strays is None:
        return []
    left, unknown = strays.left, strays.unknown
    lines, rest = [], left.count - strays.removed
    if strays.removed:
        rows, folder = msg.rows_are(strays.removed), _folder(out / TAKES)
        lines.append(msg.REMOVED.format(rows=rows, manifest=manifest, ids=left, folder=folder))
    for row_id, reason in strays.stayed[:5]:
        lines.append(msg.NOT_REMOVED.format(id=row_id, reason=_short(reason)))
    if rest and not strays.stayed:
        rows, them = _rows_in(rest, out), "it" if rest == 1 else "them"
        lines.append(msg.STRAYS.format(rows=rows, manifest=manifest, ids=left, them=them))
    if unknown.count:
        rows = _rows_in(unknown.count, out)
        lines.append(msg.UNKNOWN_ROWS.format(rows=rows, manifest=manifest, ids=unknown))
    return lines


def _rows_in(count: int, out: Path) -> str:
    return counted(count, f"row in {_folder(out)} is", f"rows in {_folder(out)} are")


def _row_lines(totals: Totals, is_retry: bool) -> list[str]:
    done = 0 if is_retry else totals.skipped
    failed, remade = totals.failed, totals.remade
    first = msg.synthesized(totals.ok, totals.rows, done=done, failed=failed, converted=remade)
    if is_retry and totals.skipped:
        first += ", " + msg.SKIPPED_NOT_FAILED.format(count=totals.skipped)
    lines = [first]
    if totals.xrt is not None:
        audio, wall = shown_duration(totals.audio_s), shown_duration(totals.wall_s)
        lines.append(msg.SPEED.format(audio=audio, wall=wall, xrt=totals.xrt))
    if totals.is_length_off:
        lines.append(msg.LENGTH_IS_OFF.format(audio_s=totals.audio_s, expected_s=totals.expected_s))
    if totals.wordless:
        lines.append(msg.SILENT.format(rows=msg.rows_are(totals.wordless)))
    if totals.suspect:
        lines.append(msg.SUSPECT.format(rows=msg.rows_are(totals.suspect)))
    return lines


def _cost_lines(totals: Totals) -> list[str]:
    lines = []
    if totals.load_s or totals.capture_s:
        line = msg.SETUP.format(load=shown_duration(totals.load_s))
        if totals.graph_hits or totals.graph_misses:
            line += msg.SETUP_GRAPHS.format(capture=shown_duration(totals.capture_s))
        lines.append(line)
    if totals.references:
        references = counted(totals.references, "reference")
        seconds = totals.reference_ms / 1000
        lines.append(msg.REFERENCES.format(references=references, seconds=seconds))
    if totals.graph_misses:
        steps = totals.graph_hits + totals.graph_misses
        lines.append(msg.NO_GRAPH.format(misses=totals.graph_misses, steps=steps))
    return lines


def _failure_lines(failures: Failures, num_bad: int) -> list[str]:
    lines = [msg.FAILED.format(id=one, reason=_short(reason)) for one, reason in failures.first]
    if failures.count > len(lines):
        lines.append(msg.FAILED_MORE.format(count=failures.count - len(lines)))
    if num_bad:
        lines.append(msg.FAILED_INVALID.format(rows=counted(num_bad, "invalid row")))
    return lines


def next_step(
    args: Sequence[str], config: RunConfig, failures: Failures, num_bad: int, is_stopped: bool
) -> str | None:
    """Return what to type next, or None if nothing is left to do.

    Args:
        args: the command line as it was given, without the program's name.
        num_bad: invalid rows of the manifest.
        is_stopped: the run ended before it had tried every row.
    """
    if is_stopped:
        return msg.NEXT_REST.format(command=_command(args))
    if failures.count > failures.extras:  # a row whose current take is fine needs no other
        again = _without_redo(args)  # which would synthesize the other rows again as well
        if failures.count == failures.undrawn:
            return msg.NEXT_FIX_CAUSES.format(command=_command(again))
        if failures.runaways and config.retries >= MAX_RETRIES:
            return msg.RETRIES_USED_UP.format(count=config.retries)
        again = _without(again, "--takes")
        if not config.retry_failed:
            again.append("--retry-failed")
        if failures.runaways:  # the same seeds would end the same way
            again = _without(again, "--retries")
            again += ["--retries", str(min(MAX_RETRIES, 2 * config.retries + 2))]
        return msg.NEXT_FAILED.format(command=_command(again))
    if num_bad:
        return msg.NEXT_FIXED.format(command=_command(args))
    return None


def _without(args: Sequence[str], flag: str) -> list[str]:
    """Return a command line without an option and its value."""
    values = {index + 1 for index, arg in enumerate(args) if arg == flag}
    return [
        arg
        for index, arg in enumerate(args)
        if index not in values and arg != flag and not arg.startswith(f"{flag}=")
    ]


def _without_redo(args: Sequence[str]) -> list[str]:
    """Return a command line without --redo, whose value may be left out, and --overwrite."""
    kept: list[str] = []
    is_after = False  # the word before was --redo
    for arg in args:
        is_value = is_after and arg in (REDO_CHANGED, REDO_ALL)
        is_after = arg == "--redo"
        if not (is_value or is_after or arg == "--overwrite" or arg.startswith("--redo=")):
            kept.append(arg)
    return kept


def _command(args: Sequence[str]) -> str:
    """Return a command line that can be pasted into a shell."""
    is_piped = "-" in args
    note = msg.ON_STDIN if is_piped else ""
    return f"{shlex.join(['tts-cli', *args])}{note}"


def _folder(out: Path) -> str:
    return f"{out}/" if str(out) != "/" else "/"


_short = partial(shortened, most=MAX_REASON_CHARS)


def _by_name(kind: str) -> dict[str, str]:
    """Return the advice or command for each name of other tools, by name."""
    table = read_table(Path(__file__).with_name("other_tools.toml"))[kind]
    return {name: meaning for meaning, names in table.items() for name in names}


def command_meant(name: str) -> str | None:
    """Return advice about a word in the place of a command, or None."""
    if ours := _by_name("commands").get(name.lower()):
        return f"use tts-cli {ours}" if ours.startswith("-") else f"did you mean '{ours}'?"
    if os.path.isfile(name):
        return f"to synthesize a manifest: tts-cli synth {name} --out DIR"
    return None


def explain(error: click.ClickException) -> click.ClickException:
    """Return a better error than click's for an option that does not exist."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return error
    ctx, given = error.ctx, error.option_name
    if ctx.parent is None:
        if error.possibilities:  # of the few options of the program itself
            return error
        advice = "put options after the command, as in tts-cli synth MANIFEST --out DIR"
        return click.UsageError(f"No such option '{given}': {advice}.", ctx)
    name = given.replace("_", "-")
    flags = {opt: param for param in ctx.command.params for opt in param.opts if opt[0] == "-"}
    flag = name if name in flags else meant(name, flags)
    words = _by_name("flags").get(name)
    if flag is not None:
        advice = f"here it is called {flag}"
    elif words is not None and "MANIFEST" in " ".join(ctx.command.collect_usage_pieces(ctx)):
        advice = words.format(command=ctx.info_name)
    elif words is not None and "voices" in words:
        advice = words
    else:
        return error
    return click.UsageError(f"No such option '{given}': {advice}.", ctx)
