"""How far the times of `tts-cli align` are from the truth: rows joined of sentences, and of single
words, that were spoken one by one, so that every border is known; and rows with another row's text.

python tests/tools/word_times.py OUT    # synthesizes 480 rows, then writes OUT.json
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from spoken_folders import record, run, with_file, write_folder  # noqa: E402

from tts_cli.audio.file import encode  # noqa: E402
from tts_cli.audio.join import speech_span  # noqa: E402
from tts_cli.checks.word_times import WordTimes  # noqa: E402
from tts_cli.main import main  # noqa: E402

VOICES = ("arthur", "clara", "ewan")
NUM_ROWS, NUM_PIECES = 40, 6  # rows of each kind, and pieces of a row
GAPS_S = {"sentences": 0.25, "words": 0.02}
WHO = ("The old farmer", "My sister", "A young doctor", "The captain", "Our neighbor")
DID: tuple[str, ...] = (
    "opened the door",
    "found a letter",
    "lost the key",
    "told a story",
    "bought some bread",
)
DID += ("heard the music", "waited for the train", "closed the window", "read the paper")
DID += ("painted the garden wall", "carried the water", "counted the money", "saw the river")
DID += ("broke the glass", "cleaned the kitchen", "called the station")
WORDS = re.findall(
    r"\w+",
    """
    window garden river mountain paper teacher music winter summer yellow orange number people
    water mother father sister brother children morning evening kitchen table doctor farmer
    village city street bridge station engine machine picture letter story question answer
    history island ocean weather thunder silver golden simple careful quiet hungry thirty seven
    eleven twenty hundred thousand second minute monday friday april august dinner coffee butter
    sugar apple carrot chicken tiger rabbit horse animal flower forest circle corner building
    office market hammer ladder
""",
)
SENTENCES = [f"{who} {did}." for did in DID for who in WHO]
PIECES = {"sentences": SENTENCES, "words": WORDS}


def speak(out: Path) -> None:
    """Every piece by every voice."""
    rows = [
        {"id": f"{kind}-{voice}-{number}", "text": text, "voice": voice, "language": "english"}
        for kind, texts in PIECES.items()
        for voice in VOICES
        for number, text in enumerate(texts)
    ]
    out.mkdir(parents=True, exist_ok=True)
    manifest = out / "pieces.jsonl"
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))
    main(["synth", str(manifest), "--out", str(out / "pieces"), "--seed", "7"])


def join(out: Path) -> tuple[Path, dict[str, list[tuple[float, float]]]]:
    """A folder of rows joined of pieces, and when each piece is said. Rows `wrong-` have the audio
    of a row of sentences and the text of another.
    """
    records, audio, truth = [], {}, {}
    for kind, texts in PIECES.items():
        for number in range(NUM_ROWS):
            voice = VOICES[number % len(VOICES)]
            places = [
                (number // len(VOICES) * NUM_PIECES + n) % len(texts) for n in range(NUM_PIECES)
            ]
            row_id, text = f"{kind}-{number:02}", " ".join(texts[place] for place in places)
            paths = [out / "pieces" / f"{kind}-{voice}-{place}.wav" for place in places]
            samples, rate_hz, truth[row_id] = joined(paths, GAPS_S[kind])
            file = encode(samples, rate_hz, "wav", "PCM_16")
            found = [(row_id, text)]
            if kind == "sentences":
                found.append((f"wrong-{number:02}", ""))
            for name, said in found:
                facts = {"voice": voice, "text": said, "language": "english", "audio_s": 1.0}
                records.append(record(name, **facts, **with_file(file), sample_rate_hz=rate_hz))
                audio[f"{name}.wav"] = file
    right = {line["id"]: line["text"] for line in records}
    for line in records:
        kind, _, number = line["id"].partition("-")
        if kind == "wrong":
            line["text"] = right[f"sentences-{(int(number) + 7) % NUM_ROWS:02}"]
    shutil.rmtree(out / "joined", ignore_errors=True)
    return write_folder(out / "joined", records, audio=audio, runs=[run()]), truth


def joined(paths: list[Path], gap_s: float) -> tuple[np.ndarray[Any, Any], int, list[Any]]:
    """Speech behind speech: samples, rate, and start and end of each in seconds."""
    pieces, times, place = [], [], 0
    for path in paths:
        samples, rate_hz = soundfile.read(path, dtype="float32")
        start, end = speech_span(samples, rate_hz)
        times.append((place / rate_hz, (place + end - start) / rate_hz))
        pieces += [samples[start:end], np.zeros(round(gap_s * rate_hz), np.float32)]
        place += len(pieces[-2]) + len(pieces[-1])
    return np.concatenate(pieces), rate_hz, times


def errors_s(found: WordTimes, truth: list[tuple[float, float]], kind: str) -> Iterator[float]:
    """How far both sides of each border between two pieces are from where they are."""
    counts = [len(text.split()) for text in pieces_of(found.text, kind)]
    place = 0
    for count, (_, end_s), (start_s, _) in zip(counts, truth, truth[1:], strict=False):
        place += count
        yield abs(found.words[place - 1].end_s - end_s)
        yield abs(found.words[place].start_s - start_s)


def pieces_of(text: str, kind: str) -> list[str]:
    return text.split() if kind == "words" else [part for part in text.split(".") if part.strip()]


def measure(out: Path) -> dict[str, Any]:
    """Align the joined rows, and hold what was found against what is known."""
    folder, truth = join(out)
    started_s = time.perf_counter()
    main(["align", str(folder), "--subtitles", "words-vtt", "--textgrid"])
    wall_s = time.perf_counter() - started_s
    found = {
        path.name.removesuffix(".words.json"): WordTimes.decode(path.read_bytes())
        for path in folder.glob("*.words.json")
    }
    facts: dict[str, Any] = {"cpus": os.cpu_count(), "wall_s": round(wall_s, 1)}
    facts["audio_s"] = round(sum(one.audio_s for one in found.values() if one), 1)
    for kind in PIECES:
        rows = {name: one for name, one in found.items() if one and name.startswith(kind)}
        errors = [
            1000 * error for name, one in rows.items() for error in errors_s(one, truth[name], kind)
        ]
        facts[kind] = {
            "rows": NUM_ROWS,
            "aligned": len(rows),
            "unsure": sum(bool(one.unsure) for one in rows.values()),
            "borders": len(errors) // 2,
            "median_ms": round(float(np.percentile(errors, 50))),
            "p95_ms": round(float(np.percentile(errors, 95))),
            "max_ms": round(max(errors)),
        }
    wrong = [one for name, one in found.items() if one and name.startswith("wrong")]
    facts["wrong"] = {
        "rows": NUM_ROWS,
        "left_out": NUM_ROWS - len(wrong),
        "unsure": sum(bool(one.unsure) for one in wrong),
        "taken_for_right": sum(not one.unsure for one in wrong),
    }
    return facts


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    speak(folder)
    facts = measure(folder)
    folder.with_suffix(".json").write_text(json.dumps(facts, indent=1) + "\n")
    print(json.dumps(facts, indent=1))
