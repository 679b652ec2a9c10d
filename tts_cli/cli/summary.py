"""Print the end of a run: what came of the rows, where they are, and what to type next.

Command lines as other tools have them, or as one guesses: what this one calls it.

click names an option that looks alike, which for `--output` is `--layout` first. Here stands what
is meant by names that are common elsewhere.
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

from tts_cli.cli.screen import show_or_warn
from tts_cli.folder.files import CHECKS_NAME, JOURNAL_NAME, shown_size
from tts_cli.manifest.ids import REMOVED, TAKES
from tts_cli.named import counted, shortened
from tts_cli.setting import meant

if TYPE_CHECKING:
    from tts_cli.app.run import Outcome
    from tts_cli.app.tally import Failures
    from tts_cli.app.verify import Verified
    from tts_cli.config import RunConfig
    from tts_cli.folder.run_file import Totals
    from tts_cli.plan.strays import Strays
    from tts_cli.plan.tally import Survey


MAX_REASON_CHARS = 160
MAX_NAMED = 20  # rows that were heard
MAX_RETRIES = 100


def show_outcome(outcome: Outcome, args: Sequence[str]) -> int:
    """What came of a run, and what to do next. Returns the exit code, or raises what ended it.

    Args:
        args: the command line, without the program's name.
    """
    config, exit_code = outcome.plan.config, outcome.exit_code
    if config.voices_only:
        return _show_voices(outcome)
    if config.json:
        exit_code = show_or_warn(json.dumps(outcome.report, indent=2), exit_code, is_json=True)
    elif not outcome.survey.needs_model:
        show_or_warn("\n".join(_unspoken_lines(outcome, args)))
    elif config.verbosity >= 0:
        show_or_warn("\n".join(_spoken_lines(outcome, args)))
    if outcome.error is not None:
        raise outcome.error
    return exit_code


def _show_voices(outcome: Outcome) -> int:
    """Where the voices are that were made."""
    plan = outcome.plan
    wav = plan.voices.made.wav
    if plan.config.json:
        found = [{**facts, "path": wav(facts["voice"])} for facts in plan.voices.facts()]
        return show_or_warn(json.dumps(found, indent=2), is_json=True)
    paths = [wav(voice) for voice in plan.voices.asks]
    return show_or_warn("\n".join(paths or ["no voice is to be made for these rows"]))


def _spoken_lines(outcome: Outcome, args: Sequence[str]) -> list[str]:
    plan, survey, totals = outcome.plan, outcome.survey, outcome.totals
    config, failures, out = plan.config, outcome.failures, plan.folder.out
    left_out = "had not failed" if config.retry_failed else "done already"
    lines = summary_lines(totals, out, failures, left_out)
    lines[1:1] = again_lines(survey.early, survey.reread)
    lines[-1:-1] = stray_lines(survey.strays, plan.source.name, out)
    room = outcome.room_of_takes
    if outcome.verified is None:
        lines[-1:-1] = take_lines(totals, survey.with_takes, plan.folder.num_same, out, room)
    lines += verified_lines(outcome.verified, args)
    num_bad = totals.failed - failures.count
    is_stopped = outcome.error is not None
    listen = f"next, to listen: {shlex.join(['tts-cli', 'report', _folder(out)])}"
    return [*lines, next_step(args, config, failures, num_bad, is_stopped) or listen]


def verified_lines(verified: Verified | None, args: Sequence[str]) -> list[str]:
    """What came of rows that were heard.

    Args:
        verified: None: none were.
        args: the command line, without the program's name.
    """
    if verified is None:
        return []
    rows, mended = verified.rows, verified.mended
    said = f"{rows} row{'s' * (rows != 1)} heard and judged: {verified.right} right at once"
    said += f", {len(mended)} mended, {len(verified.suspects)} still suspect"
    said += f", {len(verified.failed)} failed" if verified.failed else ""
    lines = [said]
    if mended:
        more = f" and {len(mended) - MAX_NAMED} more" if len(mended) > MAX_NAMED else ""
        lines.append(f"mended: {', '.join(mended[:MAX_NAMED])}{more}")
    for one in verified.suspects[:MAX_NAMED]:
        reasons = ", ".join(f"{reason.kind} ({reason.text})" for reason in one.reasons)
        lines.append(f"still suspect: {one.row.id}: {_short(reasons)}")
    if len(verified.suspects) > MAX_NAMED:
        left = len(verified.suspects) - MAX_NAMED
        lines.append(f"still suspect: {left} more; {CHECKS_NAME} has them all")
    tried = verified.tried
    lines += [f"no take of {row_id} passed; look at its text" for row_id in tried[:MAX_NAMED]]
    if len(verified.suspects) > len(tried):
        lines.append(f"next, for other takes of these: {_command(args)}")
    return lines


def _unspoken_lines(outcome: Outcome, args: Sequence[str]) -> list[str]:
    """That no row is left to speak; run.json of the run that spoke the others stays."""
    plan, survey = outcome.plan, outcome.survey
    strays = stray_lines(survey.strays, plan.source.name, plan.folder.out)
    verified = verified_lines(outcome.verified, args)
    return [_nothing_to_do(plan.config, survey), *strays, *verified]


def _nothing_to_do(config: RunConfig, survey: Survey) -> str:
    reason = _done(survey.skipped)
    if survey.remade or survey.unmade:
        made = f"{counted(survey.remade, 'file')} made of what is kept"
        lost = counted(len(survey.unmade), "file")
        more = [_done(survey.skipped, "")] if survey.skipped else []
        more += [f"{lost} could not be made"] if survey.unmade else []
        return "; ".join([f"nothing to speak: {made}", *more])
    if survey.served:
        reason = (
            "the takes were all spoken when the last run was cut short; the same command again "
            "speaks as many more"
        )
    elif config.only and not survey.summary.selected:
        reason = "no row is suspect or failed" if "suspects" in config.only else "no row"
    elif config.only and survey.skipped and not survey.silent and not config.retry_failed:
        reason = (
            f"{_done(survey.skipped)}; --takes N speaks more takes, "
            "--overwrite with another --seed speaks anew"
        )
    elif survey.silent:
        rows = counted(survey.silent, "row is", "rows are")
        reason = f"{rows} silent for want of words, {survey.skipped} done already"
    elif config.retry_failed:
        reason = "no row of this manifest is recorded as failed"
    elif not survey.skipped and not survey.bad:
        reason = "no row of this manifest is in this shard"
    elif not survey.skipped:
        reason = "no good row"
    return f"nothing to do: {reason}" + (f"; {survey.bad} are bad" if survey.bad else "")


def _done(rows: int, all_of_them: str = "all ") -> str:
    return f"{all_of_them * (rows > 1)}{counted(rows, 'row is', 'rows are')} done already"


def summary_lines(
    totals: Totals, out: Path, failures: Failures, left_out: str = "done already"
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


def again_lines(early: int, reread: int) -> list[str]:
    """What is said of rows spoken anew: because a version that was never published spoke them; for
    what is taken out of their texts, or typed, now.
    """
    lines = []
    if early:
        lines.append(
            f"{counted(early, 'row was', 'rows were')} done by a version that was never published, "
            "and due again; audio that came out otherwise is kept in takes/"
        )
    if reread:
        lines.append(
            f"{counted(reread, 'row was', 'rows were')} done, and due again for signs in the text "
            "that nobody sees, or that a voice is now given as typed ones"
        )
    return lines


def take_lines(totals: Totals, rows: int, num_same: int, out: Path, room: int) -> list[str]:
    """What came of takes.

    Args:
        rows: that takes were to be spoken of.
        num_same: rows spoken again that came out as they were.
        room: bytes of the takes that are not chosen.
    """
    lines = []
    if totals.takes:
        takes = counted(totals.takes, "more take")
        lines.append(f"{takes} of {counted(rows, 'row')} in {_folder(out / TAKES)}")
        lines.append(f"choose by: {shlex.join(['tts-cli', 'pick', str(out)])} ID=TAKE")
    if num_same:
        rows_are = counted(num_same, "row is", "rows are")
        lines.append(
            f"{rows_are} byte for byte what was there: the same seed gives the same audio; "
            "--seed N gives another, --takes N more"
        )
    if room:
        lines.append(f"takes that are not chosen hold {shown_size(room)} in {TAKES}/")
    return lines


def stray_lines(strays: Strays | None, manifest: str, out: Path) -> list[str]:
    """What is told of rows that the manifest no longer has.

    Args:
        strays: None: nobody has looked for them.
    """
    if strays is None:
        return []
    left, unknown = strays.left, strays.unknown
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
    lines = [f"{totals.ok:,} of {counted(totals.rows, 'row')} spoken"]
    if totals.skipped:
        lines[0] += f", {totals.skipped:,} {left_out}"
    if totals.remade:
        lines[0] += f", {counted(totals.remade, 'file')} made of what was kept"
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
        references = counted(totals.references, "reference")
        lines.append(f"{references} encoded in {totals.reference_ms / 1000:,.2f} s")
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
    if failures.count > failures.extras:  # a row whose own speech is fine needs no other take
        # Overwriting would speak the others again as well.
        again = [arg for arg in args if arg != "--overwrite"]
        if failures.count == failures.undrawn:
            return f"next, with the causes fixed: {_command(again)}"
        if failures.runaways and config.retries >= MAX_RETRIES:
            return f"{config.retries} retries did not help; look at the texts of the failed rows"
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


_short = partial(shortened, most=MAX_REASON_CHARS)


def _counted(rows: int, where: str = "") -> str:
    return counted(rows, f"row{where} is", f"rows{where} are")


_STYLE = "style is said in the rows' field instruct, where the checkpoint takes one"
_WORDS = {
    "a rerun of the same command resumes by itself": "--resume --continue --skip-existing "
    "--no-overwrite",
    "the manifest stands by itself: tts-cli {command} MANIFEST": "--input --input-file --manifest "
    "--file --text-file --input-dir --csv --jsonl -i",
    "tts-cli say TEXT speaks one text; a manifest has one a row": "--text --sentence --prompt",
    _STYLE: "--instruct --instructions --style --emotion --description --speed --rate --pitch "
    "--speaking-rate",
    "recordings stand in the rows, as ref_audio and ref_text": "--ref-audio --reference "
    "--reference-audio --speaker-wav --prompt-audio --audio-prompt --ref-text --prompt-text "
    "--clone",
    "use --device cuda, or cuda:N": "--gpu --cuda --use-cuda --gpus --use-gpu --gpu-id",
    "use --device cpu": "--cpu --use-cpu --no-cuda",
    "use --dtype bfloat16 or float32; float16 overflows in these models": "--fp16 --half --bf16 "
    "--float16 --bfloat16 --precision --fp32",
    "a run takes one device; --shard I/N gives each of N runs a part": "--workers --num-workers "
    "--jobs -j --parallel --num-gpus --tensor-parallel-size --processes",
    "rows without a voice share one by themselves, and `tts-cli voices add NAME --from DIR --take "
    "ID` makes one of a row": "--anchor",
    "the variable OMP_NUM_THREADS says how many": "--threads --num-threads --cpu-threads",
    "`tts-cli voices` lists what there is": "--list --list-voices --list-speakers --speakers",
}
_COMMANDS = {
    "synth": "tts speak generate synthesize synthesise run batch infer inference convert-text",
    "voices": "list speakers list-voices list-speakers voice",
    "validate": "lint verify check-manifest",
    "profile": "bench benchmark",
    "doctor": "info env diagnose status",
    "models": "download convert model",
    "merge": "join combine concat cat",
    "export": "dataset to-dataset publish",
    "lexicon": "normalize normalise dict dictionary",
    "book": "audiobook epub",
    "--help": "usage",
    "--version": "version",
}


def _by_name(table: dict[str, str]) -> dict[str, str]:
    return {name: meaning for meaning, names in table.items() for name in names.split()}


def command_meant(name: str) -> str | None:
    """What is said of an argument that stands in the place of a command; None: no idea."""
    if ours := _by_name(_COMMANDS).get(name.lower()):
        return f"use tts-cli {ours}" if ours.startswith("-") else f"did you mean '{ours}'?"
    if os.path.isfile(name):
        return f"to speak a manifest: tts-cli synth {name} --out DIR"
    return None


def explain(error: click.ClickException) -> click.ClickException:
    """What is said of a command line, in place of click's error about an unknown option."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return error
    ctx, given = error.ctx, error.option_name
    if ctx.parent is None:
        if error.possibilities:  # of the few options of the program itself
            return error
        advice = "options stand behind the command, as in tts-cli synth MANIFEST --out DIR"
        return click.UsageError(f"No such option '{given}': {advice}.", ctx)
    name = given.replace("_", "-")
    flags = {opt: param for param in ctx.command.params for opt in param.opts if opt[0] == "-"}
    flag = name if name in flags else meant(name, flags)
    words = _by_name(_WORDS).get(name)
    if flag is not None:
        advice = f"here it is called {flag}"
    elif words is not None and "MANIFEST" in " ".join(ctx.command.collect_usage_pieces(ctx)):
        advice = words.format(command=ctx.info_name)
    elif words is not None and "voices" in words:
        advice = words
    else:
        return error
    return click.UsageError(f"No such option '{given}': {advice}.", ctx)
