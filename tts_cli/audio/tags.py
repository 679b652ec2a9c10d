"""The tags of an audio file: title, voice, model, and that its speech is synthetic.

WAV files get a LIST chunk behind the samples, where a reader that stops at their end never meets
it; the other formats get what libsndfile makes of the same texts (comments of Vorbis, ID3 of MP3).
Nothing in it changes from run to run, so that the same speech stays the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tts_cli.sources.ids import voice_label

if TYPE_CHECKING:
    from models.base import ModelInfo

SOFTWARE = "tts-cli"
SYNTHETIC = "synthetic speech"
MAX_TEXT_BYTES = 1_000  # of UTF-8, a field
# In the order they stand in the chunk.
_WAV_NAMES = {
    "title": b"INAM",
    "artist": b"IART",
    "album": b"IPRD",
    "comment": b"ICMT",
    "software": b"ISFT",
}


@dataclass(frozen=True)
class Tags:
    """Texts of one file; an empty one is left out."""

    title: str = ""  # the row's id, or the chapter's title
    artist: str = ""  # the voice
    album: str = ""  # the book
    comment: str = ""
    software: str = SOFTWARE

    @classmethod
    def of_row(cls, row_id: str, voice: str | None, comment: str) -> Tags:
        """Of a row's file."""
        return cls(row_id, voice_label(voice) or "", comment=comment)

    def texts(self) -> dict[str, str]:
        """The fields that say something, on one line each and not too long."""
        return {name: text for name in _WAV_NAMES if (text := _plain(getattr(self, name)))}


def synthetic(info: ModelInfo) -> str:
    """The comment on a model's speech. Of the model it has what its files say, not where they lie:
    a path would change from machine to machine, and is nobody's business.
    """
    return synthetic_of(vars(info))


def synthetic_of(model: Mapping[str, Any]) -> str:
    """The same of what run.json says of a model; nothing of it need be there."""
    words = [str(model.get(name) or "") for name in ("family", "size", "type", "identity")]
    return f"synthetic speech; model {' '.join(filter(None, words))}" if any(words) else SYNTHETIC


def wav_chunk(tags: Tags) -> bytes:
    """The LIST chunk of a WAV file, in UTF-8; of even length."""
    chunks = b"INFO" + b"".join(_wav_text(name, text) for name, text in tags.texts().items())
    return b"LIST" + struct.pack("<I", len(chunks)) + chunks


@lru_cache(maxsize=64)  # all but the title are the same from row to row
def _wav_text(name: str, text: str) -> bytes:
    data = text.encode() + b"\0"
    return _WAV_NAMES[name] + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def put_tags(file: Any, tags: Tags) -> None:
    """Give the texts to a `soundfile.SoundFile` before its first sample."""
    for name, text in tags.texts().items():
        setattr(file, name, text)


def _plain(text: str) -> str:
    """Without line breaks and other signs that steer, cut to what a field should hold."""
    if not text.isprintable():
        text = "".join(char if char.isprintable() else " " for char in text)
    shown = " ".join(text.split())
    return shown if len(shown) < MAX_TEXT_BYTES / 4 else _cut(shown)


def _cut(text: str) -> str:
    return text.encode()[:MAX_TEXT_BYTES].decode(errors="ignore")
