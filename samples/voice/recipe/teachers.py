"""The teachers' speech: hibari's heart on all cores, Kokoro's men on a GPU.

    python3 teachers.py read TEXTS OUT [--processes 15]
    python3 teachers.py heart TEXTS OUT [--processes 15] [--seconds 600]
    python3 teachers.py men OUT KOKORO.safetensors [--seconds 90] [--share 0/2]

The first leaves the phonemes of the men's rows in the folder `men`, which the third speaks, many
at once; the second speaks the woman's rows. All may run at the same time. A text is cut into
sentences for the woman, whose model hears one at a time, and is one piece for the men.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from data import Utterance, save_chunk, speech_span, whole_frames
from features import FRAME_SAMPLES
from numpy.typing import NDArray
from reading import Phrase, frame_places, read_text

ROWS = 96  # of one chunk
STEP = 600  # samples of one step of the durations of both
HEART = "heart"
DURATIONS = "/Clip_output_0"  # inside hibari's model
SPEEDS = (1.0, 1.0, 1.0, 0.93, 1.08)
MAX_PHONEMES = 480
MEN = ("michael", "fenrir")  # Kokoro's am_michael and am_fenrir
GAIN = 0.75  # to the loudness of the woman


class Job(NamedTuple):
    """A man's text."""

    text: str
    voice: str
    ids: list[int]
    places: list[int]


class Heart:
    """hibari, telling the durations of its phonemes."""

    def __init__(self) -> None:
        import onnx
        import onnxruntime
        from hibari import Hibari
        from hibari.voices import voice_path

        self.voice = Hibari()
        model = onnx.load(voice_path(HEART))
        model.graph.output.append(onnx.helper.make_empty_tensor_value_info(DURATIONS))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    def read(self, text: str) -> list[Phrase]:
        """The sentences of a text."""
        return read_text(self.voice, text)

    def speak(self, phrase: Phrase, speed: float, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Samples at 24 kHz, and the durations of the phonemes with the pads around them."""
        from hibari import dsp

        ids = np.array([[0, *phrase.ids, 0]])
        *parts, pitch, durations = self.session.run(
            None, {"ids": ids, "speed": np.array([speed], np.float32)}
        )
        bands = [part[0] for part in parts]
        wave = dsp.synth(*bands, pitch[0], np.random.default_rng(seed))
        return wave, durations.reshape(-1)


def finish(
    text: str, voice: str, wave: NDArray[Any], ends: NDArray[Any], places: list[int]
) -> Utterance | None:
    """Trim a text's speech and find what each frame speaks; None for silence."""
    span = speech_span(wave)
    if span is None:
        return None
    samples = whole_frames(wave[span[0] : span[1]])
    num_frames = len(samples) // FRAME_SAMPLES
    return Utterance(
        text, voice, samples, frame_places(ends, places, span[0], num_frames, FRAME_SAMPLES)
    )


def speak_heart(heart: Heart, text: str, phrases: list[Phrase], seed: int) -> Utterance | None:
    """All sentences of a text, one behind the other."""
    speed = SPEEDS[seed % len(SPEEDS)]
    waves, ends, places = [], [], []
    length = 0
    for phrase in phrases:
        wave, durations = heart.speak(phrase, speed, seed)
        ends.append(length + np.cumsum(durations) * STEP)
        # The pads belong to the marks beside them.
        places += [phrase.places[0], *phrase.places, phrase.places[-1]]
        waves.append(wave)
        length += len(wave)
    return finish(text, HEART, np.concatenate(waves), np.concatenate(ends), places)


def read_job(heart: Any, voice: str, text: str) -> Job | None:
    """The phonemes of a man's text; None where there are none, or too many."""
    phrases = read_text(heart, text)
    if not phrases:
        return None
    ids, places = list(phrases[0].ids), list(phrases[0].places)
    for phrase in phrases[1:]:
        ids += [heart.vocab[" "], *phrase.ids]
        places += [phrase.places[0], *phrase.places]
    return Job(text, voice, ids, places) if len(ids) <= MAX_PHONEMES else None


def read_chunks(number: int, step: int, texts: Path, out: Path, until_s: float) -> None:
    """One process: the men's rows "id|voice|text" of every `step`-th chunk."""
    from hibari import Hibari

    heart, rows = Hibari(), [line.split("|", 2) for line in texts.read_text().splitlines()]
    rows = [row for row in rows if row[1] != HEART]
    for place in range(number * ROWS, len(rows), step * ROWS):
        if time.time() > until_s:
            break
        jobs = [read_job(heart, voice, text) for _, voice, text in rows[place : place + ROWS]]
        part = out / "men" / f"{place // ROWS:05d}.part"
        part.write_bytes(pickle.dumps([tuple(job) for job in jobs if job]))
        part.rename(part.with_suffix(".jobs"))


def speak_chunks(number: int, step: int, texts: Path, out: Path, until_s: float) -> None:
    """One process: the woman's rows of every `step`-th chunk, until the time is up."""
    heart = Heart()
    rows = [line.split("|", 2) for line in texts.read_text().splitlines()]
    rows = [row for row in rows if row[1] == HEART]
    for place in range(number * ROWS, len(rows), step * ROWS):
        path = out / f"{place // ROWS:05d}.npz"
        if path.exists():
            continue
        if time.time() > until_s:
            break
        items = []
        for seed, _, text in rows[place : place + ROWS]:
            phrases = heart.read(text)
            item = speak_heart(heart, text, phrases, int(seed)) if phrases else None
            if item is not None:
                items.append(item)
        if items:
            save_chunk(path, items)


def read_styles(folder: Path) -> dict[str, NDArray[np.float32]]:
    """(510, 256) the style of each man, by the number of phonemes: am_michael.bin, ..."""
    return {
        voice: np.fromfile(folder / f"am_{voice}.bin", np.float32).reshape(-1, 256) for voice in MEN
    }


def take_jobs(folder: Path, seen: set[str], share: tuple[int, int]) -> Iterator[Job]:
    """Jobs of files that are new; of n processes, the number i takes the share (i, n)."""
    for path in sorted(folder.glob("*.jobs")):
        if path.name not in seen and int(path.stem) % share[1] == share[0]:
            seen.add(path.name)
            for job in pickle.loads(path.read_bytes()):
                yield Job(*job)


def speak_men(
    kokoro: Any, styles: dict[str, NDArray[np.float32]], jobs: list[Job], speeds: list[float]
) -> list[Utterance]:
    """Speech of texts of similar length."""
    import torch

    rows = np.stack([styles[job.voice][min(len(job.ids), 510) - 1] for job in jobs])
    spoken = kokoro.speak([job.ids for job in jobs], torch.from_numpy(rows), torch.tensor(speeds))
    items = []
    for job, (wave, durations) in zip(jobs, spoken, strict=True):
        places = [job.places[0], *job.places, job.places[-1]]
        ends = np.cumsum(durations) * STEP
        item = finish(job.text, job.voice, wave * GAIN, ends, places)
        if item is not None:
            items.append(item)
    return items


def run_men(
    out: Path,
    weights: Path,
    seconds: float,
    device: str,
    phonemes: int,
    first: int,
    is_even: bool,
    share: tuple[int, int],
) -> None:
    """Speak what the other processes have read, until the time is up or nothing more comes."""
    import torch
    from kokoro_teacher import Kokoro

    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    kokoro, styles = Kokoro(weights, device), read_styles(weights.parent)
    generator = random.Random(share[0])
    seen: set[str] = set()
    waiting: list[Job] = []
    start_s, spoken_s, number = time.time(), 0.0, 0
    while time.time() - start_s < seconds:
        waiting += take_jobs(out / "men", seen, share)
        if len(waiting) < first:
            if (out / "READ").exists() and not waiting:
                break
            if not (out / "READ").exists():
                time.sleep(0.2)
                continue
        pool, waiting = waiting[:first], waiting[first:]
        pool.sort(key=lambda job: len(job.ids))
        items: list[Utterance] = []
        while pool:
            count = 1
            while count < len(pool) and (count + 1) * len(pool[count].ids) <= phonemes:
                count += 1
            batch, pool = pool[:count], pool[count:]
            speeds = [1.0 if is_even else generator.choice(SPEEDS) for _ in batch]
            items += speak_men(kokoro, styles, batch, speeds)
        save_chunk(out / f"men{number:04d}-{share[0]}.npz", items)
        number += 1
        spoken_s += sum(len(item.places) for item in items) * 0.08
        rate = spoken_s / (time.time() - start_s)
        print(
            f"men: {len(items)} texts, {spoken_s / 3600:.2f} hours, {rate:.0f} times real time",
            flush=True,
        )
    (out / f"MEN_DONE{share[0]}").write_text("ok")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("read", "heart"):
        part = commands.add_parser(name)
        part.add_argument("texts", type=Path, help='lines "id|voice|text" from texts.py')
        part.add_argument("out", type=Path, help="folder for the chunks")
        part.add_argument("--processes", type=int, default=os.cpu_count() or 1)
        part.add_argument("--seconds", type=float, default=1e9, help="stop after them (never)")
    men = commands.add_parser("men")
    men.add_argument("out", type=Path, help="the same folder")
    men.add_argument("weights", type=Path, help="file of kokoro_weights.py, the styles beside it")
    men.add_argument("--seconds", type=float, default=1e9, help="stop after them (never)")
    men.add_argument("--device", default="cuda")
    men.add_argument("--phonemes", type=int, default=4000, help="in one batch (4000)")
    men.add_argument("--even", action="store_true", help="one pace for all")
    men.add_argument("--rows", type=int, default=512, help="texts sorted by length at once (512)")
    men.add_argument("--share", default="0/1", help="i/n: speak as the i-th of n processes (0/1)")
    args = parser.parse_args()
    if args.command == "men":
        mine, _, all_of = args.share.partition("/")
        run_men(
            args.out,
            args.weights,
            args.seconds,
            args.device,
            args.phonemes,
            args.rows,
            args.even,
            (int(mine), int(all_of)),
        )
        return
    (args.out / "men").mkdir(parents=True, exist_ok=True)
    until_s = time.time() + args.seconds
    context = get_context("spawn")
    jobs = [
        context.Process(
            target={"read": read_chunks, "heart": speak_chunks}[args.command],
            args=(number, args.processes, args.texts, args.out, until_s),
        )
        for number in range(args.processes)
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    (args.out / {"read": "READ", "heart": "DONE"}[args.command]).write_text("ok")


if __name__ == "__main__":
    main()
