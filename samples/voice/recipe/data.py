"""Speech of the teachers in files, and its codes.

A chunk is one .npz: texts, voices and the samples (int16, 24 kHz), each utterance trimmed to whole
80 ms frames.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from features import FRAME_SAMPLES, PITCH_RANGE_HZ, Features, Quantizer
from numpy.typing import NDArray
from torch import Tensor

LEAD_SAMPLES, TAIL_SAMPLES = 1920, 3840  # kept before the first and behind the last loud sample
LOUD = 0.004
PACK = ".pack.npz"  # ends the name of a file of codes without samples
FADE_IN_SAMPLES, FADE_OUT_SAMPLES = 120, 240


class Utterance(NamedTuple):
    """One spoken text."""

    text: str
    voice: str  # the teacher's name of it, as in `config.VOICES`
    samples: NDArray[np.int16]  # whole frames at 24 kHz
    places: NDArray[np.int16]  # per frame: the byte of the text being spoken, -1 for unknown


def speech_span(wave: NDArray[np.float32]) -> tuple[int, int] | None:
    """First and last sample to keep; None where nothing is loud."""
    loud = np.nonzero(np.abs(wave) > LOUD)[0]
    if len(loud) == 0:
        return None
    return max(0, loud[0] - LEAD_SAMPLES), min(len(wave), loud[-1] + TAIL_SAMPLES)


def whole_frames(wave: NDArray[np.float32]) -> NDArray[np.int16]:
    """Fade both ends, fill up with zeros to whole frames, and round to 16 bits."""
    length = len(wave)
    framed = np.zeros(-(-length // FRAME_SAMPLES) * FRAME_SAMPLES, np.float32)
    framed[:length] = wave
    framed[:FADE_IN_SAMPLES] *= np.linspace(0, 1, FADE_IN_SAMPLES, dtype=np.float32)
    framed[length - FADE_OUT_SAMPLES : length] *= np.linspace(
        1, 0, FADE_OUT_SAMPLES, dtype=np.float32
    )
    return (framed.clip(-1, 1) * 32767).round().astype(np.int16)


def save_chunk(path: Path, utterances: list[Utterance]) -> None:
    """Write one .npz under a temporary name, then rename it."""
    part = path.with_suffix(".part.npz")
    np.savez(
        part,
        t=np.array("\n".join(item.text for item in utterances)),
        v=np.array(" ".join(item.voice for item in utterances)),
        x=np.concatenate([item.samples for item in utterances]),
        n=np.array([len(item.places) for item in utterances]),
        a=np.concatenate([item.places for item in utterances]),
    )
    part.rename(path)


def load_chunk(path: Path, is_silent: bool = False) -> list[Utterance]:
    """Utterances of one .npz, without their samples if `is_silent`."""
    with np.load(path) as chunk:
        texts, voices = str(chunk["t"]).split("\n"), str(chunk["v"]).split(" ")
        places, num_frames = chunk["a"], chunk["n"]
        samples = np.zeros(0, np.int16) if is_silent else chunk["x"]
    assert len(texts) == len(voices) == len(num_frames), (len(texts), len(voices), len(num_frames))
    ends = np.cumsum(num_frames)[:-1]
    parts, spoken = np.split(samples, ends * FRAME_SAMPLES), np.split(places, ends)
    return [Utterance(*row) for row in zip(texts, voices, parts, spoken, strict=True)]


def save_pack(path: Path, items: list[Utterance], codes: list[NDArray[np.uint8]]) -> None:
    """Write what the talker learns from, without the samples: 0.8 MB an hour."""
    np.savez_compressed(
        path,
        t=np.array("\n".join(item.text for item in items)),
        v=np.array(" ".join(item.voice for item in items)),
        n=np.array([len(item.places) for item in items]),
        a=np.concatenate([item.places for item in items]),
        c=np.concatenate(codes),
    )


def load_pack(path: Path) -> tuple[list[Utterance], list[NDArray[np.uint8]]]:
    """Utterances without samples, and their codes."""
    with np.load(path) as pack:
        texts, voices = str(pack["t"]).split("\n"), str(pack["v"]).split(" ")
        ends = np.cumsum(pack["n"])[:-1]
        places, codes = np.split(pack["a"], ends), np.split(pack["c"], ends)
    silent = np.zeros(0, np.int16)
    rows = zip(texts, voices, places, strict=True)
    return [Utterance(text, voice, silent, spoken) for text, voice, spoken in rows], codes


def finished_chunks(folder: Path) -> list[Path]:
    """Chunks that are complete, in order."""
    return sorted(path for path in folder.glob("*.npz") if ".part" not in path.name)


def pad_samples(items: list[Utterance]) -> NDArray[np.int16]:
    """(B, longest) samples, zeros behind the shorter ones."""
    padded = np.zeros((len(items), max(len(item.samples) for item in items)), np.int16)
    for row, item in enumerate(items):
        padded[row, : len(item.samples)] = item.samples
    return padded


def pitch_ranges(items: list[Utterance], device: str) -> tuple[Tensor, Tensor]:
    """(B,) lowest and (B,) highest pitch in Hz of each utterance's voice."""
    low_hz, high_hz = zip(*(PITCH_RANGE_HZ[item.voice] for item in items), strict=True)
    return torch.tensor(low_hz, device=device), torch.tensor(high_hz, device=device)


def batches_by_length(items: list[Utterance], max_frames: int) -> list[list[int]]:
    """Indices of utterances of similar length, padded at most `max_frames` together."""
    batches: list[list[int]] = []
    batch: list[int] = []
    for index in sorted(range(len(items)), key=lambda index: len(items[index].samples)):
        frames = len(items[index].samples) // FRAME_SAMPLES
        if batch and frames * (len(batch) + 1) > max_frames:
            batches.append(batch)
            batch = []
        batch.append(index)
    return [*batches, batch] if batch else batches


def features_of(
    items: list[Utterance], extractor: Features, device: str, max_frames: int
) -> list[Tensor]:
    """(F, 648) features of each utterance, in the given order, on the device."""
    found: dict[int, Tensor] = {}
    for batch in batches_by_length(items, max_frames):
        rows = [items[index] for index in batch]
        samples = torch.from_numpy(pad_samples(rows)).to(device).float() / 32768
        with torch.inference_mode():
            features = extractor(samples, *pitch_ranges(rows, device))
        for row, index in enumerate(batch):
            found[index] = features[row, : len(items[index].samples) // FRAME_SAMPLES].clone()
    return [found[index] for index in range(len(items))]


def encode(
    items: list[Utterance],
    extractor: Features,
    quantizer: Quantizer,
    device: str,
    max_frames: int = 6000,
) -> list[NDArray[np.uint8]]:
    """(F, K) codes of each utterance, in the given order; about `max_frames` frames at once."""
    features = features_of(items, extractor, device, max_frames)
    with torch.inference_mode():
        codes = quantizer.encode(torch.cat(features)).to(torch.uint8).cpu().numpy()
    return np.split(codes, np.cumsum([len(rows) for rows in features])[:-1])
