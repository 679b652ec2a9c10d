"""Pieces of utterances that the codec's decoder is trained on, and how pieces are cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from data import Utterance
from features import FRAME_SAMPLES
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from codec import CodecTraining

EDGE_FRAMES = 2  # at the start of what is decoded, where the convolutions miss their context
JUDGED_FRAMES = 6  # of those heard, shown to the discriminators
OPENINGS = 0.15  # share of segments heard from the first frame of an utterance
Corpus = tuple[list[Utterance], list[NDArray[np.uint8]]]  # utterances and the codes of each


class Segment(NamedTuple):
    """B pieces of utterances. Frames are counted from the start of what stands before."""

    codes: Tensor  # (B, K, F) int64
    speech: Tensor  # (B, 1, n) samples of the frames that are heard
    decoded: Tensor  # (B,) first frame that is decoded, in the segment
    heard: Tensor  # (B,) first frame that is heard, in what is decoded
    judged: Tensor  # (B,) first frame that is judged, in what is heard


def cut(rows: Tensor, starts: Tensor, num_frames: int, frame: int) -> Tensor:
    """(B, C, n) -> (B, C, num_frames * frame): of each row what begins at its frame of `starts`."""
    places = (starts * frame)[:, None] + torch.arange(num_frames * frame, device=rows.device)
    return rows.gather(2, places[:, None].expand(-1, rows.shape[1], -1))


class Segments:
    """All samples and codes in flat device buffers, for drawing aligned segments.

    Each voice is drawn equally often, whatever it has of speech. A segment ends with what is heard;
    near the start of an utterance it begins with that, and runs on behind.
    """

    def __init__(self, corpus: Corpus, settings: CodecTraining) -> None:
        items, codes = corpus
        device = settings.device
        self.num_frames, self.num_heard = settings.frames, settings.decoded_frames - EDGE_FRAMES
        self.samples = torch.from_numpy(np.concatenate([item.samples for item in items])).to(device)
        self.codes = torch.from_numpy(np.concatenate(codes)).to(device)
        lengths = torch.tensor([len(rows) for rows in codes])
        starts = lengths.cumsum(0) - lengths  # in frames
        usable = lengths >= self.num_heard
        voices = sorted({item.voice for item in items})
        voice = torch.tensor([voices.index(item.voice) for item in items])[usable]
        # Frames from which a segment may be heard, utterance behind utterance.
        room = (lengths - self.num_heard + 1)[usable].double()
        room /= torch.zeros(len(voices)).double().index_add_(0, voice, room)[voice]
        self.ends = (room.cumsum(0) / room.sum()).to(device)
        self.starts, self.lengths = starts[usable].to(device), lengths[usable].to(device)
        self.frame_steps = torch.arange(self.num_frames, device=device)
        self.sample_steps = torch.arange(self.num_heard * FRAME_SAMPLES, device=device)

    def draw(self, batch: int) -> Segment:
        """Segments with the samples of what is heard of them."""
        device = self.ends.device
        rows = torch.searchsorted(self.ends, torch.rand(batch, device=device).double())
        rows = rows.clamp(max=len(self.ends) - 1)
        ways = (self.lengths[rows] - self.num_heard + 1).double()
        first = (torch.rand(batch, device=device) * ways).long()
        first = first.masked_fill(torch.rand(batch, device=device) < OPENINGS, 0)
        begin = (first - (self.num_frames - self.num_heard)).clamp(min=0)
        decoded = (first - begin - EDGE_FRAMES).clamp(min=0)
        room = max(1, self.num_heard - JUDGED_FRAMES + 1)
        judged = torch.randint(0, room, (batch,), device=device)
        places = (self.starts[rows] + first) * FRAME_SAMPLES
        speech = self.samples[places[:, None] + self.sample_steps].float() / 32768.0
        frames = (self.starts[rows] + begin)[:, None] + self.frame_steps
        codes = self.codes[frames.clamp(max=len(self.codes) - 1)].long().transpose(1, 2)
        return Segment(
            codes,
            speech.unsqueeze(1),
            decoded,
            first - begin - decoded,
            judged.masked_fill(first == 0, 0),
        )
