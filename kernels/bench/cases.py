"""The cases of `kernels.bench`: every operation at the models' shapes, mostly 0.6B's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kernels.attention.decode import decode_attention
from kernels.attention.prefill import prefill_attention
from kernels.attention.rope import QKNormRope, qk_norm_rope_store, rope_tables
from kernels.attention.step import SHORT_CACHE, step_attention
from kernels.frame.frame_embedding import frame_embedding
from kernels.linear.few_rows import MAX_ROWS, TILE_ROWS, row_linear, row_linear_parts, row_swiglu
from kernels.linear.rms_norm import add_rms_norm_, rms_norm
from kernels.linear.swiglu import swiglu
from kernels.sampling.draws import uniforms
from kernels.sampling.nucleus import sample_nucleus
from kernels.sampling.row import RowSettings
from kernels.sampling.sample import sample
from kernels.vocoder.conv_taps import conv_taps
from kernels.vocoder.residual_unit import residual_unit_
from kernels.vocoder.snake import Constants, snake_beta
from kernels.vocoder.snake_out import snake_out

DEVICE = "cuda"
_WIDTH, _INNER, _HEADS, _KV_HEADS, _HEAD_DIM, _CODEBOOKS = 1024, 3072, 16, 8, 128, 16
_Q_WIDTH, _KV_WIDTH = _HEADS * _HEAD_DIM, _KV_HEADS * _HEAD_DIM
_TALKER_IDS, _PREDICTOR_IDS, _EOS = 3072, 2048, 2150
_TALKER_POSITIONS, _PREDICTOR_POSITIONS = 1024, 16
_EPS = 1e-6

Inputs = dict[str, Any]  # tensors, or tuples of them, by the operation's names; the first leads


def tensors_of(inputs: Inputs) -> Iterator[Tensor]:
    for value in inputs.values():
        parts = value if isinstance(value, tuple) else (value,)
        yield from (part for part in parts if isinstance(part, Tensor))


class Case(NamedTuple):
    op: Callable[..., Tensor]
    shape: str  # for the table
    make: Callable[[], Inputs]  # fresh inputs; the caller seeds
    options: Mapping[str, Any] = {}  # arguments other than tensors
    writes: str = ""  # the input that is changed in place, besides the results
    moved: int = 0  # bytes read and written by one call; 0: all inputs and outputs once

    def run(self, inputs: Inputs) -> tuple[Tensor, ...]:
        first, *others = inputs
        named = {name: inputs[name] for name in others}
        out = self.op(inputs[first], **named, **self.options)
        return (out, inputs[self.writes]) if self.writes else (out,)

    def num_bytes(self) -> int:
        inputs = self.make()
        both = *tensors_of(inputs), *self.run(inputs)
        return self.moved or sum(tensor.nbytes for tensor in both)


def _randn(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(shape, device=DEVICE, dtype=dtype)


def _full(rows: int, value: float, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.full((rows,), value, dtype=dtype, device=DEVICE)


def _snake(channels: int) -> Constants:
    alpha_exp, inv_beta, bias = torch.rand(3, channels, device=DEVICE) + 0.5
    return alpha_exp, inv_beta, bias


def _layer_cases(batch: int, dtype: torch.dtype) -> Iterator[Case]:
    def norm() -> Inputs:
        return {"x": _randn(batch, _WIDTH, dtype=dtype), "weight": _randn(_WIDTH, dtype=dtype)}

    def add() -> Inputs:
        return norm() | {"residual": _randn(batch, _WIDTH, dtype=dtype)}

    shape, eps = f"{batch}x{_WIDTH}", {"eps": _EPS}
    yield Case(rms_norm, shape, norm, eps)
    yield Case(add_rms_norm_, shape, add, eps, "residual")
    wide = 2 * _INNER
    yield Case(swiglu, f"{batch}x{wide}", lambda: {"gate_up": _randn(batch, wide, dtype=dtype)})


def _row_cases(batch: int, dtype: torch.dtype) -> Iterator[Case]:
    """Products of a step by our kernels: in bfloat16, for a limited number of rows."""

    def case(op: Callable[..., Tensor], name: str, columns: int, width: int) -> Case:
        second = "gate_up" if op is row_swiglu else "weight"

        def make() -> Inputs:
            weight = _randn(columns, width, dtype=dtype) * width**-0.5
            return {"x": _randn(batch, width, dtype=dtype), second: weight}

        return Case(op, f"{name}, {batch}x{columns}x{width}", make)

    if dtype == torch.bfloat16 and batch <= MAX_ROWS:
        yield case(row_swiglu, "0.6B gate/up", 2 * _INNER, _WIDTH)
    if dtype == torch.bfloat16 and batch <= TILE_ROWS:
        yield case(row_linear, "Fish q/k/v", 6144, 2560)
        yield case(row_linear_parts, "Fish down", 2560, 9728)
        yield case(row_swiglu, "Fish gate/up", 19456, 2560)


def _attention_cases(batch: int, dtype: torch.dtype) -> Iterator[Case]:
    """Talker at mixed lengths of 100 to 500, code predictor at its last and its first two."""
    order = torch.randperm(batch, generator=torch.Generator().manual_seed(0))
    mixed = torch.linspace(100, 500, batch).long()[order]
    last = torch.full((batch,), _PREDICTOR_POSITIONS - 1)
    first = torch.arange(2).repeat(batch)
    yield from _cache_cases("talker", dtype, _TALKER_POSITIONS, mixed)
    yield from _cache_cases("predictor", dtype, _PREDICTOR_POSITIONS, last)
    yield from _cache_cases("predictor, first", dtype, _PREDICTOR_POSITIONS, first, 2)


def _cache_cases(
    where: str, dtype: torch.dtype, num_positions: int, places: Tensor, per_slot: int = 1
) -> Iterator[Case]:
    rows, slots, size = len(places), len(places) // per_slot, dtype.itemsize
    tables = rope_tables(num_positions, _HEAD_DIM, 1e6, DEVICE, dtype)

    def cached() -> Inputs:
        cache = _randn(2, slots, _KV_HEADS, num_positions, _HEAD_DIM, dtype=dtype)
        return {"positions": places.to(DEVICE), "cache": cache}

    def store() -> Inputs:
        q_norm, k_norm = _randn(2, _HEAD_DIM, dtype=dtype)
        qkv = _randn(rows, _Q_WIDTH + 2 * _KV_WIDTH, dtype=dtype)
        return {"qkv": qkv, "heads": QKNormRope(q_norm, k_norm, *tables, _EPS)} | cached()

    def attend() -> Inputs:
        return {"q": _randn(rows, _Q_WIDTH, dtype=dtype)} | cached()

    shape, options = f"{where}, {rows} rows", {"rows_per_slot": per_slot}
    read = 2 * int((places.view(slots, per_slot).amax(1) + 1).sum()) * _KV_WIDTH
    stored = rows * (2 * _Q_WIDTH + 4 * _KV_WIDTH + 2 * _HEAD_DIM) * size
    attended = (read + 2 * rows * _Q_WIDTH) * size
    if num_positions <= SHORT_CACHE:
        moved = stored + read * size  # queries stay in registers
        yield Case(step_attention, shape, store, options, "cache", moved)
    else:
        yield Case(qk_norm_rope_store, shape, store, options, "cache", stored)
        yield Case(decode_attention, shape, attend, options, moved=attended)


def _prefill_cases(batch: int, dtype: torch.dtype) -> Iterator[Case]:
    """Packed prompts of 80 tokens in a bucket that they nearly fill."""
    rows = min(batch, 100)
    padding = -80 * rows % 128
    tokens = 80 * rows + padding
    slots = torch.cat([torch.arange(rows).repeat_interleave(80), torch.full((padding,), -1)])
    places = torch.cat([torch.arange(80).repeat(rows), torch.zeros(padding, dtype=torch.int64)])

    def make() -> Inputs:
        return {
            "q": _randn(tokens, _Q_WIDTH, dtype=dtype),
            "cache": _randn(2, rows, _KV_HEADS, 128, _HEAD_DIM, dtype=dtype),
            "slots": slots.to(DEVICE),
            "positions": places.to(DEVICE),
        }

    moved = 2 * tokens * (_Q_WIDTH + _KV_WIDTH) * dtype.itemsize
    yield Case(prefill_attention, f"{rows} rows, {tokens} tokens", make, moved=moved)


def _draw_cases(batch: int, dtype: torch.dtype) -> Iterator[Case]:
    """Draws of Qwen3-TTS, and of Fish Speech: 4,096 first codes and the end, 1,024 further ones."""

    def settings(num_ids: int, temperature: float, top_k: int, top_p: float) -> Inputs:
        return {
            "logits": _randn(batch, num_ids, dtype=dtype) * 4,
            "uniform": torch.rand(batch, device=DEVICE),
            "settings": RowSettings(
                _full(batch, 0, torch.bool),
                _full(batch, temperature),
                _full(batch, top_k, torch.int32),
                _full(batch, top_p),
            ),
            "out": _full(batch, 0, torch.int64),
        }

    def first(top_p: float) -> Inputs:
        inputs = settings(_TALKER_IDS, 0.9, 50, top_p)
        penalty = _full(batch, 1.05)
        return inputs | {
            "settings": inputs["settings"]._replace(repetition_penalty=penalty),
            "seen": torch.rand(batch, _TALKER_IDS, device=DEVICE) < 0.05,
            "suppress": torch.arange(_TALKER_IDS, device=DEVICE) >= 2048,
            "no_eos": _full(batch, 0, torch.bool),
        }

    def window() -> Inputs:
        inputs = settings(4097, 1.0, 30, 0.9)
        recent = inputs["logits"].topk(10, dim=-1).indices  # so that most rows draw twice
        return inputs | {"window": recent, "window_uniform": torch.rand(batch, device=DEVICE)}

    rows, eos = f"{batch} rows", {"eos": _EOS}
    yield Case(sample, f"predictor, {rows}", lambda: settings(_PREDICTOR_IDS, 0.9, 50, 1.0))
    yield Case(sample, f"talker, {rows}", lambda: first(1.0), eos)
    yield Case(sample, f"talker with top-p, {rows}", lambda: first(0.9), eos)
    yield Case(sample_nucleus, f"predictor, {rows}", lambda: settings(1024, 1.0, 30, 0.9))
    yield Case(sample_nucleus, f"talker, {rows}", window, {"eos": 4096, "window_top_p": 0.9})


def _frame_cases(batch: int, dtype: torch.dtype) -> Iterator[Case]:
    def embed() -> Inputs:
        return {
            "codes": torch.randint(0, 2048, (batch, _CODEBOOKS), device=DEVICE),
            "first_table": _randn(_TALKER_IDS, _WIDTH, dtype=dtype),
            "rest_tables": _randn(_CODEBOOKS - 1, _PREDICTOR_IDS, _WIDTH, dtype=dtype),
            "text": _randn(batch, _WIDTH, dtype=dtype),
        }

    def address() -> Inputs:
        seeds = torch.randint(0, 1 << 62, (batch,), device=DEVICE)
        return {"seeds": seeds, "frames": torch.arange(batch, device=DEVICE)}

    moved = batch * (_CODEBOOKS + 2) * _WIDTH * dtype.itemsize
    yield Case(frame_embedding, f"{batch}x{_CODEBOOKS}x{_WIDTH}", embed, moved=moved)
    yield Case(uniforms, f"{batch}x{_CODEBOOKS}", address, {"count": _CODEBOOKS})


def _vocoder_cases(batch: int, dtype: torch.dtype) -> Iterator[Case]:
    """64 frames of each row: a convolution of the first block, and the end of the last one.
    Batches above 32 are decoded in pieces.
    """
    batch, wide, narrow = min(batch, 32), 768, 96
    steps, samples = 64 * 32, 64 * 1920

    def taps(num_out: int, channels: int, scale: float) -> Tensor:
        weight = _randn(num_out, channels, 1, 7, dtype=dtype) / scale
        return weight.contiguous(memory_format=torch.channels_last)

    def conv() -> Inputs:
        return {
            "x": _randn(batch, steps + 6 * 9, wide, dtype=dtype),
            "weight": taps(wide, wide, 70),
        }

    def activate() -> Inputs:
        return {"x": _randn(batch, narrow, 24000, dtype=dtype), "snake": _snake(narrow)}

    def unit() -> Inputs:
        return {
            "x": _randn(batch, samples, narrow, dtype=dtype),
            "s": _randn(batch, samples + 6 * 9, narrow, dtype=dtype),
            "weight": taps(narrow, narrow, 25),
            "snake": _snake(narrow),
            "pointwise": _randn(narrow, narrow, dtype=dtype) / 10,
        }

    def end() -> Inputs:
        return {
            "x": _randn(batch, samples, narrow, dtype=dtype),
            "snake": _snake(narrow),
            "weight": taps(1, narrow, 25),
            "conv_bias": _randn(1, dtype=dtype),
        }

    dilated, shape = {"dilation": 9}, f"{batch}x{samples}x{narrow}"
    yield Case(snake_beta, f"{batch}x{narrow}x24000", activate)
    yield Case(conv_taps, f"{batch}x{steps}x{wide}", conv, dilated)
    yield Case(residual_unit_, shape, unit, dilated)
    yield Case(snake_out, shape, end)


def all_cases(batch: int, dtype: torch.dtype) -> Iterator[Case]:
    for build in (
        *(_layer_cases, _row_cases, _attention_cases, _prefill_cases),
        *(_draw_cases, _frame_cases, _vocoder_cases),
    ):
        yield from build(batch, dtype)
