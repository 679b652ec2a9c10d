"""The transformer both the talker and the code predictor are made of, over a static cache.

Layer: RMSNorm, fused q/k/v, QK norm and RoPE, grouped-query attention, residual; RMSNorm, SwiGLU,
residual. Three ways through it: `prefill` for whole prompts side by side, `prefill_packed` for
whole prompts one behind the other, `step` for one new position a row.
Rounding points in bf16 are the reference implementation's: norms and softmax compute in float32
and round where it rounds.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from kernels.attention.prefill import prefill_attention
from kernels.attention.rope import apply_rope, qk_norm_rope_store, rope_tables
from kernels.attention.step import step_attention
from kernels.launch.early_launch import dependent_launches
from kernels.linear.choose import linear, linear_parts, linear_swiglu
from kernels.linear.few_rows import use_row_kernels
from kernels.linear.rms_norm import add_rms_norm_, rms_norm
from kernels.persistent.step import (
    NUM_COUNTERS,
    DecoderWeights,
    choose_settings,
    persistent_step,
    use_persistent,
)
from models.checkpoint.weights import fuse, rename
from models.decoder.config import TransformerConfig
from models.decoder.kv_cache import StaticKVCache

# Without cuDNN's, which builds a plan for every new shape: 30 ms a prefill on an H200.
PREFILL_ATTENTION = [
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
]


class Weight(nn.Module):
    """A bare weight, named so that its key reads `<name>.weight`."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(*shape), requires_grad=False)


class NoWeight(nn.Module):
    """Stands where a layer has no such weight."""

    weight = None


class DecoderLayer(nn.Module):
    """Weights of one layer; `Decoder` computes, because residuals chain across layers."""

    def __init__(
        self,
        width: int,
        mlp_width: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        has_qk_norm: bool = True,
    ) -> None:
        super().__init__()
        self.input_norm = Weight(width)
        self.qkv = Weight((num_heads + 2 * num_kv_heads) * head_dim, width)
        self.q_norm = Weight(head_dim) if has_qk_norm else NoWeight()
        self.k_norm = Weight(head_dim) if has_qk_norm else NoWeight()
        self.o = Weight(width, num_heads * head_dim)
        self.post_norm = Weight(width)
        self.gate_up = Weight(2 * mlp_width, width)
        self.down = Weight(width, mlp_width)


class Decoder(nn.Module):
    """A stack of layers with its final norm.

    Args:
        has_qk_norm: without it (`q_norm.weight` is None) there is `step` only, no `prefill`.
        rope_dtype: what the RoPE tables are rounded to; None: the weights' dtype.
    """

    def __init__(
        self,
        *,
        width: int,
        mlp_width: int,
        num_layers: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        rope_theta: float,
        norm_eps: float,
        has_qk_norm: bool = True,
        rope_dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.rope_dtype = rope_dtype
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.head_dim = head_dim
        self.rope_theta = rope_theta
        self.eps = norm_eps
        self.scale = head_dim**-0.5
        self.layers = nn.ModuleList(
            DecoderLayer(width, mlp_width, num_heads, num_kv_heads, head_dim, has_qk_norm)
            for _ in range(num_layers)
        )
        self.norm = Weight(width)
        self.cos: Tensor
        self.sin: Tensor
        self.cache: StaticKVCache
        self.stacked: DecoderWeights | None = None
        self.counters: Tensor

    def allocate(self, num_slots: int, num_positions: int) -> None:
        """Allocate the cache and the RoPE tables on the weights' device and in their dtype."""
        weight = self.norm.weight
        self.__dict__.pop("cache", None)  # frees the old one before the new one is made
        rounded = self.rope_dtype or weight.dtype
        tables = rope_tables(num_positions, self.head_dim, self.rope_theta, weight.device, rounded)
        self.cos, self.sin = (table.to(weight.dtype) for table in tables)
        self.cache = StaticKVCache(
            len(self.layers),
            num_slots,
            self.num_kv_heads,
            num_positions,
            self.head_dim,
            weight.device,
            weight.dtype,
        )
        if weight.is_cuda and self._has_one_launch():
            self.stack()

    def _has_one_launch(self) -> bool:
        """Whether steps of one row can be one launch, by the sizes of a layer."""
        first = self.layers[0]
        parts = (first.qkv, first.o, first.gate_up, first.down, first.input_norm, first.post_norm)
        weights = DecoderWeights(*(part.weight[None] for part in parts), None, None)
        if weights.qkv.itemsize != 2:
            return False
        num_positions = self.cache.data.shape[4]
        chosen = choose_settings(weights, self.num_heads, self.head_dim, num_positions, 1)
        return chosen is not None

    def stack(self) -> None:
        """Put the weights of all layers behind each other, for steps in one launch.

        The parameters become views, so there is still one copy of each weight.
        """
        self.counters = torch.zeros(NUM_COUNTERS, dtype=torch.int32, device=self.norm.weight.device)
        if self.stacked is not None and self.layers[0].qkv.weight.data_ptr() == (
            self.stacked.qkv.data_ptr()
        ):
            return
        layers = self.layers
        norms = _stack([*(layer.input_norm for layer in layers), self.norm])
        has_qk_norm = layers[0].q_norm.weight is not None
        self.stacked = DecoderWeights(
            qkv=_stack([layer.qkv for layer in layers]),
            o=_stack([layer.o for layer in layers]),
            gate_up=_stack([layer.gate_up for layer in layers]),
            down=_stack([layer.down for layer in layers]),
            norms=norms,
            post_norms=_stack([layer.post_norm for layer in layers]),
            q_norms=_stack([layer.q_norm for layer in layers]) if has_qk_norm else None,
            k_norms=_stack([layer.k_norm for layer in layers]) if has_qk_norm else None,
        )

    def run(
        self,
        x: Tensor,
        positions: Tensor,
        rows_per_slot: int = 1,
        codes: Tensor | None = None,
        head: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """`step`, with an embedding in front and a product behind it.

        All of it is one launch where `kernels.persistent.step` serves the shape.

        Args:
            codes: (R,) int64; x is then a table (V, D) whose rows they choose, and is kept. Codes
                below 0 (a failed row) count as 0.
            head: (V, D) weight for logits, or None.
        Returns:
            hidden states (R, D) after the final norm, and logits (R, V) or None.
        """
        stacked, cache = self.stacked, self.cache.data
        num_rows = positions.shape[0]
        if stacked is not None and use_persistent(stacked, x, num_rows, self.num_heads, cache):
            return persistent_step(
                stacked,
                x,
                positions,
                cache,
                self.cos,
                self.sin,
                self.counters,
                self.num_heads,
                self.scale,
                self.eps,
                rows_per_slot,
                codes,
                head,
            )
        if codes is not None:
            x = F.embedding(codes.clamp(min=0), x)
        hidden = self.step(x, positions, rows_per_slot)
        return hidden, None if head is None else linear(hidden, head)

    def step(self, x: Tensor, positions: Tensor, rows_per_slot: int = 1) -> Tensor:
        """One new position a row, as separate operations.

        Args:
            x: (R, D) inputs, used up: the residual stream is kept in its storage.
            positions: (R,) int64 cache positions to write; a row sees 0..its position.
            rows_per_slot: consecutive rows that share a slot (their positions must differ).
        Returns:
            (R, D) after the final norm.
        """
        with dependent_launches(x, self._is_all_ours(x)):
            return self._step(x, positions, rows_per_slot)

    def _is_all_ours(self, x: Tensor) -> bool:
        """Whether no kernel of a step of x is a library's."""
        first = self.layers[0]
        products = (first.qkv, first.o, first.gate_up, first.down)
        return all(use_row_kernels(x, product.weight) for product in products)

    def _step(self, x: Tensor, positions: Tensor, rows_per_slot: int) -> Tensor:
        eps = self.eps
        hidden = rms_norm(x, self.layers[0].input_norm.weight, eps)
        for index, layer in enumerate(self.layers):
            attended = step_attention(
                linear(hidden, layer.qkv.weight),
                layer.q_norm.weight,
                layer.k_norm.weight,
                self.cos,
                self.sin,
                positions,
                *self.cache.layer(index),
                self.num_heads,
                self.scale,
                eps,
                rows_per_slot,
            )
            mixed = linear_parts(attended, layer.o.weight)
            hidden = add_rms_norm_(mixed, x, layer.post_norm.weight, eps)
            mlp = linear_parts(linear_swiglu(hidden, layer.gate_up.weight), layer.down.weight)
            is_last = index + 1 == len(self.layers)
            norm = self.norm if is_last else self.layers[index + 1].input_norm
            hidden = add_rms_norm_(mlp, x, norm.weight, eps)
        return hidden

    def prefill(self, x: Tensor, slots: Tensor, last: Tensor) -> Tensor:
        """Whole prompts from position 0, right-padded; fills the cache of their slots.

        Args:
            x: (B, T, D) inputs, used up. Padding may hold anything finite: attention is causal,
                and the cache beyond a row's length is overwritten before it is read.
            slots: (B,) int64, distinct.
            last: (B,) int64 index of each row's last real position.
        Returns:
            (B, D) after the final norm, at `last`.
        """
        batch, length, width = x.shape
        num_q, num_kv, head_dim = self.num_heads, self.num_kv_heads, self.head_dim
        cos, sin = self.cos[:length], self.sin[:length]
        x = x.reshape(batch * length, width)
        hidden = rms_norm(x, self.layers[0].input_norm.weight, self.eps)
        for index, layer in enumerate(self.layers):
            qkv = linear(hidden, layer.qkv.weight)
            qkv = qkv.view(batch, length, num_q + 2 * num_kv, head_dim).transpose(1, 2)
            q, k, v = qkv.split([num_q, num_kv, num_kv], dim=1)  # each (B, heads, T, D_h)
            q = apply_rope(rms_norm(q, layer.q_norm.weight, self.eps), cos, sin)
            k = apply_rope(rms_norm(k, layer.k_norm.weight, self.eps), cos, sin)
            self.cache.store(index, slots, k, v)
            with sdpa_kernel(PREFILL_ATTENTION):
                attended = F.scaled_dot_product_attention(
                    q,
                    k,
                    v.contiguous(),
                    is_causal=True,
                    scale=self.scale,
                    enable_gqa=num_q != num_kv,
                )
            attended = attended.transpose(1, 2).reshape(batch * length, num_q * head_dim)
            if index + 1 == len(self.layers):
                # Only the last position leaves the stack.
                rows = torch.arange(batch, device=x.device) * length + last
                attended, x = attended[rows], x[rows]
            mixed = linear_parts(attended, layer.o.weight)
            hidden = add_rms_norm_(mixed, x, layer.post_norm.weight, self.eps)
            mlp = linear_parts(linear_swiglu(hidden, layer.gate_up.weight), layer.down.weight)
            is_last = index + 1 == len(self.layers)
            norm = self.norm if is_last else self.layers[index + 1].input_norm
            hidden = add_rms_norm_(mlp, x, norm.weight, self.eps)
        return hidden

    def prefill_packed(self, x: Tensor, slots: Tensor, positions: Tensor, last: Tensor) -> Tensor:
        """Whole prompts, one behind the other; fills the cache of their slots as `prefill` does.

        Every shape depends on the number of tokens and of rows alone, so it can be captured.

        Args:
            x: (T, D) inputs, used up. Padding, behind all prompts, may hold anything finite.
            slots: (T,) int64, each token's slot; -1 for padding, which goes nowhere.
            positions: (T,) int64, each token's position in its prompt.
            last: (B,) int64 index of each prompt's last token; spare rows may repeat any.
        Returns:
            (B, D) after the final norm, at `last`.
        """
        eps = self.eps
        hidden = rms_norm(x, self.layers[0].input_norm.weight, eps)
        for index, layer in enumerate(self.layers):
            keys, values = self.cache.layer(index)
            q = qk_norm_rope_store(
                linear(hidden, layer.qkv.weight),
                layer.q_norm.weight,
                layer.k_norm.weight,
                self.cos,
                self.sin,
                positions,
                keys,
                values,
                self.num_heads,
                eps,
                slots=slots,
            )
            attended = prefill_attention(
                q, keys, values, slots, positions, self.num_heads, self.scale
            )
            is_last = index + 1 == len(self.layers)
            if is_last:
                # Only the last position leaves the stack.
                attended, x = attended[last], x[last]
            mixed = linear_parts(attended, layer.o.weight)
            hidden = add_rms_norm_(mixed, x, layer.post_norm.weight, eps)
            mlp = linear_parts(linear_swiglu(hidden, layer.gate_up.weight), layer.down.weight)
            norm = self.norm if is_last else self.layers[index + 1].input_norm
            hidden = add_rms_norm_(mlp, x, norm.weight, eps)
        return hidden


def _stack(weights: list[Weight]) -> Tensor:
    """(n, ...) of n weights, which become views of it."""
    stacked = torch.stack([module.weight.detach() for module in weights])
    for module, weight in zip(weights, stacked, strict=True):
        module.weight = nn.Parameter(weight, requires_grad=False)
    return stacked


RENAMES = {
    "input_layernorm.weight": "input_norm.weight",
    "post_attention_layernorm.weight": "post_norm.weight",
    "self_attn.q_norm.weight": "q_norm.weight",
    "self_attn.k_norm.weight": "k_norm.weight",
    "self_attn.o_proj.weight": "o.weight",
    "mlp.down_proj.weight": "down.weight",
}


def build_decoder(shape: TransformerConfig, rope_dtype: torch.dtype | None = None) -> Decoder:
    """A stack of the configured size, its weights still to be loaded.

    Args:
        rope_dtype: what the RoPE tables are rounded to; None: the weights' dtype.
    """
    return Decoder(
        width=shape.width,
        mlp_width=shape.mlp_width,
        num_layers=shape.num_layers,
        num_heads=shape.num_heads,
        num_kv_heads=shape.num_kv_heads,
        head_dim=shape.head_dim,
        rope_theta=shape.rope_theta,
        norm_eps=shape.norm_eps,
        has_qk_norm=shape.has_qk_norm,
        rope_dtype=rope_dtype,
    )


def rename_layers(tensors: dict[str, Tensor], source: str, target: str, num_layers: int) -> None:
    """Turn the Hugging Face names of a decoder into ours, in place, fusing q/k/v and gate/up."""
    for index in range(num_layers):
        old, new = f"{source}{index}.", f"{target}{index}."
        qkv = [f"{old}self_attn.{part}_proj.weight" for part in "qkv"]
        fuse(tensors, qkv, f"{new}qkv.weight")
        fuse(tensors, [f"{old}mlp.{p}_proj.weight" for p in ("gate", "up")], f"{new}gate_up.weight")
        rename(tensors, RENAMES, old, new)
