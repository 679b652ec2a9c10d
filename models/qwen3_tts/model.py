"""Qwen3-TTS 12 Hz: what it has of its own beside `models.slots.model`.

A frame's talker input is the sum of its K codes' embeddings and of a text vector; the repetition
penalty is over all first codes a row has had.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.frame.frame_embedding import frame_embedding
from models.base import SPEAKER, Prompt
from models.device.to_device import to_device
from models.qwen3_tts.config import SUPPRESSED_TAIL, Qwen3TTSConfig
from models.qwen3_tts.talker import Talker
from models.slots.model import SpeechModel
from models.slots.sampling_slots import SamplingSlots


class Qwen3TTS(SpeechModel):
    """A loaded checkpoint. Call `allocate`, then `capture`, before the first prompt."""

    config: Qwen3TTSConfig
    talker: Talker

    def fix_shapes(self) -> None:
        """As `SpeechModel.fix_shapes`; the projection of texts is one more product."""
        super().fix_shapes()
        self.talker.is_fixed = True

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
        text = self.talker.embed_text(text_ids.clamp(min=0))
        codec = self.talker.embed_codec(codec_ids.clamp(min=0))
        text = text.masked_fill((text_ids < 0).unsqueeze(-1), 0)
        codec = codec.masked_fill((codec_ids < 0).unsqueeze(-1), 0)
        return text + torch.where((codec_ids <= SPEAKER).unsqueeze(-1), given, codec)

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
            ids[row, : len(prompt.trailing_ids)] = torch.tensor(prompt.trailing_ids)
        return self.talker.embed_text(to_device(ids, self.device))

    def first_inputs(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """First codes (B,) as a frame keeps them, and their embeddings (B, D)."""
        return codes, self.talker.embed_codec(codes)

    def embed_frames(self, codes: Tensor, text: Tensor) -> Tensor:
        """Frames of codes (R, K) and text vectors (R, D) to talker inputs (R, D)."""
        tables = self.talker.codec_embedding.weight, self.predictor.embeddings.weight
        return frame_embedding(codes, *tables, text)
