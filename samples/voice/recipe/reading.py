"""Texts to phonemes by hibari's rules, and which byte of the text each phoneme speaks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

UNKNOWN = -1


class Phrase(NamedTuple):
    """One sentence of a text."""

    ids: list[int]  # phonemes, without the pads around them
    places: list[int]  # per phoneme: the byte of the text, -1 for unknown


def read_sentence(g2p: Any, vocabulary: dict[str, int], sentence: str, start: int) -> Phrase:
    """Phonemes of a sentence that stands at byte `start`; those of a token share its letters.

    A word in capitals is read like one in small letters: the rules would spell it.
    """
    lowered = " ".join(
        word.capitalize() if len(word) > 2 and word.isupper() else word
        for word in sentence.split(" ")
    )
    tokens = g2p.phonemize_tokens(g2p.tokenize(lowered))
    is_known = (
        "".join(token.text + token.whitespace for token in tokens).rstrip() == lowered.rstrip()
    )
    ids, places, place = [], [], start
    for token in tokens:
        phonemes = token.phonemes or ""
        known = [phoneme for phoneme in phonemes if phoneme in vocabulary]
        for index, phoneme in enumerate(known):
            ids.append(vocabulary[phoneme])
            places.append(place + int((index + 0.5) / len(known) * len(token.text)))
        place += len(token.text)
        if token.whitespace and " " in vocabulary:
            ids.append(vocabulary[" "])
            places.append(place)
        place += len(token.whitespace)
    while ids and ids[-1] == vocabulary[" "]:
        ids.pop()
        places.pop()
    return Phrase(ids, places if is_known else [UNKNOWN] * len(ids))


def read_text(voice: Any, text: str) -> list[Phrase]:
    """The sentences of an ASCII text; `voice` is a `hibari.Hibari`."""
    phrases, behind = [], 0
    for sentence in voice.split_sentences(text):
        start = text.find(sentence, behind)
        behind = start + len(sentence)
        phrase = read_sentence(voice.g2p, voice.vocab, sentence, start)
        if phrase.ids:
            phrases.append(phrase)
    return phrases


def frame_places(
    ends: NDArray[np.float64], places: list[int], first: float, num_frames: int, frame: float
) -> NDArray[np.int16]:
    """(F,) the byte spoken in the middle of each frame.

    Args:
        ends: where each phoneme ends, in samples.
        places: of each phoneme.
        first: sample where frame 0 begins.
        frame: samples of one.
    """
    middles = first + (np.arange(num_frames) + 0.5) * frame
    index = np.minimum(np.searchsorted(ends, middles, side="right"), len(ends) - 1)
    return np.array(places, np.int16)[index]
