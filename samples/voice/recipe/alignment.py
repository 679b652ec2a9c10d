"""Alignment aid for the talker's training: chosen attention heads are taught to look at the text
being spoken.

The teacher says which byte of the text a frame speaks (reading.py, teachers.py). While the talker
predicts that frame, a chosen head should attend near it. The idea is that of guided attention
(Tachibana et al., arXiv:1710.08969), with the teacher's times in place of a diagonal.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

WIDTH_BYTES = 2.0  # spread of the window around the byte being spoken
FLOOR = 1e-4  # of the attention counted, so that a lost head costs a finite amount


class Guide:
    """Watches the inputs of some attention modules and scores where chosen heads look.

    Args:
        talker: the official talker; all rows of a batch count positions from 0.
        heads: (layer, head) pairs.
    """

    def __init__(self, talker: Any, heads: list[tuple[int, int]]) -> None:
        self.heads = heads
        self.attention = {layer: talker.model.layers[layer].self_attn for layer, _ in heads}
        self.theta = talker.config.rope_theta
        self.inputs: dict[int, Tensor] = {}
        for layer, module in self.attention.items():
            module.register_forward_pre_hook(self._keeper(layer), with_kwargs=True)

    def _keeper(self, layer: int) -> Any:
        def keep(module: Any, args: Any, kwargs: Any) -> None:
            self.inputs[layer] = kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]

        return keep

    def rotate(self, x: Tensor) -> Tensor:
        """RoPE on (B, L, D_h), float32. With equal position streams it is the plain one."""
        half = x.shape[-1] // 2
        steps = torch.arange(half, device=x.device) / half
        angles = torch.arange(x.shape[1], device=x.device)[:, None] * self.theta**-steps
        cos, sin = angles.cos(), angles.sin()
        first, second = x[..., :half], x[..., half:]
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)

    def logits(self, layer: int, head: int) -> Tensor:
        """(B, L, L) causal attention logits of a head in the last forward pass, float32."""
        module, x = self.attention[layer], self.inputs[layer]
        size = module.head_dim
        key_head = head // (module.config.num_attention_heads // module.config.num_key_value_heads)
        q = F.linear(x, module.q_proj.weight[head * size : (head + 1) * size])
        k = F.linear(x, module.k_proj.weight[key_head * size : (key_head + 1) * size])
        q, k = self.rotate(module.q_norm(q).float()), self.rotate(module.k_norm(k).float())
        with torch.autocast(x.device.type, enabled=False):
            scores = q @ k.transpose(1, 2) / math.sqrt(size)
        is_later = torch.ones(scores.shape[1:], dtype=torch.bool, device=x.device).triu(1)
        return scores.masked_fill(is_later, -torch.inf)

    def shares(self, spoken: Tensor) -> list[Tensor]:
        """Per head, (B, L) attention within the window around `spoken`, which is a position of the
        sequence, or -1 for unknown.
        """
        places = torch.arange(spoken.shape[1], device=spoken.device)
        distance = (places - spoken[..., None]) / WIDTH_BYTES
        window = torch.exp(-distance.square() / 2)  # (B, L, L)
        return [(self.logits(*head).softmax(-1) * window).sum(-1) for head in self.heads]

    def loss(self, spoken: Tensor) -> Tensor:
        """Mean negative logarithm of those shares over the known positions. A scalar."""
        is_known = (spoken >= 0).float()
        errors = [-(share + FLOOR).log() * is_known for share in self.shares(spoken)]
        return torch.stack(errors).sum() / (is_known.sum().clamp(min=1) * len(errors))
