"""The two draws of a frame, with the row's recent first codes.

Order, as the official code applies it: nucleus and top-k on the untempered distribution, then
temperature, then the draw; a first code among the last WINDOW drawn ones is replaced by a second
draw of fixed settings. The window starts empty behind the prompt and does not take in the first
code of a row, which the official code draws with the prompt. Ending at once, which would leave no
audio, is the one thing forbidden beyond the official code.

Source: the official fish-speech at 3dd1f85 (2026-04-06).
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from kernels.sampling.nucleus import sample_nucleus
from models.slots.sampling_slots import SamplingSlots

WINDOW = 10
WINDOW_TEMPERATURE, WINDOW_TOP_P = 1.0, 0.9  # of the second draw
MIN_FRAMES = 1
EMPTY = -1  # entry of a window that no code fills yet


class NucleusSlots(SamplingSlots):
    """Settings, seeds and recent first codes of every slot.

    Args:
        eos: what stands for end of speech among the first codes.
        num_codebooks: K; the second draw of a first code is addressed as codebook K.
    """

    SAMPLER = staticmethod(sample_nucleus)
    EMBEDS = False
    UNUSED: ClassVar[frozenset[str]] = frozenset({"repetition_penalty"})  # `prompt` refuses it

    def __init__(self, num_slots: int, eos: int, num_codebooks: int, device: torch.device) -> None:
        nothing = torch.zeros(0, dtype=torch.bool, device=device)
        super().__init__(num_slots, 0, nothing, eos, device)
        self.num_codebooks = num_codebooks
        self.window = torch.full((num_slots, WINDOW), EMPTY, device=device)

    def assign(self, index: Tensor, counts: Tensor, numbers: Tensor) -> None:
        """Give the slots `index` (n,) new settings and an empty window."""
        super().assign(index, counts, numbers)
        self.window.index_fill_(0, index, EMPTY)

    def move(self, source: Tensor, target: Tensor) -> None:
        """Copy settings, seeds and windows from slots (n,) to slots (n,)."""
        super().move(source, target)
        self.window[target] = self.window[source]

    def first(self, rows: Tensor | slice, logits: Tensor, steps: Tensor, out: Tensor) -> Tensor:
        """Draw first codes (B,) into `out`; -1 where the logits are not finite.

        Args:
            steps: (B,) int64, how many first codes each row has drawn so far.
        """
        uniforms = self.draws(rows, steps, self.num_codebooks + 1)
        return sample_nucleus(
            logits,
            uniforms[:, 0],
            self.first_settings(rows),
            out,
            eos=self.eos,
            no_eos=steps < MIN_FRAMES,
            window=self.window[rows],
            window_uniform=uniforms[:, self.num_codebooks],
            window_temperature=WINDOW_TEMPERATURE,
            window_top_p=WINDOW_TOP_P,
        )

    def follow(
        self, bucket: int, spoken: Tensor, logits: Tensor, steps: Tensor, out: Tensor
    ) -> None:
        """Draw the first codes of slots 0..B-1 at steps (B,) >= 1, and put them into the windows;
        the first `spoken`, drawn with the prompt, is in none.
        """
        self.first(slice(0, bucket), logits, steps, out)
        place = (steps - 1).remainder(WINDOW)
        self.window[:bucket].scatter_(1, place.unsqueeze(1), out.unsqueeze(1))
