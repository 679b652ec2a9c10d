"""What every family does with its slots: start, step, watch, move and clear them, and decode audio.

A family adds its networks, `plan`, `allocate`, `_embed` (and `_trailing`) and the frame itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from models.base import NO_ID, ModelInfo, Prompt, SlotStatus
from models.decoder.config import TransformerConfig
from models.decoder.decoder import Decoder
from models.decoder.kv_cache import cache_bytes
from models.device.buckets import batch_buckets, prefill_groups, round_up
from models.device.graphs import GraphRunner
from models.device.threads import decode_threads, limited_threads, vocoder_threads
from models.device.to_device import to_device
from models.slots.buffers import Poll, SlotBuffers
from models.slots.prefill import PackedPrefill
from models.slots.sampling import UNKNOWN, SamplingSlots
from models.vocoder.runner import VocoderRunner

PREFILL_TOKENS = 16384  # padded positions of one prefill pass; larger groups are split
# Prompt lengths are padded to a multiple of this: few different shapes, because GPU libraries
# choose an algorithm anew for each, and whole blocks of the CPU's attention.
PREFILL_STEP = 32


class TalkerNetwork(Protocol):
    """What the shared half asks of a family's talker."""

    def logits(self, hidden: Tensor) -> Tensor:
        """(B, D) to logits of the first codebook (B, V)."""
        ...


class SlotModel:
    """The family-independent half of a `SpeechModel`."""

    info: ModelInfo
    device: torch.device
    dtype: torch.dtype
    shape: TransformerConfig  # the talker's
    decoder: Decoder  # the talker's
    frames: GraphRunner[int]
    vocoder: VocoderRunner
    slots: SlotBuffers
    sampling: SamplingSlots
    talker: TalkerNetwork
    packed: PackedPrefill
    # On a CPU prompts stay side by side: there a row rounds as in any batch.
    packs_prompts: bool = False
    max_positions: int = 0  # prompt and frames a slot holds; set by `allocate`

    def slot_bytes(self, max_positions: int) -> int:
        """Cache bytes of one slot for rows of up to max_positions."""
        shape, positions = self.shape, cache_positions(max_positions)
        return cache_bytes(
            shape.num_layers, shape.num_kv_heads, shape.head_dim, positions, self.dtype
        )

    @torch.inference_mode()
    def capture(self, max_batch: int, max_audio_frames: int, max_reference_frames: int = 0) -> None:
        """Capture every frame bucket up to max_batch, every prefill and every vocoder bucket in
        use.
        """
        self.frames.capture(batch_buckets(max_batch), size=int)
        if self.packs_prompts:
            self.packed.capture()
        everyone = list(range(self.slots.index.numel()))
        self.release(everyone)
        self.vocoder.capture(max_batch, max_audio_frames, max_reference_frames)

    def graph_runners(self) -> list[GraphRunner[Any]]:
        """The runners whose hits, misses and captures belong into the report."""
        return [self.frames, self.packed.runner, *self.vocoder.layout.runners]

    @torch.inference_mode()
    def prefill(self, prompts: list[Prompt], slots: list[int]) -> None:
        """Run prompts through the talker into distinct free slots and sample each first code.

        Raises:
            ValueError: a row is longer than the slots were allocated for.
        """
        room, most = self.max_positions, self.slots.max_frames
        for prompt in prompts:
            tokens, frames = prompt.num_tokens, prompt.request.max_frames
            if tokens + frames > room or frames > most:
                raise ValueError(
                    f"{tokens} prompt tokens and {frames} frames; slots hold {room} and "
                    f"{most} frames"
                )
        if self.packs_prompts:
            for rows in self.packed.groups([prompt.num_tokens for prompt in prompts]):
                self._prefill_packed([prompts[row] for row in rows], [slots[row] for row in rows])
            return
        lengths = [round_up(prompt.num_tokens, PREFILL_STEP) for prompt in prompts]
        # On a CPU only rows of one padded length go together: attention rounds by that length.
        is_exact = self.device.type == "cpu"
        for rows in prefill_groups(lengths, PREFILL_TOKENS, is_one_length=is_exact):
            self._prefill_group([prompts[row] for row in rows], [slots[row] for row in rows])

    def _prefill_packed(self, prompts: list[Prompt], slots: list[int]) -> None:
        """One pass over prompts one behind the other."""
        text_ids = torch.tensor([token for prompt in prompts for token in prompt.text_ids])
        codec_ids = torch.tensor([token for prompt in prompts for token in prompt.codec_ids])
        lengths = [prompt.num_tokens for prompt in prompts]
        x = self._embed(prompts, text_ids, codec_ids.split(lengths))
        hidden = self.packed.run(x, lengths, slots)
        self._start(prompts, slots, self._index(slots), self._index(lengths), hidden)

    def _prefill_group(self, prompts: list[Prompt], slots: list[int]) -> None:
        """One pass over prompts side by side, padded to the longest."""
        length = round_up(max(prompt.num_tokens for prompt in prompts), PREFILL_STEP)
        text_ids = torch.full((len(prompts), length), NO_ID, dtype=torch.int64)
        codec_ids = torch.full((len(prompts), length), NO_ID, dtype=torch.int64)
        for row, prompt in enumerate(prompts):
            text_ids[row, : prompt.num_tokens] = torch.tensor(prompt.text_ids)
            codec_ids[row, : prompt.num_tokens] = torch.tensor(prompt.codec_ids)
        index = self._index(slots)
        lengths = self._index([prompt.num_tokens for prompt in prompts])
        x = self._embed(prompts, text_ids.flatten(), codec_ids.unbind())
        hidden = self.decoder.prefill(x.view(len(prompts), length, -1), index, lengths - 1)
        self._start(prompts, slots, index, lengths, hidden)

    def _embed(self, prompts: list[Prompt], text_ids: Tensor, rows: Sequence[Tensor]) -> Tensor:
        """(n, D) talker inputs of a pass: its text ids (n,) and each prompt's codec ids, both with
        their padding (NO_ID) if they have any.
        """
        raise NotImplementedError

    def _start(
        self,
        prompts: list[Prompt],
        slots: list[int],
        index: Tensor,
        lengths: Tensor,
        hidden: Tensor,
    ) -> None:
        """Draw the first codes of prefilled rows and make their slots ready for the first frame.

        Args:
            index: `slots` on the device. lengths: (n,) prompt positions, on the device.
            hidden: (n, D) talker output at each prompt's end.
        """
        requests = [prompt.request for prompt in prompts]
        self.sampling.assign(
            slots, [r.sampling for r in requests], [r.seed for r in requests], index
        )
        frame, code = torch.zeros_like(index), torch.empty_like(index)
        uniform = self.sampling.first_draws(index, frame)
        self.sampling.first(index, self.talker.logits(hidden), uniform, frame, UNKNOWN, code)
        limits = self._index([request.max_frames for request in requests])
        self.slots.admit(index, hidden, code, lengths, limits, self._trailing(prompts))

    def _trailing(self, prompts: list[Prompt]) -> Tensor:
        """(n, max_trailing, D) text vectors for the frames to come; none."""
        trailing = self.slots.trailing
        return trailing.new_zeros(len(prompts), *trailing.shape[1:])

    @torch.inference_mode()
    def decode_frames(self, bucket: int, count: int) -> None:
        """Run `count` frames for slots 0..bucket-1 without waiting for them."""
        if self.device.type == "cuda":
            for _ in range(count):
                self.frames.run(bucket)
            return
        layer_weights = self.shape.num_weights // self.shape.num_layers
        with limited_threads(decode_threads(layer_weights, bucket)):
            for _ in range(count):
                self.frames.run(bucket)

    def poll(self) -> Poll:
        """Start copying the slots' status to the host."""
        return self.slots.poll()

    def status(self, poll: Poll, slots: list[int]) -> list[SlotStatus]:
        """Status of `slots` as of that poll; waits for the copy."""
        return self.slots.status(poll, slots)

    @torch.inference_mode()
    def move(self, sources: list[int], targets: list[int]) -> None:
        """Move live slots into free ones."""
        source, target = self._index(sources), self._index(targets)
        self.decoder.cache.move(source, target)
        self.sampling.move(sources, targets, source, target)
        self.slots.move(source, target)

    @torch.inference_mode()
    def release(self, slots: list[int], is_failed: bool = False) -> None:
        """Clear slots; the cache as well where a row failed and may have left non-finite values."""
        index = self._index(slots)
        self.slots.release(index)
        self.sampling.release(slots)
        if is_failed:
            self.decoder.cache.clear(index)

    def codes(self, slot: int, frames: int) -> Tensor:
        """(F, K) int64 codes of a slot, a copy on the model's device."""
        return self.slots.codes[slot, :frames].long()

    def choose_audio(self, frames: list[int], references: list[int]) -> list[int]:
        """Which of the rows that wait for `decode_audio`, the oldest first, to give it together:
        indices in their order; none where it is better to wait for more.
        """
        return self.vocoder.choose(frames, references)

    @torch.inference_mode()
    def decode_audio(
        self, codes: list[Tensor], references: list[Tensor | None] | None = None
    ) -> list[Tensor]:
        """Codes (F, K) each to float32 samples (F * samples_per_frame,) each, on the device.

        Args:
            references: a cloned row's reference codes (R, K), decoded in front and cut off again.
        """
        if self.device.type == "cuda":
            return self.vocoder.decode(codes, references)
        with limited_threads(vocoder_threads(self._vocoder_weights)):
            return self.vocoder.decode(codes, references)

    @cached_property
    def _vocoder_weights(self) -> int:
        return sum(weight.numel() for weight in self.vocoder.network.parameters())

    def _index(self, slots: list[int]) -> Tensor:
        return to_device(slots, self.device)


def cache_positions(max_positions: int) -> int:
    """Positions of a slot's cache for rows of up to max_positions.

    A finished row goes on writing at the position after its last one, and a prefill fills whole
    steps.
    """
    return round_up(max_positions + 1, PREFILL_STEP)
