"""Training sequences in the non-streaming custom-voice layout of Qwen3-TTS.

A sequence of L positions carries two streams that are added: text ids, and codec ids or the codes
of a fed-back frame.

    positions   text                          codec
    0 1 2       <|im_start|> assistant \\n      nothing
    3 ...       <tts_pad> ...                 think prefix, speaker
    P - 1       <tts_text_bos>                pad
    P ...       the text, <tts_text_eod>      pad
    then        <tts_pad>                     bos
    then        <tts_pad> ...                 the frames

The label of a position is the first code of the frame behind it, or the end token.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import torch
from config import SPECIAL_TOKENS, TALKER, VOICES, speaker_ids
from numpy.typing import NDArray
from torch import Tensor

LENGTH_STEP = 16  # lengths are rounded up to it, so that few shapes occur
NUM_FIXED_POSITIONS = 11  # of a sequence besides text and frames
NO_ID, NO_LABEL = -1, -100


def text_ids(text: str) -> list[int]:
    """Byte-level ids; `assistant` and `user` are one token wherever they stand."""
    ids: list[int] = []
    for part_index, part in enumerate(text.split("assistant")):
        if part_index:
            ids.append(SPECIAL_TOKENS["assistant"])
        for piece_index, piece in enumerate(part.split("user")):
            if piece_index:
                ids.append(SPECIAL_TOKENS["user"])
            ids += piece.encode("utf-8")
    return ids


def text_places(text: str, places: NDArray[np.int16]) -> NDArray[np.int16]:
    """Bytes of the text to indices of its ids, which differ behind `assistant` and `user`."""
    if "assistant" not in text and "user" not in text:
        return places
    index: list[int] = []
    for part in re.split("(assistant|user)", text):
        start = index[-1] + 1 if index else 0
        size = len(part.encode("utf-8"))
        is_one = part in ("assistant", "user")
        index += [start] * size if is_one else range(start, start + size)
    table = np.array([*index, len(text_ids(text))], np.int16)
    return np.where(places < 0, places, table[np.minimum(places, len(index))]).astype(np.int16)


class Batch(NamedTuple):
    """B sequences of L positions."""

    text: Tensor  # (B, L) text ids
    codec: Tensor  # (B, L) codec ids, -1 for none
    codes: Tensor  # (B, L, K) codes of the fed-back frame, -1 for none
    labels: Tensor  # (B, L) what follows in the first codebook, -100 for nothing
    spoken: Tensor  # (B, L) position of the text byte that the frame to come speaks, -1 for unknown
    num_frames: int  # of all sequences


class Store:
    """Texts and codes in flat device buffers, gathered by index arithmetic on the device."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.texts: list[NDArray[np.int16]] = []
        self.codes: list[NDArray[np.uint8]] = []
        self.places: list[NDArray[np.int16]] = []
        self.speakers: list[int] = []

    def add(
        self,
        texts: list[str],
        voices: list[str],
        codes: list[NDArray[np.uint8]],
        places: list[NDArray[np.int16]],
    ) -> None:
        """Take in utterances.

        Args:
            voices: the teacher's names.
            codes: (F, K) each.
            places: (F,) each, the byte of the text spoken in a frame, -1 for unknown.
        """
        ids = speaker_ids()
        self.texts += [np.array(text_ids(text), np.int16) for text in texts]
        self.speakers += [ids[VOICES[voice]] for voice in voices]
        self.codes += codes
        self.places += [text_places(*pair) for pair in zip(texts, places, strict=True)]

    def freeze(self) -> None:
        """Build the buffers from all utterances so far. Call again after `add`."""
        text_lengths = torch.tensor([len(ids) for ids in self.texts])
        code_lengths = torch.tensor([len(rows) for rows in self.codes])
        self.lengths = text_lengths + code_lengths + NUM_FIXED_POSITIONS
        self.num_frames = code_lengths
        self.text_starts = (text_lengths.cumsum(0) - text_lengths).to(self.device)
        self.code_starts = (code_lengths.cumsum(0) - code_lengths).to(self.device)
        self.text_lengths = text_lengths.to(self.device)
        self.code_lengths = code_lengths.to(self.device)
        self.flat_texts = torch.from_numpy(np.concatenate(self.texts)).to(self.device)
        self.flat_codes = torch.from_numpy(np.concatenate(self.codes)).to(self.device)
        self.flat_places = torch.from_numpy(np.concatenate(self.places)).to(self.device)
        self.flat_speakers = torch.tensor(self.speakers).to(self.device)

    def batches(self, max_positions: int, generator: torch.Generator) -> list[list[int]]:
        """All utterances once, as shuffled lists of indices of similar length.

        A list padded to its longest has at most `max_positions`.
        """
        jitter = torch.rand(len(self.lengths), generator=generator) * 6
        lengths = self.lengths.tolist()
        groups: list[list[int]] = []
        group: list[int] = []
        longest = 0
        for index in torch.argsort(self.lengths + jitter).tolist():
            grown = max(longest, lengths[index])
            if group and grown * (len(group) + 1) > max_positions:
                groups.append(group)
                group, grown = [], lengths[index]
            group.append(index)
            longest = grown
        if group:
            groups.append(group)
        order = torch.randperm(len(groups), generator=generator).tolist()
        return [groups[index] for index in order]

    def batch(self, indices: list[int], has_language: bool = True) -> Batch:
        """The sequences of some utterances; without `has_language`, as for language `auto`."""
        device, special, ids = self.device, SPECIAL_TOKENS, TALKER
        shape = (len(indices), -(-int(self.lengths[indices].max()) // LENGTH_STEP) * LENGTH_STEP)
        rows = torch.tensor(indices, device=device)
        text_length, code_length = self.text_lengths[rows, None], self.code_lengths[rows, None]
        if has_language:
            prefix = [
                ids["codec_think_id"],
                ids["codec_think_bos_id"],
                ids["codec_language_id"]["english"],
                ids["codec_think_eos_id"],
            ]
        else:
            prefix = [ids["codec_nothink_id"], ids["codec_think_bos_id"], ids["codec_think_eos_id"]]
        start = 3 + len(prefix) + 2  # P: where the text begins
        place = torch.arange(shape[1], device=device)[None] - start  # (1, L)
        is_text = (place >= 0) & (place < text_length)

        text = torch.full(shape, special["<tts_pad>"], device=device)
        text[:, 0], text[:, 1], text[:, 2] = (
            special["<|im_start|>"],
            special["assistant"],
            ord("\n"),
        )
        text[:, start - 1] = special["<tts_text_bos>"]
        source = self.text_starts[rows, None] + place
        text_tokens = self.flat_texts[source.clamp(0, len(self.flat_texts) - 1)].long()
        text = torch.where(is_text, text_tokens, text)
        text = text.masked_fill(place == text_length, special["<tts_text_eod>"])

        codec = torch.full(shape, NO_ID, device=device)
        codec[:, 3:start] = torch.tensor([*prefix, 0, ids["codec_pad_id"]], device=device)
        codec[:, start - 2] = self.flat_speakers[rows]
        codec = codec.masked_fill((place >= 0) & (place <= text_length), ids["codec_pad_id"])
        codec = codec.masked_fill(place == text_length + 1, ids["codec_bos_id"])

        frame = place - text_length - 2  # (B, L) number of the frame fed back here
        is_frame = (frame >= 0) & (frame < code_length)
        source = self.code_starts[rows, None] + frame
        codes = self.flat_codes[source.clamp(0, len(self.flat_codes) - 1)].long()
        codes = codes.masked_fill(~is_frame[..., None], NO_ID)

        labels = torch.full(shape, NO_LABEL, device=device)
        labels[:, :-1] = torch.where(is_frame[:, 1:], codes[:, 1:, 0], labels[:, :-1])
        labels = labels.masked_fill(frame == code_length - 1, ids["codec_eos_token_id"])

        is_next = (frame >= -1) & (frame + 1 < code_length)  # a frame is to come
        source = self.code_starts[rows, None] + frame + 1
        spoken = self.flat_places[source.clamp(0, len(self.flat_places) - 1)].long()
        spoken = torch.where(is_next & (spoken >= 0), spoken + start, NO_ID)
        return Batch(text, codec, codes, labels, spoken, int(self.num_frames[indices].sum()))


def add_noise(codes: Tensor, rate: float, codebook_size: int) -> Tensor:
    """Wrong codes among the fed-back ones, as sampling will bring.

    Args:
        codes: (B, L, K), -1 for none.
        rate: share of single codes replaced; half that share of frames is swapped for others.
    """
    is_frame = codes[..., :1] >= 0
    is_replaced = (torch.rand(codes.shape, device=codes.device) < rate) & (codes >= 0)
    noisy = torch.where(is_replaced, torch.randint_like(codes, codebook_size), codes)
    elsewhere = torch.roll(noisy.flatten(0, 1), 7919, 0).view_as(codes)
    is_swapped = (torch.rand(codes.shape[:2], device=codes.device) < rate / 2)[..., None]
    return torch.where(is_swapped & is_frame & (elsewhere[..., :1] >= 0), elsewhere, noisy)
