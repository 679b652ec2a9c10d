"""Measure the similarity of a take to its voice, by the speaker encoder of a checkpoint.

Each segment of speech becomes a unit vector; those of one voice point in the same direction. A long
row is measured part by part, because one part that drifts does not change the whole much. The
middle of a voice is the mean of its current takes, without those that are least similar to it.

Source: the encoder is the checkpoint's own, such as an ECAPA-TDNN; see the README of each family.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tts_cli.checks.asr import recognizer as sound
from tts_cli.checks.verdicts import DECIMALS, VoiceSimilarity
from tts_cli.store.entry import JournalEntry

if TYPE_CHECKING:
    from models.slots.model import SpeechModel

Array = np.ndarray[Any, Any]

MIN_S = 1.0  # of a stretch; a shorter row is one stretch
MIN_ROW_S = 0.5  # shorter rows are not measured
BATCH = 16
TRIMMED = 0.1  # share of the stretches of a voice that its middle leaves out


class SpeechSegments(NamedTuple):
    """The segments of a take as vectors."""

    voice: Hashable
    units: Array  # (K, D) float16 of length 1


def speech_segments(path: Path, speech: JournalEntry, rate_hz: int) -> list[Array]:
    """Return the segments of a file, each (n,) float32 at `rate_hz`: its parts, or windows; none
    if it is too short. Raises OSError, ValueError.
    """
    samples = sound.load(path, rate_hz).samples
    if len(samples) < MIN_ROW_S * rate_hz:
        return []
    least = round(MIN_S * rate_hz)
    spans = [
        (round(part["start_s"] * rate_hz), round(part["end_s"] * rate_hz)) for part in speech.parts
    ]
    found = [samples[start:end] for start, end in spans] or [samples]
    most = round(sound.WINDOW_S * rate_hz)
    cut = [part[start : start + most] for part in found for start in range(0, len(part), most)]
    return [part for part in cut if len(part) >= least] or [samples[:most]]


def directions(model: SpeechModel, waves: Sequence[Array]) -> Array:
    """Return (K, D) float16 unit vectors of segments (n,) float32 at the rate of the model."""
    import torch

    rows = []
    for start in range(0, len(waves), BATCH):
        batch = [torch.from_numpy(np.ascontiguousarray(w)) for w in waves[start : start + BATCH]]
        rows += [found for found, _ in model.encode_voices(batch, ["xvec"] * len(batch))]
    found = torch.stack(rows).float().cpu().numpy()
    return np.asarray(_unit(found), dtype=np.float16)


def middles(takes: Iterable[SpeechSegments]) -> dict[Hashable, Array]:
    """Return the mean direction of every voice: (D,) float32 of length 1."""
    by_voice: dict[Hashable, list[Array]] = defaultdict(list)
    for take in takes:
        by_voice[take.voice].append(take.units)
    found = {}
    for voice, units in by_voice.items():
        rows = np.concatenate(units).astype(np.float32)
        middle = _unit(rows.mean(axis=0))
        like = rows @ middle
        kept = rows[like >= np.quantile(like, TRIMMED)]
        found[voice] = _unit(kept.mean(axis=0))
    return found


def similarities(take: SpeechSegments, middle: Array, encoder: str) -> VoiceSimilarity:
    """Return the similarity of a take, and of its worst segment, to the middle of its voice."""
    rows = take.units.astype(np.float32)
    whole = float(_unit(rows.mean(axis=0)) @ middle)
    least = float((rows @ middle).min()) if len(rows) > 1 else None
    rounded = [None if one is None else round(one, DECIMALS) for one in (whole, least)]
    return VoiceSimilarity(encoder, rounded[0] or 0.0, rounded[1])


def _unit(rows: Array) -> Array:
    length = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.maximum(length, 1e-9))
