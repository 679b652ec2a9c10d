"""Prefill of packed prompts in token buckets: one copy and one graph per pass, for any prompts.

Prompts of a pass are packed in static buffers, one after the other. The number of tokens picks the
bucket; its padding reads nothing and writes nothing. So one long prompt among short ones costs its
own tokens only, and the few shapes can all be captured. On a CPU, which captures nothing, a pass is
as long as its prompts.

All of a pass is captured, from the embeddings to the first draw and the slot's start. Its data is
copied to the device as one tensor of integers and one of real numbers, because every call of
PyTorch lets other threads run: operation by operation, a pass of 3 ms took 20 to 70 ms next to the
writer threads. Spare rows of a bucket repeat its last row, and so write the same values.

With fixed shapes every pass has one bucket, which depends on the number of slots alone; a longer
prompt runs alone, in a bucket for its own length. So no product changes its kernel, and with it its
rounding, with the other rows of a pass.

Prompts of a voice with a long common beginning (`Prompt.num_shared`) are run whole by one row. The
others copy the beginning's keys and values from the slot of a row that has them (`VoicePrefixes`)
and run the rest: with Fish S2 Pro and 10 s of reference some 80 tokens of 300. In a step all of
these rows read it in one slot (`decode_attention`). A short beginning gains nothing: in Qwen3-TTS
the text comes before the frames, so a voice's prompts have about 40 tokens in common, 0.1 ms of 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, chain, repeat
from typing import NamedTuple

import torch
from torch import Tensor

from kernels.attention.prefill import can_go_on
from models.base import NO_ID, REFERENCE, Prompt, SpeechRequest, Voice
from models.device.buckets import choose_bucket, packed_groups, round_up
from models.device.graphs import Capturer, GraphRunner
from models.device.to_device import to_device
from models.slots.runner import SamplingSlots

# Multiples of the tiles of matrix products. A pass of 1,024 tokens fills a GPU (2.5 us per token on
# an H200, 2.2 in one of 2,048), and each further bucket costs a capture: of 2,048 tokens 0.1 s
# before the first frame of a run that begins with 256 rows.
TOKEN_BUCKETS = (128, 256, 512, 1024)
MAX_ROWS = 128  # prompts of one pass
# Passes of a bucket that are worth its capture; until then they run in the next larger one.
# On an H200 a pass of 256 tokens takes 1.4 ms, of 1,024 2.6 ms, and a capture 80 ms.
GRAPH_PASSES = 128
TOKENS_PER_ROW = 8  # a bucket of T tokens has T / 8 prompts at most: no prompt is that short
FIXED_TOKENS = (128, 1024)  # of the one bucket of fixed shapes, 8 per slot: at least, at most
SAMPLE_TOKENS = 64
SAMPLE_IDS = 16  # every vocabulary has at least as many
ROW_COLUMNS = 5  # whole numbers of a row besides those of its sampling


def reference_frames(prompts: Sequence[Prompt]) -> Tensor | None:
    """Return (N, K) codes of all reference frames in prompts, on the host; or None."""
    codes = []
    for prompt in prompts:
        clone = prompt.request.clone
        if clone is not None and clone.codes is not None:
            ids = torch.tensor(prompt.codec_ids)
            codes.append(clone.codes[REFERENCE - ids[ids <= REFERENCE]])
    return torch.cat(codes) if codes else None


class Pass(NamedTuple):
    """The data of a pass over T tokens and R rows, on the device; spare rows repeat the last."""

    text_ids: Tensor  # (T,) int64, NO_ID in padding
    codec_ids: Tensor  # (T,) int64, as `Prompt.codec_ids`; NO_ID in padding
    given: Tensor  # (T, D) vectors of cloned voices, where a codec id is SPEAKER or less
    slots: Tensor  # (T,) int64, each token's slot; -1 for padding
    positions: Tensor  # (T,) int64, each token's position in its prompt
    last: Tensor  # (R,) int64, the row's last token
    owner: Tensor  # (R,) int64, the row itself; of a spare row the one it repeats
    row_slots: Tensor  # (R,) int64, the row's slot
    lengths: Tensor  # (R,) int64, its prompt's tokens, those run before among them
    limits: Tensor  # (R,) int64, frames it may keep
    counts: Tensor  # (R, C) int64, its seed and the whole numbers among its sampling settings
    numbers: Tensor  # (R, S) float32, the others


Prefix = tuple[Voice, int]  # the voice, and the number of positions that its prompts share


class VoicePrefixes:
    """The slots that contain the common beginning of a voice's prompts.

    It is stored nowhere else: every row of the voice has it in its slot, unchanged until the slot
    is free. So it takes no memory, and is run again only when no row of the voice is left.
    """

    def __init__(self) -> None:
        self._held: dict[int, Prefix] = {}

    def followers(
        self, prefixes: Sequence[Prefix | None], slots: Sequence[int]
    ) -> dict[int, list[int]]:
        """Find the prompts that copy their beginning, among prompts for free slots: the slot to
        copy from, which may be that of an earlier one of them, and their indices.

        Args:
            prefixes: None for a prompt without a common beginning.
        """
        self.release(slots)
        found = {prefix: slot for slot, prefix in self._held.items()}
        followers: dict[int, list[int]] = {}
        for row, (prefix, slot) in enumerate(zip(prefixes, slots, strict=True)):
            if prefix is not None and (source := found.setdefault(prefix, slot)) != slot:
                followers.setdefault(source, []).append(row)
        return followers

    def hold(self, prefixes: Sequence[Prefix | None], slots: Sequence[int]) -> None:
        """Record that prompts were run in these slots."""
        pairs = zip(slots, prefixes, strict=True)
        self._held |= {slot: prefix for slot, prefix in pairs if prefix is not None}

    def move(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        self.hold([self._held.pop(source, None) for source in sources], targets)

    def release(self, slots: Sequence[int], is_failed: bool = False) -> None:
        """Record that slots are free. Beginnings of failed rows are not copied any more."""
        gone = {self._held.pop(slot, None) for slot in slots}
        if is_failed:
            self._held = {s: prefix for s, prefix in self._held.items() if prefix not in gone}

    def table(self, num_slots: int) -> list[tuple[int, int]]:
        """The argument `prefixes` of `decode_attention`."""
        found: dict[Prefix, int] = {}
        table = [(0, 0)] * num_slots
        for slot, prefix in self._held.items():
            table[slot] = found.setdefault(prefix, slot), prefix[1]
        return table


class PackedPrefill:
    """The static buffers of packed prompts and the runner of their buckets.

    Args:
        start: does the work of a pass on static buffers, and returns a tensor for checks.
        has_buckets: whether passes are padded to a bucket.
    """

    def __init__(
        self, start: Callable[[Pass], Tensor], capturer: Capturer | None, has_buckets: bool
    ) -> None:
        self.start = start
        self.has_buckets = has_buckets
        self.is_fixed = False  # one bucket for any prompts; set it before `allocate`
        self.runner: GraphRunner[int] = GraphRunner("prefill", self._run, capturer, self._sample)
        self.buckets: list[int] = []
        self.max_rows = 0
        self.given: Tensor
        self._max_positions = 0
        self._num_rows = 0  # of the current pass, without buckets
        self._sampling: SamplingSlots
        self._whole: Tensor
        self._real: Tensor

    def allocate(
        self, num_slots: int, max_positions: int, sampling: SamplingSlots, like: Tensor
    ) -> None:
        """Allocate for up to num_slots prompts of up to max_positions tokens each.

        Args:
            like: (D,) of the talker's width, dtype and device.
        """
        self.runner.reset()
        self.buckets = self._buckets(num_slots, num_slots * max_positions)
        # A prompt longer than the last bucket runs alone, and without a graph.
        longest = round_up(max_positions, TOKEN_BUCKETS[0])
        size = max(self.buckets[-1], longest)
        self.max_rows = min(num_slots, MAX_ROWS, self.buckets[-1] // TOKENS_PER_ROW)
        self._max_positions = max_positions
        self._sampling = sampling
        columns = ROW_COLUMNS + sampling.num_counts
        num_whole = 4 * size + columns * self.max_rows
        self.given = like.new_zeros(size, len(like))
        self._whole = torch.zeros(num_whole, dtype=torch.int64, device=like.device)
        num_real = self.max_rows * sampling.num_numbers
        self._real = torch.zeros(num_real, dtype=torch.float32, device=like.device)

    def _buckets(self, num_slots: int, most: int) -> list[int]:
        """Return the tokens of a pass for num_slots slots that contain `most` together."""
        if self.is_fixed:
            least, largest = FIXED_TOKENS
            return [min(largest, max(least, TOKENS_PER_ROW * num_slots))]
        return [
            bucket
            for index, bucket in enumerate(TOKEN_BUCKETS)
            if index == 0 or TOKEN_BUCKETS[index - 1] < most
        ]

    def announce(self) -> None:
        """Announce every bucket; most passes fit into the last."""
        self.runner.announce(self.buckets, usual=self.buckets[-1])

    def groups(self, lengths: Sequence[int]) -> list[list[int]]:
        """Prompts that share a pass, as indices into their lengths."""
        return packed_groups(lengths, self.buckets[-1], self.max_rows)

    def shares(self, prompt: Prompt) -> bool:
        """Whether a prompt may be run in two parts, the first of them for other prompts too.
        With fixed shapes both must fit the one bucket, or the parts would round differently.
        """
        is_alike = not self.is_fixed or prompt.num_tokens <= self.buckets[-1]
        return bool(prompt.num_shared) and is_alike and can_go_on(self.given)

    def run(
        self,
        prompts: Sequence[Prompt],
        slots: Sequence[int],
        starts: Sequence[int],
        given: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        """Run one pass: the prompts' slots are ready for their first frame.

        Args:
            slots: distinct.
            starts: positions of each prompt that its slot contains already; 0: all of it is run.
            given: (N,) int64 indices of cloned voices' vectors among the pass's tokens, on the
                host, and (N, D) those vectors.
        """
        if given is not None:
            places, vectors = given
            self.given.index_copy_(0, to_device(places, self.given.device), vectors)
        self.runner.run(self._fill(prompts, slots, starts))

    def _rows(self, bucket: int) -> int:
        return min(self.max_rows, bucket // TOKENS_PER_ROW) if self.has_buckets else self._num_rows

    def _key(self, num_tokens: int, num_rows: int) -> int:
        if not self.has_buckets:
            return num_tokens
        needed = max(num_tokens, num_rows * TOKENS_PER_ROW)
        if needed > self.buckets[-1]:
            return round_up(needed, TOKEN_BUCKETS[0])
        bucket = choose_bucket(needed, self.buckets)
        return self.runner.pick(bucket, 1, GRAPH_PASSES)

    def _fill(
        self,
        prompts: Sequence[Prompt],
        slots: Sequence[int],
        starts: Sequence[int],
        key: int | None = None,
    ) -> int:
        """Copy the data of a pass to the device, and return its bucket. In plain Python up to
        the copy, because every call of PyTorch lets other threads run.
        """
        ends = [prompt.num_tokens for prompt in prompts]
        lengths = [end - start for start, end in zip(starts, ends, strict=True)]
        num_tokens, num_rows = sum(lengths), len(prompts)
        key = self._key(num_tokens, num_rows) if key is None else key
        self._num_rows = num_rows
        padding, spare = key - num_tokens, self._rows(key) - num_rows
        requests = [prompt.request for prompt in prompts]
        counts, numbers = self._sampling.settings_of(requests)
        last = [behind - 1 for behind in accumulate(lengths)]
        whole = [
            *chain.from_iterable(p.text_ids[at:] for p, at in zip(prompts, starts, strict=True)),
            *repeat(NO_ID, padding),
            *chain.from_iterable(p.codec_ids[at:] for p, at in zip(prompts, starts, strict=True)),
            *repeat(NO_ID, padding),
            *chain.from_iterable(map(repeat, slots, lengths)),
            *repeat(-1, padding),
            *chain.from_iterable(map(range, starts, ends)),
            *repeat(0, padding),
        ]
        limits = [request.max_frames for request in requests]
        for column in (last, range(num_rows), slots, ends, limits):
            whole += [*column, *repeat(column[-1], spare)]
        whole += chain.from_iterable([*counts, *repeat(counts[-1], spare)])
        real = [*chain.from_iterable([*numbers, *repeat(numbers[-1], spare)])]
        self._send(self._whole, whole)
        self._send(self._real, real)
        return key

    @staticmethod
    def _send(buffer: Tensor, values: list[int] | list[float]) -> None:
        buffer[: len(values)].copy_(to_device(values, buffer.device, buffer.dtype))

    def _sample(self, bucket: int) -> None:
        """Fill the buffers of a bucket with short prompts, for checks and captures."""
        length = min(SAMPLE_TOKENS, self._max_positions, bucket)
        rows = min(bucket // length, self._rows(bucket))
        ids, none = [token % SAMPLE_IDS for token in range(length)], [NO_ID] * length
        requests = [SpeechRequest("", seed=row) for row in range(rows)]
        prompts = [Prompt(ids, none, [], request) for request in requests]
        self._fill(prompts, range(rows), [0] * rows, bucket)

    def _run(self, bucket: int) -> Tensor:
        return self.start(self._pass(bucket))

    def _pass(self, bucket: int) -> Pass:
        """Return the part of the buffers that a pass of that many tokens reads."""
        rows, columns = self._rows(bucket), self._sampling.num_counts
        sizes = [*repeat(bucket, 4), *repeat(rows, ROW_COLUMNS), rows * columns]
        text_ids, codec_ids, *others, counts = self._whole[: sum(sizes)].split(sizes)
        numbers = self._real[: rows * self._sampling.num_numbers].view(rows, -1)
        ids = text_ids, codec_ids, self.given[:bucket]
        return Pass._make([*ids, *others, counts.view(rows, columns), numbers])
