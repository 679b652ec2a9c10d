"""Qwen3-TTS 12 Hz as a `SpeechModel` (`models.slots.model` has what families share).

A frame's talker input is the sum of its K codes' embeddings and of a text vector; the repetition
penalty is over all first codes a row has had.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.frame.frame_embedding import frame_embedding
from models.base import REFERENCE, SPEAKER, ModelInfo, Prompt, SpeechRequest, Tokenizer
from models.device.graphs import EAGER, Capturers
from models.device.to_device import to_device
from models.qwen3_tts.code_predictor import CodePredictor
from models.qwen3_tts.codec.vocoder import CUT, Vocoder
from models.qwen3_tts.config import SUPPRESSED_TAIL, Qwen3TTSConfig
from models.qwen3_tts.prompt import build_prompt
from models.qwen3_tts.talker import Talker
from models.qwen3_tts.voice_encoder import QwenVoiceEncoder
from models.slots.model import SlotModel
from models.slots.prefill import reference_frames
from models.slots.sampling import SamplingSlots


class Qwen3TTS(SlotModel):
    """A loaded checkpoint. Call `allocate`, then `capture`, before the first prompt."""

    config: Qwen3TTSConfig
    talker: Talker
    predictor: CodePredictor

    def __init__(
        self,
        config: Qwen3TTSConfig,
        info: ModelInfo,
        tokenize: Tokenizer,
        talker: Talker,
        predictor: CodePredictor,
        vocoder: Vocoder,
        capturers: Capturers = EAGER,
        voices: QwenVoiceEncoder | None = None,
    ) -> None:
        super().__init__(config, info, talker, predictor, vocoder, CUT, capturers, voices)
        self.tokenize = tokenize

    def fix_shapes(self) -> None:
        """As `SlotModel.fix_shapes`; the projection of texts is one more product."""
        super().fix_shapes()
        self.talker.is_fixed = True

    def prompt(self, request: SpeechRequest) -> Prompt:
        """Tokenise and lay out one request. Raises RequestError."""
        return build_prompt(self.config, self.tokenize, request)

    def new_sampling(self, num_slots: int) -> SamplingSlots:
        """Settings and penalty history of that many slots; what is no code and not the end of
        speech is never drawn.
        """
        size, eos = self.config.vocab_size, self.config.codec.eos
        suppress = torch.zeros(size, dtype=torch.bool)
        suppress[max(0, size - SUPPRESSED_TAIL) :] = True
        suppress[eos] = False
        return SamplingSlots(num_slots, size, suppress.to(self.device), eos, self.device)

    def embed(self, text_ids: Tensor, codec_ids: Tensor, given: Tensor) -> Tensor:
        """(T, D) talker inputs of a pass, cloned voices among them."""
        return self.talker.embed_prompt(text_ids, codec_ids, given)

    def given(self, prompts: list[Prompt]) -> tuple[Tensor, Tensor] | None:
        """Where cloned voices stand in a pass, and their vectors."""
        codec_ids = torch.tensor([token for prompt in prompts for token in prompt.codec_ids])
        places = [(codec_ids == SPEAKER).nonzero()[:, 0]]
        voices = [prompt.request.clone for prompt in prompts]
        embeddings = torch.stack([voice.embedding for voice in voices if voice is not None])
        vectors = [to_device(embeddings, self.device, torch.float32).to(self.dtype)]
        codes = reference_frames(prompts)
        if codes is not None:
            places.append((codec_ids <= REFERENCE).nonzero()[:, 0])
            frames = to_device(codes, self.device)
            vectors.append(
                frame_embedding(
                    frames,
                    self.talker.codec_embedding.weight,
                    self.predictor.embeddings.weight,
                    vectors[0].new_zeros(len(frames), self.config.talker.width),
                )
            )
        return torch.cat(places), torch.cat(vectors)

    def usual_trailing(self) -> Tensor:
        """(D,) the pad text."""
        pad = torch.full((1,), self.config.text.pad, dtype=torch.int64, device=self.device)
        return self.talker.embed_text(pad)[0]

    def trailing(self, prompts: list[Prompt]) -> Tensor:
        """(n, max_trailing, D) text vectors for the frames to come, padded with the pad text."""
        columns = self.slots.trailing.shape[1]
        ids = torch.full((len(prompts), columns), self.config.text.pad, dtype=torch.int64)
        for row, prompt in enumerate(prompts):
            if len(prompt.trailing_ids) >= columns:
                raise ValueError(f"{len(prompt.trailing_ids)} trailing ids, room for {columns - 1}")
            if prompt.trailing_ids:
                ids[row, : len(prompt.trailing_ids)] = torch.tensor(prompt.trailing_ids)
        return self.talker.embed_text(to_device(ids, self.device))

    def first_inputs(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """First codes (B,) as a frame keeps them, and their embeddings (B, D)."""
        return codes, self.talker.embed_codec(codes)

    def frame_inputs(self, bucket: int) -> Tensor:
        """(B, D) talker inputs for the frames in `slots.work` of slots 0..bucket-1."""
        return frame_embedding(
            self.slots.work[:bucket],
            self.talker.codec_embedding.weight,
            self.predictor.embeddings.weight,
            self.slots.trailing_text(bucket),
        )

    def draw_first(self, bucket: int, logits: Tensor) -> None:
        """Draw the first code of the frame to come into `slots.next_code`."""
        slots, rows = self.slots, slice(0, bucket)
        step = slots.frame[:bucket] + 1
        self.sampling.seen[:bucket].scatter_(1, slots.code[:bucket, None], True)
        uniform = self.sampling.first_draws(rows, step)
        self.sampling.first(rows, logits, uniform, step, slots.next_code[:bucket])
