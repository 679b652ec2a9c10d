"""The layouts of data sets, each a class, and what they have in common.

Audiofolder of the Hugging Face library `datasets`: a folder a split, with audio and a
`metadata.jsonl` whose `file_name` says whose columns a line has.

Source: https://huggingface.co/docs/datasets/audio_dataset

LJSpeech: `wavs/NAME.wav` at 22,050 Hz, mono, 16 bits, and `metadata.csv`: name, text and text in
words, parted by `|`, without quotes. With several splits also `metadata_SPLIT.csv` for each.

Source: the README of LJSpeech-1.1. Readers split at `|` and lines, so neither stands in a text: the
bar becomes a comma, white space of any kind one space.

NeMo: `SPLIT_manifest.jsonl`, an object a line with `audio_filepath` (from the manifest's own
folder), `duration`, `text` and `normalized_text`; `speaker` is a number, which `speakers.json` has
by name.

Source: NVIDIA NeMo, docs/source/asr/datasets.rst and docs/source/tts/datasets.rst.

WebDataset: `data/SPLIT-000000.tar`, in which a sample is NAME.wav (or its other suffix) and
NAME.json, one behind the other.

A sample's key ends at the first dot of its name, so names have none but the suffix's. Headers hold
no time, no user and no mode of the machine: the same rows give the same bytes.

Source: https://github.com/webdataset/webdataset, "The WebDataset Format".
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tts_cli.export.audio import Audio, WholeFile
from tts_cli.export.made import ExportFiles
from tts_cli.export.row import ExportRow, Names


@dataclass(frozen=True)
class ExportPlan:
    """What a layout must know before the first row."""

    made: ExportFiles
    audio: Audio
    names: Names
    splits: Sequence[str]
    voices: Sequence[str]  # all that may come, sorted
    native_rate_hz: int | None  # of all files alike; None: not known, or several
    shard_bytes: int = 1 << 30
    extras: Sequence[str] = ()  # columns of `--extra keep`

    @property
    def rate_hz(self) -> int | None:
        """Of all audio alike; None: not known, or several."""
        return self.audio.rate_hz or self.native_rate_hz

    def open(self, name: str) -> WholeFile:
        """A new file of the data set. Raises DiskFull, OSError."""
        return WholeFile(self.made, name)

    def columns(self, row: ExportRow) -> dict[str, Any]:
        """Return what stands beside a row's audio."""
        return row.columns(self.audio.rate_hz, self.extras)

    def place(self, row: ExportRow, folder: str) -> str:
        """Put a row's audio into a folder of the data set; its name there. Raises RowError."""
        return self.audio.place(row, f"{folder}/{self.names.of(row)}").partition("/")[2]


class Target:
    """A data set being written.

    Every layout has `folders`, which hold what it makes beside files at the top, and `hub_files`:
    what the hub's card says of each split's files; None: the hub cannot load it.
    """

    hub_files: str | None = None
    has_dots: bool = True  # in names of rows

    def __init__(self, plan: ExportPlan) -> None:
        self.plan = plan
        self._open: dict[str, WholeFile] = {}

    @staticmethod
    def folders(splits: Sequence[str]) -> tuple[str, ...]:
        """Folders at the top that it makes."""
        raise NotImplementedError

    def add(self, row: ExportRow, split: str) -> None:
        """Put a row into a split.

        Raises:
            RowError: it cannot be; nothing of it is left.
            DiskFull, OSError: nothing can be written any more.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Give all files their names. Raises DiskFull, OSError."""
        for file in self._open.values():
            file.close()

    def abort(self) -> None:
        """Remove files that are not whole, while an exception is handled."""
        for file in self._open.values():
            file.abort()

    def lines(self, name: str) -> WholeFile:
        """A file of lines that stays open to the end."""
        if name not in self._open:
            self._open[name] = self.plan.open(name)
        return self._open[name]


def json_line(values: dict[str, Any]) -> bytes:
    """One line of JSON, readable."""
    return (json.dumps(values, ensure_ascii=False, allow_nan=False) + "\n").encode()


class AudioFolder(Target):
    """See the module."""

    hub_files = "{split}/**"

    @staticmethod
    def folders(splits: Sequence[str]) -> tuple[str, ...]:
        return tuple(splits)

    def add(self, row: ExportRow, split: str) -> None:
        name = self.plan.place(row, split)
        values = {"file_name": name, **self.plan.columns(row)}
        self.lines(f"{split}/metadata.jsonl").write(json_line(values))


RATE_HZ = 22_050
_WAVS = "wavs"


class LJSpeech(Target):
    """See the module."""

    @staticmethod
    def folders(splits: Sequence[str]) -> tuple[str, ...]:
        return (_WAVS,)

    def add(self, row: ExportRow, split: str) -> None:
        name = self.plan.place(row, _WAVS).removesuffix(".wav")
        line = "|".join((name, _cell(row.text), _cell(row.spoken_text))) + "\n"
        self.lines("metadata.csv").write(line.encode())
        if len(self.plan.splits) > 1:
            self.lines(f"metadata_{split}.csv").write(line.encode())


def _cell(text: str) -> str:
    return " ".join(text.replace("|", ", ").replace(" , ", ", ").split())


_AUDIO = "audio"


class NeMo(Target):
    """See the module."""

    def __init__(self, plan: ExportPlan) -> None:
        super().__init__(plan)
        self._numbers = {voice: number for number, voice in enumerate(plan.voices)}

    @staticmethod
    def folders(splits: Sequence[str]) -> tuple[str, ...]:
        return (_AUDIO,)

    def add(self, row: ExportRow, split: str) -> None:
        name = self.plan.place(row, _AUDIO)
        values = {
            "audio_filepath": f"{_AUDIO}/{name}",
            "duration": round(row.duration_s, 6),
            "text": row.text,
            "normalized_text": row.spoken_text,
        }
        if row.voice is not None:
            values |= {"speaker": self._numbers[row.voice], "speaker_name": row.voice}
        if row.language is not None:
            values["lang"] = row.language_code or row.language
        values |= {"id": row.id, "take": row.take}
        if row.character is not None:
            values["character"] = row.character
        values |= row.extras([name for name in self.plan.extras if name in row.extra])
        self.lines(f"{split}_manifest.jsonl").write(json_line(values))

    def close(self) -> None:
        text = json.dumps(self._numbers, ensure_ascii=False, indent=2) + "\n"
        self.lines("speakers.json").write(text.encode())
        super().close()


_SHARDS = "data"
_BLOCK = 512
_END = bytes(2 * _BLOCK)


class WebDataset(Target):
    """See the module."""

    hub_files = "data/{split}-*"
    has_dots = False

    def __init__(self, plan: ExportPlan) -> None:
        super().__init__(plan)
        self._numbers = dict.fromkeys(plan.splits, 0)
        self._bytes = dict.fromkeys(plan.splits, 0)

    @staticmethod
    def folders(splits: Sequence[str]) -> tuple[str, ...]:
        return (_SHARDS,)

    def add(self, row: ExportRow, split: str) -> None:
        audio, suffix, _ = self.plan.audio.content(row)
        key = self.plan.names.of(row)
        facts = json_line(self.plan.columns(row))
        sample = _member(f"{key}{suffix}", audio) + _member(f"{key}.json", facts)
        if split in self._open and self._bytes[split] + len(sample) > self.plan.shard_bytes:
            self._finish(split)
        if split not in self._open:
            name = f"{_SHARDS}/{split}-{self._numbers[split]:06d}.tar"
            self._open[split] = self.plan.open(name)
            self._numbers[split] += 1
        self._open[split].write(sample)
        self._bytes[split] += len(sample)

    def close(self) -> None:
        for split in list(self._open):
            self._finish(split)

    def _finish(self, split: str) -> None:
        file: WholeFile = self._open[split]
        file.write(_END)
        file.close()
        del self._open[split]
        self._bytes[split] = 0


def _member(name: str, data: bytes) -> bytes:
    """A file as it stands in an archive."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mode = 0o644
    header = info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")
    return header + data + bytes(-len(data) % _BLOCK)
