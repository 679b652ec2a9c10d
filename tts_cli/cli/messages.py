"""The sentences of run summaries, notes and plans: one table, so that wording stays consistent.

Each name is a `str.format` template. `{rows}`, `{files}` and `{takes}` are counts with their noun
("1 row", "3 rows"), from `rows()` and `named.counted`. Tests compare with these templates.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from functools import partial

from tts_cli.events import MAX_EVENT_NAMES, OTHERS, Count, Event, Events
from tts_cli.named import counted, first_few, shown

log = logging.getLogger(__name__)

# The end of a run, line by line.
SYNTHESIZED = "{ok:,} of {rows} synthesized"
CONVERTED = "{files} converted"
FAILED_COUNT = "{failed:,} failed"
SKIPPED_DONE = "{count:,} already done"
SKIPPED_NOT_FAILED = "{count:,} had not failed"
SPEED = "{audio} of audio in {wall} ({xrt:,.1f} times real time)"
SETUP = "setup: {load} to load the model"
SETUP_GRAPHS = ", {capture} to capture graphs"
REFERENCES = "{references} encoded in {seconds:,.2f} s"
NO_GRAPH = "{misses} of {steps} steps ran without a graph"
LENGTH_IS_OFF = (
    "the audio is {audio_s:,.0f} s long, but about {expected_s:,.0f} s were expected: words may be "
    "missing or repeated"
)
SILENT = "{rows} silent: the text has no letter or digit"
SUSPECT = "{rows} suspect; timings.jsonl has the reasons"
FAILED = "failed: {id}: {reason}"
FAILED_MORE = "failed: {count} more; timings.jsonl lists all"
FAILED_INVALID = "failed: {rows} (see the errors above)"
PLACE = "audio, timings.jsonl and run.json are in {folder}"
NO_VOICES = "these rows need no generated voice"

# Nothing to do.
NOTHING_TO_DO = "nothing to do: {reason}"
INVALID_COUNT = "{count:,} invalid"
ALL_DONE = "{rows} already done"
NOTHING_BUT_CONVERTED = "nothing to synthesize: {files} converted"
NOT_CONVERTED = "{files} could not be converted"
TAKES_COMPLETE = (
    "the last run was interrupted, but its takes are complete; run the same command again for as "
    "many more"
)
NO_SUSPECTS = "no row is suspect or failed"
NO_ROW = "no row matches --only"
DONE_BUT_SELECTED = (
    "{rows} already done; give --takes N for more takes, or --redo all with another --seed to "
    "synthesize again"
)
SILENT_AND_DONE = "{rows} silent because the text has no words, {done:,} already done"
NONE_FAILED = "no row of this manifest is recorded as failed"
SHARD_IS_EMPTY = "no row of this manifest is in this shard"
NONE_VALID = "no row is valid"

# Rows that were checked during the run.
VERIFIED = "{rows} checked: {right} passed at first, {fixed} after retries, {suspect} still suspect"
RETRIED = "passed after retries: {ids}"
STILL_SUSPECT = "still suspect: {id}: {reasons}"
NO_TAKE_PASSED = "no take of {id} passed; look at its text"
STILL_SUSPECT_MORE = "still suspect: {count} more; checks.jsonl lists all"

# Takes, earlier versions, rows that the manifest no longer has.
EARLY_VERSION = (
    "{rows} synthesized by an unpublished version, and synthesized again now; audio that changed "
    "is in takes/"
)
REREAD = (
    "{rows} synthesized again because this version removes invisible characters from texts, or "
    "reads typed signs differently"
)
MORE_TAKES = "{takes} of {rows} in {folder}"
CHOOSE_TAKES = "choose with: {command} ID=TAKE"
TAKES_SIZE = "alternative takes use {size} in takes/"
CLEANABLE = "{files} in {folder}/takes/, {size}:"
CLEANABLE_TAKES = "alternative takes of {rows}: {ids}"
CLEANABLE_REMOVED = "removed: {rows}: {ids}"
CLEAN_EDITED = "kept, because you made or edited them: takes of {rows}: {ids}"
CLEAN_APPROVED = "stay, because they are approved: takes of {rows}: {ids}"
CLEANED = "deleted {files}, {size}"
NOTHING_TO_CLEAN = (
    "nothing to delete: {folder}/ has no alternative takes and no removed rows{age} that may go"
)
REMOVED = "{rows} no longer in {manifest}: {ids}; moved to {folder}"
NOT_REMOVED = "not removed: {id}: {reason}"
STRAYS = "{rows} no longer in {manifest}: {ids}; --prune removes {them}"
UNKNOWN_ROWS = (
    "{rows} not in {manifest}: {ids}; not removed: from a pipe, an unknown run or a manifest that "
    "no longer exists"
)

# What to type next.
NEXT_LISTEN = "next, to listen: {command}"
NEXT_RETAKES = "next, for other takes of these rows: {command}"
NEXT_REST = "stopped early; next, for the remaining rows: {command}"
NEXT_FIX_CAUSES = "next, after fixing the causes: {command}"
RETRIES_USED_UP = "{count} retries did not help; look at the texts of the failed rows"
NEXT_FAILED = "next, to retry the failed rows: {command}"
NEXT_FIXED = "next, after fixing the invalid rows: {command}"
ON_STDIN = " (with the manifest on stdin)"

# Notes before a run.
CANNOT_CONVERT = (
    "%s synthesized again for another format or loudness: the existing audio cannot be converted "
    "(already processed, and no saved codes); first %s"
)
PIN_DROPPED = "%s changed since a take was pinned; %s, and the pinned take stays in takes/: %s"
PIN_CAUSES = "the text, voice or other settings"
FROM_OTHER = (
    "%s of %s with the same ids: %s. The earlier audio moves to takes/; if both are to stay, give "
    "each manifest its own --out"
)
WOULD_REDO = "these rows would be synthesized again"
REDO = "these rows are synthesized again"
OTHER_SETTINGS = "%s was made with other settings (%s); %s %s synthesized with the new ones"
OLDER_STAY = (
    "%s made with another version, model or other settings, and not changed; --redo synthesizes "
    "such rows again"
)
TAKES_COUNT = "%s from an interrupted run"
VOICE_NOT_FIXED = (
    "%s a voice that was not fixed, and %s synthesized again in a generated voice that is stored; "
    "%s does not change existing rows"
)
GREEDY_TAKES = "%s greedy, so every take would be the same: no more takes are synthesized"
DAMAGED = "synthesizing rows again whose audio is missing or damaged: %s"

# Lines of `validate` and of a dry run: (label, text).
PLAN_ROWS = ("rows", "{good:,} good, {invalid:,} invalid")
PLAN_TIME = ("time", "about {time}, at the speed of the last run ({xrt:,.4g} times real time)")
PLAN_SPLIT = ("split", "{rows}, {pieces:,} pieces")
PLAN_SILENT = ("silent", "{rows} without words")
PLAN_VOICE = ("generated voice", "{rows}: {of}; {voice}.wav")
PLAN_NEW_VOICE = ("voice to generate", "{rows}: {of}; text {text!r}")
PLAN_MORE_VOICES = ("more voices", "{count:,}")
PLAN_PENDING = ("to synthesize", "{rows}")
PLAN_NOT_PENDING = ("not synthesized", "{skipped:,} done or not selected, {invalid:,} will fail")
PLAN_EARLY = ("early version", "{count:,} of those; their audio moves to takes/")
PLAN_REREAD = ("text read differently", "{count:,} of those, because of invisible or typed signs")
PLAN_TAKES = ("more takes", "{count:,} of {rows}")
PLAN_PINNED = ("pinned takes", "{held:,} still fit, {fallen:,} do not fit any more")
PLAN_RESTORED = ("restored", "{rows} from takes/")
PLAN_STRAYS = ("no longer in the manifest", "{rows}, not removed without --prune: {ids}")
PLAN_PRUNED = ("no longer in the manifest", "{rows}, moved to takes/: {ids}")
PLAN_ORPHANS = ("unknown ids", "{count} that no row has; their files stay{ids}")
PLAN_CONVERTED = ("converted only", "{parts}")
PLAN_FROM_AUDIO = "{count:,} from lossless audio"
PLAN_FROM_CODES = "{count:,} from saved codes"

rows_are = partial(counted, one="row is", many="rows are")
rows_were = partial(counted, one="row was", many="rows were")


def rows(count: int) -> str:
    return counted(count, "row")


def synthesized(ok: int, of: int, *, done: int = 0, failed: int = 0, converted: int = 0) -> str:
    """Return the first line of a run's summary: `ok` rows synthesized of those that were due.

    `done` rows were done before, and `converted` files needed no synthesis.
    """
    parts = [SYNTHESIZED.format(ok=ok, rows=rows(of))]
    if done:
        parts.append(SKIPPED_DONE.format(count=done))
    if converted:
        parts.append(CONVERTED.format(files=counted(converted, "file")))
    if failed:
        parts.append(FAILED_COUNT.format(failed=failed))
    return ", ".join(parts)


def all_done(count: int) -> str:
    return ALL_DONE.format(rows=("all " if count > 1 else "") + rows_are(count))


def nothing_to_do(done: int) -> str:
    return NOTHING_TO_DO.format(reason=all_done(done))


# Kinds of events whose rows are named, and what further rows are called.
_NAMED = {
    Event.INVALID: "invalid rows",
    Event.HOPELESS: "rows that will fail",
    Event.RECORDING: "rows with odd recordings to clone",
    Event.FOREIGN: "rows in letters of a language that this checkpoint does not support",
    Event.GARBLED: "rows with text in a wrong encoding",
    Event.MARKUP: "rows with markup that would be read aloud",
    Event.PAUSES: "rows whose pauses are left out",
    Event.UNHEARD: "rows whose instruct differs from that of their character",
    Event.CUE: "rows that take longer than their cues",
}
# Kinds of events whose rows are counted per group.
_COUNTED = {
    Event.SPEAKER_NAMES: "{what}",
    Event.WORDLESS: "{are} without any letter or digit, '{first}' first: {what}",
    Event.OWN_CAP: "{give} max_seconds or max_frames, '{first}' first, which takes precedence "
    "over --max-seconds {what}: change it there",
    Event.UNREAD: "{are} {what}",
    Event.FIGURE: "figures that are not understood are left as written in {rows}, {what} of "
    "'{first}' first; add them to a --lexicon",
    Event.INSTRUCT: "{give} instruct, which this checkpoint ignores; remove it or choose "
    "another checkpoint",
    Event.WHOLE: "{are} longer than {what}, '{first}' first, and not split: {kind}; words may "
    "be lost",
    Event.LIMIT: "--split {what}; words may be lost",
    Event.NO_INSTRUCT: "{give} no instruct, so the voice is not described to this checkpoint",
}


_MAX_VOICELESS = 100  # characters that a message lists


def first_of(found: Count) -> str:
    return ", ".join(found.first[:4]) + ", ..." * (found.count > 4)


def row_lines(events: Events, kind: Event, manifest: str) -> Iterator[str]:
    """Yield the lines about rows with a problem: one line per problem, with its first rows."""
    for group, found in events.groups(kind).items():
        if group == OTHERS:
            yield f"{manifest}: {found.count} more {_NAMED[kind]}"
            continue
        first = found.facts
        named = "" if first["id"] is None else f"id '{first['id']}': "
        line = f"{first['file'] or manifest}:{first['line']}: {named}{first['text']}"
        if found.count > 1:
            rows = counted(found.count - 1, "more row")
            more = ", ..." * (found.count > MAX_EVENT_NAMES)
            line += f"; {rows} alike: {', '.join(found.first[1:])}{more}"
        yield line


def invalid_lines(events: Events, manifest: str, voiceless: Collection[str]) -> Iterator[str]:
    """Yield the errors about invalid rows. `voiceless` are the characters without a voice."""
    yield from row_lines(events, Event.INVALID, manifest)
    if len(voiceless) > 1:
        named = first_few([*map(shown, voiceless)], _MAX_VOICELESS)
        yield f"{manifest}: {len(voiceless)} characters have no voice: {named}"


def note_lines(events: Events, manifest: str) -> list[str]:
    """Return the warnings about rows of a manifest that are synthesized nevertheless."""
    kinds = [kind for kind in _NAMED if kind is not Event.INVALID]
    lines = [line for kind in kinds for line in row_lines(events, kind, manifest)]
    for kind, text in _COUNTED.items():
        for group, found in events.groups(kind).items():
            num, facts = found.count, found.facts
            words = {"are": rows_are(num), "give": counted(num, "row gives", "rows give")}
            words |= {"rows": rows(num), "kind": group}
            line = text.format(**words, first=facts["id"], what=facts["what"])
            lines.append(f"{manifest}: {line}")
    return lines


_SKIPPED = {
    Event.OTHER_LANGUAGE: "in a language that the {} does not support",
    Event.WITHOUT_WORDS: "without words, or without a text in timings.jsonl",
    Event.WITHOUT_AUDIO: "without audio",
}


def log_skipped(events: Events, noun: str, by: str) -> None:
    for kind, why in _SKIPPED.items():
        if count := events.num(kind):
            log.warning("%s %s", counted(count, noun), why.format(by))
