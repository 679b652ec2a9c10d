"""The times of a row's words: `<id>.words.json`, and the same for players (WebVTT) and phoneticians
(Praat's TextGrid).

A file is about the audio with its SHA-256. It may be untrusted: an invalid one is ignored.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tts_cli.atomic import read_own
from tts_cli.audio.subtitles import MAX_CUE_CHARS, clock
from tts_cli.errors import TtsCliError
from tts_cli.named import shown
from tts_cli.store.files import TEXTGRID_SUFFIX, WORDS_SUFFIX, WORDS_VTT_SUFFIX
from tts_cli.text.pauses import pause_spans, without_pauses
from tts_cli.text.split import sentences

SCHEMA = 1
MAX_BYTES = 1 << 26


class TimedWord(msgspec.Struct, frozen=True):
    # the word as written, without punctuation; several words if their sounds could not be separated
    word: str
    start_s: float  # start of the word in the file
    end_s: float  # end of the word in the file
    # [0 to 1] match between the word and its sounds; null: it was not searched for
    score: float | None
    text_start: int  # [characters] position of its first character in `text`, from 0
    text_end: int  # [characters] position after its last character
    # [`dictionary`, `letters`, `model`, `neighbours`] how the word was found: by a dictionary, by
    # sounds guessed from its letters, by a model, or only from the words around it
    known: str


class WordTimes(msgspec.Struct, frozen=True):
    """A file `<id>.words.json`."""

    id: str  # id of the row; for a chapter of a book, the name of its file without the suffix
    take: int  # [1, 2, ...] number of the take, as in `timings.jsonl`
    sha256: str  # SHA-256 of the audio file that the times belong to
    aligner: str  # aligner that found the words
    text: str  # text as in the manifest
    audio_s: float  # length of the audio file
    score: float  # [0 to 1] score of all words together
    words: list[TimedWord]  # [list of objects] the words in order, see below
    # [list of text] reasons why the times may be wrong: findings of `check`, or a low score
    unsure: list[str] = []
    schema: int = SCHEMA  # [1] version of the file's format

    @classmethod
    def decode(cls, raw: bytes) -> WordTimes | None:
        """Return the content of a file; None: it is invalid."""
        try:
            found = msgspec.json.decode(raw, type=cls)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None
        edges = [edge for word in found.words for edge in (word.start_s, word.end_s)]
        places = [place for word in found.words for place in (word.text_start, word.text_end)]
        is_sound = edges == sorted(edges) and places == sorted(places)
        bounds = (*edges[:1], *places[:1], 0)
        if not is_sound or min(bounds) < 0 or max(places, default=0) > len(found.text):
            return None
        return found

    def moved(self, by_s: float, audio_s: float, sha256: str, scale: float = 1.0) -> WordTimes:
        """Return the times in another file of the same speech, longer by a factor and shifted."""
        words = [
            replace(
                word,
                start_s=round(min(max(word.start_s * scale + by_s, 0.0), audio_s), 3),
                end_s=round(min(max(word.end_s * scale + by_s, 0.0), audio_s), 3),
            )
            for word in self.words
        ]
        return replace(self, words=words, audio_s=round(audio_s, 6), sha256=sha256)

    def encode(self) -> bytes:
        """Return the file, readable for people."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"


def read_words(out: Path, row_id: str) -> WordTimes | None:
    """Return the file of a row; None: it is missing or invalid."""
    path = out / f"{row_id}{WORDS_SUFFIX}"
    try:
        data = read_own(path, MAX_BYTES)
        return None if data is None else WordTimes.decode(data)
    except (OSError, TtsCliError):
        return None


def joined_words(
    name: str, sha256: str, audio_s: float, files: Sequence[tuple[str, float, WordTimes | None]]
) -> WordTimes | None:
    """Return the words of a file that others were joined into; None if no time is known.

    Args:
        files: text, start in the whole, and words of each.
    """
    text, place_s = "", 0.0
    words: list[TimedWord] = []
    unsure: list[str] = []
    for said, start_s, times in files:
        text += " " * bool(text)
        if times is None:
            unsure.append(f"the times of {shown(said)} are unknown")
        else:
            unsure += [f"{times.id}: {reason}" for reason in times.unsure]
            for word in times.moved(start_s, audio_s, sha256).words:
                moved_s = max(place_s, word.start_s)
                place_s = max(moved_s, word.end_s)
                at = len(text) + word.text_start, len(text) + word.text_end
                words.append(TimedWord(word.word, moved_s, place_s, word.score, *at, word.known))
        text += said
    known = [times for _, _, times in files if times is not None and times.words]
    if not known:
        return None
    score = sum(times.score * len(times.words) for times in known) / len(words)
    aligner = ", ".join(dict.fromkeys(times.aligner for times in known))
    facts = (aligner, text, round(audio_s, 6), round(score, 4), words, unsure)
    return WordTimes(name, 1, sha256, *facts)


def words_vtt(found: WordTimes) -> str:
    """Return a WebVTT file: one cue per line, with a timestamp before each word."""
    head = "WEBVTT\n\n"
    if found.unsure:
        told = html.escape("; ".join(found.unsure), quote=False).replace("\n", " ")
        head += f"NOTE unsure: {told}\n\n"
    return head + "".join(
        f"{number}\n{_cue(found.text, line, behind)}\n\n"
        for number, (line, behind) in enumerate(_lines(found), 1)
    )


def _lines(found: WordTimes) -> Iterator[tuple[list[TimedWord], int]]:
    """Yield the words of each cue, and the position of the text of the next one."""
    text = found.text
    for start, end in pause_spans(text):
        text = text[:start] + " " * (end - start) + text[end:]
    starts = [part.start for part in sentences(text)]
    line: list[TimedWord] = []
    for word in found.words:
        if line:
            begin, before = line[0].text_start, line[-1].text_start
            is_new = any(before < start <= word.text_start for start in starts)
            if is_new or word.text_end - begin > MAX_CUE_CHARS:
                yield line, word.text_start
                line = []
        line.append(word)
    if line:
        yield line, len(found.text)


def _cue(text: str, line: Sequence[TimedWord], behind: int) -> str:
    """Return times and text of a cue. The format requires timestamps inside to increase."""
    start_ms = round(line[0].start_s * 1000)
    end_ms = max(start_ms + 1, round(line[-1].end_s * 1000))
    pieces, last_ms = [], start_ms
    ends = [*(word.text_start for word in line[1:]), behind]
    begin = 0 if line[0].text_start == _first(text) else line[0].text_start
    for word, end in zip(line, ends, strict=True):
        moment_ms = round(word.start_s * 1000)
        if last_ms < moment_ms < end_ms:
            pieces.append(f"<{clock(moment_ms)}>")
            last_ms = moment_ms
        pieces.append(_shown(text[begin:end]))
        begin = end
    return f"{clock(start_ms)} --> {clock(end_ms)}\n{''.join(pieces).strip()}"


def _first(text: str) -> int:
    found = re.search(r"\w", text)
    return found.start() if found else 0


def _shown(piece: str) -> str:
    """Return a piece of a text in one line, with the space at its end."""
    space = " " * (piece != piece.rstrip())
    return html.escape(" ".join(without_pauses(piece).split()), quote=False) + space


def textgrid(found: WordTimes) -> str:
    """Return a file of Praat in the long form: one tier whose intervals cover the audio."""
    end_s = max([found.audio_s, *(word.end_s for word in found.words)])
    intervals: list[tuple[float, float, str]] = []
    place_s = 0.0
    for word in found.words:
        start_s = max(word.start_s, place_s)
        if word.end_s <= start_s:
            continue
        if start_s > place_s:
            intervals.append((place_s, start_s, ""))
        intervals.append((start_s, word.end_s, word.word))
        place_s = word.end_s
    if place_s < end_s or not intervals:
        intervals.append((place_s, end_s, ""))
    lines = [
        'File type = "ooTextFile"',
        'Object class = "TextGrid"',
        "",
        *("xmin = 0", f"xmax = {end_s:.6f}", "tiers? <exists>", "size = 1", "item []:"),
        *("    item [1]:", '        class = "IntervalTier"', '        name = "words"'),
        *("        xmin = 0", f"        xmax = {end_s:.6f}"),
        f"        intervals: size = {len(intervals)}",
    ]
    for number, (start_s, stop_s, text) in enumerate(intervals, 1):
        quoted = " ".join(text.split()).replace('"', '""')
        lines += [
            f"        intervals [{number}]:",
            f"            xmin = {start_s:.6f}",
            f"            xmax = {stop_s:.6f}",
            f'            text = "{quoted}"',
        ]
    return "\n".join(lines) + "\n"


# All files of the same, by their suffixes; the one that is read is written last.
FORMS: dict[str, Callable[[WordTimes], str]] = {
    WORDS_VTT_SUFFIX: words_vtt,
    TEXTGRID_SUFFIX: textgrid,
    WORDS_SUFFIX: lambda found: found.encode().decode(),
}
