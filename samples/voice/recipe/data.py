"""Teacher speech: run the bulk driver (teacher.c) over chunks of text on all cores.

A chunk becomes one .npz: texts, voices and the samples (int16, 16 kHz), each utterance trimmed to
whole 80 ms frames.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from collections import Counter
from multiprocessing import Pool
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from features import FRAME_SAMPLES, PITCH_RANGE_HZ, SAMPLE_RATE_HZ, Features, Quantizer
from numpy.typing import NDArray
from torch import Tensor

LEAD_S, TAIL_S = 0.08, 0.16  # kept before the first and after the last phone
FRAME_S = FRAME_SAMPLES / SAMPLE_RATE_HZ
FADE_IN_SAMPLES, FADE_OUT_SAMPLES = 80, 160
SILENCE = "pau"  # the teacher's pause


class Utterance(NamedTuple):
    """One spoken text."""

    text: str
    voice: str  # the teacher's name of it: rms, slt or awb
    samples: NDArray[np.int16]  # whole frames at 16 kHz
    places: NDArray[np.int16]  # per frame: the byte of the text being spoken, -1 for unknown


class Phone(NamedTuple):
    """One phone of the teacher."""

    name: str
    end_s: float
    place: int  # first byte of the written token it belongs to, -1 for none
    chars: int  # length of that token


def parse_phone(field: str) -> Phone:
    """A field "phone:end:place:chars" of the driver."""
    name, end_s, place, chars = field.rsplit(":", 3)
    return Phone(name, float(end_s), int(place), int(chars))


def _speech_span(phones: list[Phone], num_samples: int) -> tuple[int, int] | None:
    """First and last sample to keep; None where nothing is spoken."""
    spoken = [index for index, phone in enumerate(phones) if phone.name != SILENCE]
    if not spoken:
        return None
    start_s = phones[spoken[0] - 1].end_s if spoken[0] else 0.0
    first = max(0, int((start_s - LEAD_S) * SAMPLE_RATE_HZ))
    return first, min(num_samples, int((phones[spoken[-1]].end_s + TAIL_S) * SAMPLE_RATE_HZ))


def _spoken_bytes(phones: list[Phone]) -> list[int]:
    """The byte of the text each phone stands for: the phones of a token share its bytes evenly.

    A pause stands for the byte behind the token before it, its space or mark.
    """
    counts = Counter(phone.place for phone in phones)
    given: Counter[int] = Counter()
    spoken, behind = [], 0
    for phone in phones:
        if phone.place < 0:
            spoken.append(behind if phone.name == SILENCE else -1)
            continue
        share = (given[phone.place] + 0.5) / counts[phone.place]
        given[phone.place] += 1
        spoken.append(phone.place + int(share * phone.chars))
        behind = phone.place + phone.chars
    return spoken


def frame_places(phones: list[Phone], first_sample: int, num_frames: int) -> NDArray[np.int16]:
    """(F,) byte of the text spoken in the middle of each frame.

    Args:
        first_sample: where frame 0 begins in the teacher's recording.
    """
    middles_s = first_sample / SAMPLE_RATE_HZ + (np.arange(num_frames) + 0.5) * FRAME_S
    ends_s = np.array([phone.end_s for phone in phones])
    index = np.minimum(np.searchsorted(ends_s, middles_s, side="right"), len(phones) - 1)
    return np.array(_spoken_bytes(phones), np.int16)[index]


def _whole_frames(samples: NDArray[np.int16]) -> NDArray[np.int16]:
    """Fade both ends and fill up with zeros to whole frames."""
    length = len(samples)
    framed = np.zeros(-(-length // FRAME_SAMPLES) * FRAME_SAMPLES, np.int16)
    framed[:length] = samples
    fade_in = np.linspace(0, 1, FADE_IN_SAMPLES)
    framed[:FADE_IN_SAMPLES] = (framed[:FADE_IN_SAMPLES] * fade_in).astype(np.int16)
    tail = slice(length - FADE_OUT_SAMPLES, length)
    framed[tail] = (framed[tail] * np.linspace(1, 0, FADE_OUT_SAMPLES)).astype(np.int16)
    return framed


def read_driver_output(index: Path, texts: Path, pcm: Path) -> list[Utterance]:
    """Utterances of one chunk.

    Args:
        index: the driver's lines "id voice rate offset samples phone:end:place:chars ...", or
            "id FAIL".
        texts: the driver's input, lines "id|voice|text".
        pcm: all samples, int16.
    """
    text_of = {}
    for line in texts.read_text().splitlines():
        row_id, _, text = line.split("|", 2)
        text_of[row_id] = text
    pcm_samples = np.fromfile(pcm, dtype=np.int16)
    utterances = []
    for line in index.read_text().splitlines():
        fields = line.split()
        if len(fields) < 8 or fields[1] == "FAIL" or fields[2] != str(SAMPLE_RATE_HZ):
            continue
        offset, num_samples = int(fields[3]), int(fields[4])
        phones = [parse_phone(field) for field in fields[5:]]
        span = _speech_span(phones, num_samples)
        if span is None:
            continue
        samples = _whole_frames(pcm_samples[offset + span[0] : offset + span[1]])
        places = frame_places(phones, span[0], len(samples) // FRAME_SAMPLES)
        utterances.append(Utterance(text_of[fields[0]], fields[1], samples, places))
    return utterances


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


def load_chunk(path: Path) -> list[Utterance]:
    """Utterances of one .npz."""
    with np.load(path) as chunk:
        texts, voices = str(chunk["t"]).split("\n"), str(chunk["v"]).split(" ")
        samples, places, num_frames = chunk["x"], chunk["a"], chunk["n"]
    assert len(texts) == len(voices) == len(num_frames), (len(texts), len(voices), len(num_frames))
    ends = np.cumsum(num_frames)[:-1]
    parts, spoken = np.split(samples, ends * FRAME_SAMPLES), np.split(places, ends)
    return [Utterance(*row) for row in zip(texts, voices, parts, spoken, strict=True)]


def finished_chunks(folder: Path) -> list[Path]:
    """Chunks that are complete, in order."""
    return sorted(path for path in folder.glob("*.npz") if ".part" not in path.name)


def speak_chunk(job: tuple[Path, Path, int, list[str]]) -> None:
    """Let the driver speak one chunk of lines. job: driver, folder, number of the chunk, lines."""
    driver, folder, number, lines = job
    texts, index, pcm = (folder / f"{number:04d}{suffix}" for suffix in (".txt", ".idx", ".pcm"))
    texts.write_text("\n".join(lines) + "\n")
    with texts.open() as source, index.open("w") as target:
        subprocess.run([driver, pcm], stdin=source, stdout=target, stderr=subprocess.DEVNULL)
    save_chunk(folder / f"{number:04d}.npz", read_driver_output(index, texts, pcm))
    for path in (texts, index, pcm):
        path.unlink()


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


def _encode_batch(
    items: list[Utterance], extractor: Features, quantizer: Quantizer, device: str
) -> list[NDArray[np.uint8]]:
    samples = torch.from_numpy(pad_samples(items)).to(device).float() / 32768
    with torch.inference_mode():
        codes = quantizer.encode(extractor(samples, *pitch_ranges(items, device)))
        rows = codes.to(torch.uint8).cpu().numpy()
    return [
        row[: len(item.samples) // FRAME_SAMPLES].copy()
        for row, item in zip(rows, items, strict=True)
    ]


def encode(
    items: list[Utterance],
    extractor: Features,
    quantizer: Quantizer,
    device: str,
    max_frames: int = 6000,
) -> list[NDArray[np.uint8]]:
    """(F, K) codes of each utterance, in the given order; about `max_frames` frames at once."""

    def num_frames(place: int) -> int:
        return len(items[order[min(place, len(order) - 1)]].samples) // FRAME_SAMPLES

    order = sorted(range(len(items)), key=lambda index: len(items[index].samples))
    codes: dict[int, NDArray[np.uint8]] = {}
    start = 0
    while start < len(order):
        count = max(1, max_frames // (num_frames(start) + 1))
        while count > 1 and num_frames(start + count - 1) * count > max_frames * 2:
            count //= 2
        batch = order[start : start + count]
        rows = _encode_batch([items[index] for index in batch], extractor, quantizer, device)
        codes.update(zip(batch, rows, strict=True))
        start += len(batch)
    return [codes[index] for index in range(len(items))]


def resampling_filter() -> Tensor:
    """(97,) low-pass of the 2:3 resampling, with a gain of 3.

    A Kaiser-windowed sinc that cuts at 0.97 of the lower Nyquist rate.
    """
    time = torch.arange(-48, 49, dtype=torch.float64)
    window = torch.kaiser_window(97, False, 9.0, dtype=torch.float64)
    taps = torch.sinc(time / 3 * 0.97) * 0.97 * window
    return (taps / taps.sum() * 3).float()


def resample_to_24k(samples: Tensor, taps: Tensor) -> Tensor:
    """(B, 1, n) at 16 kHz -> (B, 1, n * 3 / 2) at 24 kHz; `taps` from `resampling_filter`."""
    num_rows, _, num_samples = samples.shape
    stuffed = torch.zeros(num_rows, 1, num_samples * 3, device=samples.device)
    stuffed[..., ::3] = samples
    return torch.nn.functional.conv1d(stuffed, taps[None, None], padding=48)[..., ::2]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=Path, help='lines "id|voice|text" from texts.py')
    parser.add_argument("driver", type=Path, help="compiled teacher.c")
    parser.add_argument("out", type=Path, help="folder for the chunks")
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count(), help="drivers at once (all cores)"
    )
    parser.add_argument(
        "--chunks", type=int, default=480, help="parts the texts are cut into (480)"
    )
    parser.add_argument("--first", type=int, help="speak only this many chunks (all)")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    lines = args.texts.read_text().splitlines()
    size = -(-len(lines) // args.chunks)
    count = min(args.first or args.chunks, args.chunks)
    jobs = [
        (args.driver.resolve(), args.out, number, lines[number * size : (number + 1) * size])
        for number in range(count)
    ]
    with Pool(args.processes) as pool:
        for _ in pool.imap_unordered(speak_chunk, jobs):
            pass
    (args.out / "DONE").write_text("ok")


if __name__ == "__main__":
    main()
