"""The test sentences as the teachers speak them, and that speech through codes and decoder.

    python3 through.py SENTENCES KOKORO.safetensors CODES.safetensors CODEC.pt OUT

writes OUT/teacher/arthur/000.wav and OUT/codec/arthur/000.wav, and so on: what the codec alone
costs, before a talker is trained. All speak at their own pace, figures as in a run in words.
A teacher's files that are there are taken as they are; without CODEC.pt and CODES, `-`, no others
are made.
"""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import codec
import numpy as np
import soundfile
import torch
from config import DECODER, VOICES
from data import Utterance, encode
from features import FRAME_SAMPLES, SAMPLE_RATE_HZ, Features, Quantizer
from kokoro_teacher import Kokoro
from numpy.typing import NDArray
from safetensors.torch import load_file
from teachers import HEART, Heart, read_job, read_styles, speak_heart, speak_men
from texts import read_out
from torch import nn


def spoken(texts: list[str], kokoro: Path, device: str) -> dict[str, list[Utterance]]:
    """Every text in each voice, by the teacher's name of it."""
    heart, styles, men = Heart(), read_styles(kokoro.parent), Kokoro(kokoro, device)
    found = {HEART: [speak_heart(heart, text, heart.read(text), 0) for text in texts]}
    for voice in styles:
        jobs = [read_job(heart.voice, voice, text) for text in texts]
        found[voice] = [
            item for job in jobs if job for item in speak_men(men, styles, [job], [1.0])
        ]
    return {voice: [item for item in items if item] for voice, items in found.items()}


def kept(folder: Path, texts: list[str]) -> dict[str, list[Utterance]]:
    """What is in the folder already, by the teacher's name; nothing where a file is missing."""
    found = {}
    for voice, name in VOICES.items():
        paths = [folder / name / f"{index:03d}.wav" for index in range(len(texts))]
        if not all(path.exists() for path in paths):
            return {}
        waves = [soundfile.read(path, dtype="int16")[0] for path in paths]
        found[voice] = [
            Utterance(text, voice, wave, np.zeros(len(wave) // FRAME_SAMPLES, np.int16))
            for text, wave in zip(texts, waves, strict=True)
        ]
    return found


def load_decoder(path: Path, device: str) -> nn.Module:
    """The decoder of a run's codec.pt."""
    saved = torch.load(path, weights_only=True, map_location="cpu")
    state = {name: value.float() for name, value in saved.items()}
    width = state["decoder.0.conv.weight"].shape[0]
    decoder = codec.build({**DECODER, "decoder_dim": width})
    decoder.load_state_dict(state)
    return decoder.eval().to(device)


def write(folder: Path, waves: list[NDArray[Any]]) -> None:
    """000.wav, 001.wav, ..."""
    folder.mkdir(parents=True, exist_ok=True)
    for index, wave in enumerate(waves):
        soundfile.write(folder / f"{index:03d}.wav", wave, SAMPLE_RATE_HZ)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sentences", type=Path, help="one text a line")
    parser.add_argument("kokoro", type=Path, help="file of kokoro_weights.py")
    parser.add_argument("codes", type=Path, help="file of fit_codes.py")
    parser.add_argument("codec", type=Path, help="codec.pt of train.py")
    parser.add_argument("out", type=Path, help="folder")
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    lines = [line.strip() for line in args.sentences.read_text().splitlines() if line.strip()]
    texts = [read_out(line) for line in lines]
    teacher = args.out / "teacher"
    speech = kept(teacher, texts)
    if not speech:
        speech = spoken(texts, args.kokoro, args.device)
        for voice, items in speech.items():
            write(teacher / VOICES[voice], [item.samples for item in items])
    if args.codec == Path("-"):
        return
    decoder = load_decoder(args.codec, args.device)
    tools = Features(args.device), Quantizer(load_file(args.codes), args.device)
    for voice, items in speech.items():
        made = []
        for rows in encode(items, *tools, args.device):
            codes = torch.from_numpy(rows).long().t()[None].to(args.device)
            with torch.inference_mode():
                wave = codec.synthesise(decoder, codes, nullcontext)[0, 0].clamp(-1, 1)
            made.append(wave.cpu().numpy())
        write(args.out / "codec" / VOICES[voice], made)
        print(f"{VOICES[voice]}: {len(items)} sentences", flush=True)


if __name__ == "__main__":
    main()
