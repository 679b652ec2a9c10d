"""Let the official package speak sentences, for comparison with this repository's own engine.

Writes OUT/<speaker>/NNN.wav and prints, per speaker: seconds of speech, texts that hit the cap,
texts of odd length, and compute time over speech time. All sentences go in one batch. Without
temperatures the checkpoint's settings hold.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import soundfile
import torch

MAX_FRAMES = 200
SAMPLES_PER_FRAME, FRAME_S = 1920, 0.08
FRAMES_PER_WORD = (1.8, 8.0)  # outside: odd


def load_model(checkpoint: Path) -> Any:
    """The official model in float32 on the CPU, without its audio encoder.

    The checkpoint holds no encoder, and the official class fails to build one with newer versions
    of transformers: an empty module takes its place.
    """
    from qwen_tts import Qwen3TTSModel
    from qwen_tts.core.tokenizer_12hz import modeling_qwen3_tts_tokenizer_v2 as modeling

    class NoEncoder(torch.nn.Module):
        @classmethod
        def _from_config(cls, config: object) -> NoEncoder:
            return cls()

    modeling.Qwen3TTSTokenizerV2Encoder = NoEncoder
    return Qwen3TTSModel.from_pretrained(
        str(checkpoint), dtype=torch.float32, attn_implementation="sdpa"
    )


def speak(
    model: Any, sentences: list[str], speaker: str, settings: dict[str, float]
) -> tuple[list[Any], int, float]:
    """Samples of every sentence, their rate in Hz, and the seconds it took; seed 0."""
    torch.manual_seed(0)
    start_s = time.perf_counter()
    waves, rate_hz = model.generate_custom_voice(
        text=sentences,
        speaker=[speaker] * len(sentences),
        language=["English"] * len(sentences),
        max_new_tokens=MAX_FRAMES,
        **settings,
    )
    return waves, rate_hz, time.perf_counter() - start_s


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("sentences", type=Path, help="one text a line")
    parser.add_argument("out", type=Path, help="folder for the audio")
    parser.add_argument("--speakers", help="names, comma-separated (all)")
    parser.add_argument("--every", type=int, default=1, help="speak only every Nth text (1)")
    parser.add_argument("--temperature", type=float, help="of the talker")
    parser.add_argument("--subtalker-temperature", type=float, help="of the code predictor")
    args = parser.parse_args()
    model = load_model(args.checkpoint)
    lines = [line.strip() for line in args.sentences.read_text().splitlines() if line.strip()]
    chosen = range(0, len(lines), args.every)
    sentences = [lines[index] for index in chosen]
    given = {"temperature": args.temperature, "subtalker_temperature": args.subtalker_temperature}
    settings = {name: value for name, value in given.items() if value is not None}
    speakers = args.speakers.split(",") if args.speakers else model.get_supported_speakers()
    for speaker in speakers:
        waves, rate_hz, compute_s = speak(model, sentences, speaker, settings)
        folder = args.out / speaker
        folder.mkdir(parents=True, exist_ok=True)
        num_frames = [len(wave) // SAMPLES_PER_FRAME for wave in waves]
        for index, wave in zip(chosen, waves, strict=True):
            soundfile.write(folder / f"{index:03d}.wav", wave, rate_hz)
        per_word = [
            frames / len(text.split()) for frames, text in zip(num_frames, sentences, strict=True)
        ]
        low, high = FRAMES_PER_WORD
        odd = [
            index for index, ratio in zip(chosen, per_word, strict=True) if not low <= ratio <= high
        ]
        speech_s = sum(num_frames) * FRAME_S
        print(
            f"{speaker}: {speech_s:.1f} s of speech, "
            f"{sum(frames >= MAX_FRAMES - 1 for frames in num_frames)} capped, odd length {odd}, "
            f"compute/speech {compute_s / speech_s:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
