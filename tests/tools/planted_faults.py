"""The table of faults that `tts-cli check` finds: gross ones, planted among good rows.

    python tests/tools/planted_faults.py speak OUT [--texts show|pages|hands|plain] [--device cpu]
        [--lines 534] [--each 20]
    python tests/tools/planted_faults.py check OUT [--asr pocketsphinx]
    python tests/tools/planted_faults.py rate OUT
    python tests/tools/planted_faults.py mend OUT [--rows 20] [--asr pocketsphinx]

`speak` has the sample voice say some 500 lines (three voices), and of 100 of them, drawn at random,
makes faults, 20 of each kind, in a copy of the folder as a run would have left it:

    cut      30 to 50 % of the speech is missing at its end
    again    three or four words are said twice (the voice got a text in which they stand twice)
    other    the speech is that of another row's text, in the same voice
    clipped  so loud that 1.5 to 4 % of the samples are at full scale
    gap      1.0 to 1.3 s of silence inside, where the speech is softest

The audio is edited, then measured by what measures it in a run (`run/verdict.py`), and the
journal's line is what that run would have written; the text stays the row's own. `check` runs the
command, without a recogniser and with one, and prints how many of each kind are found, and how many
of the good rows are called suspect. `rate` runs `check --mos` and prints how DNSMOS rates the good
rows of each voice and each kind of fault, and how many are suspect as `quality`. `mend` speaks some
suspects again (`synth --only suspects --takes 3`), checks again with `--pick best`, and prints how
many rows are right then.

`--texts show` is a story with dates, money and dialogue that nothing was chosen on. `pages` is
another, which showed what the rules before were worth. What is suspect was chosen on `plain`
(sentences of the sample voice's recipe, two stories) and `hands` (prompts, lessons, games, news,
letters, figures).

Ends with 1 where `check` with a recogniser finds less than 95 % of the faults, calls more than 2 %
of the good rows suspect, or `mend` leaves a fault.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import soundfile
from long_rows import RECIPE, ROOT, STORY, VOICES
from safetensors.numpy import load_file

from models.registry import describe
from tts_cli.audio.file import encode
from tts_cli.engine.pieces import measure
from tts_cli.plan.checkpoint import sample_voice
from tts_cli.text.words import usual_s

STORIES = Path(__file__).parent / "texts"
KINDS = ("cut", "again", "other", "clipped", "gap")
EACH = 20
ROWS = 500
MIN_WORDS = 5
SEED = 17
MIN_RECALL, MAX_ALARMS = 0.95, 0.02
CHOOSE_FILES = ("sentences_dev", "sentences_fresh", "sentences_later", "sentences")

Array = np.ndarray[Any, Any]
Line = dict[str, Any]


def sentences(text: str) -> list[str]:
    """A story by the ends of its sentences, those of few words left out."""
    found = re.split(r"(?<=[.!?])\s+", text.strip().replace("\n", " "))
    return [one for one in dict.fromkeys(found) if len(one.split()) >= MIN_WORDS]


def manifest(texts: str) -> list[Line]:
    """The rows to speak: those of `--texts`."""
    return TEXTS[texts]()


def plain_rows() -> list[Line]:
    """Sentences of the sample voice's recipe, and of two stories."""
    lines = [
        (f"{name}/{number:03d}", line)
        for name in CHOOSE_FILES
        for number, line in enumerate((RECIPE / f"{name}.txt").read_text().splitlines())
    ]
    rows = [
        {"id": row_id, "text": line, "voice": VOICES[place % 3], "language": "english"}
        for place, (row_id, line) in enumerate(lines)
    ]
    watchman = (STORIES / "night_watchman.txt").read_text()
    stories = sorted(dict.fromkeys([*sentences(watchman), *sentences(STORY)]), key=len)
    return [*rows, *in_all_voices(stories, ROWS)]


def pages_rows() -> list[Line]:
    """A story that has dates, money and dialogue in it."""
    page = (STORIES / "twelve_pages.md").read_text().split("---", 2)[2]
    found = [one for line in page.splitlines() if line[:1].isalpha() for one in sentences(line)]
    return in_all_voices(found, ROWS)


def line_rows(name: str) -> list[Line]:
    """The lines of a text, those of few words left out."""
    lines = (STORIES / name).read_text().splitlines()
    return in_all_voices([line for line in lines if len(line.split()) >= MIN_WORDS])


def in_all_voices(texts: list[str], most: int | None = None) -> list[Line]:
    """Each text by every voice."""
    rows = [
        {"id": f"{number:03d}-{voice}", "text": text, "voice": voice, "language": "english"}
        for number, text in enumerate(texts)
        for voice in VOICES
    ]
    return rows[:most]


TEXTS: dict[str, Callable[[], list[Line]]] = {
    "show": lambda: line_rows("harrow_ferry.txt"),
    "pages": pages_rows,
    "hands": lambda: line_rows("many_hands.txt"),
    "plain": plain_rows,
}


def faults(rows: list[Line], each: int = EACH) -> dict[str, str]:
    """Id -> kind of the rows that are to have a fault."""
    drawn = random.Random(SEED).sample([row["id"] for row in rows], each * len(KINDS))
    return {row_id: KINDS[place % len(KINDS)] for place, row_id in enumerate(drawn)}


def doubled(row: Line) -> Line:
    """A row in whose text three or four words stand twice."""
    draw = random.Random(f"{SEED} {row['id']}")
    words = row["text"].split()
    count = draw.choice([3, 4])
    start = draw.randrange(0, len(words) - count)
    words[start + count : start + count] = words[start : start + count]
    return {**row, "id": f"again/{row['id']}", "text": " ".join(words)}


def speak(out: Path, texts: str, device: str, lines: int, each: int) -> None:
    """Run `synth`, then make the folder with the faults."""
    out.mkdir(parents=True, exist_ok=True)
    rows = manifest(texts)[:lines]
    kinds = faults(rows, each)
    write_lines(out / "rows.jsonl", rows)
    write_lines(
        out / "again.jsonl", [doubled(row) for row in rows if kinds.get(row["id"]) == "again"]
    )
    for name in ("again", "rows"):
        flags = ["--save-codes", "--device", device, "--out", str(out / "spoken")]
        require(tts_cli("synth", out / f"{name}.jsonl", *flags), {0})
    plant(out, rows, kinds)


def plant(out: Path, rows: list[Line], kinds: dict[str, str]) -> None:
    """Copy what was spoken, with the faults in it."""
    spoken, planted = out / "spoken", out / "planted"
    shutil.rmtree(planted, ignore_errors=True)
    planted.mkdir()
    for name in ("run.json", "runs.jsonl"):
        shutil.copy(spoken / name, planted / name)
    lines = {line["id"]: line for line in read_lines(spoken / "timings.jsonl")}
    records = []
    for row in rows:
        line = lines[row["id"]]
        target = planted / line["path"]
        target.parent.mkdir(parents=True, exist_ok=True)
        kind = kinds.get(row["id"])
        if kind is None:
            shutil.copy(spoken / line["path"], target)
            records.append(line)
            continue
        samples, codes = make(kind, row, lines, spoken)
        records.append(journaled(line, samples, codes, target))
    write_lines(planted / "timings.jsonl", records)
    (out / "faults.json").write_text(json.dumps(kinds, indent=1))


def make(kind: str, row: Line, lines: dict[str, Line], spoken: Path) -> tuple[Array, Array]:
    """The samples and codes of a fault."""
    draw = random.Random(f"{SEED} {kind} {row['id']}")
    line = lines[row["id"]]
    if kind == "again":
        return sound(spoken, lines[f"again/{row['id']}"])
    if kind == "other":
        others = [
            other
            for other in lines.values()
            if other["voice"] == row["voice"]
            and other["text"] != row["text"]
            and not other["id"].startswith("again/")
        ]
        return sound(spoken, draw.choice(others))
    samples, codes = sound(spoken, line)
    edits: dict[str, Callable[[], tuple[Array, Array]]] = {
        "cut": lambda: cut(samples, codes, line, draw.uniform(0.3, 0.5)),
        "clipped": lambda: (clipped(samples, draw.uniform(0.015, 0.04)), codes),
        "gap": lambda: gap(samples, codes, draw.uniform(1.0, 1.3), draw),
    }
    return edits[kind]()


def sound(spoken: Path, line: Line) -> tuple[Array, Array]:
    """(n,) float32 samples and (F, K) codes of a row."""
    samples, _ = soundfile.read(spoken / line["path"], dtype="float32")
    codes = load_file(spoken / Path(line["path"]).with_suffix(".codes.safetensors"))["codes"]
    return samples, codes


def cut(samples: Array, codes: Array, line: Line, share: float) -> tuple[Array, Array]:
    """Without a share of the speech at its end, to whole frames, as if it had ended there."""
    frame = len(samples) // len(codes)
    speech_s = line["audio_s"] - line["silence_start_s"] - line["silence_end_s"]
    end_s = line["silence_start_s"] + (1 - share) * speech_s
    frames = max(1, int(end_s * len(samples) / line["audio_s"]) // frame)
    kept = samples[: frames * frame].copy()
    kept[-240:] *= np.linspace(1, 0, 240, dtype=np.float32)
    return kept, codes[:frames]


def clipped(samples: Array, share: float) -> Array:
    """So loud that a share of the samples is beyond full scale."""
    gain = 1 / float(np.quantile(np.abs(samples), 1 - share))
    return np.clip(samples * gain, -1, 1)


def gap(samples: Array, codes: Array, seconds: float, draw: random.Random) -> tuple[Array, Array]:
    """With silence where the speech is softest within its middle, of whole frames."""
    frame = len(samples) // len(codes)
    third = len(codes) // 3
    energies = [
        float(np.square(samples[at * frame : (at + 1) * frame]).sum()) for at in range(len(codes))
    ]
    at = third + int(np.argmin(energies[third : len(codes) - third] or [0.0]))
    frames = round(seconds * 24_000 / frame + 0.5)
    fade = np.linspace(1, 0, 120, dtype=np.float32)
    before, behind = samples[: at * frame].copy(), samples[at * frame :].copy()
    before[-120:] *= fade
    behind[:120] *= fade[::-1]
    silence = np.zeros(frames * frame, np.float32)
    places = [draw.randrange(len(codes)) for _ in range(frames)]
    return np.concatenate([before, silence, behind]), np.concatenate(
        [codes[:at], codes[places], codes[at:]]
    )


def journaled(line: Line, samples: Array, codes: Array, target: Path) -> Line:
    """Write a row's audio, and its line as a run would have."""
    info = describe(str(sample_voice()))
    verdict = measure(samples, codes, info.frame_s, usual_s(line["text"]))
    data = encode(samples, 24_000, "wav", "PCM_16")
    target.write_bytes(data)
    changes = {
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "frames": len(codes),
        "audio_s": round(verdict.audio_s, 6),
        "frames_per_char": round(len(codes) / len(line["text"]), 6),
        "remarks": verdict.remarks,
        **{
            name: round(value, 6) if isinstance(value, float) else value
            for name, value in asdict(verdict.levels).items()
        },
    }
    assert info.pace is not None
    if len(codes) < info.pace.least_frames(line["text"]):
        changes["finish_reason"] = "early"  # as with --accept-truncated; else the run had failed it
    return {**line, **changes}


def check(out: Path, asr: str | None, folder: str = "planted") -> Line:
    """Run `check`, and hold what it says against what was planted."""
    kinds = json.loads((out / "faults.json").read_text())
    command = ["check", out / folder, "--json", *(["--asr", asr] if asr else [])]
    result = tts_cli(*command, "--progress", "log")
    require(result, {0, 1})
    suspects = {row["id"] for row in json.loads(result.stdout)["suspects"]}
    rows = [row["id"] for row in read_lines(out / "rows.jsonl")]
    found = {
        kind: [row for row, what in kinds.items() if what == kind and row in suspects]
        for kind in KINDS
    }
    good = [row for row in rows if row not in kinds]
    alarms = [row for row in good if row in suspects]
    return {
        "asr": asr,
        "found": {kind: len(rows) for kind, rows in found.items()},
        "missed": sorted(row for row in kinds if row not in suspects),
        "recall": sum(map(len, found.values())) / len(kinds),
        "good": len(good),
        "alarms": alarms,
        "alarm_share": len(alarms) / len(good),
    }


def rate(out: Path) -> Line:
    """Run `check --mos`: rows, median scores and how many are suspect as `quality`, of the good
    rows of each voice, and of each kind of fault.
    """
    kinds = json.loads((out / "faults.json").read_text())
    started_s = time.perf_counter()
    require(tts_cli("check", out / "planted", "--mos", "--quiet"), {0, 1})
    wall_s = time.perf_counter() - started_s
    groups: dict[str, list[Line]] = {}
    for line in read_lines(out / "planted" / "checks.jsonl"):
        name = kinds.get(line["id"]) or line["id"].rsplit("-", 1)[-1]
        groups.setdefault(name, []).append(line)
    scores = ("mos", "mos_signal", "mos_background", "mos_p808")
    found: Line = {
        name: {
            "rows": len(lines),
            **{score: round(median(line[score] for line in lines), 2) for score in scores},
            "least_mos": min(line["mos"] for line in lines),
            "quality": sum(
                any(reason["kind"] == "quality" for reason in line["reasons"]) for line in lines
            ),
        }
        for name, lines in sorted(groups.items())
    }
    return {"groups": found, "wall_s": round(wall_s, 1)}


def mend(out: Path, asr: str, count: int) -> Line:
    """Speak suspects with planted faults again, check, pick, and see what the rows are then."""
    kinds = json.loads((out / "faults.json").read_text())
    some = [
        row
        for kind in KINDS
        for row in [r for r, k in kinds.items() if k == kind][: count // len(KINDS)]
    ]
    folder = out / "mended"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(out / "planted", folder)
    wanted = set(some)
    rows = [row for row in read_lines(out / "rows.jsonl") if row["id"] in wanted]
    write_lines(out / "mend.jsonl", rows)
    flags = ["--only", "suspects", "--takes", "3", "--device", "cpu"]
    require(tts_cli("synth", out / "mend.jsonl", *flags, "--out", folder), {0})
    only = ["--only", ",".join(some)]
    result = tts_cli("check", folder, "--asr", asr, "--pick", "best", "--json", *only)
    require(result, {0, 1})
    told = json.loads(result.stdout)
    faulty = {line["id"]: line["sha256"] for line in read_lines(out / "planted" / "timings.jsonl")}
    now = {
        line["id"]: line["sha256"]
        for line in read_lines(folder / "timings.jsonl")
        if line["role"] != "extra"
    }
    return {
        "rows": len(some),
        "picked": len(told["picked"]),
        "still_faulty": [row for row in some if now[row] == faulty[row]],
        "still_suspect": [row["id"] for row in told["suspects"] if row["id"] in wanted],
    }


def tts_cli(*args: object) -> subprocess.CompletedProcess[str]:
    """A command of the tool in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])}
    command = [sys.executable, "-m", "tts_cli", *map(str, args)]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)


def require(result: subprocess.CompletedProcess[str], codes: set[int]) -> None:
    """End where a command ended otherwise."""
    if result.returncode not in codes:
        sys.exit(f"{result.args} ended with {result.returncode}\n{result.stdout}")


def read_lines(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_lines(path: Path, lines: list[Line]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("speak", "check", "rate", "mend"))
    parser.add_argument("out", type=Path)
    parser.add_argument("--texts", choices=TEXTS, default="show")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--asr", default="pocketsphinx")
    parser.add_argument("--lines", type=int, default=10**6, help="of the texts, to speak (all)")
    parser.add_argument("--each", type=int, default=EACH, help=f"faults of a kind ({EACH})")
    parser.add_argument("--rows", type=int, default=20, help="to mend (20)")
    args = parser.parse_args()
    if args.what == "speak":
        speak(args.out, args.texts, args.device, args.lines, args.each)
        return 0
    if args.what == "rate":
        print(json.dumps(rate(args.out), indent=1))
        return 0
    if args.what == "mend":
        result = mend(args.out, args.asr, args.rows)
        print(json.dumps(result, indent=1))
        return int(bool(result["still_faulty"]))
    results = [check(args.out, asr) for asr in (None, args.asr)]
    for result in results:
        print(json.dumps(result, indent=1))
    heard = results[-1]
    return int(heard["recall"] < MIN_RECALL or heard["alarm_share"] > MAX_ALARMS)


if __name__ == "__main__":
    sys.exit(main())
