"""Print the end of a run: the results, their place, and what to type next.

`args` is always the command line, without the program's name.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tts_cli.cli import messages as msg
from tts_cli.cli.screen import show_or_warn, shown_duration
from tts_cli.config import REDO_ALL, REDO_CHANGED
from tts_cli.events import OTHERS, Event
from tts_cli.named import counted, shortened, shown_size
from tts_cli.sources.ids import TAKES

if TYPE_CHECKING:
    from tts_cli.app.synthesize import RunResult
    from tts_cli.app.verify import Verified
    from tts_cli.config import RunConfig
    from tts_cli.events import Events
    from tts_cli.plan.plan import Plan
    from tts_cli.plan.strays import Strays


MAX_REASON_CHARS = 160
MAX_FAILURES = 5  # failed rows that the summary names
LENGTH_SLACK_S = 5.0  # the length of short texts varies by as much
MAX_NAMED = 20  # checked rows that the summary names
MAX_RETRIES = 100


def show_result(result: RunResult, args: Sequence[str]) -> int:
    """Print the results of a run and the next step. Return the exit code, or raise its error."""
    config, exit_code = result.plan.config, result.exit_code
    if config.voices_only:
        return _show_voices(result)
    if config.json:
        exit_code = show_or_warn(json.dumps(result.report, indent=2), exit_code, is_json=True)
    elif not result.plan.needs_model:
        show_or_warn("\n".join(_unspoken_lines(result, args)))
    else:
        show_or_warn("\n".join(_spoken_lines(result, args)))
    if result.error is not None:
        raise result.error
    return exit_code


def _show_voices(result: RunResult) -> int:
    plan = result.plan
    wav = plan.voices.made.wav
    if plan.config.json:
        found = [{**facts, "path": wav(facts["voice"])} for facts in plan.voices.facts()]
        return show_or_warn(json.dumps(found, indent=2), is_json=True)
    paths = [wav(voice) for voice in plan.voices.asks]
    return show_or_warn("\n".join(paths or [msg.NO_VOICES]))


def _spoken_lines(result: RunResult, args: Sequence[str]) -> list[str]:
    plan, events, totals = result.plan, result.plan.events, result.totals()
    config, out, verified = plan.config, plan.folder.out, result.verified
    lines = summary_lines(totals, events, out, is_retry=config.retry_failed, verified=verified)
    lines[1:1] = again_lines(events.num(Event.EARLY), events.num(Event.REREAD))
    lines[-1:-1] = stray_lines(result.strays, plan.source.name, out)
    if verified is None:
        num_rows, room = events.num(Event.EXTRA_TAKES), result.takes_bytes
        lines[-1:-1] = take_lines(totals["takes"], num_rows, out, room)
    lines += verified_lines(verified, args)
    step = next_step(args, config, events, is_stopped=result.error is not None)
    listen = msg.NEXT_LISTEN.format(command=shlex.join(["tts-cli", "report", _folder(out)]))
    return [*lines, step or listen]


def verified_lines(verified: Verified | None, args: Sequence[str]) -> list[str]:
    """Return the lines about rows that were checked during the run; none without --verify."""
    if verified is None:
        return []
    fixed, suspects = verified.mended, verified.suspects
    first = msg.VERIFIED.format(
        rows=msg.rows(verified.rows), right=verified.right, fixed=len(fixed), suspect=len(suspects)
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


def _unspoken_lines(result: RunResult, args: Sequence[str]) -> list[str]:
    plan = result.plan
    strays = stray_lines(result.strays, plan.source.name, plan.folder.out)
    verified = verified_lines(result.verified, args)
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
    totals: Mapping[str, Any],
    events: Events,
    out: Path,
    *,
    is_retry: bool = False,
    verified: Verified | None = None,
) -> list[str]:
    """Return the lines of a run's summary.

    Args:
        is_retry: the run had --retry-failed, so skipped rows are those that had not failed.
        verified: the rows after --verify, which may have fixed some that failed before.
    """
    return [
        *_row_lines(totals, is_retry),
        *_cost_lines(totals),
        *_failure_lines(events, verified),
        msg.PLACE.format(folder=_folder(out)),
    ]


def again_lines(early: int, reread: int) -> list[str]:
    """Return the lines about done rows that a newer version synthesizes again: `early` ones of an
    unpublished version, and `reread` ones whose text is read differently now.
    """
    lines = [msg.EARLY_VERSION.format(rows=msg.rows_were(early))] if early else []
    return lines + ([msg.REREAD.format(rows=msg.rows_were(reread))] if reread else [])


def take_lines(num_takes: int, rows: int, out: Path, room: int) -> list[str]:
    """Return the lines about `num_takes` further takes of `rows`; `room` is the size of all
    alternatives in bytes.
    """
    lines = []
    if num_takes:
        takes = counted(num_takes, "more take")
        folder = _folder(out / TAKES)
        lines.append(msg.MORE_TAKES.format(takes=takes, rows=msg.rows(rows), folder=folder))
        command = shlex.join(["tts-cli", "pick", str(out)])
        lines.append(msg.CHOOSE_TAKES.format(command=command))
    if room:
        lines.append(msg.TAKES_SIZE.format(size=shown_size(room)))
    return lines


def stray_lines(strays: Strays | None, manifest: str, out: Path) -> list[str]:
    """Return the lines about rows that the manifest no longer has, if the run counted them."""
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


def _row_lines(totals: Mapping[str, Any], is_retry: bool) -> list[str]:
    skipped, audio_s, expected_s = totals["skipped"], totals["audio_s"], totals["expected_s"]
    counts = {"failed": totals["failed"], "converted": totals["remade"]}
    done = 0 if is_retry else skipped
    first = msg.synthesized(totals["ok"], totals["rows"], done=done, **counts)
    if is_retry and skipped:
        first += ", " + msg.SKIPPED_NOT_FAILED.format(count=skipped)
    lines = [first]
    if totals["xrt"] is not None:
        audio, wall = shown_duration(audio_s), shown_duration(totals["wall_s"])
        lines.append(msg.SPEED.format(audio=audio, wall=wall, xrt=totals["xrt"]))
    if expected_s > 0 and abs(audio_s - expected_s) > max(expected_s / 3, LENGTH_SLACK_S):
        lines.append(msg.LENGTH_IS_OFF.format(audio_s=audio_s, expected_s=expected_s))
    if totals["wordless"]:
        lines.append(msg.SILENT.format(rows=msg.rows_are(totals["wordless"])))
    if totals["suspect"]:
        lines.append(msg.SUSPECT.format(rows=msg.rows_are(totals["suspect"])))
    return lines


def _cost_lines(totals: Mapping[str, Any]) -> list[str]:
    lines = []
    hits, misses = totals["graph_hits"], totals["graph_misses"]
    if totals["load_s"] or totals["capture_s"]:
        line = msg.SETUP.format(load=shown_duration(totals["load_s"]))
        if hits or misses:
            line += msg.SETUP_GRAPHS.format(capture=shown_duration(totals["capture_s"]))
        lines.append(line)
    if totals["references"]:
        references = counted(totals["references"], "reference")
        seconds = totals["reference_ms"] / 1000
        lines.append(msg.REFERENCES.format(references=references, seconds=seconds))
    if misses:
        lines.append(msg.NO_GRAPH.format(misses=misses, steps=hits + misses))
    return lines


def _failure_lines(events: Events, verified: Verified | None) -> Iterator[str]:
    """Yield the lines about failed rows: the first ones with their reasons, and counts."""
    groups = events.groups(Event.FAILED).items()
    names = [(name, found.facts["reason"]) for name, found in groups if name != OTHERS]
    if verified is not None:
        bad = {*verified.failed, *(one.row.id for one in verified.suspects)}
        names = [(name, reason) for name, reason in names if name in bad]
    first = names[:MAX_FAILURES]
    for name, reason in first:
        yield msg.FAILED.format(id=name, reason=_short(reason))
    if (num_more := _num_failed(events) - len(first)) > 0:
        yield msg.FAILED_MORE.format(count=num_more)
    if num_invalid := events.num(Event.RECORDED_INVALID):
        yield msg.FAILED_INVALID.format(rows=counted(num_invalid, "invalid row"))


def _num_failed(events: Events) -> int:
    return events.num(Event.FAILED) - events.num(Event.FIXED)


def next_step(
    args: Sequence[str], config: RunConfig, events: Events, *, is_stopped: bool
) -> str | None:
    """Return what to type next, or None. `is_stopped`: not every row was tried."""
    if is_stopped:
        return msg.NEXT_REST.format(command=_command(args))
    num_failed = _num_failed(events)
    num_takes, num_undrawn, num_runaways = (
        events.total(Event.FAILED, fact) for fact in ("is_extra", "is_unsampled", "is_runaway")
    )
    if num_failed > num_takes:  # a row whose current take is fine needs no other
        again = _without_redo(args)  # which would synthesize the other rows again as well
        if num_failed == num_undrawn:
            return msg.NEXT_FIX_CAUSES.format(command=_command(again))
        if num_runaways and config.retries >= MAX_RETRIES:
            return msg.RETRIES_USED_UP.format(count=config.retries)
        again = _without(again, "--takes")
        if not config.retry_failed:
            again.append("--retry-failed")
        if num_runaways:  # the same seeds would end the same way
            again = _without(again, "--retries")
            again += ["--retries", str(min(MAX_RETRIES, 2 * config.retries + 2))]
        return msg.NEXT_FAILED.format(command=_command(again))
    if events.num(Event.RECORDED_INVALID):
        return msg.NEXT_FIXED.format(command=_command(args))
    return None


def _without(args: Sequence[str], flag: str) -> list[str]:
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
    return shlex.join(["tts-cli", *args]) + msg.ON_STDIN * ("-" in args)


def _folder(out: Path) -> str:
    return f"{out}/" if str(out) != "/" else "/"


_short = partial(shortened, max_chars=MAX_REASON_CHARS)
