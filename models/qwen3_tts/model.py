"""Qwen3-TTS 12 Hz: the talker, and the family's additions to `models.slots.model`.

The talker (upstream: Qwen3TTSTalkerForConditionalGeneration) is the transformer over time that
gives the first codebook. A frame's input is the sum of its K codes' embeddings and of a projected
text embedding; the output, after the final norm, feeds both the codec head and the code predictor.
The repetition penalty is over all first codes of a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.frame.frame_embedding import frame_embedding
from models.base import SPEAKER, Prompt
from models.checkpoint.weights import Network
from models.decoder.decoder import Decoder, Weight
from models.device.to_device import to_device
from models.qwen3_tts.config import SUPPRESSED_TAIL, Qwen3TTSConfig
from models.qwen3_tts.speaker import QwenVoiceEncoder
from models.qwen3_tts.tensors import network_table
from models.slots.model import SpeechModel
from models.slots.runner import (
    BiasedLinear,
    CodePredictor,
    SamplingSlots,
    TalkerNetwork,
    VoiceEncoder,
)

TEXT_ROWS = 256


class Talker(TalkerNetwork):
    def __init__(self, config: Qwen3TTSConfig) -> None:
        super().__init__()
        shape = config.talker
        self.text_embedding = Weight(config.text_vocab_size, config.text_width)
        self.text_fc1 = BiasedLinear(config.text_width, config.text_width)
        self.text_fc2 = BiasedLinear(shape.width, config.text_width)
        self.codec_embedding = Weight(config.vocab_size, shape.width)
        self.head = Weight(config.vocab_size, shape.width)
        self.decoder = Decoder(shape)
        self.is_fixed = False  # texts are projected TEXT_ROWS at a time, however many there are

    def embed_text(self, ids: Tensor) -> Tensor:
        """Text ids (...) to talker inputs (..., D) through the projection."""
        if not self.is_fixed:
            return self._project(ids)
        padded = F.pad(ids.flatten(), (0, -ids.numel() % TEXT_ROWS))
        found = torch.cat([self._project(part) for part in padded.split(TEXT_ROWS)])
        return found[: ids.numel()].view(*ids.shape, -1)

    def _project(self, ids: Tensor) -> Tensor:
        x = F.embedding(ids, self.text_embedding.weight)
        return self.text_fc2(F.silu(self.text_fc1(x)))

    def embed_codec(self, ids: Tensor) -> Tensor:
        """Codec ids (...) to (..., D)."""
        return F.embedding(ids, self.codec_embedding.weight)


class Qwen3TTSNetworks(Network):
    """Talker, and a code predictor with embeddings and a head for each of its codebooks."""

    table = staticmethod(network_table)

    def __init__(self, config: Qwen3TTSConfig) -> None:
        super().__init__()
        self.talker = Talker(config)
        size = config.predictor_vocab_size
        self.predictor = CodePredictor(config, config.num_codebooks - 1, size, size)


class Qwen3TTS(SpeechModel):
    """A loaded checkpoint. Call `allocate`, then `capture`, before the first prompt."""

    config: Qwen3TTSConfig
    talker: Talker

    @staticmethod
    def voice_encoder(networks: Mapping[str, Any]) -> VoiceEncoder | None:
        """Both encoders of a Base checkpoint."""
        if "speech encoder" not in networks:
            return None
        return QwenVoiceEncoder(networks["speaker encoder"], networks["speech encoder"])

    def fix_shapes(self) -> None:
        """See `SpeechModel.fix_shapes`. A separate product projects texts."""
        super().fix_shapes()
        self.talker.is_fixed = True

    def new_sampling(self, num_slots: int) -> SamplingSlots:
        """Return settings and penalty history of slots. Only codes and end of speech are drawn."""
        size, eos = self.config.vocab_size, self.config.codec.eos
        suppress = torch.zeros(size, dtype=torch.bool)
        suppress[max(0, size - SUPPRESSED_TAIL) :] = True
        suppress[eos] = False
        return SamplingSlots(num_slots, size, suppress.to(self.device), eos, self.device)

    def embed(self, text_ids: Tensor, codec_ids: Tensor, given: Tensor) -> Tensor:
        """(T, D) talker inputs of a pass, including cloned voices."""
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
        """(n, max_trailing, D) text vectors for the coming frames, padded with the pad text."""
        columns = self.slots.trailing.shape[1]
        ids = torch.full((len(prompts), columns), self.config.text.pad, dtype=torch.int64)
        for row, prompt in enumerate(prompts):
            if len(prompt.trailing_ids) >= columns:
                raise ValueError(f"{len(prompt.trailing_ids)} trailing ids, room for {columns - 1}")
            ids[row, : len(prompt.trailing_ids)] = torch.tensor(prompt.trailing_ids)
        return self.talker.embed_text(to_device(ids, self.device))

    def first_inputs(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Return first codes (B,) as a frame stores them, and their embeddings (B, D)."""
        return codes, self.talker.embed_codec(codes)

    def embed_frames(self, codes: Tensor, text: Tensor) -> Tensor:
        """Frames of codes (R, K) and text vectors (R, D) to talker inputs (R, D)."""
        tables = self.talker.codec_embedding.weight, self.predictor.embeddings.weight
        return frame_embedding(codes, *tables, text)
