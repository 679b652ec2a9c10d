"""The benchmark of the README: make its rows, run them, or measure the whole table.

    python samples/benchmark.py rows 1024 > rows.jsonl
    python samples/benchmark.py run OUT --models synthetic:qwen3-tts-0.6b --batches 64,256
    python samples/benchmark.py table OUT
    python samples/benchmark.py table OUT --only frames,whole-0.6b-256 --kernels auto,portable

Rows have 62 to 187 frames, 5 to 15 s of Qwen3-TTS (of Fish Speech that is --frames 108-323). Random
weights never end a row by themselves, so `max_frames` is each row's length; texts grow with it, as
real ones do. The same arguments give the same rows. A run starts from an empty folder, so nothing
is resumed. On a GPU the last columns of `run` say what its wall time went into: prompts before the
first launch, prefill, frames, those of fewer rows than half of the slots (sparse), the vocoder
where no frames ran, a GPU without work while rows waited and later, and the last files. They add up
to all of it.

`table` measures on whatever GPU it finds: a frame, the vocoder, whole runs of all models, each
after a shorter one in the same process, the median of three, and the first of them with the kernels
of other GPUs as well; prints a line a part and, at the end, the table, and keeps all figures in
OUT/table.json. With --baseline it exits with 1 where a part is slower than in an earlier table.json
of the same GPU and versions. Parts that are not in it unless they are named: mixed (rows cloned in
two ways in one run), memory (as on cards of 24, 48 and 80 GB).
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
sys.path += [str(HERE / "benchmarks"), str(HERE.parent)]

import manifests  # noqa: E402
from manifests import FRAMES  # noqa: E402
from whole_run import shares, stage_seconds  # noqa: E402

COLUMNS = ("model", "batch", "xRT", "wall s", "capture s", "busy", "misses", "failed", "GiB")
COLUMNS += ("prefill", "frames", "sparse", "rest")


def rows(count: int, lengths: str = FRAMES) -> Iterator[str]:
    """Lines of the manifest; `lengths` is "SHORTEST-LONGEST" in frames."""
    yield from map(json.dumps, manifests.rows(count, lengths))


def run(folder: Path, model: str, batch: int, count: int, lengths: str) -> list[str]:
    """Speak `count` rows with a model; the cells of one line of the table, three if no row was
    spoken: the last says why.
    """
    out = folder / f"{model.rpartition(':')[2].replace('/', '_')}-{batch}"
    shutil.rmtree(out, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    manifest = folder / "rows.jsonl"
    manifest.write_text("".join(line + "\n" for line in rows(count, lengths)))
    command = [sys.executable, "-m", "tts_cli", "synth", str(manifest), "--out", str(out), "-q"]
    command += ["--model", model, "--max-batch", str(batch)]
    code = subprocess.run(command, stdout=subprocess.DEVNULL).returncode
    if not (out / "run.json").exists():
        return [model, str(batch), f"failed: exit code {code}"]
    report = json.loads((out / "run.json").read_text())
    totals, share = report["totals"], report["device"].get("busy_share")
    if totals["xrt"] is None:
        return [model, str(batch), f"failed: no row was spoken, {totals['failed']} failed"]
    peak = totals.get("peak_memory_bytes")
    cells = [
        model,
        str(batch),
        f"{totals['xrt']:.1f}",
        f"{totals['wall_s']:.1f}",
        f"{totals.get('capture_s') or 0:.1f}",
        "" if share is None else f"{100 * share:.1f} %",
        str(totals.get("graph_misses", "")),
        str(totals["failed"]),
        "" if peak is None else f"{peak / 2**30:.1f}",
    ]
    parts = shares(report, stage_seconds(out))
    return cells + [f"{100 * seconds / totals['wall_s']:.1f} %" for seconds in parts.values()]


def measure_table(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    """The part `table`; returns the exit code."""
    from parts import PARTS
    from table import KERNELS, conditions_of, run, times_of

    known = [part.name for part in PARTS]
    only = None if args.only is None else args.only.split(",")
    kernels = args.kernels.split(",")
    for names, allowed in ((only or [], known), (kernels, KERNELS)):
        for name in names:
            if name not in allowed:
                parser.error(f"{name!r} is none of {', '.join(allowed)}")
    flags = ("--device", args.device)
    if args.baseline is None:
        return run(args.folder, only, kernels, args.repeats, args.budget, flags)
    from baseline import Baseline

    from tts_cli.errors import UsageError

    try:
        against = Baseline.read(args.baseline, args.tolerance, conditions_of, times_of)
        return run(args.folder, only, kernels, args.repeats, args.budget, flags, against)
    except UsageError as error:
        parser.error(str(error))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parts = parser.add_subparsers(dest="part", required=True)
    making = parts.add_parser("rows", help="print the manifest")
    making.add_argument("count", type=int, nargs="?", default=1024, help="how many rows (1024)")
    making.add_argument("--frames", default=FRAMES, help=f"shortest-longest ({FRAMES})")
    running = parts.add_parser("run", help="speak the rows and print a table")
    running.add_argument("folder", type=Path, help="for the manifest and the audio")
    running.add_argument("--models", default="synthetic:qwen3-tts-0.6b", help="comma between them")
    running.add_argument("--batches", default="64,256", help="values of --max-batch (64,256)")
    running.add_argument("--rows", type=int, default=1024, help="how many rows (1024)")
    running.add_argument("--frames", default=FRAMES, help=f"shortest-longest ({FRAMES})")
    table = parts.add_parser("table", help="measure the table of the README on this GPU")
    table.add_argument("folder", type=Path, help="for manifests, audio and table.json")
    table.add_argument("--only", help="parts, comma between them (those of the table)")
    table.add_argument("--kernels", default="auto,portable", help="comma between them (both)")
    table.add_argument("--repeats", type=int, default=3, help="timed whole runs (3)")
    table.add_argument("--budget", type=float, help="begin no part behind so many seconds")
    table.add_argument("--device", default="auto", help="of every command (auto)")
    table.add_argument(
        "--baseline", type=Path, help="a table.json: exit with 1 if a part is slower"
    )
    table.add_argument("--tolerance", default="5%", help="how much slower it may be (5%%)")
    args = parser.parse_args()
    if args.part == "table":
        sys.exit(measure_table(parser, args))
    if args.part == "rows":
        print("\n".join(rows(args.count, args.frames)))
        return
    print("| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|", flush=True)
    has_failed = False
    for model in args.models.split(","):
        for batch in map(int, args.batches.split(",")):
            cells = run(args.folder, model, batch, args.rows, args.frames)
            print("| " + " | ".join(cells) + " |", flush=True)
            has_failed |= len(cells) < len(COLUMNS)
    sys.exit(int(has_failed))


if __name__ == "__main__":
    main()
