"""Reference recordings to what a clone prompt needs: embeddings, and codes for in-context cloning.

Clips share batches (`models/device/clips.py`); both encoders know each clip's length, so a clip's
result does not depend on its mates beyond rounding.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.device.clips import clip_batches
from models.qwen3_tts.codec.encoder import SpeechEncoder
from models.qwen3_tts.speaker import SpeakerEncoder
from models.slots.networks import VoiceEncoder

MODES = ("icl", "xvec")


class QwenVoiceEncoder(VoiceEncoder):
    """Both encoders of a Base checkpoint."""

    def __init__(self, speaker: SpeakerEncoder, speech: SpeechEncoder) -> None:
        super().__init__(speaker.fc.weight.device)
        self.speaker, self.speech = speaker, speech

    @torch.inference_mode()
    def encode(self, waves: list[Tensor], modes: list[str]) -> list[tuple[Tensor, Tensor | None]]:
        """Each clip (n,) float32 to its embedding (D,) float32 and its codes (R, K) int64 (None for
        xvec), on the device.

        Raises:
            ValueError: a clip is too short or no row of samples, or a mode is unknown.
        """
        if len(waves) != len(modes) or not set(modes) <= set(MODES):
            raise ValueError(f"{len(waves)} clips and modes {modes}; a mode is icl or xvec")
        shortest = self.speaker.config.shortest_samples  # some 50 ms in a released checkpoint
        for wave in waves:
            if wave.dim() != 1 or len(wave) < shortest:
                raise ValueError(
                    f"a reference of shape {tuple(wave.shape)}; at least {shortest} samples are "
                    "needed"
                )
        lengths = torch.tensor([len(wave) for wave in waves])
        embeddings: dict[int, Tensor] = {}
        codes: dict[int, Tensor] = {}
        for batch, padded in clip_batches(waves, range(len(waves)), self.device, self.use_batches):
            found = self.speaker(padded, lengths[batch].to(self.device))
            embeddings |= zip(batch, found.float(), strict=True)
        spoken = [index for index, mode in enumerate(modes) if mode == "icl"]
        for batch, padded in clip_batches(waves, spoken, self.device, self.use_batches):
            found, _ = self.speech(padded, lengths[batch].to(self.device))
            for index, row in zip(batch, found, strict=True):
                codes[index] = row[: self.speech.config.num_frames(len(waves[index]))]
        return [(embeddings[index], codes.get(index)) for index in range(len(waves))]
