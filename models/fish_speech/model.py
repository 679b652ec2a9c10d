"""Fish Speech S2 as a `SpeechModel`: prefill, whole frames over slots, and audio from codes.

One frame: the code predictor expands the first code drawn last time into K codes, their embeddings
are summed and scaled, the talker steps, and the next first code is drawn. So the end of speech is
never expanded. The whole frame is one function of the bucket over static buffers, which is what a
graph captures.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from models.base import REFERENCE, ModelInfo, Prompt, RequestError, SpeechRequest, Tokenizer
from models.device.graphs import EAGER, Capturers, GraphRunner
from models.device.spans import Stage
from models.device.to_device import to_device
from models.fish_speech.code_predictor import CodePredictor
from models.fish_speech.codec.encoder import FishVoiceEncoder
from models.fish_speech.codec.vocoder import CUT, FishVocoder
from models.fish_speech.config import FishSpeechConfig
from models.fish_speech.prompt import PromptBuilder
from models.fish_speech.sampling import NucleusSlots
from models.fish_speech.talker import Talker
from models.slots.buffers import SlotBuffers
from models.slots.model import SlotModel, cache_positions
from models.slots.prefill import PackedPrefill
from models.slots.stages import frame_stages
from models.vocoder.runner import vocoder_runner


class FishSpeech(SlotModel):
    """A loaded checkpoint. Call `allocate`, then `capture`, before the first prompt."""

    sampling: NucleusSlots

    def __init__(
        self,
        config: FishSpeechConfig,
        info: ModelInfo,
        tokenize: Tokenizer,
        talker: Talker,
        predictor: CodePredictor,
        vocoder: FishVocoder,
        capturers: Capturers = EAGER,
        voices: FishVoiceEncoder | None = None,
    ) -> None:
        self.config = config
        self.info = info
        self.prompts = PromptBuilder(config, tokenize)
        self.talker = talker
        self.predictor = predictor
        self.voices = voices
        self.shape, self.decoder = config.talker, talker.decoder
        self.device = talker.head.weight.device
        self.dtype = talker.head.weight.dtype
        self.frames = GraphRunner("frame", self._frame, capturers.frames)
        self.packed = PackedPrefill(talker.decoder, capturers.frames)
        self.packs_prompts = self.device.type == "cuda"
        self.vocoder = vocoder_runner(vocoder, CUT, self.device, capturers.vocoder)

    def prompt(self, request: SpeechRequest) -> Prompt:
        """Tokenise and lay out one request. Raises RequestError."""
        return self.prompts.build(request)

    @torch.inference_mode()
    def allocate(
        self, max_batch: int, max_positions: int, max_frames: int, max_trailing: int = 0
    ) -> None:
        """Allocate caches and slot buffers; there is no trailing text.

        Args:
            max_positions: prompt and frames of the longest row together.
        """
        config = self.config
        self.frames.reset()
        self.max_positions = max_positions
        self.talker.decoder.allocate(max_batch, cache_positions(max_positions))
        if self.packs_prompts:
            self.packed.allocate(max_batch, max_positions)
        self.predictor.decoder.allocate(max_batch, config.num_codebooks)
        width, count = config.talker.width, config.num_codebooks
        self.slots = SlotBuffers(max_batch, width, count, max_frames, 1, self.device, self.dtype)
        self.sampling = NucleusSlots(max_batch, config.eos, count, self.device)
        self._pair_positions = torch.tensor([0, 1], device=self.device).repeat(max_batch)
        steps = torch.arange(count, device=self.device)
        self._positions = steps[:, None].expand(-1, max_batch).contiguous()  # (K, N)

    @torch.inference_mode()
    def capture(self, max_batch: int, max_audio_frames: int, max_reference_frames: int = 0) -> None:
        """Capture every frame bucket up to max_batch and every vocoder bucket in use."""
        super().capture(max_batch, max_audio_frames)  # references are not decoded

    def stages(self, batch: int, position: int) -> list[Stage]:
        """The parts of a frame for slots 0..batch-1 at `position`, to be timed alone."""
        return frame_stages(
            self,
            batch,
            position,
            num_first=self.talker.head.weight.shape[0],
            num_codes=self.predictor.head.weight.shape[0],
        )

    def choose_audio(self, frames: list[int], references: list[int]) -> list[int]:
        """As `SlotModel.choose_audio`; references are not decoded."""
        return super().choose_audio(frames, [0] * len(frames))

    def decode_audio(
        self, codes: list[Tensor], references: list[Tensor | None] | None = None
    ) -> list[Tensor]:
        """Codes (F, K) each to float32 samples (F * samples_per_frame,) each, on the device.

        The codes of references are left out: the official code decodes a row's own alone.
        """
        return super().decode_audio(codes)

    @torch.inference_mode()
    def encode_voices(
        self, waves: list[Tensor], modes: list[str]
    ) -> list[tuple[Tensor, Tensor | None]]:
        """Each reference (n,) float32 at `info.sample_rate_hz` to its codes (R, K) int64 (None for
        xvec), on the device. There is no embedding; a zero stands for it.

        Raises:
            RequestError: this checkpoint came without an encoder.
            ValueError: a reference is shorter than the encoder can take.
        """
        if self.voices is None:
            raise RequestError(f"this checkpoint cannot clone a voice: {self.info.needs}")
        spoken = [wave for wave, mode in zip(waves, modes, strict=True) if mode == "icl"]
        codes = iter(self.voices.encode(spoken) if spoken else [])
        embedding = torch.zeros(1, device=self.device)
        return [(embedding, next(codes) if mode == "icl" else None) for mode in modes]

    def _embed(self, prompts: list[Prompt], text_ids: Tensor, rows: Sequence[Tensor]) -> Tensor:
        """(n, D) talker inputs of a pass, references among them. Padding reads some vector."""
        x = self.talker.embed_text(to_device(text_ids.clamp(min=0), self.device))
        frames = []
        for prompt, ids in zip(prompts, rows, strict=True):
            clone = prompt.request.clone
            if clone is not None and clone.codes is not None:
                frames.append(clone.codes[REFERENCE - ids[ids <= REFERENCE]])
        if not frames:
            return x
        places = (torch.cat(list(rows)) <= REFERENCE).nonzero()[:, 0]
        vectors = self.talker.embed_frames(to_device(torch.cat(frames), self.device))
        return x.index_copy_(0, to_device(places, self.device), vectors)

    def _frame(self, bucket: int) -> None:
        """One frame for slots 0..bucket-1, on static buffers only."""
        self.predict(bucket)
        hidden, logits = self.step(bucket)
        self.draw_first(bucket, logits)
        self.slots.advance(bucket, hidden, self.config.eos)

    def predict(self, bucket: int) -> None:
        """Code predictor: expand each slot's first code into the K codes of its frame, in
        `slots.work`.
        """
        slots, predictor = self.slots, self.predictor
        work = slots.work[:bucket]
        # Rows that ended hold the end of speech, which is no code.
        work[:, 0] = slots.code[:bucket].clamp(max=self.config.codebook_size - 1)
        uniform = self.sampling.draws(slice(0, bucket), slots.frame[:bucket], work.shape[1])
        pair = torch.stack([slots.hidden[:bucket], predictor.embed(work[:, 0])], dim=1)
        positions = self._pair_positions[: 2 * bucket]
        hidden = predictor.decoder.step(pair.flatten(0, 1), positions, rows_per_slot=2)
        hidden = hidden.view(bucket, 2, -1)[:, 1]
        for codebook in range(1, self.config.num_codebooks):
            if codebook > 1:
                x = predictor.embed(work[:, codebook - 1])
                hidden = predictor.decoder.step(x, self._positions[codebook, :bucket])
            logits = predictor.logits(hidden)
            self.sampling.rest(bucket, logits, uniform[:, codebook], work[:, codebook])

    def step(self, bucket: int) -> tuple[Tensor, Tensor]:
        """Talker: consume the frame in `slots.work`; hidden states (B, D) and first-code logits
        (B, V + 1).
        """
        x = self.talker.embed_frames(self.slots.work[:bucket])
        hidden = self.talker.decoder.step(x, self.slots.position[:bucket])
        return hidden, self.talker.logits(hidden)

    def draw_first(self, bucket: int, logits: Tensor) -> None:
        """Draw the first code of the frame to come into `slots.next_code`."""
        slots, rows = self.slots, slice(0, bucket)
        step = slots.frame[:bucket] + 1
        code = slots.next_code[:bucket]
        uniform = self.sampling.first_draws(rows, step)
        self.sampling.first(rows, logits, uniform, step, code)
        self.sampling.remember(bucket, code, step)
