"""Fish Speech S2: what it has of its own beside `models.slots.model`.

A frame's talker input is the scaled sum of its K codes' embeddings; a first code among the last few
drawn ones is drawn again.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.base import REFERENCE
from models.fish_speech.config import FishSpeechConfig
from models.fish_speech.nucleus_slots import NucleusSlots
from models.fish_speech.talker import FishTalker
from models.slots.model import SpeechModel


class FishSpeech(SpeechModel):
    """A loaded checkpoint. Call `allocate`, then `capture`, before the first prompt."""

    config: FishSpeechConfig
    talker: FishTalker
    sampling: NucleusSlots
    shares_prefixes = True
    decodes_references = False  # the official code decodes a row's own codes alone

    def new_sampling(self, num_slots: int) -> NucleusSlots:
        """Settings and recent first codes of that many slots."""
        return NucleusSlots(num_slots, self.config.eos, self.config.num_codebooks, self.device)

    def embed(self, text_ids: Tensor, codec_ids: Tensor, given: Tensor) -> Tensor:
        """(T, D) talker inputs of a pass, frames of references among them."""
        x = self.talker.embed_text(text_ids.clamp(min=0))
        return torch.where((codec_ids <= REFERENCE).unsqueeze(-1), given, x)

    def first_inputs(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """First codes (B,) as a frame keeps them, and their embeddings (B, D)."""
        # Rows that ended hold the end of speech, which is no code.
        codes = codes.clamp(max=self.config.codebook_size - 1)
        return codes, self.predictor.embed(codes, 0)

    def embed_frames(self, codes: Tensor, text: Tensor) -> Tensor:
        """Frames of codes (R, K) to talker inputs (R, D); there is never a text to add."""
        return self.talker.embed_frames(codes)
