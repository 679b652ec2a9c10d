"""Fish Speech S2 as a `SpeechModel` (`models.slots.model` has what families share).

A frame's talker input is the scaled sum of its K codes' embeddings; a first code among the last few
drawn ones is drawn again.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.base import REFERENCE, ModelInfo, Prompt, SpeechRequest, Tokenizer
from models.device.graphs import EAGER, Capturers
from models.device.to_device import to_device
from models.fish_speech.code_predictor import FishCodePredictor
from models.fish_speech.codec.encoder import FishVoiceEncoder
from models.fish_speech.codec.vocoder import FishVocoder
from models.fish_speech.config import FishSpeechConfig
from models.fish_speech.prompt import PromptBuilder
from models.fish_speech.sampling import NucleusSlots
from models.fish_speech.talker import FishTalker
from models.slots.model import SlotModel
from models.slots.prefill import reference_frames


class FishSpeech(SlotModel):
    """A loaded checkpoint. Call `allocate`, then `capture`, before the first prompt."""

    config: FishSpeechConfig
    talker: FishTalker
    predictor: FishCodePredictor
    sampling: NucleusSlots
    decodes_references = False  # the official code decodes a row's own codes alone

    def __init__(
        self,
        config: FishSpeechConfig,
        info: ModelInfo,
        tokenize: Tokenizer,
        talker: FishTalker,
        predictor: FishCodePredictor,
        vocoder: FishVocoder,
        capturers: Capturers = EAGER,
        voices: FishVoiceEncoder | None = None,
    ) -> None:
        super().__init__(config, info, talker, predictor, vocoder, vocoder.cut, capturers, voices)
        self.prompts = PromptBuilder(config, tokenize)

    def prompt(self, request: SpeechRequest) -> Prompt:
        """Tokenise and lay out one request. Raises RequestError."""
        return self.prompts.build(request)

    def new_sampling(self, num_slots: int) -> NucleusSlots:
        """Settings and recent first codes of that many slots."""
        return NucleusSlots(num_slots, self.config.eos, self.config.num_codebooks, self.device)

    def embed(self, text_ids: Tensor, codec_ids: Tensor, given: Tensor) -> Tensor:
        """(T, D) talker inputs of a pass, frames of references among them."""
        x = self.talker.embed_text(text_ids.clamp(min=0))
        return torch.where((codec_ids <= REFERENCE).unsqueeze(-1), given, x)

    def given(self, prompts: list[Prompt]) -> tuple[Tensor, Tensor] | None:
        """Where references stand in a pass, and the vectors of their frames."""
        codes = reference_frames(prompts)
        if codes is None:
            return None
        codec_ids = torch.tensor([token for prompt in prompts for token in prompt.codec_ids])
        places = (codec_ids <= REFERENCE).nonzero()[:, 0]
        return places, self.talker.embed_frames(to_device(codes, self.device))

    def first_inputs(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """First codes (B,) as a frame keeps them, and their embeddings (B, D)."""
        # Rows that ended hold the end of speech, which is no code.
        codes = codes.clamp(max=self.config.codebook_size - 1)
        return codes, self.predictor.embed(codes)

    def frame_inputs(self, bucket: int) -> Tensor:
        """(B, D) talker inputs for the frames in `slots.work` of slots 0..bucket-1."""
        return self.talker.embed_frames(self.slots.work[:bucket])

    def draw_first(self, bucket: int, logits: Tensor) -> None:
        """Draw the first code of the frame to come into `slots.next_code`."""
        slots, rows = self.slots, slice(0, bucket)
        step, code = slots.frame[:bucket] + 1, slots.next_code[:bucket]
        uniform = self.sampling.first_draws(rows, step)
        self.sampling.first(rows, logits, uniform, step, code)
        self.sampling.remember(bucket, code, step)
