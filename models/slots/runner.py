"""The slots of a model and one frame of all of them: networks, buffers, sampling, and their order.

A slot belongs to one request until its row ends. Every buffer is allocated once and only its
contents change, so a captured graph stays valid. The host never reads them inside a frame: it polls
a packed copy every few frames.

A code predictor is a small transformer over the codebooks of one frame (upstream: the talker's code
predictor, subtalker; the fast AR). Per frame the talker's hidden state and the first code's
embedding enter together, then one code at a time; position i predicts codebook i. Its cache has K
positions and starts afresh every frame, so it needs no clearing.

A frame has the reference's order: the code predictor expands the first code drawn last time into K
codes (`predict`), their embeddings are summed and the talker steps (`step`), the next first code is
drawn (`draw_first`), and the slots advance. So the last drawn first code is never expanded. The
whole frame is one function of the bucket over static buffers.

Draws of Qwen3-TTS, in the order of the official implementation: repetition penalty over the row's
generated first-codebook codes, no end of speech before the minimum, suppressed ids, temperature,
top-k, top-p, draw. Codebooks 1..K-1 have their own settings and only the last four steps. Each draw
is addressed by (row seed, frame, codebook), so it never depends on batch mates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kernels.frame.finish_frame import NAN, RUNNING, SlotState, advance_
from kernels.launch.dispatch import AUTO, Kernels, using
from kernels.linear.choose import linear
from kernels.linear.code_embedding import Beginning
from kernels.sampling.draws import uniforms
from kernels.sampling.row import RowSettings
from kernels.sampling.sample import sample
from models.base import SlotStatus, SpeechRequest
from models.decoder.config import FamilyConfig
from models.decoder.decoder import Affine, Decoder, Weight, cache_bytes
from models.device.buckets import round_up
from models.device.spans import Stage
from models.device.threads import decode_threads, limited_threads
from models.sampling import SETTINGS, SUBTALKER


class BiasedLinear(Affine):
    """A linear map of (outputs, inputs)."""

    def forward(self, x: Tensor) -> Tensor:
        """(..., inputs) to (..., outputs)."""
        return linear(x.flatten(0, -2), self.weight, self.bias).view(*x.shape[:-1], -1)


class TalkerNetwork(nn.Module):
    """A decoder and the head of the first codebook; a family adds its embeddings."""

    decoder: Decoder
    head: Weight  # (V, D)

    def logits(self, hidden: Tensor) -> Tensor:
        """(B, D) to (B, V) logits of the first codebook, in the model's dtype."""
        return linear(hidden, self.head.weight)


class CodePredictor(nn.Module):
    """Embeddings, projection, decoder and heads. Embeddings are as wide as the talker; `projection`
    narrows them for a narrower predictor.

    Args:
        num_tables: embeddings and heads: one per further codebook, or one of each for all of them,
            distinguished by position.
        num_entries: rows of each table. num_codes: of each head.
    """

    def __init__(
        self, config: FamilyConfig, num_tables: int, num_entries: int, num_codes: int
    ) -> None:
        super().__init__()
        width, shape = config.talker.width, config.predictor
        self.embeddings = Weight(num_tables, num_entries, width)
        self.heads = Weight(num_tables, num_codes, shape.width)
        self.projection = BiasedLinear(shape.width, width) if width != shape.width else None
        self.decoder = Decoder(shape)

    def project(self, x: Tensor) -> Tensor:
        """(R, talker width) to (R, predictor width)."""
        return x if self.projection is None else self.projection(x)

    def table(self, codebook: int) -> Tensor:
        """(V, talker width) embeddings of a codebook's codes."""
        return self.embeddings.weight[(codebook - 1) % len(self.embeddings.weight)]

    def head(self, codebook: int) -> Tensor:
        """(V, D) of codebook 1..K-1."""
        return self.heads.weight[(codebook - 1) % len(self.heads.weight)]

    def embed(self, codes: Tensor, codebook: int) -> Tensor:
        """(B,) codes of a codebook to (B, talker width); below 0 (a failed row) they count as 0."""
        return F.embedding(codes.clamp(min=0), self.table(codebook))

    def logits(self, hidden: Tensor, codebook: int) -> Tensor:
        """(B, D) to (B, V) logits of codebook 1..K-1, in the model's dtype."""
        return linear(hidden, self.head(codebook))

    def start(self, pair: Tensor, positions: Tensor) -> Tensor:
        """First pass: (2B, talker width) inputs, two per slot, at (2B,) positions 0 and 1 to (B,
        V) logits of codebook 1.
        """
        hidden, _ = self.decoder.run(self.project(pair), positions, rows_per_slot=2)
        return self.logits(hidden.unflatten(0, (-1, 2))[:, 1], 1)

    def beginning(self, num_rows: int, codebook: int) -> Beginning | None:
        """Return the step of a codebook's codes, which their draw may begin; None if it cannot."""
        if self.projection is not None or self.decoder.is_one_launch:
            return None
        decoder, table = self.decoder, self.table(codebook)
        out, normed = (table.new_empty(num_rows, table.shape[1]) for _ in range(2))
        return Beginning(table, decoder.layers[0].input_norm.weight, decoder.eps, out, normed)

    def expand(
        self, codes: Tensor, codebook: int, positions: Tensor, begun: Beginning | None = None
    ) -> Tensor:
        """One step: codes (B,) of codebook - 1 in, (B, V) logits of `codebook` (2..K-1) out.

        Args:
            begun: the step, if it was begun with the draw of the codes.
        """
        head = self.head(codebook)
        if begun is not None:
            x, normed = begun.out, begun.normed
            _, logits = self.decoder.run(x, positions, head=head, normed=normed)
        elif self.projection is None:
            table = self.table(codebook - 1)
            _, logits = self.decoder.run(table, positions, codes=codes, head=head)
        else:
            x = self.project(self.embed(codes, codebook - 1))
            _, logits = self.decoder.run(x, positions, head=head)
        assert logits is not None
        return logits


class VoiceEncoder:
    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.use_batches = device.type == "cuda"  # of several clips; on a CPU each runs alone

    def encode(self, waves: list[Tensor], modes: list[str]) -> list[tuple[Tensor, Tensor | None]]:
        raise NotImplementedError


REASONS = ("", "eos", "max_frames", "nan")
PER_SLOT = (  # state of a row; every frame overwrites all else
    *("hidden", "code", "position", "frame", "limit", "is_active", "reason", "trailing", "codes"),
)


@dataclass
class Poll:
    """A copy of the slots' status on its way to the host."""

    packed: Tensor  # (2, N) int64 on the host: frames, reason
    event: torch.cuda.Event | None  # None: the copy is already there
    rows: list[list[int]] | None = None  # filled by the first read


class SlotBuffers:
    """State of N slots: the next frame's inputs, counters and the codes so far.

    Args:
        max_frames: maximum of frames per row in the code buffer.
        max_trailing: maximum of text vectors per slot for coming frames, with the pad text.
    """

    def __init__(
        self,
        num_slots: int,
        width: int,
        num_codebooks: int,
        max_frames: int,
        max_trailing: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        def zeros(*shape: int, kind: torch.dtype = torch.int64) -> Tensor:
            return torch.zeros(*shape, device=device, dtype=kind)

        self.device = device
        self.max_frames = max_frames
        self.hidden = zeros(num_slots, width, kind=dtype)  # talker output at the last position
        self.code = zeros(num_slots)  # first code of the frame to come
        self.position = zeros(num_slots)  # cache position the frame to come writes
        self.frame = zeros(num_slots)  # stored frames
        self.limit = zeros(num_slots)  # frames that the row may store
        self.is_active = zeros(num_slots, kind=torch.bool)
        self.reason = zeros(num_slots)
        self.trailing = zeros(num_slots, max_trailing, width, kind=dtype)
        # One frame more, for the writes of inactive rows.
        self.codes = zeros(num_slots, max_frames + 1, num_codebooks, kind=torch.int16)
        self.work = zeros(num_slots, num_codebooks)  # codes of the frame being made
        self.next_code = zeros(num_slots)
        self.index = torch.arange(num_slots, device=device)

    @property
    def num_slots(self) -> int:
        return len(self.index)

    def trailing_text(self, bucket: int) -> Tensor:
        """Return (B, D) text vectors of the coming frame; the last one repeats without end."""
        if self.trailing.shape[1] == 1:
            return self.trailing[:bucket, 0]
        step = self.frame[:bucket].clamp(max=self.trailing.shape[1] - 1)
        return self.trailing[self.index[:bucket], step]

    def admit(
        self,
        index: Tensor,
        hidden: Tensor,
        code: Tensor,
        lengths: Tensor,
        limits: Tensor,
        trailing: Tensor,
    ) -> None:
        """Start rows in the slots `index` (n,), after their prefill. A slot may occur more than
        once, with the same values.

        Args:
            hidden: (n, D) talker output at each prompt's end. code: (n,) first codes, -1 if not
                finite.
            lengths: (n,) prompt positions. limits: (n,) frames allowed.
            trailing: (D,) the addend of every coming frame; `owe` sets others.
        """
        failed = code < 0
        self.hidden[index] = hidden
        self.code[index] = code.clamp(min=0)
        self.position[index] = lengths
        self.frame.index_fill_(0, index, 0)
        self.limit[index] = limits
        self.trailing[index] = trailing
        self.is_active[index] = ~failed
        self.reason[index] = failed.long() * NAN

    def owe(self, index: Tensor, trailing: Tensor) -> None:
        """Set text vectors (n, max_trailing, D) for the coming frames in the slots `index` (n,)."""
        self.trailing[index] = trailing

    def advance(self, bucket: int, hidden: Tensor, eos: int) -> None:
        """Store the frame in `work` and prepare the state for the next, for slots 0..bucket-1.
        Counters of inactive rows do not change; their codes go to the spare frame.
        """
        views = (getattr(self, name)[:bucket] for name in SlotState._fields)
        advance_(SlotState(*views), hidden, eos)

    def move(self, source: Tensor, target: Tensor) -> None:
        """Copy slots (n,) to slots (n,) and clear the sources."""
        for tensor in self._per_slot():
            tensor[target] = tensor[source]
        self.release(source)

    def release(self, index: Tensor) -> None:
        """Clear slots (n,): inactive, at position 0, without data of the old row."""
        for tensor in self._per_slot():
            # Not tensor[index] = 0: that sends the 0 to the device and waits for the queue.
            tensor.index_fill_(0, index, 0)

    def poll(self) -> Poll:
        """Start a copy of every slot's frame count and end reason to the host."""
        packed = torch.stack([self.frame, self.reason])
        if packed.device.type != "cuda":
            return Poll(packed, None)
        host = torch.empty(packed.shape, dtype=packed.dtype, pin_memory=True)
        host.copy_(packed, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        return Poll(host, event)

    def status(self, poll: Poll, slots: list[int]) -> list[SlotStatus]:
        if poll.rows is None:
            if poll.event is not None:
                poll.event.synchronize()
            poll.rows = poll.packed.tolist()
        frames, reasons = poll.rows
        return [
            SlotStatus(frames[slot], reasons[slot] != RUNNING, REASONS[reasons[slot]])
            for slot in slots
        ]

    def _per_slot(self) -> list[Tensor]:
        return [getattr(self, name) for name in PER_SLOT]


MIN_FRAMES = 2  # the official code forbids end of speech for the first two samples
DTYPES = {float: torch.float32, int: torch.int32, bool: torch.bool}


class SamplingSlots:
    """Settings, seeds and penalty history of every slot."""

    SAMPLER: ClassVar[Callable[..., Tensor]] = staticmethod(sample)  # of further codes
    EMBEDS: ClassVar[bool] = True  # whether its launch can begin the step after its draw
    UNUSED: ClassVar[frozenset[str]] = frozenset()  # settings that the kernel has no argument for

    def __init__(
        self, num_slots: int, vocab_size: int, suppress: Tensor, eos: int, device: torch.device
    ) -> None:
        self.seeds = torch.zeros(num_slots, device=device, dtype=torch.int64)
        # A free slot is greedy, and 1 is a value that every setting may have.
        self.columns = {
            name: torch.ones(num_slots, device=device, dtype=DTYPES[setting.kind])
            for name, setting in SETTINGS.items()
            if name not in self.UNUSED
        }
        floating = {name for name, column in self.columns.items() if column.is_floating_point()}
        self._whole = [name for name in self.columns if name not in floating]
        self._real = [name for name in self.columns if name in floating]
        self._first = {n: c for n, c in self.columns.items() if not n.startswith(SUBTALKER)}
        self._rest = {
            n.removeprefix(SUBTALKER): c for n, c in self.columns.items() if n not in self._first
        }
        self.seen = torch.zeros(num_slots, vocab_size, device=device, dtype=torch.bool)
        self.suppress = suppress  # (V,) bool
        self.eos = eos

    @property
    def num_counts(self) -> int:
        """Number of integers per row: its seed and the integer settings."""
        return 1 + len(self._whole)

    @property
    def num_numbers(self) -> int:
        """Number of real-valued settings per row."""
        return len(self._real)

    def settings_of(
        self, requests: Sequence[SpeechRequest]
    ) -> tuple[list[list[int]], list[list[float]]]:
        """Return each row's arguments of `assign`, on the host: integers and real numbers."""
        rows = [request.sampling for request in requests]
        counts = [
            [request.seed, *(int(getattr(row, name)) for name in self._whole)]
            for request, row in zip(requests, rows, strict=True)
        ]
        return counts, [[getattr(row, name) for name in self._real] for row in rows]

    def assign(self, index: Tensor, counts: Tensor, numbers: Tensor) -> None:
        """Give the slots `index` (n,) new settings and an empty history. A slot may occur more than
        once, with the same values.

        Args:
            counts: (n, num_counts) int64. numbers: (n, num_numbers) float32.
        """
        self.seeds[index] = counts[:, 0]
        for place, name in enumerate(self._whole, 1):
            self.columns[name][index] = counts[:, place].to(self.columns[name].dtype)
        for place, name in enumerate(self._real):
            self.columns[name][index] = numbers[:, place]
        self.seen.index_fill_(0, index, False)

    def move(self, source: Tensor, target: Tensor) -> None:
        """Copy settings, seeds and history from slots (n,) to slots (n,)."""
        for tensor in (self.seeds, self.seen, *self.columns.values()):
            tensor[target] = tensor[source]

    def first_settings(self, rows: Tensor | slice) -> RowSettings:
        return RowSettings(**{name: column[rows] for name, column in self._first.items()})

    def draws(self, rows: Tensor | slice, frames: Tensor, count: int) -> Tensor:
        """Return (B, count) uniforms of the rows' frames (B,), one per codebook."""
        return uniforms(self.seeds[rows], frames, count)

    def first(self, rows: Tensor | slice, logits: Tensor, steps: Tensor, out: Tensor) -> Tensor:
        """Draw first-codebook codes (B,) into `out`; -1 if the logits are not finite.

        Args:
            steps: (B,) int64, number of first codes that each row has drawn so far: the frame in
                the address of its draw.
        """
        return sample(
            logits,
            self.draws(rows, steps, 1)[:, 0],
            self.first_settings(rows),
            out,
            seen=self.seen[rows],
            suppress=self.suppress,
            eos=self.eos,
            no_eos=steps < MIN_FRAMES,
        )

    def follow(
        self, bucket: int, previous: Tensor, logits: Tensor, steps: Tensor, out: Tensor
    ) -> None:
        """Draw the first codes after the `previous` ones (B,), for slots 0..B-1; as `first`."""
        self.seen[:bucket].scatter_(1, previous[:, None], True)
        self.first(slice(0, bucket), logits, steps, out)

    def rest(
        self,
        bucket: int,
        logits: Tensor,
        uniform: Tensor,
        out: Tensor,
        then: Beginning | None = None,
    ) -> Tensor:
        """Draw the codes (B,) of one further codebook for slots 0..bucket-1 into `out`.

        Args:
            then: the step whose codes they are, if EMBEDS.
        """
        begun = {} if then is None else {"then": then}
        settings = RowSettings(**{name: column[:bucket] for name, column in self._rest.items()})
        return self.SAMPLER(logits, uniform, settings, out, **begun)


CACHE_STEP = 32  # positions of a slot's cache are a multiple of this


class FrameModel:
    """Talker, code predictor and slots of a loaded checkpoint. A family adds `new_sampling`,
    `first_inputs` and `embed_frames`.

    Args:
        kernels: kernels of its operations; no other model shares them.
    """

    def __init__(
        self,
        config: FamilyConfig,
        talker: TalkerNetwork,
        predictor: CodePredictor,
        kernels: Kernels = AUTO,
    ) -> None:
        self.config = config
        self.kernels = kernels
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
            raise RuntimeError("no slots yet: allocate() comes first")
        return self._slots

    def slot_bytes(self, max_positions: int, max_frames: int = 0, max_trailing: int = 0) -> int:
        """Return the bytes of one slot of `allocate`: both caches, text to come, codes."""
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
        raise NotImplementedError

    def _frame(self, bucket: int) -> None:
        """Run one frame for slots 0..bucket-1, on static buffers only."""
        with self.in_frame(bucket):
            self.predict(bucket)
            hidden, logits = self.step(bucket)
            self.draw_first(bucket, logits)
            self.slots.advance(bucket, hidden, self.sampling.eos)

    @contextmanager
    def in_frame(self, bucket: int) -> Iterator[None]:
        """Use the model's kernels, and suitably many CPU threads for frames of these slots."""
        shape, num_threads = self.config.talker, torch.get_num_threads()
        if self.device.type != "cuda":
            num_threads = decode_threads(shape.num_weights // shape.num_layers, bucket)
        with using(self.kernels), limited_threads(num_threads):
            yield

    def predict(self, bucket: int) -> None:
        """Code predictor: expand each slot's first code into K codes, in `slots.work`."""
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
        """Return first codes (B,) as a frame stores them, and their embeddings (B, D)."""
        raise NotImplementedError

    def step(self, bucket: int) -> tuple[Tensor, Tensor]:
        """Talker: consume the frame in `slots.work`; return hidden states (B, D) and
        first-codebook logits (B, V).
        """
        x = self.embed_frames(self.slots.work[:bucket], self.slots.trailing_text(bucket))
        positions = self.slots.position[:bucket]
        hidden, logits = self.talker.decoder.run(x, positions, head=self.talker.head.weight)
        assert logits is not None
        return hidden, logits

    def embed_frames(self, codes: Tensor, text: Tensor) -> Tensor:
        """Frames of codes (R, K) to talker inputs (R, D), with the text vectors (R, D) that each
        adds. Codes below 0 (a failed row) count as 0.
        """
        raise NotImplementedError

    def draw_first(self, bucket: int, logits: Tensor) -> None:
        """Draw the first code of the coming frame into `slots.next_code`."""
        slots = self.slots
        steps, codes = slots.frame[:bucket] + 1, slots.next_code[:bucket]
        self.sampling.follow(bucket, slots.code[:bucket], logits, steps, codes)


def cache_positions(max_positions: int) -> int:
    """Return the positions of a slot's cache for rows of up to max_positions: a finished row
    continues to write at the position after its last one.
    """
    return round_up(max_positions + 1, CACHE_STEP)


def frame_stages(model: FrameModel, batch: int) -> list[Stage]:
    """Return the stages of one frame for slots 0..batch-1. The draws of the other codebooks are
    part of the code predictor; the last stage times all draws of a frame alone.
    """
    num_first, num_codes = len(model.talker.head.weight), model.predictor.heads.weight.shape[1]
    num_rest = model.config.num_codebooks - 1
    logits = torch.randn(batch, num_first, device=model.device).to(model.dtype)
    rest = torch.randn(batch, num_codes, device=model.device).to(model.dtype)

    def sample() -> None:
        model.draw_first(batch, logits)
        slots = model.slots
        uniform = model.sampling.draws(slice(0, batch), slots.frame[:batch], num_rest + 1)
        for codebook in range(1, num_rest + 1):
            out = slots.work[:batch, codebook]
            model.sampling.rest(batch, rest, uniform[:, codebook], out)

    def in_frame(run: Callable[[], object]) -> Callable[[], None]:
        def limited() -> None:
            with model.in_frame(batch):
                run()

        return limited

    return [
        Stage("code predictor", in_frame(lambda: model.predict(batch))),
        Stage("talker", in_frame(lambda: model.step(batch))),
        Stage("sampling (of both)", in_frame(sample)),
    ]
