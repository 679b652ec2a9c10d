"""Prefill of packed prompts behind token buckets: one graph a bucket, whatever their lengths.

Prompts of a pass lie one behind the other in static buffers; how many tokens there are picks the
bucket, and what is missing to it is padding that reads nothing and writes nothing. So one long
prompt among short ones costs its own tokens only, and the few shapes can all be recorded: the
eager pass spends more time launching its 250 kernels than the device needs for them.

On a CPU, which records nothing, a pass is as long as its prompts.

With fixed shapes every pass is of one bucket, which the number of slots alone decides, and a prompt
longer than it, which runs alone, of what its own length asks for. So no product changes its kernel,
and with it its rounding, with what is spoken beside a row.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from models.base import REFERENCE, Prompt
from models.decoder.decoder import Decoder
from models.device.buckets import choose_bucket, packed_groups, round_up
from models.device.graphs import Capturer, GraphRunner
from models.device.to_device import to_device

# Multiples of the tiles matrix products come in. A pass of 1,024 tokens fills a GPU (2.5 us a token
# on an H200, 2.2 in one of 2,048), and each further bucket costs a recording.
TOKEN_BUCKETS = (128, 256, 512, 1024, 2048)
MAX_ROWS = 256  # prompts of one pass
# Passes of a bucket that are worth a graph of its own; until then they run in the next larger one.
# On an H200 a pass of 256 tokens takes 1.4 ms, of 1,024 2.6 ms, and a recording 80 ms.
GRAPH_PASSES = 128
USUAL_TOKENS = 1024  # of the pass that stands in for smaller ones, unless the slots hold less
TOKENS_PER_ROW = 8  # a bucket of T tokens holds T / 8 prompts: there are none as short
FIXED_TOKENS = (128, 1024)  # of the one bucket of fixed shapes, 8 a slot: at least, at most
SAMPLE_TOKENS = 64


def reference_frames(prompts: Sequence[Prompt]) -> Tensor | None:
    """(N, K) codes of the reference frames that stand in prompts, one behind the other, on the
    host; None where there are none.
    """
    codes = []
    for prompt in prompts:
        clone = prompt.request.clone
        if clone is not None and clone.codes is not None:
            ids = torch.tensor(prompt.codec_ids)
            codes.append(clone.codes[REFERENCE - ids[ids <= REFERENCE]])
    return torch.cat(codes) if codes else None


class PackedPrefill:
    """The static buffers of packed prompts and the runner of their buckets.

    Args:
        decoder: allocated before this is.
        has_buckets: whether passes are filled up to one.
    """

    def __init__(self, decoder: Decoder, capturer: Capturer | None, has_buckets: bool) -> None:
        self.decoder = decoder
        self.has_buckets = has_buckets
        self.is_fixed = False  # one bucket, whatever the prompts; to be set before `allocate`
        self.runner: GraphRunner[int] = GraphRunner("prefill", self._run, capturer, self._sample)
        self.buckets: list[int] = []
        self.max_rows = 0
        self.x: Tensor
        self.slots: Tensor
        self.positions: Tensor
        self.last: Tensor

    def allocate(self, num_slots: int, max_positions: int) -> None:
        """Allocate for up to num_slots prompts of up to max_positions tokens each."""
        self.runner.reset()
        weight = self.decoder.norm.weight
        self.buckets = self._buckets(num_slots, num_slots * max_positions)
        # A prompt longer than the last bucket runs alone, and without a graph.
        longest = round_up(max_positions, TOKEN_BUCKETS[0])
        size = max(self.buckets[-1], longest)
        self.max_rows = min(num_slots, MAX_ROWS, self.buckets[-1] // TOKENS_PER_ROW)
        self.x = torch.zeros(size, len(weight), dtype=weight.dtype, device=weight.device)
        self.slots = torch.full((size,), -1, dtype=torch.int64, device=weight.device)
        self.positions = torch.zeros_like(self.slots)
        self.last = torch.zeros(self.max_rows, dtype=torch.int64, device=weight.device)

    def _buckets(self, num_slots: int, most: int) -> list[int]:
        """Tokens of a pass for num_slots slots that hold `most` together."""
        if self.is_fixed:
            least, largest = FIXED_TOKENS
            return [min(largest, max(least, TOKENS_PER_ROW * num_slots))]
        return [
            bucket
            for index, bucket in enumerate(TOKEN_BUCKETS)
            if index == 0 or TOKEN_BUCKETS[index - 1] < most
        ]

    @property
    def usual(self) -> int:
        """The bucket that most passes fit into: those that refill slots."""
        fitting = (bucket for bucket in self.buckets if bucket <= USUAL_TOKENS)
        return max(fitting, default=self.buckets[0])

    def announce(self) -> None:
        """Name every bucket to the runner."""
        self.runner.announce(self.buckets, size=int, usual=self.usual)

    def groups(self, lengths: Sequence[int]) -> list[list[int]]:
        """Prompts that share a pass, as indices into their lengths."""
        return packed_groups(lengths, self.buckets[-1], self.max_rows)

    def run(self, x: Tensor, lengths: list[int], slots: list[int]) -> Tensor:
        """One pass; fills the cache of the prompts' slots.

        Args:
            x: (n, D) inputs of all prompts, one behind the other; n is the sum of lengths.
            lengths: tokens of each prompt. slots: distinct.
        Returns:
            (rows, D) after the final norm, at each prompt's last token; valid until the next run.
            With fixed shapes spare rows behind them, always as many in all.
        """
        key = self._fill(x, lengths, slots)
        hidden: Tensor = self.runner.run(key)
        return hidden if self.is_fixed else hidden[: len(lengths)]

    def _rows(self, bucket: int) -> int:
        return min(self.max_rows, bucket // TOKENS_PER_ROW)

    def _key(self, num_tokens: int, num_rows: int) -> int:
        needed = max(num_tokens, num_rows * TOKENS_PER_ROW)
        if not self.has_buckets:
            return needed
        if needed > self.buckets[-1]:
            return round_up(needed, TOKEN_BUCKETS[0])
        bucket = choose_bucket(needed, self.buckets)
        return self.runner.pick(bucket, 1, GRAPH_PASSES)

    def _fill(self, x: Tensor, lengths: list[int], slots: list[int], key: int | None = None) -> int:
        """Put prompts into the static buffers, and nothing else."""
        num_tokens = len(x)
        assert num_tokens == sum(lengths), (num_tokens, lengths)
        key = self._key(num_tokens, len(lengths)) if key is None else key
        counts = torch.tensor(lengths)
        ends = counts.cumsum(0)
        padding = key - num_tokens
        owners = torch.tensor(slots).repeat_interleave(counts)
        places = torch.arange(num_tokens) - (ends - counts).repeat_interleave(counts)
        last = torch.zeros(self._rows(key), dtype=torch.int64)  # spare rows look at token 0
        last[: len(lengths)] = ends - 1
        owners = torch.nn.functional.pad(owners, (0, padding), value=-1)
        places = torch.nn.functional.pad(places, (0, padding))
        # One copy for all three.
        joined = to_device(torch.cat([owners, places, last]), self.slots.device)
        self.slots[:key] = joined[:key]
        self.positions[:key] = joined[key : 2 * key]
        self.last[: len(last)] = joined[2 * key :]
        self.x[:num_tokens] = x
        self.x[num_tokens:key].zero_()
        return key

    def _sample(self, bucket: int) -> None:
        """Fill the buffers of a bucket with short random prompts, so that a check sees numbers."""
        length = min(SAMPLE_TOKENS, self.decoder.cache.num_positions, bucket)
        rows = min(bucket // length, self._rows(bucket))
        x = torch.randn(rows * length, self.x.shape[1], device=self.x.device).to(self.x.dtype)
        self._fill(x, [length] * rows, list(range(rows)), bucket)

    def _run(self, bucket: int) -> Tensor:
        # A copy, because the decoder uses its input up: a pass can then be repeated.
        return self.decoder.prefill(
            self.x[:bucket].clone(),
            self.slots[:bucket],
            self.positions[:bucket],
            self.last[: self._rows(bucket)],
        )
