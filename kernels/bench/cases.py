"""Every operation at the models' shapes, mostly 0.6B's: what `kernels.bench` times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.attention.decode import decode_attention
from kernels.attention.prefill import prefill_attention
from kernels.attention.rope import QKNormRope, qk_norm_rope_store, rope_tables
from kernels.attention.step import SHORT_CACHE, step_attention
from kernels.frame.frame_embedding import frame_embedding
from kernels.linear.few_rows import (
    MAX_ROWS,
    TILE_ROWS,
    num_parts,
    row_linear,
    row_linear_parts,
    row_swiglu,
)
from kernels.linear.rms_norm import add_rms_norm_, rms_norm
from kernels.linear.swiglu import swiglu
from kernels.sampling.draws import uniforms
from kernels.sampling.nucleus import sample_nucleus
from kernels.sampling.sample import sample
from kernels.vocoder.conv_taps import conv_taps
from kernels.vocoder.residual_unit import residual_unit_
from kernels.vocoder.snake import snake_beta
from kernels.vocoder.snake_out import snake_out

_WIDTH, _INNER, _HEADS, _KV_HEADS, _HEAD_DIM, _CODEBOOKS = 1024, 3072, 16, 8, 128, 16
_TALKER_IDS, _PREDICTOR_IDS, _EOS = 3072, 2048, 2150
_TALKER_POSITIONS, _PREDICTOR_POSITIONS = 1024, 16
_EPS = 1e-6

Inputs = dict[str, Tensor]


@dataclass(frozen=True)
class Case:
    """One operation at one shape."""

    op: str
    shape: str  # for the table
    num_bytes: int  # read and written by one call
    make: Callable[[], Inputs]  # fresh inputs; the caller seeds
    run: Callable[[Inputs], tuple[Tensor, ...]]  # one call; everything it writes


def _randn(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(shape, device="cuda", dtype=dtype)


def _norm_cases(batch: int, dtype: torch.dtype) -> list[Case]:
    size = dtype.itemsize

    def make() -> Inputs:
        return {
            "x": _randn(batch, _WIDTH, dtype=dtype),
            "residual": _randn(batch, _WIDTH, dtype=dtype),
            "weight": _randn(_WIDTH, dtype=dtype),
        }

    return [
        Case(
            "rms_norm",
            f"{batch}x{_WIDTH}",
            (2 * batch + 1) * _WIDTH * size,
            make,
            lambda i: (rms_norm(i["x"], i["weight"], _EPS),),
        ),
        Case(
            "add_rms_norm_",
            f"{batch}x{_WIDTH}",
            (4 * batch + 1) * _WIDTH * size,
            make,
            lambda i: (add_rms_norm_(i["x"], i["residual"], i["weight"], _EPS), i["residual"]),
        ),
    ]


def _swiglu_cases(batch: int, dtype: torch.dtype) -> list[Case]:
    return [
        Case(
            "swiglu",
            f"{batch}x{2 * _INNER}",
            3 * batch * _INNER * dtype.itemsize,
            lambda: {"x": _randn(batch, 2 * _INNER, dtype=dtype)},
            lambda i: (swiglu(i["x"]),),
        )
    ]


def _row_cases(batch: int, dtype: torch.dtype) -> list[Case]:
    """Products of a step, as far as they are ours: in bfloat16, and up to as many rows."""
    size = dtype.itemsize

    def case(op: str, name: str, columns: int, width: int, written: int) -> Case:
        def make() -> Inputs:
            weight = _randn(columns, width, dtype=dtype) * width**-0.5
            return {"x": _randn(batch, width, dtype=dtype), "weight": weight}

        function = {"row_linear": row_linear, "row_swiglu": row_swiglu}.get(op, row_linear_parts)
        return Case(
            op,
            f"{name}, {batch}x{columns}x{width}",
            (batch + columns) * width * size + written,
            make,
            lambda i: (function(i["x"], i["weight"]),),
        )

    cases = []
    if dtype == torch.bfloat16 and batch <= MAX_ROWS:
        gated = batch * _INNER * size
        cases.append(case("row_swiglu", "0.6B gate/up", 2 * _INNER, _WIDTH, gated))
    if dtype == torch.bfloat16 and batch <= TILE_ROWS:
        sums = 4 * num_parts(batch, 2560, 9728) * batch * 2560  # float32
        cases += [
            case("row_linear", "Fish q/k/v", 6144, 2560, batch * 6144 * size),
            case("row_linear_parts", "Fish down", 2560, 9728, sums),
            case("row_swiglu", "Fish gate/up", 19456, 2560, batch * 9728 * size),
        ]
    return cases


def _attention_cases(batch: int, dtype: torch.dtype) -> list[Case]:
    """Talker at mixed lengths of 100 to 500, code predictor at its last and its first two."""
    order = torch.randperm(batch, generator=torch.Generator().manual_seed(0))
    mixed = torch.linspace(100, 500, batch).long()[order]
    return [
        case
        for where, positions, rows_per_slot, lengths in (
            ("talker", _TALKER_POSITIONS, 1, mixed),
            ("predictor", _PREDICTOR_POSITIONS, 1, torch.full((batch,), _PREDICTOR_POSITIONS - 1)),
            ("predictor, first", _PREDICTOR_POSITIONS, 2, torch.arange(2).repeat(batch)),
        )
        for case in _cache_cases(where, batch, dtype, positions, rows_per_slot, lengths)
    ]


def _cache_cases(
    where: str, batch: int, dtype: torch.dtype, num_positions: int, rows_per_slot: int, last: Tensor
) -> list[Case]:
    rows, size = batch * rows_per_slot, dtype.itemsize
    q_width, kv_width = _HEADS * _HEAD_DIM, _KV_HEADS * _HEAD_DIM
    cos, sin = rope_tables(num_positions, _HEAD_DIM, 1e6, "cuda", dtype)
    lengths = last.view(batch, rows_per_slot).amax(1) + 1
    read = 2 * int(lengths.sum()) * kv_width

    def make() -> Inputs:
        return {
            "qkv": _randn(rows, q_width + 2 * kv_width, dtype=dtype),
            "q_weight": _randn(_HEAD_DIM, dtype=dtype),
            "k_weight": _randn(_HEAD_DIM, dtype=dtype),
            "positions": last.to("cuda"),
            "cache": _randn(2, batch, _KV_HEADS, num_positions, _HEAD_DIM, dtype=dtype),
        }

    def heads(i: Inputs) -> QKNormRope:
        return QKNormRope(i["q_weight"], i["k_weight"], cos, sin, _EPS)

    def store(i: Inputs) -> tuple[Tensor, ...]:
        q = qk_norm_rope_store(i["qkv"], heads(i), i["positions"], i["cache"], rows_per_slot)
        return q, i["cache"]

    def attend(i: Inputs) -> tuple[Tensor, ...]:
        q = i["qkv"][:, :q_width]
        return (decode_attention(q, i["cache"], i["positions"], rows_per_slot),)

    def both(i: Inputs) -> tuple[Tensor, ...]:
        out = step_attention(i["qkv"], heads(i), i["positions"], i["cache"], rows_per_slot)
        return out, i["cache"]

    shape = f"{where}, {rows} rows"
    stored = rows * (2 * q_width + 4 * kv_width + 2 * _HEAD_DIM) * size
    attended = (read + 2 * rows * q_width) * size
    if num_positions <= SHORT_CACHE:
        moved = stored + attended - 2 * rows * q_width * size  # queries stay in registers
        return [Case("step_attention", shape, moved, make, both)]
    return [
        Case("qk_norm_rope_store", shape, stored, make, store),
        Case("decode_attention", shape, attended, make, attend),
    ]


def _sample_cases(batch: int, dtype: torch.dtype) -> list[Case]:
    def make(num_ids: int, top_p: float) -> Inputs:
        return {
            "logits": _randn(batch, num_ids, dtype=dtype) * 4,
            "uniform": torch.rand(batch, device="cuda"),
            "greedy": torch.zeros(batch, dtype=torch.bool, device="cuda"),
            "temperature": torch.full((batch,), 0.9, device="cuda"),
            "top_k": torch.full((batch,), 50, dtype=torch.int32, device="cuda"),
            "top_p": torch.full((batch,), top_p, device="cuda"),
            "out": torch.zeros(batch, dtype=torch.int64, device="cuda"),
            "seen": torch.rand(batch, num_ids, device="cuda") < 0.05,
            "repetition_penalty": torch.full((batch,), 1.05, device="cuda"),
            "suppress": torch.arange(num_ids, device="cuda") >= 2048,
            "no_eos": torch.zeros(batch, dtype=torch.bool, device="cuda"),
        }

    plain = ("logits", "uniform", "greedy", "temperature", "top_k", "top_p", "out")

    def predictor(i: Inputs) -> tuple[Tensor, ...]:
        return (sample(*(i[name] for name in plain)),)

    def talker(i: Inputs) -> tuple[Tensor, ...]:
        out = sample(
            *(i[name] for name in plain), seen=i["seen"], suppress=i["suppress"], eos=_EOS,
            repetition_penalty=i["repetition_penalty"], no_eos=i["no_eos"],
        )  # fmt: skip
        return (out,)

    small = batch * _PREDICTOR_IDS * dtype.itemsize
    large = batch * _TALKER_IDS * (dtype.itemsize + 1)
    return [
        Case("sample", f"predictor, {batch} rows", small, lambda: make(2048, 1.0), predictor),
        Case("sample", f"talker, {batch} rows", large, lambda: make(_TALKER_IDS, 1.0), talker),
        Case(
            "sample",
            f"talker with top-p, {batch} rows",
            large,
            lambda: make(_TALKER_IDS, 0.9),
            talker,
        ),
    ]


def _nucleus_cases(batch: int, dtype: torch.dtype) -> list[Case]:
    """The draws of Fish Speech: 4,096 first codes and the end, 1,024 further codes."""

    def make(num_ids: int) -> Inputs:
        logits = _randn(batch, num_ids, dtype=dtype) * 4
        return {
            "logits": logits,
            "uniform": torch.rand(batch, device="cuda"),
            "greedy": torch.zeros(batch, dtype=torch.bool, device="cuda"),
            "temperature": torch.full((batch,), 1.0, device="cuda"),
            "top_k": torch.full((batch,), 30, dtype=torch.int32, device="cuda"),
            "top_p": torch.full((batch,), 0.9, device="cuda"),
            "out": torch.zeros(batch, dtype=torch.int64, device="cuda"),
            "window": logits.topk(10, dim=-1).indices,  # so that most rows draw twice
            "window_uniform": torch.rand(batch, device="cuda"),
        }

    plain = ("logits", "uniform", "greedy", "temperature", "top_k", "top_p", "out")

    def predictor(i: Inputs) -> tuple[Tensor, ...]:
        return (sample_nucleus(*(i[name] for name in plain)),)

    def talker(i: Inputs) -> tuple[Tensor, ...]:
        arguments = [i[name] for name in plain]
        window, uniform = i["window"], i["window_uniform"]
        drawn = sample_nucleus(
            *arguments, window=window, window_uniform=uniform, eos=4096, window_top_p=0.9
        )
        return (drawn,)

    size = batch * dtype.itemsize
    op, rows = "sample_nucleus", f"{batch} rows"
    return [
        Case(op, f"predictor, {rows}", size * 1024, lambda: make(1024), predictor),
        Case(op, f"talker, {rows}", size * 4097, lambda: make(4097), talker),
    ]


def _frame_cases(batch: int, dtype: torch.dtype) -> list[Case]:
    def make() -> Inputs:
        return {
            "codes": torch.randint(0, 2048, (batch, _CODEBOOKS), device="cuda"),
            "first": _randn(_TALKER_IDS, _WIDTH, dtype=dtype),
            "rest": _randn(_CODEBOOKS - 1, _PREDICTOR_IDS, _WIDTH, dtype=dtype),
            "text": _randn(batch, _WIDTH, dtype=dtype),
        }

    def make_seeds() -> Inputs:
        seeds = torch.randint(0, 1 << 62, (batch,), device="cuda")
        return {"seeds": seeds, "frames": torch.arange(batch, device="cuda")}

    return [
        Case(
            "frame_embedding",
            f"{batch}x{_CODEBOOKS}x{_WIDTH}",
            batch * (_CODEBOOKS + 2) * _WIDTH * dtype.itemsize,
            make,
            lambda i: (frame_embedding(i["codes"], i["first"], i["rest"], i["text"]),),
        ),
        Case(
            "uniforms",
            f"{batch}x{_CODEBOOKS}",
            batch * (16 + 4 * _CODEBOOKS),
            make_seeds,
            lambda i: (uniforms(i["seeds"], i["frames"], _CODEBOOKS),),
        ),
    ]


def _snake_cases(batch: int, dtype: torch.dtype) -> list[Case]:
    """One second of the vocoder's last block; batches above 32 are decoded in pieces."""
    batch, channels, samples = min(batch, 32), 96, 24000

    def make() -> Inputs:
        return {
            "x": _randn(batch, channels, samples, dtype=dtype),
            "alpha": torch.rand(channels, device="cuda") + 0.5,
            "beta": torch.rand(channels, device="cuda") + 0.5,
        }

    return [
        Case(
            "snake_beta",
            f"{batch}x{channels}x{samples}",
            2 * batch * channels * samples * dtype.itemsize,
            make,
            lambda i: (snake_beta(i["x"], i["alpha"], i["beta"]),),
        )
    ]


def _prefill_cases(batch: int, dtype: torch.dtype) -> list[Case]:
    """Packed prompts of 80 tokens in a bucket that they nearly fill."""
    rows = min(batch, 100)
    tokens = -(-80 * rows // 128) * 128
    q_width, kv_width, size = _HEADS * _HEAD_DIM, _KV_HEADS * _HEAD_DIM, dtype.itemsize
    padding = tokens - 80 * rows
    slots = torch.cat([torch.arange(rows).repeat_interleave(80), torch.full((padding,), -1)])
    places = torch.cat([torch.arange(80).repeat(rows), torch.zeros(padding, dtype=torch.int64)])

    def make() -> Inputs:
        return {
            "q": _randn(tokens, q_width, dtype=dtype),
            "cache": _randn(2, rows, _KV_HEADS, 128, _HEAD_DIM, dtype=dtype),
            "slots": slots.to("cuda"),
            "places": places.to("cuda"),
        }

    def run(i: Inputs) -> tuple[Tensor, ...]:
        return (prefill_attention(i["q"], i["cache"], i["slots"], i["places"]),)

    moved = 2 * tokens * (q_width + kv_width) * size
    return [Case("prefill_attention", f"{rows} rows, {tokens} tokens", moved, make, run)]


def _vocoder_cases(batch: int, dtype: torch.dtype) -> list[Case]:
    """64 frames of each row: a convolution of the first block, and the end of the last one."""
    batch, wide, narrow = min(batch, 32), 768, 96
    steps, samples, size = 64 * 32, 64 * 1920, dtype.itemsize

    def make_conv() -> Inputs:
        weight = _randn(wide, wide, 1, 7, dtype=dtype) / 70
        return {
            "x": _randn(batch, steps + 6 * 9, wide, dtype=dtype),
            "weight": weight.contiguous(memory_format=torch.channels_last),
        }

    def make_end() -> Inputs:
        constants = {
            name: torch.rand(narrow, device="cuda") + 0.5 for name in ("alpha", "beta", "bias")
        }
        last = _randn(1, narrow, 1, 7, dtype=dtype) / 25
        taps = _randn(narrow, narrow, 1, 7, dtype=dtype) / 25
        return constants | {
            "x": _randn(batch, samples, narrow, dtype=dtype),
            "s": _randn(batch, samples + 6 * 9, narrow, dtype=dtype),
            "taps": taps.contiguous(memory_format=torch.channels_last),
            "pointwise": _randn(narrow, narrow, dtype=dtype) / 10,
            "last": last.contiguous(memory_format=torch.channels_last),
            "last_bias": _randn(1, dtype=dtype),
        }

    def end(i: Inputs) -> tuple[Tensor, ...]:
        constants = i["alpha"], i["beta"], i["bias"]
        return (residual_unit_(i["x"], i["s"], i["taps"], 9, constants, i["pointwise"]),)

    def out(i: Inputs) -> tuple[Tensor, ...]:
        return (snake_out(i["x"], i["alpha"], i["beta"], i["bias"], i["last"], i["last_bias"]),)

    rows = batch * samples * narrow * size
    return [
        Case(
            "conv_taps",
            f"{batch}x{steps}x{wide}",
            (2 * batch * steps + 7 * wide) * wide * size,
            make_conv,
            lambda i: (conv_taps(i["x"], i["weight"], 9),),
        ),
        Case("residual_unit_", f"{batch}x{samples}x{narrow}", 3 * rows, make_end, end),
        Case("snake_out", f"{batch}x{samples}x{narrow}", rows, make_end, out),
    ]


REGISTRY: tuple[Callable[[int, torch.dtype], list[Case]], ...] = (
    _norm_cases,
    _swiglu_cases,
    _row_cases,
    _attention_cases,
    _sample_cases,
    _nucleus_cases,
    _frame_cases,
    _snake_cases,
    _prefill_cases,
    _vocoder_cases,
)
