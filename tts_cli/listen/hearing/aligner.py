"""When each word of a known text is said: with pocketsphinx, for English, in one process a core.

An aligner is told the words and finds the way through the sound on which they fit best. It finds
one for a wrong text too, or none at all; the score tells the two apart: how near its sounds come to
those that fit best at each moment, 1 being those.

Words that its dictionary lacks are sounded out by their letters, roughly, so that their neighbours
are still found; what cannot be sounded out lies between its neighbours.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from tts_cli.listen.hearing import recogniser as sound
from tts_cli.listen.hearing.processes import Processes
from tts_cli.listen.hearing.recogniser import Identity
from tts_cli.listen.hearing.sphinx import EDGE_S, identity_of, new_decoder, search

FRAME_S = 0.01
# Wider than the stock ones: the way through a wrong or a slurred word is not lost so soon.
BEAM, WORD_BEAM = 1e-100, 1e-80
_decoder: Any = None  # of this process


class Known(str, Enum):
    """How it is known what a word sounds like."""

    DICTIONARY = "dictionary"
    LETTERS = "letters"  # sounded out
    NEIGHBOURS = "neighbours"  # it is not: what its neighbours leave


class Passage(NamedTuple):
    """A passage of a take, and the words that are said in it."""

    start_s: float
    end_s: float | None  # None: the end of the file
    words: tuple[tuple[str, ...], ...]  # each as it is spoken, in small letters


class ToAlign(NamedTuple):
    """A take and its words."""

    place: int  # in the list of what is to be aligned
    path: Path
    passages: tuple[Passage, ...]


class SaidWord(NamedTuple):
    """When a word is said, in seconds of the file."""

    start_s: float
    end_s: float
    score: float | None  # [0 to 1]; None: it was not looked for
    known: Known


class Aligned(NamedTuple):
    """The words of a take, all of them, or why there are none."""

    place: int
    words: tuple[SaidWord, ...] = ()
    score: float = 0.0  # of all words together
    sha256: str = ""  # of the file
    audio_s: float = 0.0
    problem: str | None = None


class SphinxAligner:
    """Args:
        processes: at once; None: one a core.
    Raises:
        SetupError: the package is not there.
    """

    def __init__(self, processes: int | None = None) -> None:
        self.identity: Identity = identity_of("--with")
        self._processes = Processes(align_one, processes)

    def align(self, asked: Iterable[ToAlign]) -> Iterator[Aligned]:
        """Every take, as it is done. Raises StoppedEarly."""
        return self._processes.answers(asked)

    def close(self) -> None:
        """Give back processes and memory."""
        self._processes.close()


def align_one(asked: ToAlign) -> Aligned:
    """Align a take in this process."""
    try:
        found = sound.load(asked.path)
    except (OSError, ValueError) as error:
        return Aligned(asked.place, problem=str(error))
    rate_hz = sound.RATE_HZ
    audio_s = len(found.samples) / rate_hz
    words: list[SaidWord] = []
    for passage in asked.passages:
        end_s = audio_s if passage.end_s is None else min(passage.end_s, audio_s)
        samples = found.samples[round(passage.start_s * rate_hz) : round(end_s * rate_hz)]
        said = _aligned(samples, passage) if len(samples) else None
        if said is None:
            problem = "its words are not found in its audio"
            return Aligned(asked.place, sha256=found.sha256, audio_s=audio_s, problem=problem)
        words += said
    return Aligned(asked.place, tuple(words), _mean(words), found.sha256, audio_s)


def _aligned(samples: sound.Array, passage: Passage) -> list[SaidWord] | None:
    """The words of one passage; None where there is no way through its sound."""
    decoder = _decoder_of_process()
    spellings = [[_entry(decoder, part) for part in word] for word in passage.words]
    entries = [(number, entry) for number, word in enumerate(spellings) for entry in word]
    asked = [(number, entry[0]) for number, entry in entries if entry is not None]
    if not asked:
        return None
    decoder.set_align_text(" ".join(entry for _, entry in asked))
    if not search(decoder, samples):
        return None
    heard = [one for one in decoder.seg() or () if not one.word.startswith(("<", "[", "+"))]
    if [_plain(one.word) for one in heard] != [entry for _, entry in asked]:
        return None
    most_s = len(samples) / sound.RATE_HZ
    times: dict[int, list[tuple[float, float, float]]] = {}
    for (number, _), one in zip(asked, heard, strict=True):
        start_s, end_s = (
            min(max(frame * FRAME_S - EDGE_S, 0.0), most_s) + passage.start_s
            for frame in (one.start_frame, one.end_frame + 1)
        )
        likelihood = math.log(max(one.ascore, 1e-300))
        times.setdefault(number, []).append((start_s, end_s, likelihood))
    return list(_all(spellings, times, passage.start_s, passage.start_s + most_s))


def _all(
    spellings: list[list[tuple[str, Known] | None]],
    times: dict[int, list[tuple[float, float, float]]],
    start_s: float,
    end_s: float,
) -> Iterator[SaidWord]:
    """Every word: those that were not looked for share what their neighbours leave."""
    numbers = sorted(times)
    for number, spelling in enumerate(spellings):
        if number in times:
            parts = times[number]
            frames = sum(end - start for start, end, _ in parts) / FRAME_S
            score = math.exp(sum(one for *_, one in parts) / max(frames, 1.0))
            guessed = any(entry is None or entry[1] is Known.LETTERS for entry in spelling)
            known = Known.LETTERS if guessed else Known.DICTIONARY
            yield SaidWord(parts[0][0], parts[-1][1], min(score, 1.0), known)
            continue
        before = max((one for one in numbers if one < number), default=None)
        behind = min((one for one in numbers if one > number), default=None)
        left_s = start_s if before is None else times[before][-1][1]
        right_s = end_s if behind is None else times[behind][0][0]
        first = 0 if before is None else before + 1
        share = (right_s - left_s) / ((len(spellings) if behind is None else behind) - first)
        place_s = left_s + (number - first) * share
        yield SaidWord(place_s, place_s + share, None, Known.NEIGHBOURS)


def _mean(words: Iterable[SaidWord]) -> float:
    """The score of all words together, the longer of more weight."""
    found = [(one.end_s - one.start_s, one.score) for one in words if one.score is not None]
    total_s = sum(length_s for length_s, _ in found)
    sums = sum(length_s * math.log(max(score, 1e-12)) for length_s, score in found)
    return math.exp(sums / total_s) if total_s > 0 else 0.0


def _plain(word: str) -> str:
    """A word without the number of its pronunciation."""
    return re.sub(r"\(\d+\)$", "", word)


def _entry(decoder: Any, word: str) -> tuple[str, Known] | None:
    """What the dictionary calls a word; what it lacks is put in, by its letters."""
    if decoder.lookup_word(word) is not None:
        known = word not in _sounded
        return word, Known.DICTIONARY if known else Known.LETTERS
    stem, sound_of_end = word.removesuffix("'s"), "Z"
    phones = decoder.lookup_word(stem) if stem != word else None
    known = phones is not None
    phones = f"{phones} {sound_of_end}" if phones is not None else sounded_out(word)
    if not phones:
        return None
    decoder.add_word(word, phones)
    if not known:
        _sounded.add(word)
    return word, Known.DICTIONARY if known else Known.LETTERS


_sounded: set[str] = set()  # words that this process has put into its dictionary by their letters
# What letters sound like, roughly; an end is `$`.
_SOUNDS = {
    letters: phones
    for letters, _, phones in (
        entry.strip().partition("=")
        for entry in """
        tion=SH AH N | sion=ZH AH N | ough=AO | augh=AO | eigh=EY | igh=AY | tch=CH | sch=SH |
        dge=JH | ch=CH | sh=SH | th=TH | ph=F | wh=W | ck=K | ng=NG | qu=K W | gh=G | kn=N | wr=R |
        ee=IY | ea=IY | oo=UW | ou=AW | ow=OW | oa=OW | oi=OY | oy=OY | ai=EY | ay=EY | au=AO |
        aw=AO | ei=AY | ie=IY | eu=Y UW | ew=UW | ue=UW | ar=AA R | er=ER | ir=ER | or=AO R |
        ur=ER | e$= | es$=Z | y$=IY | a$=AH | o$=OW | i$=IY | ce=S | ci=S IH | cy=S IY |
        ge=JH | gi=JH IH | a=AE | b=B | c=K | d=D | e=EH | f=F | g=G | h=HH | i=IH | j=JH | k=K |
        l=L | m=M | n=N | o=AA | p=P | q=K | r=R | s=S | t=T | u=AH | v=V | w=W | x=K S | y=IH | z=Z
        """.replace("\n", " ").split("|")
    )
}
_LETTERS = re.compile(
    "|".join(re.escape(one) for one in sorted(_SOUNDS, key=lambda one: (-len(one), one)))
)


def sounded_out(word: str) -> str:
    """Phones of a word by its letters, roughly; empty for what is not of Latin letters."""
    letters = re.sub(r"(.)\1", r"\1", word.replace("'", "")) if len(word) > 3 else word
    if not re.fullmatch("[a-z]+", letters):
        return ""
    phones = (_SOUNDS[found] for found in _LETTERS.findall(f"{letters}$"))
    return " ".join(phone for phone in phones if phone)


def _decoder_of_process() -> Any:
    global _decoder
    if _decoder is None:
        _decoder = new_decoder(has_words=False, beam=BEAM, pbeam=BEAM, wbeam=WORD_BEAM)
    return _decoder
