"""The transformer of talker and code predictor, over a static cache.

Layer: RMSNorm, fused q/k/v, QK norm and RoPE, grouped-query attention, residual; RMSNorm, SwiGLU,
residual. It has two paths: `prefill` for packed prompts, `step` for one new position per row.
Rounding points in bf16 are the reference implementation's: norms and softmax compute in float32 and
round at the same places.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from kernels.attention.prefill import prefill_attention
from kernels.attention.rope import QKNormRope, qk_norm_rope_store, rope_tables
from kernels.attention.step import step_attention
from kernels.launch.dispatch import use_triton
from kernels.launch.early_launch import dependent_launches
from kernels.linear.choose import linear
from kernels.linear.code_embedding import code_embedding
from kernels.linear.layers import LayerWeights, is_all_ours, run_layers
from kernels.persistent.step import NUM_COUNTERS, DecoderWeights, choose_settings, persistent_step
from models.decoder.config import TransformerConfig


def fixed(*shape: int) -> nn.Parameter:
    """A parameter that is not trained, without values yet."""
    return nn.Parameter(torch.empty(*shape), requires_grad=False)


class Weight(nn.Module):
    """A bare weight, named so that its key is `<name>.weight`."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.weight = fixed(*shape)


class Affine(Weight):
    def __init__(self, *shape: int) -> None:
        super().__init__(*shape)
        self.bias = fixed(shape[0])


class NoWeight(nn.Module):
    weight = None


class DecoderLayer(nn.Module):
    """Weights of one layer; `kernels.linear.layers` computes: residuals chain across layers."""

    def __init__(self, sizes: TransformerConfig) -> None:
        super().__init__()
        width, head, has_qk_norm = sizes.width, sizes.head_dim, sizes.has_qk_norm
        self.input_norm = Weight(width)
        rows = (sizes.num_heads + 2 * sizes.num_kv_heads) * head
        self.qkv = (Affine if sizes.has_qkv_bias else Weight)(rows, width)
        self.q_norm = Weight(head) if has_qk_norm else NoWeight()
        self.k_norm = Weight(head) if has_qk_norm else NoWeight()
        self.o = Weight(width, sizes.num_heads * head)
        self.post_norm = Weight(width)
        self.gate_up = Weight(2 * sizes.mlp_width, width)
        self.down = Weight(width, sizes.mlp_width)

    @property
    def weights(self) -> LayerWeights:
        return LayerWeights(
            self.input_norm.weight,
            self.qkv.weight,
            self.o.weight,
            self.post_norm.weight,
            self.gate_up.weight,
            self.down.weight,
            getattr(self.qkv, "bias", None),
        )


def rope_of(
    config: TransformerConfig, num_positions: int, device: torch.device | str, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return RoPE's cos and sin in a dtype, each (S, D_h)."""
    rounded = torch.bfloat16 if config.rounds_rope else dtype
    cos, sin = rope_tables(num_positions, config.head_dim, config.rope_theta, device, rounded)
    return cos.to(dtype), sin.to(dtype)


class StaticKVCache:
    """Keys and values of L layers for N slots of S positions: one allocation, one slot per request,
    addressed by per-row positions.

    Values beyond a row's position are never read, so a slot needs no clearing between requests,
    except after a failed row, because the reference attention multiplies masked values by 0.
    """

    def __init__(
        self,
        config: TransformerConfig,
        num_slots: int,
        num_positions: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        shape = cache_shape(config, num_slots, num_positions)
        self.data = torch.zeros(shape, device=device, dtype=dtype)  # (L, 2, N, H_kv, S, D_h)
        self.num_positions = num_positions

    def move(self, sources: Tensor, targets: Tensor) -> None:
        """Copy whole slots (n,) to (n,); sources and targets must not overlap. Layer by layer,
        because the copy in between takes as much memory as the moved data.
        """
        for layer in self.data:
            layer[:, targets] = layer[:, sources]

    def copy_first(self, source: int, targets: Tensor, num_positions: int) -> None:
        """Copy the first positions of one slot to other slots (n,), in one launch."""
        first = self.data[:, :, :, :, :num_positions]
        given = first[:, :, source : source + 1].expand(-1, -1, len(targets), -1, -1, -1)
        first.index_copy_(2, targets, given)

    def clear(self, slots: Tensor) -> None:
        self.data.index_fill_(2, slots, 0)


def cache_shape(config: TransformerConfig, num_slots: int, num_positions: int) -> tuple[int, ...]:
    """Return the shape: layers; keys and values; slots, heads, positions, width of a head."""
    return (
        *(config.num_layers, 2, num_slots),
        *(config.num_kv_heads, num_positions, config.head_dim),
    )


def cache_bytes(config: TransformerConfig, num_positions: int, dtype: torch.dtype) -> int:
    return math.prod(cache_shape(config, 1, num_positions)) * dtype.itemsize


class Decoder(nn.Module):
    """A stack of layers with its final norm."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.eps = config.norm_eps
        self.layers: Sequence[DecoderLayer] = nn.ModuleList(  # type: ignore[assignment]
            DecoderLayer(config) for _ in range(config.num_layers)
        )
        self.norm = Weight(config.width)
        self.cos: Tensor
        self.sin: Tensor
        self._cache: StaticKVCache | None = None
        self.prefixes: Tensor | None = None  # as of `decode_attention`
        self.is_fixed = False  # a step's sums do not depend on the cache's length
        self.is_one_launch = False
        self.stacked: DecoderWeights | None = None
        self.counters: Tensor

    @property
    def cache(self) -> StaticKVCache:
        """Keys and values of every slot. Raises RuntimeError before `allocate`."""
        if self._cache is None:
            raise RuntimeError("no cache yet: allocate() comes first")
        return self._cache

    def allocate(self, num_slots: int, num_positions: int) -> None:
        """Allocate the cache and the RoPE tables on the weights' device and in their dtype.

        With one slot, steps are one launch if `kernels.persistent.step` supports the sizes.
        """
        weight = self.norm.weight
        self._cache = None  # frees the old one before the new one is made
        like = weight.device, weight.dtype
        self.cos, self.sin = rope_of(self.config, num_positions, *like)
        self._cache = StaticKVCache(self.config, num_slots, num_positions, *like)
        self.is_one_launch = num_slots == 1 and weight.is_cuda and self._fits_one_launch()
        if self.is_one_launch:
            self.stack()

    def _fits_one_launch(self) -> bool:
        sizes = self.config.head_dim, self.cache.num_positions
        return choose_settings(self.layers[0].weights, *sizes) is not None

    def stack(self) -> None:
        """Stack the weights of all layers, for steps in one launch. The parameters become views,
        so there is still one copy of each weight.
        """
        self.counters = torch.zeros(NUM_COUNTERS, dtype=torch.int32, device=self.norm.weight.device)
        if self.stacked is not None and self.layers[0].qkv.weight.data_ptr() == (
            self.stacked.qkv.data_ptr()
        ):
            return

        def each(name: str, *behind: Weight, part: str = "weight") -> Tensor:
            return _stack([*(getattr(layer, name) for layer in self.layers), *behind], part)

        has_norms, has_bias = self.config.has_qk_norm, self.config.has_qkv_bias
        self.stacked = DecoderWeights(
            qkv=each("qkv"),
            o=each("o"),
            gate_up=each("gate_up"),
            down=each("down"),
            norms=each("input_norm", self.norm),
            post_norms=each("post_norm"),
            q_norms=each("q_norm") if has_norms else None,
            k_norms=each("k_norm") if has_norms else None,
            qkv_biases=each("qkv", part="bias") if has_bias else None,
        )

    def run(
        self,
        x: Tensor,
        positions: Tensor,
        rows_per_slot: int = 1,
        codes: Tensor | None = None,
        head: Tensor | None = None,
        normed: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """`step`, with an embedding before and a product after it, in one launch if
        `is_one_launch`.

        Args:
            codes: (R,) int64 rows of x, which is then a table (V, D) and is not changed. Codes
                below 0 (a failed row) count as 0.
            head: (V, D) weight for logits, or None.
            normed: as of `step`; then never in one launch.
        Returns:
            hidden states (R, D) after the final norm, and logits (R, V) or None.
        """
        if self.is_one_launch and use_triton(x):
            assert self.stacked is not None
            cache, tables = self.cache.data, (self.cos, self.sin)
            return persistent_step(
                self.stacked, x, positions, cache, tables, self.counters, self.eps, codes, head
            )
        table = x
        if codes is not None:
            x = table.new_empty(len(codes), table.shape[1])
        with self.early_launches(x):
            if codes is not None:
                normed = code_embedding(codes, table, self.layers[0].input_norm.weight, self.eps, x)
            hidden = self.step(x, positions, rows_per_slot, normed)
            return hidden, None if head is None else linear(hidden, head)

    def step(
        self, x: Tensor, positions: Tensor, rows_per_slot: int = 1, normed: Tensor | None = None
    ) -> Tensor:
        """Run one new position per row, as separate operations.

        Args:
            x: (R, D) inputs, used up.
            positions: (R,) int64 cache positions to write; a row sees 0..its position.
            rows_per_slot: consecutive rows that share a slot (their positions must differ).
            normed: (R, D), the first layer's norm of x, if it exists already.
        Returns:
            (R, D) after the final norm.
        """

        def attend(qkv: Tensor, index: int) -> Tensor:
            heads, cache = self._layer(index)
            is_long, prefixes = self.is_fixed, self.prefixes
            return step_attention(qkv, heads, positions, cache, rows_per_slot, is_long, prefixes)

        with self.early_launches(x):
            return self._run_layers(x, attend, normed=normed)

    def early_launches(self, x: Tensor) -> AbstractContextManager[None]:
        """Return `dependent_launches` for steps of R rows, x (R, _), if all products are ours."""
        return dependent_launches(x, is_all_ours(x, self.layers[0].weights))

    def prefill(self, x: Tensor, slots: Tensor, positions: Tensor, last: Tensor) -> Tensor:
        """Run packed prompts and fill the cache of their slots. Prompts that do not begin at
        position 0 continue after the keys and values in their slots. Every shape depends on the
        number of tokens and of rows alone, so it can be captured.

        Args:
            x: (T, D) inputs, used up. Padding, after all prompts, may be any finite numbers.
            slots: (T,) int64, each token's slot; -1 for padding, which is not stored.
            positions: (T,) int64, each token's position in its prompt.
            last: (B,) int64 index of each prompt's last token; spare rows may repeat any.
        Returns:
            (B, D) after the final norm, at `last`.
        """

        def attend(qkv: Tensor, index: int) -> Tensor:
            heads, cache = self._layer(index)
            q = qk_norm_rope_store(qkv, heads, positions, cache, slots=slots)
            return prefill_attention(q, cache, slots, positions)

        return self._run_layers(x, attend, last)

    def _layer(self, index: int) -> tuple[QKNormRope, Tensor]:
        """Return a layer's norm and rotation, and its cache (2, N, H_kv, S, D_h)."""
        layer, cache = self.layers[index], self.cache.data[index]
        norms = layer.q_norm.weight, layer.k_norm.weight
        return QKNormRope(*norms, self.cos, self.sin, self.eps), cache

    def _run_layers(
        self,
        x: Tensor,
        attend: Callable[[Tensor, int], Tensor],
        leaving: Tensor | None = None,
        normed: Tensor | None = None,
    ) -> Tensor:
        layers = [layer.weights for layer in self.layers]
        last = self.norm.weight
        return run_layers(x, layers, last, self.eps, attend, leaving=leaving, normed=normed)


def _stack(modules: list[Weight], part: str) -> Tensor:
    """Return (n, ...) of a parameter of n modules, which becomes views of it."""
    stacked = torch.stack([getattr(module, part).detach() for module in modules])
    for module, view in zip(modules, stacked, strict=True):
        setattr(module, part, nn.Parameter(view, requires_grad=False))
    return stacked
