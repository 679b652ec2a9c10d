"""Notes on rows that are spoken nevertheless: found here, and reported for one row that somebody
gave, or for all rows of a manifest.

Rows that a message names: equal problems in one line, and of these the first in full, then a
count, however many there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from tts_cli.config import RunConfig
from tts_cli.core import BadRow, Row
from tts_cli.named import counted, shown
from tts_cli.plan.free_voices import FreeVoices
from tts_cli.plan.split_rule import SplitRule
from tts_cli.sources.subtitles import cue_length_s
from tts_cli.text.care import LANGUAGES, TextCare
from tts_cli.text.pauses import has_pauses, without_pauses
from tts_cli.text.words import SILENCE_S, are_latin, is_foreign, markup_in, usual_s
from tts_cli.voices.made import is_made
from tts_cli.voices.needs import Cloning

if TYPE_CHECKING:
    from models.base import ModelInfo, SpeechRequest

_PLAIN = re.compile(r"[A-Za-z ,.!?'\n-]*")  # no figures, no markup, no other letters


class NoteKind(Enum):
    """What a note is about. Notes on many rows are told in this order."""

    HOPELESS = auto()  # the row is certain to fail, alone
    RECORDING = auto()
    FOREIGN = auto()
    MARKUP = auto()
    PAUSES = auto()
    UNHEARD = auto()
    CUE = auto()
    WORDLESS = auto()
    OWN_CAP = auto()
    UNREAD = auto()
    FIGURE = auto()
    INSTRUCT = auto()
    WHOLE = auto()
    LIMIT = auto()
    NO_INSTRUCT = auto()


# Rows of these are named; what is said of those beyond a few.
_NAMED = {
    NoteKind.HOPELESS: "rows that will fail",
    NoteKind.RECORDING: "rows with odd recordings to clone",
    NoteKind.FOREIGN: "rows in letters of a language that this checkpoint does not support",
    NoteKind.MARKUP: "rows with markup that would be read aloud",
    NoteKind.PAUSES: "rows whose pauses are left out",
    NoteKind.UNHEARD: "rows whose instruct differs from that of their character",
    NoteKind.CUE: "rows that take longer than their cues",
}
# Rows of these are counted, kind by kind.
_COUNTED = {
    NoteKind.WORDLESS: "{are} without any letter or digit, '{first}' first: {what}",
    NoteKind.OWN_CAP: "{give} max_seconds or max_frames, '{first}' first, which takes precedence "
    "over --max-seconds {what}: change it there",
    NoteKind.UNREAD: "{are} {what}",
    NoteKind.FIGURE: "figures that are not understood are left as written in {rows}, {what} of "
    "'{first}' first; add them to a --lexicon",
    NoteKind.INSTRUCT: "{give} instruct, which this checkpoint ignores; remove it or choose "
    "another checkpoint",
    NoteKind.WHOLE: "{are} longer than {what}, '{first}' first, and not split: {kind}; words may "
    "be lost",
    NoteKind.LIMIT: "--split {what}; words may be lost",
    NoteKind.NO_INSTRUCT: "{give} no instruct, so the voice is not described to this checkpoint",
}


class Note(NamedTuple):
    """One thing to be known of a row."""

    about: NoteKind
    text: str = ""  # of the row alone; empty: only many rows are worth a word
    kind: str = ""  # rows of a kind are told together; empty: those of the same text
    what: str = ""  # for the sentence about many rows


class Notes:
    """Finds what is to be known of the rows of a run."""

    def __init__(
        self,
        config: RunConfig,
        info: ModelInfo,
        care: TextCare,
        split_rule: SplitRule,
        voices: FreeVoices,
    ) -> None:
        self._config = config
        self._info = info
        self._care = care
        self._split_rule = split_rule
        self._voices = voices
        self._is_latin = are_latin(info.languages)
        # `instruct` says whose voice a row has, though who speaks it may take none.
        self._is_described = voices.maker.info.needs_instruct

    def of_text(self, row: Row, request: SpeechRequest, is_silent: bool) -> Iterator[Note]:
        """What a row asks for, and does not get."""
        info, care = self._info, self._care
        if is_silent:
            is_bad = self._config.wordless == "fail"
            fate = "they will fail" if is_bad else f"{SILENCE_S:g} s of silence each"
            yield Note(
                NoteKind.WORDLESS, "has no letter or digit, so it becomes silence", what=fate
            )
            return
        if care.is_normalized and (known := care.known(request.language)) not in LANGUAGES:
            why = f"in {known}, which has no rules for figures, so they stay as written"
            if known is None:
                why = "of unknown language, so figures stay as written; "
                why += "give --language, or a language with --normalize"
            yield Note(NoteKind.UNREAD, kind=why, what=why)
        text, has_marks = request.text, has_pauses(row.text)
        if has_marks and not has_pauses(text):
            lost = "its pauses are left out, because its voice would change after a pause"
            yield Note(NoteKind.PAUSES, lost)
        elif has_marks:
            text = without_pauses(text)
        if _PLAIN.fullmatch(text) is None or "www." in text:
            yield from self._of_odd_text(text, request.language)
        cue_s = None if row.extra is None else cue_length_s(row.extra)
        if cue_s is not None and (needed_s := usual_s(text)) > cue_s:
            late = f"takes about {needed_s:.1f} s, but its cue has only {cue_s:.1f} s"
            yield Note(NoteKind.CUE, late, "cue")
        if row.instruct is not None and not (info.takes_instruct or self._is_described):
            yield Note(NoteKind.INSTRUCT, "has instruct, which this checkpoint ignores")
        is_asked = self._is_described and (info.needs_instruct or is_made(request.voice))
        if is_asked and row.instruct is None and row.character is None:
            why = "so its voice is not described to this checkpoint"
            yield Note(NoteKind.NO_INSTRUCT, f"has no instruct, {why}")

    def _of_odd_text(self, text: str, language: str) -> Iterator[Note]:
        """Of a text that has signs of something."""
        info = self._info
        if figure := self._care.left_as_written(text, language):
            left = "is not understood and left as written; add it to a --lexicon"
            yield Note(NoteKind.FIGURE, f"{figure!r} {left}", what=repr(figure))
        if self._is_latin and is_foreign(text):
            known = ", ".join(name for name in info.languages if name != "auto")
            problem = f"is in letters that this checkpoint does not support; it has {known}"
            yield Note(NoteKind.FOREIGN, f"{problem}; choose another with --model")
        for markup in markup_in(text, info.pace):
            yield Note(NoteKind.MARKUP, str(markup), markup.kind)

    def of_recording(self, row: Row, cloning: Cloning, *, is_heard: bool = False) -> Iterator[Note]:
        """What is odd about the recording that a row clones. Raises RowError: it cannot be used.

        Args:
            is_heard: it is decoded, so that one without a voice is found too.
        """
        if row.ref_audio is None:
            return
        if problem := cloning.transcript_problem(row.ref_audio, row.ref_text):
            yield Note(NoteKind.RECORDING, problem)
        for oddity in cloning.files.heard(row.ref_audio) if is_heard else ():
            yield Note(NoteKind.RECORDING, oddity)

    def of_due(
        self, row: Row, request: SpeechRequest, *, is_silent: bool, is_joined: bool
    ) -> Iterator[Note]:
        """What there is to be known once it is sure that a row is spoken, or kept as silence.

        Args:
            is_joined: its audio is put together of pieces.
        """
        config, info, rule = self._config, self._info, self._split_rule
        has_own = row.max_frames is not None or row.max_seconds is not None
        if has_own and config.retry_failed and config.max_seconds is not None:
            yield Note(NoteKind.OWN_CAP, what=f"{config.max_seconds:g}")
        longest = 0 if info.pace is None else info.pace.longest_chars or 0
        well = f"the {longest} characters or so that this checkpoint synthesizes well"
        if is_joined and 0 < longest < rule.limit:
            yield Note(NoteKind.LIMIT, what=f"{rule.limit} allows longer pieces than {well}")
        if not (is_joined or is_silent) and (reason := rule.why_whole(request)):
            spoken = f"and not split: {reason}; words may be lost"
            yield Note(NoteKind.WHOLE, f"is longer than {well}, {spoken}", reason, well)
        if self._voices.is_unheard(row, request):
            whose = shown(row.character)
            yield Note(
                NoteKind.UNHEARD,
                f"its instruct differs from the one that the voice of {whose} was generated with",
            )


@dataclass
class _Count:
    """Rows with notes of one kind."""

    first: str  # its id
    note: Note
    rows: int = 0


class Told:
    """Adds up the notes on the rows of a manifest."""

    def __init__(self) -> None:
        self._named: dict[NoteKind, NamedRows] = {}
        self._counts: dict[tuple[NoteKind, str], _Count] = {}

    def add(self, row: Row, note: Note) -> None:
        """One more."""
        if more := _NAMED.get(note.about):
            self._named.setdefault(note.about, NamedRows(more)).add(row, note.text, note.kind)
            return
        key = (note.about, note.kind)
        self._counts.setdefault(key, _Count(row.id, note)).rows += 1

    def lines(self, manifest: str, names: str | None) -> list[str]:
        """What is said of them.

        Args:
            names: what is said of those in front of texts.
        """
        found = (self._named[about] for about in _NAMED if about in self._named)
        lines = [line for rows in found for line in rows.lines(manifest)]
        said = [] if names is None else [names]
        for about in _COUNTED:
            said += [_sentence(one) for one in self._counts.values() if one.note.about is about]
        return lines + [f"{manifest}: {one}" for one in said]


def _sentence(one: _Count) -> str:
    num, note = one.rows, one.note
    are, give = counted(num, "row is", "rows are"), counted(num, "row gives", "rows give")
    words = {"rows": counted(num, "row"), "are": are, "give": give, "first": one.first}
    return _COUNTED[note.about].format(**words, what=note.what, kind=note.kind)


MAX_SHOWN = 20  # problems told of one kind
MAX_ROWS_NAMED = 8  # rows that a problem names


@dataclass
class _Problem:
    """What some rows have in common."""

    file: str  # of the first one, as the next two; "" where a run has but one manifest
    said: str  # behind the manifest's name: line, id, what is wrong
    count: int = 1
    others: list[str] = field(default_factory=list)  # as a message names them


class NamedRows:
    """Rows of one manifest with one kind of problem.

    Args:
        more: what the others are called, such as `rows that do not fit`.
    """

    def __init__(self, more: str) -> None:
        self.count = 0
        self._more = more
        self._found: dict[str, _Problem] = {}  # the first ones, by what makes them equal

    def add(self, row: Row | BadRow, problem: str, kind: str = "") -> None:
        """Take in a row.

        Args:
            kind: what rows are told together by; empty: the problem as it is said.
        """
        self.count += 1
        key = kind or problem
        found = self._found.get(key)
        if found is None:
            if len(self._found) < MAX_SHOWN:
                named = "" if row.id is None else f"id '{row.id}': "
                said = f"{row.line}: {named}{problem}"
                self._found[key] = _Problem(row.file, said)
            return
        found.count += 1
        if len(found.others) < MAX_ROWS_NAMED - 1:
            found.others.append(f"line {row.line}" if row.id is None else f"'{row.id}'")

    def lines(self, manifest: str) -> list[str]:
        """What is said of them."""
        lines = []
        for found in self._found.values():
            said = f"{found.file or manifest}:{found.said}"
            if found.others:
                rows = counted(found.count - 1, "more row")
                more = ", ..." * (found.count > len(found.others) + 1)
                said += f"; {rows} alike: {', '.join(found.others)}{more}"
            lines.append(said)
        rest = self.count - sum(found.count for found in self._found.values())
        return [*lines, f"{manifest}: {rest} more {self._more}"] if rest else lines
