"""How fast `tts-cli check` hears with a Whisper of large-v3-turbo's shape and random weights.

    python tests/tools/whisper_speed.py [--device cuda] [--rows 1024] [--batches 32,64,128]

It writes a checkpoint (32 encoder layers, 4 decoder layers, d_model 1280, 20 heads, 128 mel bins,
vocabulary 51866; 1.6 GB in bfloat16; a tokenizer of bytes) and rows of 4 to 8 s of noise, and has
them heard by the code of the command: reading, resampling, spectrogram, batches, greedy decoding,
comparison with the text. Random weights never end, so each window takes all the tokens it may: 40,
which is what people say in 8 s, and 220, the most. Prints audio seconds by wall second for each;
two minutes on one H200.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

import numpy as np  # noqa: E402
from spoken_folders import record, with_file, write_folder  # noqa: E402
from tiny_whisper import write_tiny_whisper  # noqa: E402

TURBO = {
    "vocab_size": 51866,
    "num_mel_bins": 128,
    "d_model": 1280,
    "encoder_layers": 32,
    "decoder_layers": 4,
    "encoder_attention_heads": 20,
    "decoder_attention_heads": 20,
    "encoder_ffn_dim": 5120,
    "decoder_ffn_dim": 5120,
    "max_target_positions": 448,
}
TINY = {"vocab_size": 300}
RATE_HZ = 24_000
TEXT = "every clock in the long street was wrong again by noon"


def write_rows(out: Path, count: int) -> None:
    """A folder of rows of 4 to 8 s."""
    from tts_cli.audio.file import encode

    draw = np.random.default_rng(0)
    sounds = []
    for _ in range(32):
        seconds = draw.uniform(4, 8)
        samples = draw.normal(0, 0.1, round(seconds * RATE_HZ)).astype(np.float32)
        sounds.append((seconds, encode(samples, RATE_HZ, "wav", "PCM_16")))
    records, audio = [], {}
    for number in range(count):
        seconds, content = sounds[number % len(sounds)]
        line = record(f"{number:05d}", text=TEXT, language="english", audio_s=round(seconds, 3))
        records.append({**line, **with_file(content)})
        audio[line["path"]] = content
    write_folder(out, records, audio=audio)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, default=1024)
    parser.add_argument("--batches", default="32,64,128")
    parser.add_argument("--tokens", default="40,220", help="of a window")
    parser.add_argument("--tiny", action="store_true", help="a tiny checkpoint, to try the script")
    args = parser.parse_args()
    import torch

    from tts_cli.app.check import FolderCheck
    from tts_cli.checks.asr import whisper
    from tts_cli.events import Event
    from tts_cli.store.files import CHECKS_NAME

    with tempfile.TemporaryDirectory() as scratch:
        out, folder = Path(scratch) / "wavs", Path(scratch) / "whisper"
        started_s = time.perf_counter()
        write_rows(out, args.rows)
        write_tiny_whisper(folder, scale=1.0, half=not args.tiny, **(TINY if args.tiny else TURBO))
        print(f"written in {time.perf_counter() - started_s:.0f} s", flush=True)
        device = torch.device(args.device)
        for batch in map(int, args.batches.split(",")):
            quiet = [np.zeros(RATE_HZ, np.float32)] * batch
            for tokens in map(int, args.tokens.split(",")):
                started_s = time.perf_counter()
                recognizer = whisper.Whisper(str(folder), device, batch)
                load_s = time.perf_counter() - started_s
                recognizer.words(quiet, "en")  # kernels are loaded, memory is there
                whisper.MAX_TOKENS = tokens
                (out / CHECKS_NAME).unlink(missing_ok=True)
                found = FolderCheck(out)
                found.transcribe(recognizer, lambda rows: nullcontext(Mock()))
                measured = found.transcribed.of(Event.MEASURED)
                audio_s, wall_s = measured.sums["audio_s"], measured.sums["wall_s"]
                result = {
                    "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
                    "batch": batch,
                    "tokens": tokens,
                    "takes": measured.count,
                    "audio_s": round(audio_s),
                    "wall_s": round(wall_s, 2),
                    "audio_s_per_wall_s": round(audio_s / wall_s, 1),
                    "load_s": round(load_s, 1),
                }
                if device.type == "cuda":
                    result["peak_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 1)
                print(json.dumps(result), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
