"""A frame of all slots: what a captured graph does, and what its parts cost.

In the reference's order: the code predictor expands the first code drawn last time into K codes
(`predict`), their embeddings are summed and the talker steps (`step`), the next first code is drawn
(`draw_first`), and the slots advance. So the last drawn first code is never expanded. The whole
frame is one function of the bucket over static buffers.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from models.decoder.config import FamilyConfig
from models.decoder.kv_cache import cache_bytes
from models.device.buckets import round_up
from models.device.threads import decode_threads, limited_threads
from models.slots.buffers import SlotBuffers
from models.slots.networks import CodePredictor, TalkerNetwork
from models.slots.sampling_slots import SamplingSlots

CACHE_STEP = 32  # positions of a slot's cache are a multiple of this


class FrameModel:
    """Talker, code predictor and slots of a loaded checkpoint.

    A family adds `new_sampling`, `first_inputs` and `embed_frames`.
    """

    def __init__(
        self, config: FamilyConfig, talker: TalkerNetwork, predictor: CodePredictor
    ) -> None:
        self.config = config
        self.talker = talker
        self.predictor = predictor
        self.device = talker.head.weight.device
        self.dtype = talker.head.weight.dtype
        self.sampling: SamplingSlots
        self._slots: SlotBuffers | None = None

    @property
    def slots(self) -> SlotBuffers:
        """State of every slot. Raises RuntimeError before `allocate`."""
        if self._slots is None:
            raise RuntimeError("there are no slots yet: allocate() comes first")
        return self._slots

    def slot_bytes(self, max_positions: int, max_frames: int = 0, max_trailing: int = 0) -> int:
        """Bytes of one slot, as `allocate` makes it: both caches, text to come, codes."""
        talker, predictor = self.config.talker, self.config.predictor
        num_codebooks = self.config.num_codebooks
        cached = cache_bytes(talker, cache_positions(max_positions), self.dtype)
        cached += cache_bytes(predictor, num_codebooks, self.dtype)
        trailing = (max_trailing + 1) * talker.width * self.dtype.itemsize
        return cached + trailing + (max_frames + 1) * num_codebooks * torch.int16.itemsize

    @torch.inference_mode()
    def allocate(
        self, max_batch: int, max_positions: int, max_frames: int, max_trailing: int = 0
    ) -> None:
        """Allocate caches and slot buffers.

        Args:
            max_positions: prompt and frames of the longest row together.
            max_trailing: longest trailing text of a prompt.
        """
        num_codebooks, device = self.config.num_codebooks, self.device
        self.talker.decoder.allocate(max_batch, cache_positions(max_positions))
        self.predictor.decoder.allocate(max_batch, num_codebooks)
        sizes = max_batch, self.config.talker.width, num_codebooks, max_frames, max_trailing + 1
        self._slots = SlotBuffers(*sizes, device, self.dtype)
        self.sampling = self.new_sampling(max_batch)
        self._pair_positions = torch.tensor([0, 1], device=device).repeat(max_batch)
        steps = torch.arange(num_codebooks, device=device)
        self._positions = steps[:, None].expand(-1, max_batch).contiguous()  # (K, N)

    def new_sampling(self, num_slots: int) -> SamplingSlots:
        """Settings and history of that many slots."""
        raise NotImplementedError

    def _frame(self, bucket: int) -> None:
        """One frame for slots 0..bucket-1, on static buffers only."""
        with self.frame_threads(bucket):
            self.predict(bucket)
            hidden, logits = self.step(bucket)
            self.draw_first(bucket, logits)
            self.slots.advance(bucket, hidden, self.sampling.eos)

    def frame_threads(self, bucket: int) -> AbstractContextManager[None]:
        """The CPU threads that frames of so many slots are worth, inside a `with` block."""
        if self.device.type == "cuda":
            return nullcontext()
        shape = self.config.talker
        return limited_threads(decode_threads(shape.num_weights // shape.num_layers, bucket))

    def predict(self, bucket: int) -> None:
        """Code predictor: expand each slot's first code into the K codes of its frame, in
        `slots.work`.
        """
        slots, predictor = self.slots, self.predictor
        work = slots.work[:bucket]
        # Column 0 of the draws was used a frame ago, for the first code.
        uniform = self.sampling.draws(slice(0, bucket), slots.frame[:bucket], work.shape[1])
        work[:, 0], embedded = self.first_inputs(slots.code[:bucket])
        pair = torch.stack([slots.hidden[:bucket], embedded], dim=1).flatten(0, 1)
        logits = predictor.start(pair, self._pair_positions[: 2 * bucket])
        then = None
        with predictor.decoder.early_launches(logits):
            for codebook in range(1, work.shape[1]):
                if codebook > 1:
                    codes, positions = work[:, codebook - 1], self._positions[codebook, :bucket]
                    logits = predictor.expand(codes, codebook, positions, then)
                has_next = self.sampling.EMBEDS and codebook + 1 < work.shape[1]
                then = predictor.beginning(bucket, codebook) if has_next else None
                drawn = uniform[:, codebook], work[:, codebook]
                self.sampling.rest(bucket, logits, *drawn, then)

    def first_inputs(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """First codes (B,) as a frame keeps them, and their embeddings (B, D)."""
        raise NotImplementedError

    def step(self, bucket: int) -> tuple[Tensor, Tensor]:
        """Talker: consume the frame in `slots.work`; hidden states (B, D) and first-codebook
        logits (B, V).
        """
        x, positions = self.frame_inputs(bucket), self.slots.position[:bucket]
        hidden, logits = self.talker.decoder.run(x, positions, head=self.talker.head.weight)
        assert logits is not None
        return hidden, logits

    def frame_inputs(self, bucket: int) -> Tensor:
        """(B, D) talker inputs for the frames in `slots.work` of slots 0..bucket-1."""
        return self.embed_frames(self.slots.work[:bucket], self.slots.trailing_text(bucket))

    def embed_frames(self, codes: Tensor, text: Tensor) -> Tensor:
        """Frames of codes (R, K) to talker inputs (R, D), with the text vectors (R, D) that each
        adds. Codes below 0 (a failed row) count as 0.
        """
        raise NotImplementedError

    def draw_first(self, bucket: int, logits: Tensor) -> None:
        """Draw the first code of the frame to come into `slots.next_code`."""
        slots = self.slots
        steps, codes = slots.frame[:bucket] + 1, slots.next_code[:bucket]
        self.sampling.follow(bucket, slots.code[:bucket], logits, steps, codes)


def cache_positions(max_positions: int) -> int:
    """Positions of a slot's cache for rows of up to max_positions.

    A finished row goes on writing at the position after its last one.
    """
    return round_up(max_positions + 1, CACHE_STEP)
