"""What hearing costs beside speaking: rows of the sample voice, spoken and heard by themselves, and
with `synth --verify`.

    python tests/tools/verify_speed.py OUT [--rows 2048] [--whisper small] [--tokens 40] [--turns 2]
        [--device cuda] [--verify-device cuda]

It writes a Whisper checkpoint of random weights (small: the shape of the released one, 0.5 GB in
bfloat16; tiny: to try the script). That understands nothing and never ends, so each window takes
all the tokens it may, 40 as people say in 8 s, every row is suspect, and none is spoken again:
`--retakes 0`. Each turn has three whole processes: `synth`, `check --asr` of its folder, and `synth
--verify`; a short one before them compiles kernels and is not counted. Prints a line a process, and
the share of the last in the longer of the others; the figures are in OUT/verify_speed.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from planted_faults import plain_rows  # noqa: E402
from tiny_whisper import write_tiny_whisper  # noqa: E402

SHAPES: dict[str, dict[str, int]] = {
    "tiny": {},
    "small": {
        "vocab_size": 51865,
        "d_model": 768,
        "encoder_layers": 12,
        "decoder_layers": 12,
        "encoder_attention_heads": 12,
        "decoder_attention_heads": 12,
        "encoder_ffn_dim": 3072,
        "decoder_ffn_dim": 3072,
    },
}
BEHIND_PROMPT = 8  # positions of a Whisper that no word may have, see `whisper.Whisper`
WARM_ROWS = 32


def write_rows(path: Path, count: int) -> Path:
    """A manifest of so many lines; what is said again has another id, and so another seed."""
    lines = islice(enumerate(cycle(plain_rows())), count)
    path.write_text("".join(json.dumps({**row, "id": f"{at:05d}"}) + "\n" for at, row in lines))
    return path


def timed(*words: object) -> tuple[float, Any]:
    """Seconds of a whole command, and what it says as JSON. Raises RuntimeError where it fails."""
    command = [sys.executable, "-m", "tts_cli", *map(str, words), "--json", "-q"]
    started_s = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    wall_s = time.perf_counter() - started_s
    if done.returncode not in (0, 1):  # 1: rows are suspect
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
    return wall_s, json.loads(done.stdout)


def turn(folder: Path, manifest: Path, asr: list[object], flags: list[object]) -> dict[str, float]:
    """Seconds of the three ways."""
    alone, beside = folder / "alone", folder / "beside"
    for out in (alone, beside):
        shutil.rmtree(out, ignore_errors=True)
    speaking_s, spoken = timed("synth", manifest, "--out", alone, *flags)
    device = flags[flags.index("--device") + 1]
    hearing_s, _ = timed("check", alone, "--asr", asr[1], "--device", device)
    both_s, verified = timed("synth", manifest, "--out", beside, *flags, *asr, "--retakes", 0)
    found = {"speaking_s": speaking_s, "hearing_s": hearing_s, "both_s": both_s}
    found["share"] = both_s / max(speaking_s, hearing_s)
    found["xrt_alone"], found["heard"] = spoken["totals"]["xrt"], verified["verified"]["heard"]
    return {name: round(value, 3) for name, value in found.items()}


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=2048)
    parser.add_argument("--whisper", choices=SHAPES, default="small")
    parser.add_argument("--tokens", type=int, default=40, help="of a window")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    out = args.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    sizes = {"max_target_positions": args.tokens + BEHIND_PROMPT, **SHAPES[args.whisper]}
    whisper = write_tiny_whisper(out / "whisper", scale=1.0, half=args.device != "cpu", **sizes)
    asr: list[object] = ["--verify", whisper, "--verify-device", args.device]
    flags: list[object] = ["--device", args.device]
    for name, count in (("warm", min(WARM_ROWS, args.rows)), ("rows", args.rows)):
        write_rows(out / f"{name}.jsonl", count)
    turn(out, out / "warm.jsonl", asr, flags)
    turns = []
    for number in range(args.turns):
        turns.append(turn(out, out / "rows.jsonl", asr, flags))
        print(f"turn {number + 1}: {json.dumps(turns[-1])}", flush=True)
    middle = {name: round(median(one[name] for one in turns), 3) for name in turns[0]}
    found = {"rows": args.rows, "tokens": args.tokens, "whisper": args.whisper, "turns": turns}
    (out / "verify_speed.json").write_text(json.dumps({**found, "median": middle}, indent=2) + "\n")
    print(
        f"{args.rows} rows: speaking {middle['speaking_s']:.1f} s, hearing "
        f"{middle['hearing_s']:.1f} s, both beside each other {middle['both_s']:.1f} s: "
        f"{middle['share']:.2f} times the longer"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
