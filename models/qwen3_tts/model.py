"""Qwen3-TTS 12 Hz as a `SpeechModel`: prefill, whole frames over slots, and audio from codes.

One frame, in the reference's order: the code predictor expands the first code drawn last time
into K codes, their embeddings and the text vector are summed, the talker steps, and the next first
code is drawn. So the last drawn first code is never expanded. The whole frame is one function of
the bucket over static buffers, which is what a graph captures.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kernels.frame.frame_embedding import frame_embedding
from models.base import (
    REFERENCE,
    SPEAKER,
    ModelInfo,
    Prompt,
    RequestError,
    SpeechRequest,
    Tokenizer,
)
from models.device.graphs import EAGER, Capturers, GraphRunner
from models.device.spans import Stage
from models.device.to_device import to_device
from models.qwen3_tts.code_predictor import CodePredictor
from models.qwen3_tts.codec.vocoder import CUT, Vocoder
from models.qwen3_tts.config import SUPPRESSED_TAIL, Qwen3TTSConfig
from models.qwen3_tts.prompt import build_prompt
from models.qwen3_tts.talker import Talker
from models.qwen3_tts.voice_encoder import VoiceEncoder
from models.slots.buffers import SlotBuffers
from models.slots.model import SlotModel, cache_positions
from models.slots.prefill import PackedPrefill
from models.slots.sampling import SamplingSlots
from models.slots.stages import frame_stages
from models.vocoder.runner import vocoder_runner


class Qwen3TTS(SlotModel):
    """A loaded checkpoint. Call `allocate`, then `capture`, before the first prompt."""

    def __init__(
        self,
        config: Qwen3TTSConfig,
        info: ModelInfo,
        tokenize: Tokenizer,
        talker: Talker,
        predictor: CodePredictor,
        vocoder: Vocoder,
        capturers: Capturers = EAGER,
        voices: VoiceEncoder | None = None,
    ) -> None:
        self.config = config
        self.info = info
        self.tokenize = tokenize
        self.talker = talker
        self.predictor = predictor
        self.voices = voices
        self.shape, self.decoder = config.talker, talker.decoder
        self.device = talker.codec_head.weight.device
        self.dtype = talker.codec_head.weight.dtype
        self.frames = GraphRunner("frame", self._frame, capturers.frames)
        self.packed = PackedPrefill(talker.decoder, capturers.frames)
        self.packs_prompts = self.device.type == "cuda"
        self.vocoder = vocoder_runner(vocoder, CUT, self.device, capturers.vocoder)

    def prompt(self, request: SpeechRequest) -> Prompt:
        """Tokenise and lay out one request. Raises RequestError."""
        return build_prompt(self.config, self.tokenize, request)

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
        if self.packs_prompts:
            self.packed.allocate(max_batch, max_positions)
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

    def stages(self, batch: int, position: int) -> list[Stage]:
        """The parts of a frame for slots 0..batch-1 at `position`, to be timed alone."""
        config, projection = self.config, self.predictor.projection
        return frame_stages(
            self,
            batch,
            position,
            num_first=config.vocab_size,
            num_codes=config.predictor_vocab_size,
            projection=0 if projection is None else projection.weight.numel(),
        )

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

    def _embed(self, prompts: list[Prompt], text_ids: Tensor, rows: Sequence[Tensor]) -> Tensor:
        """(n, D) talker inputs of a pass, references among them."""
        codec_ids = torch.cat(list(rows))
        x = self.talker.embed_prompt(
            to_device(text_ids[None], self.device),
            to_device(codec_ids[None], self.device),
            self._cloned(prompts, rows),
        )
        return x[0]

    def _cloned(
        self, prompts: list[Prompt], rows: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor] | None:
        """Where cloned voices stand in a flattened pass, and their vectors (N, D); None where none
        is. `rows` are each prompt's codec ids, with their padding if they have any.
        """
        flat = torch.cat(list(rows))
        if not bool((flat <= SPEAKER).any()):
            return None
        embeddings, codes = [], []
        for prompt, ids in zip(prompts, rows, strict=True):
            clone = prompt.request.clone
            if clone is not None:
                embeddings.append(clone.embedding)
                if clone.codes is not None:
                    codes.append(clone.codes[REFERENCE - ids[ids <= REFERENCE]])
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
            self.sampling.rest(bucket, logits, uniform[:, codebook], work[:, codebook])

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
        step = slots.frame[:bucket] + 1
        self.sampling.seen[:bucket].scatter_(1, slots.code[:bucket, None], True)
        uniform = self.sampling.first_draws(rows, step)
        self.sampling.first(rows, logits, uniform, step, slots.next_code[:bucket])
