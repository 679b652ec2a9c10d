"""Recognise and align with pocketsphinx and its stock English models, in one process a core.

Each take is heard with the recognizer as it starts, so that its answer depends on nothing but its
audio: neither on what came before nor on how many processes there are.

Its models are CMU's en-us: near dictation, 130,000 words. On the sample voice it gets 10 to 12 % of
words wrong and takes 0.3 s of one core for a second of audio.

The score of what it aligns is how near its sounds come to those that fit best at each moment, 1
being those. Words that its dictionary lacks are sounded out by their letters, roughly, so that
their neighbours are still found; what cannot be sounded out lies between its neighbours.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tts_cli.checks.asr import recognizer as sound
from tts_cli.checks.asr.aligner import (
    FRAME_S,
    NOT_FOUND,
    Aligned,
    Known,
    Passage,
    SaidWord,
    ToAlign,
    all_words,
    mean_score,
    samples_of,
)
from tts_cli.checks.asr.processes import Processes
from tts_cli.checks.asr.recognizer import POCKETSPHINX, AsrRequest, AsrResult, Identity
from tts_cli.extras import require

PEAK = 0.7
EDGE_S = 0.3  # of silence at both ends, which its estimate of noise needs
NOISE = 2e-4  # digital silence upsets it
# Fewer states at once than the stock 30,000: a quarter less time, the same words wrong.
MOST_STATES = 10_000
# Wider than the stock ones: the way through a wrong or a slurred word is not lost so soon.
BEAM, WORD_BEAM = 1e-100, 1e-80
# Of 240 sentences of the sample voice 1 % had less than 0.18, and 95 % of those that were given
# another row's text less than 0.05.
LEAST_SCORE = 0.12


class Sphinx(Processes[AsrRequest, AsrResult]):
    """Args:
        processes: at once; None: one a core.
    Raises:
        SetupError: the package is not there.
    """

    def __init__(self, processes: int | None = None) -> None:
        super().__init__(transcribe_one, identity_of("--asr"), processes)


class SphinxAligner(Processes[ToAlign, Aligned]):
    """Likewise.

    Args:
        flag: that asks for it.
    """

    def __init__(self, processes: int | None = None, flag: str = "--with") -> None:
        identity = replace(identity_of(flag), least_score=LEAST_SCORE)
        super().__init__(align_one, identity, processes)


def identity_of(flag: str) -> Identity:
    """Which version is there. Raises SetupError if none is.

    Args:
        flag: that asks for it.
    """
    require("asr", POCKETSPHINX, flag)  # its processes use it
    return Identity(f"{POCKETSPHINX} {version('pocketsphinx')} en-us", languages=("en",))


def transcribe_one(asked: AsrRequest) -> AsrResult:
    """Hear a take in this process."""
    try:
        found = sound.load(asked.path)
    except (OSError, ValueError) as error:
        return AsrResult(asked.place, problem=str(error))
    words = [
        heard for part in sound.windows(found.samples, asked.gaps_s) if (heard := _words(part))
    ]
    return AsrResult(asked.place, " ".join(words), found.sha256)


def _words(samples: sound.Array) -> str:
    """The words of (n,) float32 samples at 16 kHz."""
    decoder = _hearer()
    if not search(decoder, samples):
        return ""
    found = decoder.hyp()
    return "" if found is None else str(found.hypstr)


def search(decoder: Any, samples: sound.Array) -> bool:
    """Have a decoder go through (n,) float32 samples at 16 kHz, `EDGE_S` of silence put on both
    ends. False where they are silent, and it did not.
    """
    peak = float(np.abs(samples).max(initial=0.0))
    if peak == 0.0:
        return False
    padded = np.pad(samples * (PEAK / peak), round(EDGE_S * sound.RATE_HZ))
    padded = padded + np.random.default_rng(0).normal(0, NOISE, len(padded))
    data = (np.clip(padded, -1, 1) * 32767).astype("<i2").tobytes()
    decoder.reinit_feat()  # forget what the take before sounded like
    decoder.start_utt()
    decoder.process_raw(data, no_search=False, full_utt=True)
    decoder.end_utt()
    return True


def new_decoder(has_words: bool, **settings: Any) -> Any:
    """A decoder of the stock models, that knows which words follow which or not."""
    import pocketsphinx

    folder = Path(pocketsphinx.get_model_path()) / "en-us"
    return pocketsphinx.Decoder(
        hmm=str(folder / "en-us"),
        lm=str(folder / "en-us.lm.bin") if has_words else None,
        dict=str(folder / "cmudict-en-us.dict"),
        samprate=sound.RATE_HZ,
        loglevel="FATAL",
        **settings,
    )


@cache
def _hearer() -> Any:
    """Of this process."""
    return new_decoder(has_words=True, maxhmmpf=MOST_STATES)


@cache
def _finder() -> Any:
    """Of this process: it is told the words."""
    return new_decoder(has_words=False, beam=BEAM, pbeam=BEAM, wbeam=WORD_BEAM)


def align_one(asked: ToAlign) -> Aligned:
    """Align a take in this process."""
    try:
        found = sound.load(asked.path)
    except (OSError, ValueError) as error:
        return Aligned(asked.place, problem=str(error))
    words: list[SaidWord] = []
    for passage in asked.passages:
        samples = samples_of(passage, found.samples)
        said = _aligned(samples, passage) if len(samples) else None
        if said is None:
            return Aligned(asked.place, problem=NOT_FOUND)
        words += said
    audio_s = len(found.samples) / sound.RATE_HZ
    return Aligned(asked.place, tuple(words), mean_score(words), found.sha256, audio_s)


def _aligned(samples: sound.Array, passage: Passage) -> list[SaidWord] | None:
    """The words of one passage; None where there is no way through its sound."""
    decoder = _finder()
    spellings = [[_entry(decoder, bit) for bit in _bits(word)] for word in passage.words]
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
    found = {number: _said(parts, spellings[number]) for number, parts in times.items()}
    return list(all_words(len(spellings), found, passage.start_s, passage.start_s + most_s))


def _said(
    parts: list[tuple[float, float, float]], spelling: list[tuple[str, Known] | None]
) -> SaidWord:
    """A word of its parts: starts, ends, logarithms of likelihoods."""
    frames = sum(end_s - start_s for start_s, end_s, _ in parts) / FRAME_S
    score = math.exp(sum(one for *_, one in parts) / max(frames, 1.0))
    is_guess = any(entry is None or entry[1] is Known.LETTERS for entry in spelling)
    known = Known.LETTERS if is_guess else Known.DICTIONARY
    return SaidWord(parts[0][0], parts[-1][1], min(score, 1.0), known)


def _bits(word: tuple[str, ...]) -> list[str]:
    """What is spoken for a word as dictionaries have it: in small letters, without marks, in its
    halves if it has a hyphen.
    """
    letters = " ".join(word).casefold()
    plain = "".join(char if char.isalnum() or char == "'" else " " for char in letters)
    return [bit.strip("'") for bit in plain.split() if bit.strip("'")]


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
