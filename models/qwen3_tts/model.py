"""Qwen3-TTS 12 Hz as a `SpeechModel`: prefill, whole frames over slots, and audio from codes.

One frame, in the reference's order: the code predictor expands the first code drawn last time
into K codes, their embeddings and the text vector are summed, the talker steps, and the next first
code is drawn. So the last drawn first code is never expanded. The whole frame is one function of
the bucket over static buffers, which is what a graph captures.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from kernels.frame_embedding import frame_embedding
from models.base import (
    REFERENCE,
    SPEAKER,
    ModelInfo,
    Prompt,
    RequestError,
    SlotStatus,
    SpeechRequest,
)
from models.buckets import batch_buckets, prefill_groups, round_up
from models.chunked_vocoder import ChunkedVocoder
from models.graphs import Capturer, GraphRunner
from models.kv_cache import cache_bytes
from models.qwen3_tts.code_predictor import CodePredictor
from models.qwen3_tts.config import Qwen3TTSConfig
from models.qwen3_tts.prompt import Tokenizer, build_prompt
from models.qwen3_tts.stages import frame_stages
from models.qwen3_tts.talker import Talker
from models.qwen3_tts.vocoder import Vocoder
from models.qwen3_tts.voice_encoder import VoiceEncoder
from models.sampling import UNKNOWN, Hints, SamplingSlots
from models.slots import Poll, SlotBuffers
from models.threads import decode_threads, limited_threads, vocoder_threads
from models.timing import Stage
from models.transfer import to_device

SUPPRESSED_TAIL = (
    1024  # the last ids of the codec vocabulary are control ids, speakers and languages
)
PREFILL_TOKENS = 16384  # padded positions of one prefill pass; larger groups are split
# Prompt lengths are padded to a multiple of this: few different shapes, because GPU libraries
# choose an algorithm anew for each, and whole blocks of the CPU's attention.
PREFILL_STEP = 32
CHUNK_FRAMES, LEFT_CONTEXT = 300, 25  # chunks of the official decoder


class Qwen3TTS:
    """A loaded checkpoint. Call `allocate`, then `capture`, before the first prompt."""

    def __init__(
        self,
        config: Qwen3TTSConfig,
        info: ModelInfo,
        tokenize: Tokenizer,
        talker: Talker,
        predictor: CodePredictor,
        vocoder: Vocoder,
        capturer: Capturer | None = None,
        voices: VoiceEncoder | None = None,
    ) -> None:
        self.config = config
        self.info = info
        self.tokenize = tokenize
        self.talker = talker
        self.predictor = predictor
        self.voices = voices
        self.device = talker.codec_head.weight.device
        self.dtype = talker.codec_head.weight.dtype
        self.frames = GraphRunner("frame", self._frame, capturer)
        self.vocoder = ChunkedVocoder(
            vocoder, config.num_codebooks, CHUNK_FRAMES, LEFT_CONTEXT, self.device, capturer
        )
        self.max_positions = 0  # prompt and frames a slot holds; set by allocate
        self.slots: SlotBuffers
        self.sampling: SamplingSlots

    def plan(self, request: SpeechRequest) -> Prompt:
        """Tokenise and lay out one request. Raises RequestError."""
        return build_prompt(self.config, self.tokenize, request)

    def slot_bytes(self, max_positions: int) -> int:
        """Cache bytes of one slot for rows of up to max_positions."""
        shape = self.config.talker
        return cache_bytes(
            shape.num_layers,
            shape.num_kv_heads,
            shape.head_dim,
            cache_positions(max_positions),
            self.dtype,
        )

    @torch.inference_mode()
    def allocate(
        self, max_batch: int, max_positions: int, max_frames: int, max_trailing: int = 0
    ) -> None:
        """Allocate caches and slot buffers.

        Args:
            max_positions: prompt and frames of the longest row together.
            max_trailing: longest trailing text of the streaming layout; 0 without it.
        """
        config = self.config
        self.frames.reset()
        self.max_positions = max_positions
        self.talker.decoder.allocate(max_batch, cache_positions(max_positions))
        self.predictor.decoder.allocate(max_batch, config.num_codebooks)
        self.slots = SlotBuffers(
            max_batch,
            config.talker.width,
            config.num_codebooks,
            max_frames,
            max_trailing + 1,
            self.device,
            self.dtype,
        )
        suppress = torch.zeros(config.vocab_size, dtype=torch.bool)
        suppress[max(0, config.vocab_size - SUPPRESSED_TAIL) :] = True
        suppress[config.codec.eos] = False
        self.sampling = SamplingSlots(
            max_batch, config.vocab_size, suppress.to(self.device), config.codec.eos, self.device
        )
        self._pair_positions = torch.tensor([0, 1], device=self.device).repeat(max_batch)
        steps = torch.arange(config.num_codebooks, device=self.device)
        self._positions = steps[:, None].expand(-1, max_batch).contiguous()  # (K, N)

    @torch.inference_mode()
    def capture(self, max_batch: int, max_audio_frames: int, max_reference_frames: int = 0) -> None:
        """Capture every frame bucket up to max_batch and every vocoder bucket in use."""
        self.frames.capture(batch_buckets(max_batch), size=int)
        everyone = list(range(self.slots.index.numel()))
        self.release(everyone)
        self.vocoder.capture(max_batch, max_audio_frames, max_reference_frames)

    def graph_runners(self) -> list[GraphRunner[Any]]:
        """The runners whose hits, misses and captures belong into the report."""
        vocoder = self.vocoder
        return [self.frames, vocoder.runner, vocoder.fronts, vocoder.renderer]

    def stages(self, batch: int, position: int) -> list[Stage]:
        """The parts of a frame for slots 0..batch-1 at `position`, to be timed alone."""
        return frame_stages(self, batch, position)

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
        lengths = [round_up(prompt.num_tokens, PREFILL_STEP) for prompt in prompts]
        # On a CPU only rows of one padded length go together: attention rounds by that length.
        is_exact = self.device.type == "cpu"
        for rows in prefill_groups(lengths, PREFILL_TOKENS, is_one_length=is_exact):
            self._prefill_group([prompts[row] for row in rows], [slots[row] for row in rows])

    @torch.inference_mode()
    def decode_frames(self, bucket: int, count: int) -> None:
        """Run `count` frames for slots 0..bucket-1 without waiting for them."""
        if self.device.type == "cuda":
            for _ in range(count):
                self.frames.run(bucket)
            return
        shape = self.config.talker
        layer_weights = shape.num_weights // shape.num_layers
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
        self.talker.decoder.cache.move(source, target)
        self.sampling.move(sources, targets, source, target)
        self.slots.move(source, target)

    @torch.inference_mode()
    def release(self, slots: list[int], is_failed: bool = False) -> None:
        """Clear slots; the cache as well where a row failed and may have left non-finite values."""
        index = self._index(slots)
        self.slots.release(index)
        self.sampling.release(slots)
        if is_failed:
            self.talker.decoder.cache.clear(index)

    def codes(self, slot: int, frames: int) -> Tensor:
        """(F, K) int64 codes of a slot, a copy on the model's device."""
        return self.slots.codes[slot, :frames].long()

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

    @torch.inference_mode()
    def encode_voices(
        self, waves: list[Tensor], modes: list[str]
    ) -> list[tuple[Tensor, Tensor | None]]:
        """Each reference (n,) float32 at `info.sample_rate_hz` to its embedding (D,) float32 and
        its codes (R, K) int64 (None for xvec), on the device.

        Raises:
            RequestError: this checkpoint cannot clone.
            ValueError: a reference is shorter than the encoders can take.
        """
        if self.voices is None:
            reason = self.info.needs or f"it is a {self.info.type} checkpoint"
            raise RequestError(f"this checkpoint cannot clone a voice: {reason}")
        return self.voices.encode(waves, modes)

    @cached_property
    def _vocoder_weights(self) -> int:
        return sum(weight.numel() for weight in self.vocoder.vocoder.parameters())

    def _index(self, slots: list[int]) -> Tensor:
        return to_device(slots, self.device)

    def _prefill_group(self, prompts: list[Prompt], slots: list[int]) -> None:
        length = round_up(max(prompt.num_tokens for prompt in prompts), PREFILL_STEP)
        text_ids = torch.full((len(prompts), length), -1, dtype=torch.int64)
        codec_ids = torch.full((len(prompts), length), -1, dtype=torch.int64)
        for row, prompt in enumerate(prompts):
            text_ids[row, : prompt.num_tokens] = torch.tensor(prompt.text_ids)
            codec_ids[row, : prompt.num_tokens] = torch.tensor(prompt.codec_ids)
        index = self._index(slots)
        lengths = self._index([prompt.num_tokens for prompt in prompts])
        x = self.talker.embed_prompt(
            to_device(text_ids, self.device),
            to_device(codec_ids, self.device),
            self._cloned(prompts, codec_ids),
        )
        hidden = self.talker.decoder.prefill(x, index, lengths - 1)

        requests = [prompt.request for prompt in prompts]
        self.sampling.assign(
            slots, [r.sampling for r in requests], [r.seed for r in requests], index
        )
        frame = torch.zeros_like(index)
        uniform = self.sampling.draws(index, frame, 1)[:, 0]
        code = self.sampling.first(
            index, self.talker.logits(hidden), uniform, frame, UNKNOWN, torch.empty_like(index)
        )
        limits = self._index([request.max_frames for request in requests])
        self.slots.admit(index, hidden, code, lengths, limits, self._trailing(prompts))

    def _cloned(self, prompts: list[Prompt], codec_ids: Tensor) -> tuple[Tensor, Tensor] | None:
        """Where cloned voices stand in the flattened prompts, and their vectors (N, D)."""
        if not bool((codec_ids <= SPEAKER).any()):
            return None
        embeddings, codes = [], []
        for prompt, ids in zip(prompts, codec_ids, strict=True):
            clone = prompt.request.clone
            if clone is not None:
                embeddings.append(clone.embedding)
                if clone.codes is not None:
                    codes.append(clone.codes[REFERENCE - ids[ids <= REFERENCE]])
        flat = codec_ids.flatten()
        places = [(flat == SPEAKER).nonzero()[:, 0]]
        vectors = [to_device(torch.stack(embeddings), self.device, torch.float32).to(self.dtype)]
        if codes:
            places.append((flat <= REFERENCE).nonzero()[:, 0])
            frames = to_device(torch.cat(codes), self.device)
            vectors.append(
                frame_embedding(
                    frames,
                    self.talker.codec_embedding.weight,
                    self.predictor.embeddings.weight,
                    vectors[0].new_zeros(len(frames), self.config.talker.width),
                )
            )
        return to_device(torch.cat(places), self.device), torch.cat(vectors)

    def _trailing(self, prompts: list[Prompt]) -> Tensor:
        """(B, max_trailing, D) text vectors for the frames to come, padded with the pad text."""
        columns = self.slots.trailing.shape[1]
        ids = torch.full((len(prompts), columns), self.config.text.pad, dtype=torch.int64)
        for row, prompt in enumerate(prompts):
            if len(prompt.trailing_ids) >= columns:
                raise ValueError(f"{len(prompt.trailing_ids)} trailing ids, room for {columns - 1}")
            if prompt.trailing_ids:
                ids[row, : len(prompt.trailing_ids)] = torch.tensor(prompt.trailing_ids)
        return self.talker.embed_text(to_device(ids, self.device))

    def _hints(self, bucket: int) -> tuple[Hints, Hints]:
        # A recording must hold for rows to come, so it may know nothing of the present ones.
        if self.device.type == "cuda":
            return UNKNOWN, UNKNOWN
        return self.sampling.hints(bucket)

    def _frame(self, bucket: int) -> None:
        """One frame for slots 0..bucket-1, on static buffers only."""
        self.predict(bucket)
        hidden, logits = self.step(bucket)
        self.draw_first(bucket, logits)
        self.slots.advance(bucket, hidden, self.config.codec.eos)

    def predict(self, bucket: int) -> None:
        """Code predictor: expand each slot's first code into the K codes of its frame, in
        `slots.work`.
        """
        slots, predictor = self.slots, self.predictor
        work, code = slots.work[:bucket], slots.code[:bucket]
        _, hints = self._hints(bucket)
        # Column 0 of the draws was used a frame ago, for the first code.
        uniform = self.sampling.draws(slice(0, bucket), slots.frame[:bucket], work.shape[1])
        work[:, 0] = code
        pair = torch.stack([slots.hidden[:bucket], self.talker.embed_codec(code)], dim=1)
        x = predictor.project(pair.flatten(0, 1))  # (2B, D)
        hidden, _ = predictor.decoder.run(x, self._pair_positions[: 2 * bucket], rows_per_slot=2)
        logits = predictor.logits(hidden.view(bucket, 2, -1)[:, 1], 1)
        for codebook in range(1, self.config.num_codebooks):
            if codebook > 1:
                positions = self._positions[codebook, :bucket]
                logits = predictor.expand(work[:, codebook - 1], codebook, positions)
            self.sampling.rest(bucket, logits, uniform[:, codebook], hints, work[:, codebook])

    def step(self, bucket: int) -> tuple[Tensor, Tensor]:
        """Talker: consume the frame in `slots.work`; hidden states (B, D) and first-codebook
        logits (B, V).
        """
        slots = self.slots
        x = frame_embedding(
            slots.work[:bucket],
            self.talker.codec_embedding.weight,
            self.predictor.embeddings.weight,
            slots.trailing_text(bucket),
        )
        head = self.talker.codec_head.weight
        hidden, logits = self.talker.decoder.run(x, slots.position[:bucket], head=head)
        assert logits is not None
        return hidden, logits

    def draw_first(self, bucket: int, logits: Tensor) -> None:
        """Draw the first code of the frame to come into `slots.next_code`."""
        slots, rows = self.slots, slice(0, bucket)
        hints, _ = self._hints(bucket)
        step = slots.frame[:bucket] + 1
        self.sampling.seen[:bucket].scatter_(1, slots.code[:bucket, None], True)
        uniform = self.sampling.draws(rows, step, 1)[:, 0]
        self.sampling.first(rows, logits, uniform, step, hints, slots.next_code[:bucket])


def cache_positions(max_positions: int) -> int:
    """Positions of a slot's cache for rows of up to max_positions.

    A finished row goes on writing at the position after its last one, and a prefill fills whole
    steps.
    """
    return round_up(max_positions + 1, PREFILL_STEP)
