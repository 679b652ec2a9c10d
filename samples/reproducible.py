"""Does a row come out the same in any company? Rows in several, compared byte for byte, and timed.

    python samples/reproducible.py compare OUT --model synthetic:qwen3-tts-0.6b --max-batch 256
    python samples/reproducible.py cost OUT --model synthetic:qwen3-tts-0.6b --max-batch 256

`compare` speaks the benchmark's rows in three orders, among two other sets of rows, after an
interruption and some of them alone, with `--reproducible` and, in two orders, without it; a line
of its table says how many of the rows have the codes and the samples of the first run. Exit code 1
if one with `--reproducible` has not. `cost` speaks them with and without it in turn and prints the
median of each figure.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import soundfile
from benchmark import FRAMES, rows, stage_seconds
from safetensors.numpy import load_file

ALONE = 2  # rows that are spoken by themselves
Row = dict[str, Any]


class Bench:
    """Runs of `tts-cli synth` with the same settings.

    Args:
        folder: for manifests and audio; made.
        settings: of every run.
    """

    def __init__(self, folder: Path, settings: Sequence[str]) -> None:
        self.folder = folder
        self.settings = settings
        folder.mkdir(parents=True, exist_ok=True)

    def speak(self, name: str, chosen: Sequence[Row], *flags: str, is_more: bool = False) -> Path:
        """Speak rows in their order into a folder of that name, empty at first unless is_more."""
        out = self.folder / name
        if not is_more:
            shutil.rmtree(out, ignore_errors=True)
        manifest = self.folder / f"{name}.jsonl"
        manifest.write_text("".join(json.dumps(row) + "\n" for row in chosen))
        command = [sys.executable, "-m", "tts_cli", "synth", str(manifest), "--out", str(out)]
        command += ["-q", "--accept-truncated", *self.settings, *flags]
        code = subprocess.run(command, stdout=subprocess.DEVNULL).returncode
        if code:
            raise SystemExit(f"{' '.join(command)}: exit code {code}")
        return out


def other_rows(count: int, seed: int, lengths: str) -> list[Row]:
    """Rows of other ids, texts and lengths."""
    found = [json.loads(line) for line in rows(3 * count, lengths)]
    random.Random(seed).shuffle(found)
    return [row | {"id": f"other-{seed}-{row['id']}"} for row in found[:count]]


def compare(bench: Bench, own: list[Row], lengths: str, has_control: bool) -> bool:
    """Print the table; whether every row of a run with --reproducible is that of the first."""
    flags = ("--reproducible", "--save-codes")
    half = len(own) // 2
    shuffled = random.Random(1).sample(own, len(own))
    mixed = own[:half] + other_rows(len(own) - half, 2, lengths)
    random.Random(3).shuffle(mixed)
    print("| run | rows | codes equal | samples equal |\n|---|---|---|---|", flush=True)
    first = bench.speak("first", own, *flags)
    same = [
        report("reversed", first, bench.speak("reversed", own[::-1], *flags), own),
        report("shuffled", first, bench.speak("shuffled", shuffled, *flags), own),
        report("half of them, other mates", first, bench.speak("mixed", mixed, *flags), own[:half]),
        report(
            "every fourth, behind other mates",
            first,
            bench.speak("behind", other_rows(half, 4, lengths) + own[::4], *flags),
            own[::4],
        ),
    ]
    bench.speak("resumed", shuffled, *flags, "--limit", str(max(1, len(own) // 3)))
    same.append(
        report("resumed", first, bench.speak("resumed", shuffled, *flags, is_more=True), own)
    )
    for row in own[:: -(-len(own) // ALONE)]:
        name = f"alone-{row['id']}"
        same.append(report(f"{row['id']} alone", first, bench.speak(name, [row], *flags), [row]))
    if has_control:
        control = bench.speak("control", own, "--save-codes")
        again = bench.speak("control-reversed", own[::-1], "--save-codes")
        report("without it: reversed", control, again, own)
        again = bench.speak("control-mixed", mixed, "--save-codes")
        report("without it: half of them, other mates", control, again, own[:half])
    return all(same)


def report(name: str, first: Path, second: Path, chosen: Sequence[Row]) -> bool:
    """Print how many of the rows are the same in both folders; whether all are."""
    codes = samples = 0
    for row in chosen:
        files = [folder / f"{row['id']}.codes.safetensors" for folder in (first, second)]
        one, other = (load_file(file)["codes"] for file in files)
        codes += one.shape == other.shape and bool((one == other).all())
        files = [folder / f"{row['id']}.wav" for folder in (first, second)]
        one, other = (soundfile.read(file, dtype="int16")[0] for file in files)
        samples += one.shape == other.shape and bool((one == other).all())
    print(f"| {name} | {len(chosen)} | {codes} | {samples} |", flush=True)
    return codes == samples == len(chosen)


def cost(bench: Bench, own: list[Row], repeats: int) -> None:
    """Print medians with and without --reproducible, spoken in turn."""
    modes: dict[str, tuple[str, ...]] = {"without": (), "with": ("--reproducible",)}
    found: dict[str, list[Row]] = {mode: [] for mode in modes}
    for index in range(repeats + 1):
        for mode, flags in modes.items():
            out = bench.speak(f"cost-{mode}", own, *flags)
            report = json.loads((out / "run.json").read_text())
            totals, stages = report["totals"], stage_seconds(out)
            stages = {name: stages[f"{name}_s"] for name in ("frames", "prefill", "vocoder")}
            facts = {name: totals.get(name) for name in ("xrt", "wall_s", "capture_s")}
            peak = totals.get("peak_memory_bytes")
            facts |= stages | {"GiB": None if peak is None else peak / 2**30}
            print(f"# {mode} {index}: {json.dumps(facts)}", flush=True)
            if index:  # the first of each compiles
                found[mode].append(facts)
    print("| median of each | without | with --reproducible | with / without |\n|---|---|---|---|")
    for name in found["with"][0]:
        pair = [
            statistics.median(run[name] for run in found[mode] if run[name] is not None)
            if all(run[name] is not None for run in found[mode])
            else None
            for mode in modes
        ]
        if pair[0] is not None and pair[1] is not None:
            ratio = f"{pair[1] / pair[0]:.3f}" if pair[0] else "-"
            print(f"| {name} | {pair[0]:.2f} | {pair[1]:.2f} | {ratio} |", flush=True)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("part", choices=("compare", "cost"))
    parser.add_argument("folder", type=Path, help="for manifests and audio")
    parser.add_argument("--model", default="synthetic:qwen3-tts-0.6b")
    parser.add_argument("--max-batch", type=int, default=256)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rows", type=int, help="how many (512 to compare, 1024 to time)")
    parser.add_argument("--frames", default=FRAMES, help=f"shortest-longest ({FRAMES})")
    parser.add_argument("--repeats", type=int, default=3, help="of cost (3)")
    parser.add_argument("--no-control", action="store_true", help="compare with the flag alone")
    args = parser.parse_args()
    settings = ["--model", args.model, "--max-batch", str(args.max_batch), "--dtype", args.dtype]
    bench = Bench(args.folder, [*settings, "--device", args.device])
    count = args.rows or (512 if args.part == "compare" else 1024)
    own = [json.loads(line) for line in rows(count, args.frames)]
    if args.part == "cost":
        cost(bench, own, args.repeats)
        return 0
    return 0 if compare(bench, own, args.frames, not args.no_control) else 1


if __name__ == "__main__":
    sys.exit(main())
