"""Time every operation at the models' shapes, mostly 0.6B's: `python -m kernels.bench`.

Each case first runs its kernel against its reference on the same inputs; a case that disagrees
prints no number and fails the run. Times are medians over replays of a CUDA graph that calls the
operation on many copies of its inputs in turn (up to `_COPIES` copies or `_COPY_BYTES` in all), so
launches cost as much as in the engine's own graphs and large inputs come from memory, not from the
L2 cache. Small ones stay in the cache, as they do in the engine. GB/s is the stated byte count over
the time: every input read once, every output written once. References of products and convolutions
sum in float32: they are slower than a library's in bfloat16, and no measure of a kernel's speed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import torch

from kernels.bench.cases import Case, all_cases, tensors_of
from kernels.bench.graph_timing import replay_us
from kernels.launch.dispatch import AUTO, HAS_TRITON, IS_INTERPRETED, Mode, override

_BATCHES = (1, 64, 256)
_COPIES = 64
_COPY_BYTES = 4 << 30
_REPLAYS = 20


def error(case: Case, dtype: torch.dtype) -> tuple[float, float]:
    """Return the worst disagreement of kernel and reference over a case's outputs, and the limit.

    rms(out - ref) / rms(ref) for numbers; for drawn ids the share of rows that differ, where one in
    a hundred may: a mark that falls between two roundings of the cumulative mass.
    """
    results = []
    for mode in ("triton", "reference"):
        torch.manual_seed(0)
        inputs = case.make()
        with override(mode):
            results.append(case.run(inputs))
    worst, allowed = 0.0, 1e-5 if dtype == torch.float32 else 5e-3
    for out, ref in zip(*results, strict=True):
        if out.dtype == torch.int64:
            worst, allowed = (out != ref).float().mean().item(), 0.01
        else:
            difference = (out.float() - ref.float()).square().mean().sqrt()
            relative = (difference / ref.float().square().mean().sqrt()).item()
            worst = max(worst, relative if relative == relative else float("inf"))
    return worst, allowed


def time_us(case: Case, mode: Mode) -> float:
    """Median microseconds of one call inside a CUDA graph."""
    probe = sum(tensor.nbytes for tensor in tensors_of(case.make()))
    copies = max(2, min(_COPIES, _COPY_BYTES // probe))
    inputs = [case.make() for _ in range(copies)]

    def run() -> None:
        for one in inputs:
            case.run(one)

    with override(mode):
        return replay_us(run, _REPLAYS) / copies


def copy_rate() -> float:
    """Return GB/s, read plus written, of a large elementwise pass: the ceiling of the others."""
    source = torch.zeros(1 << 28, device="cuda")
    case = Case(torch.neg, "1 GiB", lambda: {"x": source}, {"out": torch.empty_like(source)})
    return case.num_bytes() / time_us(case, "reference") / 1e3


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table. Return 0 if every case agreed with its reference, else 1; 3 without CUDA."""
    parser = argparse.ArgumentParser(prog="python -m kernels.bench", description="Time the kernels")
    parser.add_argument("--op", action="append", help="only this operation (repeatable)")
    parser.add_argument("--batch", type=int, action="append", help=f"default: {_BATCHES}")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--no-reference", action="store_true", help="do not time the references")
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available() or not HAS_TRITON or IS_INTERPRETED:
        print(
            "kernels.bench times Triton kernels on a GPU: it needs a CUDA device, the triton "
            "package and TRITON_INTERPRET unset; on the CPU, run the tests in tests/kernels",
            file=sys.stderr,
        )
        return 3
    dtype = getattr(torch, options.dtype)
    torch.backends.cudnn.allow_tf32 = False  # the references are float32 where the kernels are
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {AUTO.describe()}, {dtype}")
    print(f"elementwise pass over 1 GiB: {copy_rate():.0f} GB/s")
    print(f"{'op':20} {'shape':28} {'error':>8} {'us':>8} {'KB':>10} {'GB/s':>7} {'ref us':>8}")
    has_failed = False
    for batch in options.batch or _BATCHES:
        for case in all_cases(batch, dtype):
            name = case.op.__name__
            if options.op and name not in options.op:
                continue
            worst, allowed = error(case, dtype)
            line = f"{name:20} {case.shape:28} {worst:8.1e}"
            if worst > allowed:
                has_failed = True
                print(f"{line} disagrees with its reference (allowed {allowed:.0e}): no time")
                continue
            taken, moved = time_us(case, "triton"), case.num_bytes()
            line += f" {taken:8.2f} {moved / 1e3:10.1f} {moved / taken / 1e3:7.0f}"
            if not options.no_reference:
                line += f" {time_us(case, 'reference'):8.2f}"
            print(line, flush=True)
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
