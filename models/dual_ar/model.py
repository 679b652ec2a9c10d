"""Dual-AR models: talker, code predictor, draws, and their additions to `models.slots.model`.

The talker (upstream: the slow AR) is the transformer over time that gives the first codebook. A
position is the embedding of its text id; for a frame of speech the embeddings of its K codes are
added; some families divide the sum by sqrt(K + 1). The output, after the final norm, feeds both the
head and the code predictor. The head is tied to the text embedding, but only the rows of first
codes and of end of speech can ever be drawn (the official code masks the others), so only those are
loaded: logit c is first code c, the last one is end of speech.

The code predictor (upstream: the fast AR) has one embedding table and one head for all codebooks,
and no QK norm. Its head has the rows that further codebooks are drawn from.

Order of the draws, as the official code applies it: nucleus and top-k on the untempered
distribution, then temperature, then the draw; a first code among the last few drawn ones is
replaced by a second draw of fixed settings. That window starts empty after the prompt and does not
include the first code of a row, which the official code draws with the prompt. Beyond the official
code only an immediate end is forbidden, because it would leave no audio.

Source: the official fish-speech at 3dd1f85 (2026-04-06).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.frame.frame_embedding import frame_embedding
from kernels.linear.code_embedding import Beginning
from kernels.sampling.nucleus import sample_nucleus
from models.base import REFERENCE
from models.checkpoint.weights import Network
from models.decoder.decoder import Decoder, Weight
from models.dual_ar.codec import CodecVoiceEncoder
from models.dual_ar.config import DualARConfig, RecentCodes
from models.dual_ar.tensors import network_table
from models.slots.model import SpeechModel
from models.slots.runner import CodePredictor, SamplingSlots, TalkerNetwork, VoiceEncoder

MIN_FRAMES = 1
EMPTY = -1  # entry of a window that no code fills yet


class DualARTalker(TalkerNetwork):
    def __init__(self, config: DualARConfig) -> None:
        super().__init__()
        width, codes = config.talker.width, config.codebook_size
        self.divisor = math.sqrt(config.num_codebooks + 1) if config.divides_sum else 1.0
        self.text_embedding = Weight(config.text_vocab_size, width)
        self.code_embedding = Weight(config.num_codebooks, codes, width)
        self.head = Weight(codes + 1, width)  # its first rows are also the first codes' text rows
        self.decoder = Decoder(config.talker)

    def embed_text(self, ids: Tensor) -> Tensor:
        """Text ids (...) to (..., D)."""
        return F.embedding(ids, self.text_embedding.weight)

    def embed_frames(self, codes: Tensor) -> Tensor:
        """Frames of codes (R, K) int64 to (R, D). Codes below 0 (a failed row) count as 0."""
        tables = self.code_embedding.weight
        text = F.embedding(codes[:, 0].clamp(min=0), self.head.weight)
        x = frame_embedding(codes, tables[0], tables[1:], text)
        return x if self.divisor == 1 else x.div_(self.divisor)


class DualARPredictor(CodePredictor):
    def __init__(self, config: DualARConfig) -> None:
        super().__init__(config, 1, config.codebook_size, config.num_rest_codes)

    def expand(
        self, codes: Tensor, codebook: int, positions: Tensor, begun: Beginning | None = None
    ) -> Tensor:
        """As `CodePredictor.expand`, always as separate operations."""
        hidden = self.decoder.step(self.embed(codes, codebook - 1), positions)
        return self.logits(hidden, codebook)


class DualARNetworks(Network):
    table = staticmethod(network_table)

    def __init__(self, config: DualARConfig) -> None:
        super().__init__()
        self.talker = DualARTalker(config)
        self.predictor = DualARPredictor(config)


class NucleusSlots(SamplingSlots):
    """Settings, seeds and recent first codes of every slot.

    Args:
        eos: the end of speech among the first codes.
        num_codebooks: K; the second draw of a first code is addressed as codebook K.
        recent: the rule for recent codes, or None.
    """

    SAMPLER = staticmethod(sample_nucleus)
    EMBEDS = False
    UNUSED: ClassVar[frozenset[str]] = frozenset({"repetition_penalty"})  # `prompt` refuses it

    def __init__(
        self,
        num_slots: int,
        eos: int,
        num_codebooks: int,
        device: torch.device,
        recent: RecentCodes = RecentCodes(),  # noqa: B008  # never changes
    ) -> None:
        nothing = torch.zeros(0, dtype=torch.bool, device=device)
        super().__init__(num_slots, 0, nothing, eos, device)
        self.num_codebooks, self.recent = num_codebooks, recent
        self.window = torch.full((num_slots, recent.num_codes), EMPTY, device=device)

    def assign(self, index: Tensor, counts: Tensor, numbers: Tensor) -> None:
        """Give the slots `index` (n,) new settings and an empty window."""
        super().assign(index, counts, numbers)
        self.window.index_fill_(0, index, EMPTY)

    def move(self, source: Tensor, target: Tensor) -> None:
        """Copy settings, seeds and windows from slots (n,) to slots (n,)."""
        super().move(source, target)
        self.window[target] = self.window[source]

    def first(self, rows: Tensor | slice, logits: Tensor, steps: Tensor, out: Tensor) -> Tensor:
        """Draw first codes (B,) into `out`; -1 if the logits are not finite.

        Args:
            steps: (B,) int64, number of first codes that each row has drawn so far.
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
            window_temperature=self.recent.temperature,
            window_top_p=self.recent.top_p,
        )

    def follow(
        self, bucket: int, previous: Tensor, logits: Tensor, steps: Tensor, out: Tensor
    ) -> None:
        """Draw the first codes of slots 0..B-1 at steps (B,) >= 1, and put them into the
        windows; the very first code, drawn with the prompt, is in no window.
        """
        self.first(slice(0, bucket), logits, steps, out)
        place = (steps - 1).remainder(self.recent.num_codes)
        self.window[:bucket].scatter_(1, place.unsqueeze(1), out.unsqueeze(1))


class DualAR(SpeechModel):
    """A loaded checkpoint. Call `allocate`, then `capture`, before the first prompt."""

    config: DualARConfig
    talker: DualARTalker
    sampling: NucleusSlots
    shares_prefixes = True
    decodes_references = False  # the official code decodes a row's own codes alone

    @staticmethod
    def voice_encoder(networks: Mapping[str, Any]) -> VoiceEncoder:
        return CodecVoiceEncoder(networks["codec encoder"])

    def new_sampling(self, num_slots: int) -> NucleusSlots:
        config = self.config
        return NucleusSlots(num_slots, config.eos, config.num_codebooks, self.device, config.recent)

    def embed(self, text_ids: Tensor, codec_ids: Tensor, given: Tensor) -> Tensor:
        """(T, D) talker inputs of a pass, including frames of references."""
        x = self.talker.embed_text(text_ids.clamp(min=0))
        return torch.where((codec_ids <= REFERENCE).unsqueeze(-1), given, x)

    def first_inputs(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Return first codes (B,) as a frame stores them, and their embeddings (B, D)."""
        # Rows that ended have the end of speech, which is not a code.
        codes = codes.clamp(max=self.config.codebook_size - 1)
        return codes, self.predictor.embed(codes, 0)

    def embed_frames(self, codes: Tensor, text: Tensor) -> Tensor:
        """Frames of codes (R, K) to talker inputs (R, D); text is never added."""
        return self.talker.embed_frames(codes)
