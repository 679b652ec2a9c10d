"""Transcribe and align with pocketsphinx and its stock English models, in one process per core.

The decoder is reset before each take, so that its result depends on nothing but the audio.

The models are CMU's en-us: made for dictation close to the microphone, 130,000 words. On the sample
voice 10 to 12 % of the words are wrong, and a second of audio takes 0.3 s of one core.

The score of an aligned word is the likelihood of its sounds divided by that of the best sounds at
each moment. Words that the dictionary lacks are pronounced roughly by their letters, so that their
neighbours are still found; a word that cannot be pronounced gets the time between its neighbours.
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
    AlignedWord,
    AlignRequest,
    AlignResult,
    Known,
    Passage,
    all_words,
    mean_score,
    samples_of,
)
from tts_cli.checks.asr.processes import Processes
from tts_cli.checks.asr.recognizer import POCKETSPHINX, AsrRequest, AsrResult, Identity
from tts_cli.extras import require

PEAK = 0.7
EDGE_S = 0.3  # of silence that is added to both ends, for the estimate of noise
NOISE = 2e-4  # added, because the decoder fails on digital silence
# Fewer states at a time than the stock 30,000: a quarter less time, the same words wrong.
MAX_STATES = 10_000
# Wider than the stock ones, so that a wrong or slurred word does not end the search.
BEAM, WORD_BEAM = 1e-100, 1e-80
# Of 240 sentences of the sample voice 1 % had less than 0.18; with the text of another row 95 % had
# less than 0.05.
MIN_SCORE = 0.12


class Sphinx(Processes[AsrRequest, AsrResult]):
    """A `Recognizer`. Raises SetupError: the package is not installed."""

    def __init__(self, processes: int | None = None) -> None:
        super().__init__(transcribe_one, identity_of("--asr"), processes)


class SphinxAligner(Processes[AlignRequest, AlignResult]):
    """An `Aligner`; see `Sphinx`. `flag`: named in errors."""

    def __init__(self, processes: int | None = None, flag: str = "--with") -> None:
        identity = replace(identity_of(flag), least_score=MIN_SCORE)
        super().__init__(align_one, identity, processes)


def identity_of(flag: str) -> Identity:
    """Return the installed version. Raises SetupError, whose message names `flag`."""
    require("asr", POCKETSPHINX, flag)  # its processes use it
    return Identity(f"{POCKETSPHINX} {version('pocketsphinx')} en-us", languages=("en",))


def transcribe_one(request: AsrRequest) -> AsrResult:
    try:
        found = sound.load(request.path)
    except (OSError, ValueError) as error:
        return AsrResult(request.place, problem=str(error))
    words = [
        heard for part in sound.windows(found.samples, request.gaps_s) if (heard := _words(part))
    ]
    return AsrResult(request.place, " ".join(words), found.sha256)


def _words(samples: sound.Array) -> str:
    decoder = _recognizer()
    if not search(decoder, samples):
        return ""
    found = decoder.hyp()
    return "" if found is None else str(found.hypstr)


def search(decoder: Any, samples: sound.Array) -> bool:
    """Run a decoder over (n,) float32 samples at 16 kHz. Return False for silence."""
    peak = float(np.abs(samples).max(initial=0.0))
    if peak == 0.0:
        return False
    padded = np.pad(samples * (PEAK / peak), round(EDGE_S * sound.RATE_HZ))
    padded = padded + np.random.default_rng(0).normal(0, NOISE, len(padded))
    data = (np.clip(padded, -1, 1) * 32767).astype("<i2").tobytes()
    decoder.reinit_feat()  # forget the previous take
    decoder.start_utt()
    decoder.process_raw(data, no_search=False, full_utt=True)
    decoder.end_utt()
    return True


def new_decoder(has_words: bool, **settings: Any) -> Any:
    """Return a decoder of the stock models, with or without their language model."""
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
def _recognizer() -> Any:
    return new_decoder(has_words=True, maxhmmpf=MAX_STATES)


@cache
def _aligner() -> Any:
    return new_decoder(has_words=False, beam=BEAM, pbeam=BEAM, wbeam=WORD_BEAM)


def align_one(request: AlignRequest) -> AlignResult:
    try:
        found = sound.load(request.path)
    except (OSError, ValueError) as error:
        return AlignResult(request.place, problem=str(error))
    words: list[AlignedWord] = []
    for passage in request.passages:
        samples = samples_of(passage, found.samples)
        said = _aligned(samples, passage) if len(samples) else None
        if said is None:
            return AlignResult(request.place, problem=NOT_FOUND)
        words += said
    audio_s = len(found.samples) / sound.RATE_HZ
    return AlignResult(request.place, tuple(words), mean_score(words), found.sha256, audio_s)


def _aligned(samples: sound.Array, passage: Passage) -> list[AlignedWord] | None:
    """Return the words of a passage; None if there is no path through its audio."""
    decoder = _aligner()
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
) -> AlignedWord:
    """Return a word, given the start, end and log likelihood of each of its parts."""
    frames = sum(end_s - start_s for start_s, end_s, _ in parts) / FRAME_S
    score = math.exp(sum(one for *_, one in parts) / max(frames, 1.0))
    is_guess = any(entry is None or entry[1] is Known.LETTERS for entry in spelling)
    known = Known.LETTERS if is_guess else Known.DICTIONARY
    return AlignedWord(parts[0][0], parts[-1][1], min(score, 1.0), known)


def _bits(word: tuple[str, ...]) -> list[str]:
    """Return the dictionary forms of a word: lower case, without punctuation, split at hyphens."""
    letters = " ".join(word).casefold()
    plain = "".join(char if char.isalnum() or char == "'" else " " for char in letters)
    return [bit.strip("'") for bit in plain.split() if bit.strip("'")]


def _plain(word: str) -> str:
    """Return a word without the number of its pronunciation."""
    return re.sub(r"\(\d+\)$", "", word)


def _entry(decoder: Any, word: str) -> tuple[str, Known] | None:
    """Return the dictionary entry of a word. A new word is added by its letters."""
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


_sounded: set[str] = set()  # words that this process added to its dictionary by their letters
# Sounds of letters, roughly; `$` is the end of a word.
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
    """Return phones of a word by its letters, roughly; empty if it has non-Latin letters."""
    letters = re.sub(r"(.)\1", r"\1", word.replace("'", "")) if len(word) > 3 else word
    if not re.fullmatch("[a-z]+", letters):
        return ""
    phones = (_SOUNDS[found] for found in _LETTERS.findall(f"{letters}$"))
    return " ".join(phone for phone in phones if phone)
