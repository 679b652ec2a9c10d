"""References never look at values of a tensor that is not on the CPU: no graph could be recorded
of them. On the meta device, which has no values, whoever looks is told.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from kernels.attention.decode import decode_attention_ref
from kernels.attention.prefill import MAX_MASKED, prefill_attention_ref
from kernels.attention.rope import QKNormRope, qk_norm_rope_store_ref
from kernels.frame.finish_frame import SlotState, advance_ref_
from kernels.frame.frame_embedding import frame_embedding_ref
from kernels.linear.code_embedding import code_embedding_ref
from kernels.linear.rms_norm import add_rms_norm_ref_, rms_norm_ref
from kernels.linear.swiglu import swiglu_ref
from kernels.sampling.draws import uniforms_ref
from kernels.sampling.nucleus import sample_nucleus_ref
from kernels.sampling.row import RowSettings
from kernels.sampling.sample import sample_ref
from kernels.vocoder.snake import snake_beta_ref
from kernels.vocoder.snake_out import snake_out_ref
from models.slots.prefill import TOKEN_BUCKETS

ROWS, WIDTH, HEADS, POSITIONS = 4, 16, 2, 8


def real(*shape: int) -> Tensor:
    return torch.empty(*shape, device="meta")


def whole(*shape: int) -> Tensor:
    return torch.empty(*shape, dtype=torch.int64, device="meta")


def flags(*shape: int) -> Tensor:
    return torch.empty(*shape, dtype=torch.bool, device="meta")


def cache() -> Tensor:
    return real(2, ROWS, 1, POSITIONS, WIDTH)


def store(**slots: Tensor) -> None:
    tables = real(POSITIONS, WIDTH), real(POSITIONS, WIDTH)
    qkv, weight = real(ROWS, (HEADS + 2) * WIDTH), real(WIDTH)
    heads = QKNormRope(weight, weight, *tables, 1e-6)
    qk_norm_rope_store_ref(qkv, heads, whole(ROWS), cache(), **slots)


def prefill() -> None:
    q = real(ROWS, HEADS * WIDTH)
    prefill_attention_ref(q, cache(), whole(ROWS), whole(ROWS))


def advance() -> None:
    slots = SlotState(
        whole(ROWS, 4),
        whole(ROWS),
        torch.empty(ROWS, 9, 4, dtype=torch.int16, device="meta"),
        whole(ROWS),
        whole(ROWS),
        whole(ROWS),
        flags(ROWS),
        whole(ROWS),
        real(ROWS, WIDTH),
        whole(ROWS),
    )
    advance_ref_(slots, real(ROWS, WIDTH), 3)


def settings(penalty: Tensor | None = None) -> tuple[Tensor, Tensor, RowSettings, Tensor]:
    """Logits, draws, settings and the result."""
    whole_ks = torch.empty(ROWS, dtype=torch.int32, device="meta")
    how = RowSettings(flags(ROWS), real(ROWS), whole_ks, real(ROWS), penalty)
    return real(ROWS, 32), real(ROWS), how, whole(ROWS)


def draw() -> None:
    sample_ref(
        *settings(real(ROWS)), seen=flags(ROWS, 32), suppress=flags(32), eos=3, no_eos=flags(ROWS)
    )


def draw_nucleus() -> None:
    window = {"window": whole(ROWS, 5), "window_uniform": real(ROWS)}
    sample_nucleus_ref(*settings(), eos=3, no_eos=flags(ROWS), **window)


def snakes() -> None:
    snake = real(WIDTH), real(WIDTH), real(WIDTH)
    kept = flags(ROWS, 2)
    snake_beta_ref(real(ROWS, WIDTH, 8), snake, 3, kept)
    x, weight = real(ROWS, 8, WIDTH), real(1, WIDTH, 1, 3)
    snake_out_ref(x, snake, weight, real(1), kept)


REFERENCES = {
    "norm": lambda: rms_norm_ref(real(ROWS, WIDTH), real(WIDTH), 1e-6),
    "added norm": lambda: add_rms_norm_ref_(
        real(2, ROWS, WIDTH), real(ROWS, WIDTH), real(WIDTH), 1e-6
    ),
    "swiglu": lambda: swiglu_ref(real(ROWS, 2 * WIDTH)),
    "code embedding": lambda: code_embedding_ref(
        whole(ROWS), real(32, WIDTH), real(WIDTH), 1e-6, real(ROWS, WIDTH)
    ),
    "store": store,
    "store of packed rows": lambda: store(slots=whole(ROWS)),
    "prefill": prefill,
    "decode": lambda: decode_attention_ref(real(ROWS, HEADS * WIDTH), cache(), whole(ROWS)),
    "draws": lambda: uniforms_ref(whole(ROWS), whole(ROWS), 4),
    "sample": draw,
    "nucleus": draw_nucleus,
    "frame embedding": lambda: frame_embedding_ref(
        whole(ROWS, 4), real(32, WIDTH), real(3, 32, WIDTH), real(ROWS, WIDTH)
    ),
    "advance": advance,
    "snake": snakes,
}


@pytest.mark.parametrize("name", REFERENCES)
def test_it_looks_at_nothing(name: str) -> None:
    """Prefill's and its store's did, so that a run without Triton had no graphs of prefill."""
    reference: Callable[[], object] = REFERENCES[name]
    with torch.inference_mode():
        reference()


def test_every_pass_that_is_recorded_is_one_of_them() -> None:
    assert TOKEN_BUCKETS[-1] <= MAX_MASKED
