"""How speech sounds and whether it is understood, as one JSON: the README's tables are made of it.

    python3 evaluate.py OUT.json SENTENCES NAME=FOLDER ... [--every 1] [--whisper FOLDER]
    python3 evaluate.py OUT.json --table

FOLDER has 000.wav, 001.wav, ... for the lines of SENTENCES, at any rate. All speech is treated
alike before it is judged: 0.08 s before the first and 0.16 s behind the last loud sample are kept,
and the root mean square is set to -26 dB. Judges: DNSMOS (`speechmos`: overall and P.808),
pocketsphinx closed and open (score.py), Whisper tiny.en (a folder of tests/support/real_whisper.py)
with figures read in words, and pitch: its median, its spread, and how much of questions rises.
OUT.json keeps what it has of other names, so that a table grows from run to run.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import score
import soundfile
import torch
from features import PITCHES_PER_FRAME, SAMPLE_RATE_HZ, Features
from numpy.typing import NDArray
from scipy.signal import resample_poly

from tts_cli.text.frontend import normalize
from tts_cli.text.normalized_text import NormalizedText

LOUD = 0.01  # of the peak
LEAD_S, TAIL_S = 0.08, 0.16
LEVEL = 10 ** (-26 / 20)
PITCH_HZ = (55.0, 400.0)
VOICED = 0.75
JUDGED_HZ = 16000
END_S = 0.4  # of a question, compared with what is before
NUMBER = {
    *("zero", "one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen"),
    *("fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
    *("thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"),
    *("hundred", "thousand", "million"),
}

Row = dict[str, Any]


def load(path: Path) -> NDArray[np.float32]:
    """Mono samples at 24 kHz, trimmed and levelled."""
    samples, rate_hz = soundfile.read(path, dtype="float32", always_2d=True)
    wave = samples.mean(1)
    if rate_hz != SAMPLE_RATE_HZ:
        divisor = np.gcd(rate_hz, SAMPLE_RATE_HZ)
        wave = resample_poly(wave, SAMPLE_RATE_HZ // divisor, rate_hz // divisor)
    loud = np.nonzero(np.abs(wave) > LOUD * np.abs(wave).max())[0]
    if len(loud) == 0:
        return np.zeros(SAMPLE_RATE_HZ, np.float32)
    first = max(0, loud[0] - int(LEAD_S * SAMPLE_RATE_HZ))
    wave = wave[first : loud[-1] + int(TAIL_S * SAMPLE_RATE_HZ)]
    return (wave * (LEVEL / np.sqrt(np.mean(wave**2)))).astype(np.float32).clip(-1, 1)


def spoken_words(text: str) -> list[str]:
    """Words as they are said: figures in words, no `and` between those of a number."""
    said = score.words(NormalizedText.of(text, normalize(text, "english")).spoken.replace("-", " "))
    return [
        word
        for place, word in enumerate(said)
        if not (
            word == "and"
            and 0 < place < len(said) - 1
            and {said[place - 1], said[place + 1]} <= NUMBER
        )
    ]


def dnsmos(waves: list[NDArray[np.float32]]) -> Row:
    """Means of DNSMOS."""
    from speechmos import dnsmos as judge

    found: dict[str, list[float]] = {"ovrl_mos": [], "p808_mos": []}
    for wave in waves:
        result = judge.run(resample_poly(wave, 2, 3).clip(-1, 1), JUDGED_HZ, return_df=False)
        for name, values in found.items():
            values.append(float(result[name]))
    return {
        "dnsmos_overall": round(float(np.mean(found["ovrl_mos"])), 2),
        "dnsmos_p808": round(float(np.mean(found["p808_mos"])), 2),
    }


def pitch(waves: list[NDArray[np.float32]], texts: list[str]) -> Row:
    """Median, spread in semitones within a text, and the share of yes-no questions that rise."""
    extractor, hop_s = Features("cpu"), 0.08 / PITCHES_PER_FRAME
    medians, spreads, rises = [], [], []
    low, high = (torch.tensor([hz]) for hz in PITCH_HZ)
    for wave, text in zip(waves, texts, strict=True):
        framed = torch.from_numpy(wave[: len(wave) // 1920 * 1920])[None]
        semitones, voicing = extractor.pitch(framed, low, high)
        is_voiced = voicing[0] > VOICED
        heard = semitones[0][is_voiced]
        if len(heard) < 8:
            continue
        medians.append(float(heard.median()))
        spreads.append(float(heard.std()))
        if re.match(
            r"(?i)(can|could|do|does|did|is|are|will|would|have|has|may|shall)\b.*\?$", text
        ):
            count = int(END_S / hop_s)
            rises.append(
                float(heard[-count // 2 :].mean() > heard[-2 * count : -count // 2].mean())
            )
    result: Row = {
        "pitch_hz": round(100 * 2 ** (float(np.median(medians)) / 12), 1),
        "pitch_spread_semitones": round(float(np.mean(spreads)), 2),
    }
    if rises:
        result |= {"questions": len(rises), "questions_rise": round(float(np.mean(rises)), 2)}
    return result


def whisper_errors(paths: list[Path], texts: list[str], whisper: Path) -> float:
    """Percent of words wrong by Whisper, figures read in words."""
    from tts_cli.checks.asr.recognizer import AsrRequest
    from tts_cli.checks.asr.whisper import Whisper

    judge = Whisper(str(whisper), torch.device("cpu"))
    asked = [AsrRequest(place, path, "en") for place, path in enumerate(paths)]
    heard = {answer.place: answer.text or "" for answer in judge.run(asked)}
    pairs = [(spoken_words(text), spoken_words(heard[place])) for place, text in enumerate(texts)]
    return round(score.word_error_rate(*zip(*pairs, strict=True)), 1)


def judge_folder(
    folder: Path, texts: dict[int, str], models: list[str], whisper: Path | None
) -> Row:
    """All figures of one folder; `models` are pocketsphinx's, of `closed` and `open`."""
    waves = {index: load(folder / f"{index:03d}.wav") for index in texts}
    listed = list(texts.values())
    result: Row = {"sentences": len(texts), **dnsmos(list(waves.values()))}
    result |= pitch(list(waves.values()), listed)
    result["seconds"] = round(sum(map(len, waves.values())) / SAMPLE_RATE_HZ, 1)
    with tempfile.TemporaryDirectory() as scratch:
        paths = []
        for index, wave in waves.items():
            paths.append(Path(scratch) / f"{index:03d}.wav")
            soundfile.write(paths[-1], wave, SAMPLE_RATE_HZ)
        references = [score.words(text) for text in listed]
        closed = Path(scratch) / "closed.arpa"
        score.write_bigram_model(references, closed)
        for name in models:
            heard = score.recognise(paths, {"closed": closed, "open": None}[name])
            result[f"wrong_{name}"] = round(score.word_error_rate(references, heard), 1)
        if whisper is not None:
            result["wrong_whisper"] = whisper_errors(paths, listed, whisper)
    return result


def table(results: dict[str, Row]) -> str:
    """The JSON as Markdown."""
    columns = {
        "dnsmos_overall": "overall",
        "dnsmos_p808": "P.808",
        "wrong_whisper": "Whisper",
        "wrong_closed": "closed",
        "wrong_open": "open",
        "pitch_hz": "pitch",
        "pitch_spread_semitones": "spread",
    }
    lines = ["| speech | " + " | ".join(columns.values()) + " |", "|---" * (len(columns) + 1) + "|"]
    for name, row in results.items():
        lines.append(f"| {name} | " + " | ".join(str(row.get(key, "")) for key in columns) + " |")
    return "\n".join(lines)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="JSON, read and written")
    parser.add_argument("sentences", type=Path, nargs="?", help="one text a line")
    parser.add_argument("folders", nargs="*", metavar="NAME=FOLDER")
    parser.add_argument("--every", type=int, default=1, help="judge every Nth (1)")
    parser.add_argument("--most", type=int, default=10**6, help="judge the first so many (all)")
    parser.add_argument(
        "--models", default="closed,open", help="pocketsphinx's: closed, open, both or '' (both)"
    )
    parser.add_argument("--whisper", type=Path, help="folder of real_whisper.py (not asked)")
    parser.add_argument("--table", action="store_true", help="print the JSON as a table")
    args = parser.parse_args()
    models = [name for name in args.models.split(",") if name]
    results: dict[str, Row] = json.loads(args.out.read_text()) if args.out.exists() else {}
    if args.sentences is not None:
        lines = [line for line in args.sentences.read_text().splitlines() if line.strip()]
        texts = {index: lines[index].strip() for index in range(0, len(lines), args.every)}
        texts = dict(list(texts.items())[: args.most])
        for given in args.folders:
            name, _, folder = given.partition("=")
            results[name] = judge_folder(Path(folder), texts, models, args.whisper)
            print(name, json.dumps(results[name]), flush=True)
            args.out.write_text(json.dumps(results, indent=1) + "\n")
    if args.table:
        print(table(results))


if __name__ == "__main__":
    main()
