"""A loaded checkpoint of any family, as the engine uses it: prompts, slots, graphs, audio.

A frame itself is in `runner.py`. A family adds the embedding of prompts (`embed`, `trailing`) and
the methods that `FrameModel` needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial, wraps
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from kernels.launch.ahead import compile_ahead
from kernels.launch.dispatch import AUTO, Kernels, using
from models.base import (
    REFERENCE,
    SPEAKER,
    ModelInfo,
    Prompt,
    Reader,
    RequestError,
    SlotStatus,
    SpeechRequest,
)
from models.device.beside import Beside
from models.device.buckets import batch_buckets
from models.device.graphs import EAGER, GraphRunner, cuda_capturers
from models.device.spans import Stage
from models.device.threads import limited_threads, vocoder_threads
from models.device.to_device import to_device
from models.slots.prefill import TOKEN_BUCKETS, PackedPrefill, Pass, VoicePrefixes, reference_frames
from models.slots.runner import FrameModel, Poll, VoiceEncoder, frame_stages
from models.vocoder.runner import vocoder_runner

# Frames of a bucket that are worth its capture, which takes 0.2 s: on an H200 a frame of 256 slots
# takes 5.6 ms, of 128 4.1, of 64 3.4 and of one 2.7.
GRAPH_FRAMES = 128
MANY_ROWS = 32  # as many fill the vocoder's largest batch

Method = TypeVar("Method", bound=Callable[..., Any])
Buckets = dict[GraphRunner[Any], list[Any]]  # some of each runner


def in_model(method: Method) -> Method:
    """Run a method in inference mode, with the kernels of its model."""

    @wraps(method)
    def run(model: SpeechModel, *given: Any, **named: Any) -> Any:
        with torch.inference_mode(), using(model.kernels):
            return method(model, *given, **named)

    return cast(Method, run)


def _rehearse(work: Buckets) -> None:
    """Run buckets eagerly, for the side effects of their first run."""
    for runner, keys in work.items():
        runner.capture(keys, is_rehearsal=True)


class SpeechModel(FrameModel):
    """The family-independent part of a loaded checkpoint. Call `allocate`, then `capture`, then
    prompts.

    Args:
        networks: by the names of the family's parts; `model` has a talker and a code predictor.
    """

    shares_prefixes = False  # whether its prompts have `num_shared`
    decodes_references = True  # whether a row's reference codes go through the vocoder with it

    def __init__(
        self,
        use_graphs: bool,
        reader: Reader,
        info: ModelInfo,
        networks: Mapping[str, Any],
        kernels: Kernels = AUTO,
    ) -> None:
        both = networks["model"].talker, networks["model"].predictor
        super().__init__(reader.config, *both, kernels)
        capturers = cuda_capturers(self.device) if use_graphs else EAGER
        self.info = info
        self._prompt, self.tokenize, _ = reader
        self.voices = self.voice_encoder(networks)
        self.frames: GraphRunner[int] = GraphRunner("frame", self._frame, capturers.frames)
        is_cuda = self.device.type == "cuda"
        self.packed = PackedPrefill(self._start, capturers.frames, has_buckets=is_cuda)
        self.prefixes = VoicePrefixes()
        self._beside = Beside(self.device)
        self.vocoder = vocoder_runner(networks["vocoder"], capturers.vocoder, self._beside)
        self.is_fixed = False  # whether `fix_shapes` was called
        self.max_positions = 0  # of prompt and frames in a slot

    @staticmethod
    def voice_encoder(networks: Mapping[str, Any]) -> VoiceEncoder | None:
        """Return the encoder of references; None: the checkpoint cannot clone."""
        raise NotImplementedError

    def prompt(self, request: SpeechRequest) -> Prompt:
        """Tokenise one request and lay out its prompt. Thread-safe. Raises RequestError."""
        return self._prompt(request)

    @property
    def work_choices(self) -> list[int]:
        """Return choices of the number of frames in the vocoder's batches, the largest first. The
        first one is in use until `choose_work`.
        """
        return self.vocoder.layout.work_choices

    def work_bytes(self, choice: int, max_batch: int, max_positions: int) -> int:
        """Return bytes of the vocoder's activations with `choice` frames per batch, and of the
        larger of prefill and frame, whose graphs share a pool.
        """
        shape, itemsize = self.config.talker, self.dtype.itemsize
        tokens = max(TOKEN_BUCKETS[-1], max_positions)
        heads = (2 * shape.num_heads + 2 * shape.num_kv_heads) * shape.head_dim
        layer = tokens * (4 * shape.width + heads + 3 * shape.mlp_width) * itemsize
        # Sampling sorts nothing, but its logits are float32, and prefill's as many rows' as fit.
        logits = 4 * max_batch * self.talker.head.weight.shape[0] * torch.float32.itemsize
        with using(self.kernels):
            return self.vocoder.layout.work_bytes(choice) + max(layer, logits)

    def choose_work(self, choice: int) -> None:
        """Limit the frames of the vocoder's batches to one of the choices; before `capture`."""
        self.vocoder.layout.use_work(choice)

    def fix_shapes(self) -> None:
        """From now on, use shapes that depend on `allocate`'s max_batch and the row itself,
        never on other rows: its codes and samples are then bit-identical in any batch. Frames
        always include all slots. For a GPU, before `allocate`.
        """
        self.is_fixed = self.packed.is_fixed = self.talker.decoder.is_fixed = True
        self.vocoder.fix_shapes()
        if self.voices is not None:
            self.voices.use_batches = False

    @torch.inference_mode()
    def allocate(
        self, max_batch: int, max_positions: int, max_frames: int, max_trailing: int = 0
    ) -> None:
        """Allocate as `FrameModel.allocate`. Graphs of older buffers are dropped."""
        self._beside.wait()
        self.frames.reset()
        self.max_positions = max_positions
        super().allocate(max_batch, max_positions, max_frames, max_trailing)
        weight = self.talker.decoder.norm.weight
        self.packed.allocate(max_batch, max_positions, self.sampling, weight)
        self.prefixes = VoicePrefixes()
        if self.shares_prefixes:
            self._placed = self.prefixes.table(max_batch)
            self.talker.decoder.prefixes = torch.zeros(
                (max_batch, 2), dtype=torch.int64, device=self.device
            )

    @in_model
    def capture(
        self,
        max_batch: int,
        max_audio_frames: int,
        max_reference_frames: int = 0,
        is_whole: bool = True,
    ) -> None:
        """Capture every bucket of frames up to max_batch, of prefill and of the vocoder.

        Unless `is_whole`, capture only the buckets that a run begins with; the others follow once
        they are used enough. A run of few rows begins with the largest bucket of frames; of many
        rows also with the largest of the vocoder and the usual one of prefill, which it uses many
        times. With fixed shapes there is one bucket of each, or few.

        The vocoder is needed last, so it is run once in a thread meanwhile: cuDNN takes half a
        second to load and to choose its kernels.

        Args:
            max_audio_frames: of the longest row, without its reference.
            max_reference_frames: of the longest reference that `decode_audio` decodes before a row.
        """
        num_slots = self.slots.num_slots
        assert max_batch <= num_slots, f"{max_batch} rows, allocated for {num_slots}"
        buckets = [num_slots] if self.is_fixed else batch_buckets(max_batch)
        self.frames.announce(buckets)
        self.packed.announce()
        reference_frames = max_reference_frames if self.decodes_references else 0
        self.vocoder.announce(max_batch, max_audio_frames, reference_frames)
        runners = self.graph_runners()
        has_many = max_batch >= MANY_ROWS
        first = {
            runner: runner.announced[:1] if has_many else runner.usual
            for runner in self.vocoder.layout.runners
        }
        if self.device.type == "cuda":
            shapes = [(runner.name, runner.announced) for runner in runners]
            name = (
                f"{self.config} {self.vocoder.network} {self.dtype} {self.max_positions} {shapes}"
            )
            compile_ahead([partial(_rehearse, self._to_compile(first))], name)
        if is_whole:
            for runner in runners:
                runner.capture()
        else:
            if any(first.values()):
                self._beside.start(partial(_rehearse, first))
            self.frames.capture(self.frames.announced[:1])
        if has_many and not is_whole:
            self.packed.runner.capture(self.packed.runner.usual)
            self._beside.wait()
            for runner, keys in first.items():
                runner.capture(keys)
        self.release(list(range(num_slots)))

    def _to_compile(self, first: Buckets) -> Buckets:
        """Return buckets that run every kernel of a run: those of all frames and passes, and of
        each runner of the vocoder those in `first`, or the largest. Its other buckets run the
        same kernels; cuDNN's choice for each, a quarter of a second, is left to the first
        batch of such a shape.
        """
        vocoder = {one: keys or one.announced[:1] for one, keys in first.items()}
        others = {one: one.announced for one in (self.frames, self.packed.runner)}
        return vocoder | others  # the vocoder's first: its kernels take longest

    def settle(self) -> None:
        """Wait for the thread that `capture` started; then only the caller uses the device."""
        self._beside.wait()

    def leave_triton(self, failure: str) -> None:
        """After a `KernelFailed` with text `failure`: run references, and record graphs again."""
        self.settle()
        if self.device.type == "cuda":
            torch.cuda.synchronize()  # graphs have ended; a lost device raises here
        self.kernels = self.kernels.given_up(failure)
        for runner in self.graph_runners():
            runner.renew()

    def graph_runners(self) -> list[GraphRunner[Any]]:
        """The runners whose hits, misses and captures are reported."""
        return [self.frames, self.packed.runner, *self.vocoder.layout.runners]

    def stages(self, batch: int) -> list[Stage]:
        """Return the parts of a frame for slots 0..batch-1, for timing."""
        return frame_stages(self, batch)

    @in_model
    def encode_voices(
        self, waves: list[Tensor], modes: list[str]
    ) -> list[tuple[Tensor, Tensor | None]]:
        """Encode each reference (n,) float32 at `info.sample_rate_hz`: its embedding (D,) float32
        and its codes (R, K) int64 (None for xvec), on the device.

        Raises:
            RequestError: this checkpoint cannot clone.
            ValueError: a reference is too short for the encoders.
        """
        if self.voices is None:
            reason = self.info.needs or f"it is a {self.info.type} checkpoint"
            raise RequestError(f"this checkpoint cannot clone a voice: {reason}")
        return self.voices.encode(waves, modes)

    @property
    def pass_tokens(self) -> int | None:
        """Tokens of a full pass of prefill, once allocated; None: as many as its prompts have."""
        return self.packed.buckets[-1] if self.packed.has_buckets else None

    @in_model
    def prefill(self, prompts: list[Prompt], slots: list[int]) -> None:
        """Run prompts through the talker into distinct free slots and sample each first code.
        The common beginning of a voice's prompts is run once and copied for the others.
        Raises ValueError: a row is longer than the slots.
        """
        room, most = self.max_positions, self.slots.max_frames
        for prompt in prompts:
            tokens, frames = prompt.num_tokens, prompt.request.max_frames
            if tokens + frames > room or frames > most:
                raise ValueError(
                    f"{tokens} prompt tokens and {frames} frames; slots hold {room} and "
                    f"{most} frames"
                )
        prefixes = [
            (p.request.clone, p.num_shared) if p.request.clone and self.packed.shares(p) else None
            for p in prompts
        ]
        followers = self.prefixes.followers(prefixes, slots)
        starts = [0] * len(prompts)
        for rows in followers.values():
            for row in rows:
                starts[row] = prompts[row].num_shared
        self._run(prompts, slots, starts, [row for row, start in enumerate(starts) if not start])
        for source, rows in followers.items():
            targets = self._index([slots[row] for row in rows])
            self.talker.decoder.cache.copy_first(source, targets, starts[rows[0]])
        self._run(prompts, slots, starts, [row for row, start in enumerate(starts) if start])
        self.prefixes.hold(prefixes, slots)
        self._place_prefixes()

    def _place_prefixes(self) -> None:
        """Update the talker's table of slots with the same beginning, if it has changed."""
        there = self.talker.decoder.prefixes
        if there is not None and (table := self.prefixes.table(len(there))) != self._placed:
            there.copy_(to_device(table, self.device))
            self._placed = table

    def _run(
        self, prompts: list[Prompt], slots: list[int], starts: list[int], chosen: list[int]
    ) -> None:
        for group in self.packed.groups([prompts[row].num_tokens - starts[row] for row in chosen]):
            rows = [chosen[index] for index in group]
            self._prefill(
                [prompts[row] for row in rows],
                [slots[row] for row in rows],
                [starts[row] for row in rows],
            )

    def _prefill(self, prompts: list[Prompt], slots: list[int], starts: list[int]) -> None:
        """Run one pass over packed prompts; their slots are then ready for the first frame."""
        is_cloned = any(prompt.request.clone is not None for prompt in prompts)
        given = self.given(prompts) if is_cloned and not any(starts) else None
        self.packed.run(prompts, slots, starts, given)
        owing = [row for row, prompt in enumerate(prompts) if prompt.trailing_ids]
        if owing:
            index = self._index([slots[row] for row in owing])
            self.slots.owe(index, self.trailing([prompts[row] for row in owing]))

    def _start(self, rows: Pass) -> Tensor:
        """Run a pass on static buffers: embeddings, talker (returned), first draw, slots."""
        x = self.embed(rows.text_ids, rows.codec_ids, rows.given)
        hidden = self.talker.decoder.prefill(x, rows.slots, rows.positions, rows.last)
        self.sampling.assign(rows.row_slots, rows.counts, rows.numbers)
        frame, code = torch.zeros_like(rows.row_slots), torch.zeros_like(rows.row_slots)
        self.sampling.first(rows.row_slots, self.talker.logits(hidden), frame, code)
        self.slots.admit(
            rows.row_slots,
            hidden[rows.owner],
            code[rows.owner],  # of one draw, so that a row and its repetitions agree
            rows.lengths,
            rows.limits,
            self.usual_trailing(),
        )
        return hidden

    def embed(self, text_ids: Tensor, codec_ids: Tensor, given: Tensor) -> Tensor:
        """Return (T, D) talker inputs of a pass over packed prompts.

        Args:
            text_ids, codec_ids: (T,) as in `Prompt`; padding is NO_ID in both.
            given: (T, D) vectors in place of codec ids of SPEAKER or less.
        """
        raise NotImplementedError

    def given(self, prompts: list[Prompt]) -> tuple[Tensor, Tensor] | None:
        """Return cloned voices' vectors of a pass, indices (N,) on the host and (N, D), or None."""
        codec_ids = torch.tensor([token for prompt in prompts for token in prompt.codec_ids])
        places, vectors = [(codec_ids == SPEAKER).nonzero()[:, 0]], []
        voices = [prompt.request.clone for prompt in prompts if SPEAKER in prompt.codec_ids]
        if voices:
            embeddings = torch.stack([voice.embedding for voice in voices if voice is not None])
            vectors = [to_device(embeddings, self.device, torch.float32).to(self.dtype)]
        codes = reference_frames(prompts)
        if codes is not None:
            places.append((codec_ids <= REFERENCE).nonzero()[:, 0])
            shape = len(codes), self.config.talker.width
            nothing = torch.zeros(shape, dtype=self.dtype, device=self.device)
            vectors.append(self.embed_frames(to_device(codes, self.device), nothing))
        return (torch.cat(places), torch.cat(vectors)) if vectors else None

    def usual_trailing(self) -> Tensor:
        """Return (D,) the addend of a frame once a row has no more text: zero."""
        return self.slots.trailing.new_zeros(self.slots.trailing.shape[2])

    def trailing(self, prompts: list[Prompt]) -> Tensor:
        """Return (n, max_trailing, D) text vectors for coming frames, of prompts with some."""
        raise NotImplementedError

    @torch.inference_mode()
    def decode_frames(self, bucket: int, count: int) -> None:
        """Run `count` frames for slots 0..bucket-1 without waiting for them."""
        num_slots = self.slots.num_slots
        assert bucket <= num_slots, f"a frame of {bucket} slots, allocated for {num_slots}"
        assert bucket == num_slots or not self.is_fixed, f"{bucket} slots, fixed at {num_slots}"
        bucket = self.frames.pick(bucket, count, GRAPH_FRAMES)
        for _ in range(count):
            self.frames.run(bucket)

    def poll(self) -> Poll:
        return self.slots.poll()

    def status(self, poll: Poll, slots: list[int]) -> list[SlotStatus]:
        """Return the status of `slots` as of that poll; waits for the copy."""
        return self.slots.status(poll, slots)

    @torch.inference_mode()
    def move(self, sources: list[int], targets: list[int]) -> None:
        source, target = self._index(sources), self._index(targets)
        self.slots.move(source, target)
        self.sampling.move(source, target)
        self.talker.decoder.cache.move(source, target)
        self.prefixes.move(sources, targets)
        self._place_prefixes()

    @torch.inference_mode()
    def release(self, slots: list[int], is_failed: bool = False) -> None:
        """Clear slots; the cache as well if a row failed and may have left non-finite values."""
        index = self._index(slots)
        self.slots.release(index)
        self.prefixes.release(slots, is_failed)
        self._place_prefixes()
        if is_failed:
            self.talker.decoder.cache.clear(index)

    def codes(self, slot: int, frames: int) -> Tensor:
        """(F, K) int64 codes of a slot, a copy on the model's device."""
        return self.slots.codes[slot, :frames].long()

    def choose_audio(self, frames: list[int], references: list[int]) -> list[int]:
        """Choose rows to decode together among those that wait for `decode_audio`, oldest first:
        indices in their order; none if it is better to wait for more.
        """
        if not self.decodes_references:
            references = [0] * len(frames)
        return self.vocoder.choose(frames, references)

    @property
    def decodes_beside(self) -> bool:
        """Whether it pays to decode in another thread than the frames: on a CPU where the
        vocoder uses one of several threads. Two threads may then call it concurrently.
        """
        if self.device.type == "cuda":
            return False
        return vocoder_threads(self._vocoder_weights) < torch.get_num_threads()

    @in_model
    def decode_audio(
        self, codes: list[Tensor], references: list[Tensor | None] | None = None
    ) -> list[Tensor]:
        """Decode codes (F, K) each to float32 samples (F * samples_per_frame,) each, on the device.

        Args:
            references: a cloned row's reference codes (R, K), decoded before it and cut off again,
                if the family does so.
        """
        if not self.decodes_references:
            references = None
        self._beside.wait()
        if self.device.type == "cuda":
            return self.vocoder.decode(codes, references)
        with limited_threads(vocoder_threads(self._vocoder_weights)):
            return self.vocoder.decode(codes, references)

    @property
    def num_entries(self) -> int | None:
        """Entries of each of the vocoder's codebooks, as `CodecDecoder.num_entries`."""
        return self.vocoder.network.num_entries

    @cached_property
    def _vocoder_weights(self) -> int:
        return sum(weight.numel() for weight in self.vocoder.network.parameters())

    def _index(self, numbers: list[int]) -> Tensor:
        return to_device(numbers, self.device)
