"""Time decoder steps by path and rows: `python -m kernels.bench.step`.

Paths of one step (embedding, layers, head) of the 0.6B models, random weights, bf16, in a CUDA
graph: `chain` is separate operations, `persistent` (one row) one launch, and what follows
its name how its settings differ from the default. Products of `chain` are those that a step in
`models.decoder.decoder` takes for as many rows: our kernels where `use_row_kernels` says so, then
with the launches of `kernels.launch.early_launch` where all of a step is ours, else PyTorch's.
The predictor runs its positions 1 to 15 one behind the other; the talker stands at positions 150
and above.

A path that disagrees with `chain` prints no time. What a stage costs shows in runs with that stage
made thin (`few heads`, `thin MLP`, `first position`): every wait and launch stays, the bytes go.

Variants are compiled by several processes first. Each is measured under a watchdog; one that fails
or hangs is named and the rest go on in a fresh process.
"""

from __future__ import annotations

import argparse
import faulthandler
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.attention.rope import rope_tables
from kernels.attention.step import step_attention
from kernels.bench.graph_timing import replay_us
from kernels.launch.dispatch import HAS_TRITON, IS_INTERPRETED, describe, jit, tl
from kernels.launch.early_launch import dependent_launches
from kernels.linear.choose import linear
from kernels.linear.layers import LayerWeights, is_all_ours, run_layers
from kernels.persistent.stages import arrive, wait_for
from kernels.persistent.step import (
    NUM_COUNTERS,
    DecoderWeights,
    StepSettings,
    default_settings,
    num_processors,
    persistent_step,
)

_WIDTH, _HEAD_DIM, _EPS = 1024, 128, 1e-6
_REPLAYS, _WATCHDOG_S, _ALLOWED = 15, 25, 4e-2


@dataclass(frozen=True)
class Shape:
    """One decoder: 5 layers and a short cache, or 28 layers and a long one."""

    layers: int
    cache: int  # positions
    ids: int  # of the head
    inner: int = 3072
    heads: int = 16
    kv_heads: int = 8
    is_first: bool = False  # at position 0, where attention has nothing to read


PREDICTOR, TALKER = Shape(5, 16, 2048), Shape(28, 512, 3072)
SHAPES = {"predictor": PREDICTOR, "talker": TALKER}


@dataclass(frozen=True)
class Variant:
    """One line of the table. Settings None: separate operations."""

    part: str
    rows: int
    name: str
    settings: StepSettings | None
    shape: Shape


def variants(parts: Sequence[str], rows: Sequence[int]) -> Iterator[Variant]:
    """All lines, `chain` first for each part and rows, because the others are held to it."""
    for count in rows:
        for part in parts:
            shape = SHAPES[part]
            yield Variant(part, count, "chain", None, shape)
            if count == 1:
                for name, settings in _named(shape.cache):
                    yield Variant(part, count, name, settings, shape)
            if count in (1, 64):
                best = default_settings(shape.cache) if count == 1 else None
                path = "chain" if best is None else "persistent"
                for name, thin in _thin(shape):
                    yield Variant(part, count, f"{path}, {name}", best, thin)


def _named(cache: int) -> Iterator[tuple[str, StepSettings]]:
    base = default_settings(cache)
    yield "persistent", base
    yield "persistent, other warps", replace(base, num_warps=12 - base.num_warps)
    yield "persistent, plain poll", replace(base, use_atomic_poll=False)
    yield "persistent, all processors", replace(base, num_programs=0)
    if cache > 32:
        yield "persistent, 8 splits of 32", replace(base, attention_splits=8, block_s=32)
        yield "persistent, unsplit", replace(base, attention_splits=1)


def _thin(shape: Shape) -> Iterator[tuple[str, Shape]]:
    yield "few heads", replace(shape, heads=4, kv_heads=2)
    yield "thin MLP", replace(shape, inner=512)
    yield "first position", replace(shape, is_first=True)
    yield "all thin", replace(shape, heads=4, kv_heads=2, inner=512, is_first=True)


@dataclass(frozen=True)
class Step:
    """Random weights, cache and inputs of one shape and number of rows."""

    weights: DecoderWeights
    cache: Tensor
    cos: Tensor
    sin: Tensor
    tables: Tensor  # (steps, ids, D)
    heads: Tensor  # (steps, ids, D)
    codes: Tensor  # (R, steps)
    positions: Tensor  # (steps, R)
    counters: Tensor


@lru_cache(maxsize=1)
def make_step(shape: Shape, rows: int, device: str = "cuda") -> Step:
    """Everything on one device, seeded; activations stay near 1."""
    torch.manual_seed(0)
    layers, inner, mixed = shape.layers, shape.inner, shape.heads * _HEAD_DIM
    qkv = mixed + 2 * shape.kv_heads * _HEAD_DIM

    def randn(*size: int, scale: float = 1.0) -> Tensor:
        return torch.randn(size, device=device, dtype=torch.bfloat16) * scale

    def near_one(*size: int) -> Tensor:
        return (torch.rand(size, device=device) + 0.5).bfloat16()

    width = _WIDTH**-0.5
    weights = DecoderWeights(
        qkv=randn(layers, qkv, _WIDTH, scale=width),
        o=randn(layers, _WIDTH, mixed, scale=mixed**-0.5),
        gate_up=randn(layers, 2 * inner, _WIDTH, scale=width),
        down=randn(layers, _WIDTH, inner, scale=inner**-0.5),
        norms=near_one(layers + 1, _WIDTH),
        post_norms=near_one(layers, _WIDTH),
        q_norms=near_one(layers, _HEAD_DIM),
        k_norms=near_one(layers, _HEAD_DIM),
    )
    is_short = shape.cache == PREDICTOR.cache
    steps = 15 if is_short else 1
    positions = torch.arange(1, 16, device=device)[:, None].repeat(1, rows)
    if not is_short:
        positions = (150 + torch.arange(rows, device=device) % 16)[None]
    if shape.is_first:
        positions = torch.zeros_like(positions)
    cos, sin = rope_tables(shape.cache, _HEAD_DIM, 1e6, device, torch.bfloat16)
    return Step(
        weights,
        randn(layers, 2, rows, shape.kv_heads, shape.cache, _HEAD_DIM),
        cos,
        sin,
        randn(steps, shape.ids, _WIDTH),
        randn(steps, shape.ids, _WIDTH, scale=width),
        torch.randint(0, shape.ids, (rows, steps), device=device),
        positions,
        torch.zeros(NUM_COUNTERS, dtype=torch.int32, device=device),
    )


def separate(step: Step, index: int, shape: Shape) -> Tensor:
    """One step of separate operations, as `models.decoder.decoder.Decoder.run`: logits."""
    weights = step.weights
    q_norms, k_norms = weights.q_norms, weights.k_norms
    assert q_norms is not None
    assert k_norms is not None

    def attend(qkv: Tensor, layer: int) -> Tensor:
        return step_attention(
            qkv, q_norms[layer], k_norms[layer], step.cos, step.sin, step.positions[index],
            step.cache[layer, 0], step.cache[layer, 1], shape.heads, _HEAD_DIM**-0.5, _EPS,
        )  # fmt: skip

    layers = layers_of(weights)
    x = F.embedding(step.codes[:, index].clamp(min=0), step.tables[index])
    with dependent_launches(x, is_all_ours(x, layers[0])):
        hidden = run_layers(x, layers, weights.norms[-1], _EPS, attend)
    return linear(hidden, step.heads[index])


def layers_of(weights: DecoderWeights) -> list[LayerWeights]:
    """Each layer's share of stacked weights."""
    norms, post_norms = weights.norms[:-1], weights.post_norms
    stacked = (norms, weights.qkv, weights.o, post_norms, weights.gate_up, weights.down)
    return [LayerWeights(*parts) for parts in zip(*stacked, strict=True)]


def persistent(step: Step, index: int, shape: Shape, settings: StepSettings) -> Tensor:
    """One step as one launch: logits."""
    _, logits = persistent_step(
        step.weights, step.tables[index], step.positions[index], step.cache, step.cos, step.sin,
        step.counters, shape.heads, _HEAD_DIM**-0.5, _EPS, codes=step.codes[:, index],
        head=step.heads[index], settings=settings,
    )  # fmt: skip
    assert logits is not None
    return logits


def path(variant: Variant, step: Step) -> Callable[[], Tensor]:
    """All steps of a variant, to be captured; returns the last logits."""

    def run() -> Tensor:
        out = step.heads
        for index in range(step.positions.shape[0]):
            if variant.settings is None:
                out = separate(step, index, variant.shape)
            else:
                out = persistent(step, index, variant.shape, variant.settings)
        return out

    return run


def launches(run: Callable[[], object]) -> Counter[str]:
    """Kernels of one eager run by name."""
    run()
    torch.cuda.synchronize()
    cuda = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=cuda, acc_events=True) as trace:
        run()
        torch.cuda.synchronize()
    events = [event for event in trace.events() if event.device_type.name == "CUDA"]
    return Counter(event.name for event in events)


@jit
def _barriers_kernel(counters_ptr, rounds, POLL_ATOMIC: tl.constexpr):
    programs = tl.num_programs(0)
    for index in range(rounds):
        wait_for(counters_ptr, index * programs, POLL_ATOMIC)
        arrive(counters_ptr)
    left = tl.atomic_add(counters_ptr + 1, 1, sem="acq_rel", scope="gpu")
    if left == programs - 1:
        tl.store(counters_ptr, 0)
        tl.store(counters_ptr + 1, 0)


def barrier_us(is_atomic: bool, warps: int) -> float:
    """Microseconds of one wait of a whole grid for itself, nothing between."""
    counters = torch.zeros(2, dtype=torch.int32, device="cuda")
    programs, rounds = num_processors(torch.device("cuda", torch.cuda.current_device())), 400

    def run(count: int) -> None:
        _barriers_kernel[(programs,)](
            counters, count, POLL_ATOMIC=is_atomic, num_warps=warps, launch_cooperative_grid=True
        )

    twice, once = (replay_us(partial(run, count), _REPLAYS) for count in (2 * rounds, rounds))
    return (twice - once) / rounds


def measure(variant: Variant, expected: dict[tuple[object, ...], Tensor], is_listed: bool) -> str:
    """The line of a variant; `expected` keeps the logits of the chain by part, rows and shape."""
    step = make_step(variant.shape, variant.rows)
    step.counters.zero_()  # whatever a failure before has left
    run = path(variant, step)
    out = run().float()
    torch.cuda.synchronize()
    key = (variant.part, variant.rows, variant.shape)
    if key not in expected:
        if variant.settings is not None:
            chain = replace(variant, settings=None, name="chain")
            expected[key] = path(chain, step)().float()
        else:
            expected[key] = out
    difference = (out - expected[key]).square().mean().sqrt()
    error = (difference / expected[key].square().mean().sqrt()).item()
    line = f"{variant.part:9} {variant.rows:4} {variant.name:28} {error:8.1e}"
    if not error < _ALLOWED or step.counters.any():
        return f"{line} disagrees with the chain (allowed {_ALLOWED:.0e}): no time"
    names = launches(run)
    steps = step.positions.shape[0]
    taken = replay_us(run, _REPLAYS) / steps
    again = run().float()
    if not math.isfinite(taken) or not torch.equal(again, out):
        line += " NOT THE SAME TWICE"
    per_layer, count = taken / variant.shape.layers, names.total() / steps
    line += f" {taken:9.1f} {per_layer:8.2f} {count:9.1f}"
    if is_listed:
        for name, number in names.most_common():
            line += f"\n    {number / steps:7.2f} {name[:100]}"
    return line


def _run_child(chosen: list[Variant], first: int, mark: Path, is_listed: bool) -> int:
    """Measure from `first` on; `mark` names the variant at hand for whoever comes after."""
    expected: dict[tuple[object, ...], Tensor] = {}
    for index in range(first, len(chosen)):
        mark.write_text(str(index))
        faulthandler.dump_traceback_later(_WATCHDOG_S, exit=True, file=2)
        try:
            print(measure(chosen[index], expected, is_listed), flush=True)
        except Exception as error:  # one variant must not cost the others
            one = chosen[index]
            text = " ".join(str(error).split())[:200]
            print(f"{one.part:9} {one.rows:4} {one.name:28} {type(error).__name__}: {text}")
            if "CUDA error" in text:
                return 1
        faulthandler.cancel_dump_traceback_later()
        torch.cuda.empty_cache()
    return 0


def _warm(chosen: list[Variant], index: int, count: int) -> int:
    """Compile every `count`-th variant into Triton's cache, by running it on one layer."""
    faulthandler.dump_traceback_later(90, exit=True)
    for variant in chosen[index::count]:
        shape = replace(variant.shape, layers=1)
        try:
            step = make_step(shape, variant.rows)
            path(replace(variant, shape=shape), step)()
            torch.cuda.synchronize()
        except Exception as error:  # measured, and then named, by the run proper
            print(f"warm {variant.name}: {type(error).__name__}", file=sys.stderr)
            if "CUDA error" in str(error):
                return 1
    return 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m kernels.bench.step", description="Time decoder steps by path and rows"
    )
    parser.add_argument("--part", action="append", choices=tuple(SHAPES), help="default: all")
    parser.add_argument("--rows", type=int, action="append", help="default: 1 64 256 2 16 32 128")
    parser.add_argument("--seconds", type=float, default=115, help="stop starting variants after")
    parser.add_argument("--list", action="store_true", help="kernels of each path by name")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--warm", nargs=2, type=int, help=argparse.SUPPRESS)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 0 if all variants ran, 1 if one failed or time ran out, 3 without CUDA."""
    start = time.monotonic()
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = _options().parse_args(given)
    if not torch.cuda.is_available() or not HAS_TRITON or IS_INTERPRETED:
        print("kernels.bench.step needs a CUDA device and triton, not interpreted", file=sys.stderr)
        return 3
    rows = options.rows or [1, 64, 256, 2, 16, 32, 128]
    chosen = list(variants(options.part or list(SHAPES), rows))
    with torch.inference_mode():
        if options.warm:
            return _warm(chosen, *options.warm)
        if options.child:
            first, mark = options.child
            return _run_child(chosen, int(first), Path(mark), options.list)
    command = [sys.executable, "-m", "kernels.bench.step", *given]
    workers = max(1, min(12, (os.cpu_count() or 2) - 2))
    warmers = [
        subprocess.Popen([*command, "--warm", str(index), str(workers)]) for index in range(workers)
    ]
    for warmer in warmers:
        warmer.wait()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {describe()}")
    print(f"{len(chosen)} variants compiled after {time.monotonic() - start:.0f} s")
    for is_atomic in (True, False):
        for warps in (4, 8, 16):
            taken = barrier_us(is_atomic, warps)
            print(f"barrier alone, {warps} warps, atomic poll {is_atomic}: {taken:.2f} us")
    print(f"{'part':9} {'rows':>4} {'path':28} {'error':>8} {'us':>9} {'a layer':>8} launches")
    sys.stdout.flush()
    first, has_failed = 0, False
    with tempfile.TemporaryDirectory() as folder:
        mark = Path(folder) / "mark"
        while first < len(chosen):
            left = options.seconds - (time.monotonic() - start)
            try:
                done = subprocess.run(
                    [*command, "--child", str(first), str(mark)], timeout=max(1.0, left)
                )
            except subprocess.TimeoutExpired:
                at = int(mark.read_text()) if mark.exists() else first
                print(f"out of time at variant {at} of {len(chosen)}: {chosen[at]}")
                return 1
            if done.returncode == 0:
                break
            has_failed = True
            first = int(mark.read_text()) + 1 if mark.exists() else len(chosen)
            print(f"variant {first - 1} ended its process ({done.returncode})", flush=True)
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
