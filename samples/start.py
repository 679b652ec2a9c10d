"""How long a start takes, by part: whole processes of `synth`, each the median of several.

    python samples/start.py OUT
    python samples/start.py OUT --runs 3 --rows 12 --caches warm --tree . --tree ../before

Rows are those of `benchmark.py`. With a cold cache every run compiles its kernels anew, into an
empty folder; a warm one, which all trees share, is filled by runs that are not counted. Several
trees take turns, so that what the machine does meanwhile happens to all of them. Parts are what
lies between two moments of run.json's `start`; a tree without it shows the whole, and when the
first file was there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import benchmark

PARTS = {  # the moment that a part ends with
    "command": "command_s",
    "checks": "checked_s",
    "imports": "imported_s",
    "device": "device_s",
    "weights": "loaded_s",
    "graphs": "ready_s",
    "1st row": "first_row_s",
    "others": "spoken_s",
}
COLUMNS = ("tree", "rows", "cache", *PARTS, "exit", "1st file at", "whole s", "of")


@dataclass(frozen=True)
class Start:
    """One whole process."""

    whole_s: float
    first_file_s: float  # when the first audio file was written
    parts: dict[str, float]  # seconds by part; empty where run.json tells no moments


def synth(tree: Path, manifest: Path, out: Path, cache: Path, options: list[str]) -> Start:
    """Speak a manifest in a process of its own. Raises CalledProcessError."""
    shutil.rmtree(out, ignore_errors=True)
    env = {**os.environ, "TRITON_CACHE_DIR": str(cache)}
    env["PYTHONPATH"] = os.pathsep.join([str(tree), *filter(None, [env.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "tts_cli", "synth", str(manifest), "--out", str(out), "-q"]
    began, began_s = time.time(), time.perf_counter()
    subprocess.run([*command, *options], env=env, cwd=tree, check=True, stdout=subprocess.DEVNULL)
    whole_s = time.perf_counter() - began_s
    first = min(file.stat().st_mtime for file in out.glob("*.wav"))
    moments = json.loads((out / "run.json").read_text()).get("start") or {}
    return Start(whole_s, first - began, parts_of(moments, whole_s))


def parts_of(moments: dict[str, float], whole_s: float) -> dict[str, float]:
    """Seconds by part; a moment that was not reached is one with the next."""
    parts, before = {}, 0.0
    for name, moment in PARTS.items():
        if moment in moments:
            parts[name] = moments[moment] - before
            before = moments[moment]
    return {**parts, "exit": whole_s - before} if parts else {}


def row_of(name: str, rows: int, cache: str, starts: list[Start]) -> list[str]:
    """The cells of one line of the table."""
    cells = [name, str(rows), cache]
    for part in (*PARTS, "exit"):
        seconds = [start.parts[part] for start in starts if part in start.parts]
        cells.append(f"{median(seconds):.2f}" if seconds else "")
    cells.append(f"{median(start.first_file_s for start in starts):.2f}")
    cells.append(f"**{median(start.whole_s for start in starts):.2f}**")
    return [*cells, " ".join(f"{start.whole_s:.2f}" for start in starts)]


def measure(args: argparse.Namespace, options: list[str]) -> None:
    """Print a line for each tree, number of rows and state of the cache."""
    folder: Path = args.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    trees = [tree.absolute() for tree in args.tree or [Path(__file__).parent.parent]]
    print("| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|", flush=True)
    for rows in map(int, args.rows.split(",")):
        manifest = folder / f"rows-{rows}.jsonl"
        manifest.write_text("".join(line + "\n" for line in benchmark.rows(rows)))
        for cache in args.caches.split(","):
            starts: dict[Path, list[Start]] = {tree: [] for tree in trees}
            for number in range(args.runs + (cache == "warm")):
                for tree in trees:
                    kernels = folder / f"kernels-{cache}"
                    if cache == "cold":
                        shutil.rmtree(kernels, ignore_errors=True)
                    try:
                        start = synth(tree, manifest, folder / "wavs", kernels, options)
                    except (subprocess.CalledProcessError, OSError, ValueError) as error:
                        print(f"{tree}: {error}", file=sys.stderr, flush=True)
                        continue
                    if cache == "cold" or number:
                        starts[tree].append(start)
            for tree, found in starts.items():
                if found:
                    cells = row_of(tree.name, rows, cache, found)
                    print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="for manifests, audio and kernels")
    parser.add_argument("--runs", type=int, default=5, help="of each kind (5)")
    parser.add_argument("--rows", default="12,1", help="comma between them (12,1)")
    parser.add_argument("--caches", default="warm,cold", help="comma between them (warm,cold)")
    parser.add_argument("--model", default="synthetic:qwen3-tts-0.6b", help="see synth (random)")
    parser.add_argument("--device", default="cuda", help="see synth (cuda)")
    parser.add_argument("--tree", type=Path, action="append", help="other sources; several compare")
    args = parser.parse_args()
    measure(args, ["--model", args.model, "--device", args.device])


if __name__ == "__main__":
    main()
