"""The tensors of a stack of layers, in a family's names. Without torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from models.checkpoint.table import Table
from models.decoder.config import TransformerConfig


class LayerNames(NamedTuple):
    """A family's names of the weights of a layer, without `.weight`."""

    qkv: Sequence[str]  # three, or one of them all
    o: str
    gate_up: Sequence[str]
    down: str
    input_norm: str
    post_norm: str
    q_norm: str
    k_norm: str
    scales: tuple[str, str]  # whole names: factors of `o` and `down`, in codecs
    is_interleaved: bool = False  # RoPE rotates neighbours, not a head's first half and its second


def add_layers(
    table: Table,
    theirs: str,
    ours: str,
    sizes: TransformerConfig,
    names: LayerNames,
    has_scales: bool = False,
) -> None:
    """Add the last norm and the layers of a stack. `theirs`: prefix of names, with its dot."""
    width, head = sizes.width, sizes.head_dim
    queries, keys = sizes.num_heads * head, sizes.num_kv_heads * head
    rotated = sizes.num_heads + sizes.num_kv_heads
    table.keep(f"{theirs}norm.weight", f"{ours}.norm.weight", width)
    for index in range(sizes.num_layers):
        old, new = f"{theirs}layers.{index}", f"{ours}.layers.{index}"

        def hold(name: str, *shape: int, old: str = old) -> str:
            return table.hold(f"{old}.{name}.weight", *shape)

        def rotate(part: str, heads: int, *sources: str, new: str = new) -> None:
            way, numbers = ("halves", (heads, head)) if names.is_interleaved else ("rows", ())
            table.make(f"{new}.{part}", way, *sources, numbers=numbers)

        rows = (queries, keys, keys) if len(names.qkv) > 1 else (queries + 2 * keys,)
        qkv = [hold(name, count, width) for name, count in zip(names.qkv, rows, strict=True)]
        rotate("qkv.weight", rotated, *qkv)
        if sizes.has_qkv_bias:
            parts = zip(names.qkv, rows, strict=True)
            biases = [table.hold(f"{old}.{name}.bias", count) for name, count in parts]
            rotate("qkv.bias", rotated, *biases)
        o = hold(names.o, width, queries)
        gate_up = [hold(name, sizes.mlp_width, width) for name in names.gate_up]
        table.make(f"{new}.gate_up.weight", "rows", *gate_up)
        down = hold(names.down, width, sizes.mlp_width)
        for part, name in (("input_norm", names.input_norm), ("post_norm", names.post_norm)):
            table.make(f"{new}.{part}.weight", "rows", hold(name, width))
        if sizes.has_qk_norm:
            rotate("q_norm.weight", 1, hold(names.q_norm, head))
            rotate("k_norm.weight", 1, hold(names.k_norm, head))
        for part, weight, scale in zip(("o", "down"), (o, down), names.scales, strict=True):
            if has_scales:
                scale = table.hold(f"{old}.{scale}", width)
                table.make(f"{new}.{part}.weight", "scaled", scale, weight)
            else:
                table.make(f"{new}.{part}.weight", "rows", weight)
