"""The layouts of data sets except Parquet.

Audiofolder of the Hugging Face library `datasets`: one folder per split, with audio and a
`metadata.jsonl` whose `file_name` names the audio file of a line.
Source: https://huggingface.co/docs/datasets/audio_dataset

LJSpeech: `wavs/NAME.wav` at 22,050 Hz, mono, 16 bits, and `metadata.csv` with the columns name,
text and text in words, separated by `|`, without quotes. With several splits there is also
`metadata_SPLIT.csv` for each. Readers split at `|` and at line ends, so that in a text the bar
becomes a comma, and white space of any kind one space.
Source: the README of LJSpeech-1.1.

NeMo: `SPLIT_manifest.jsonl`, one object per line with `audio_filepath` (relative to the folder of
the manifest), `duration`, `text` and `normalized_text`; `speaker` is a number, and `speakers.json`
has the numbers of the names.
Source: NVIDIA NeMo, docs/source/asr/datasets.rst and docs/source/tts/datasets.rst.

Files: audio under the names of `--name-by`, and `files.csv`, for people and game engines.

WebDataset: `data/SPLIT-000000.tar`, in which a sample is NAME.wav (or another suffix), followed by
NAME.json. The key of a sample ends at the first dot of its name, so that names have no other dot.
Headers have no time, user or mode of this machine: the same rows give the same bytes.
Source: https://github.com/webdataset/webdataset, "The WebDataset Format".
"""

from __future__ import annotations

import csv
import io
import json
import tarfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

from tts_cli.export.artifacts import Artifacts
from tts_cli.export.audio import AudioReader, Content
from tts_cli.export.row import ExportRow, Names, extra_name
from tts_cli.text.languages import code_of

LJSPEECH_RATE_HZ = 22_050
_BLOCK_BYTES = 512  # of a tar file


@dataclass(frozen=True)
class LayoutContext:
    artifacts: Artifacts
    audio: AudioReader
    names: Names
    splits: Sequence[str]
    voices: Sequence[str]  # of all rows, sorted
    rate_hz: int | None  # of all audio; None: unknown or different
    shard_bytes: int
    extras: Sequence[str]  # names of extra columns

    def columns(self, row: ExportRow) -> dict[str, Any]:
        return row.columns(self.audio.rate_hz, self.extras)

    def place(self, row: ExportRow, folder: str) -> str:
        """Add a row's audio to a folder of the export; return its name there. Raises RowError."""
        name = f"{folder}/{self.names.of(row)}"
        return self.audio.place(row, self.artifacts, name).removeprefix(f"{folder}/")

    def write_line(self, name: str, line: str) -> None:
        self.artifacts.open(name).write(f"{line}\n".encode())


class Layout:
    hub_files: str | None = None  # pattern of a split's files; None: the hub cannot load them
    has_dots = True  # in names of rows

    def __init__(self, context: LayoutContext) -> None:
        self.context = context

    def add(self, row: ExportRow, split: str) -> None:
        """Add a row to a split.

        Raises:
            RowError: it cannot be added; nothing of the row was added.
            OSError: nothing more can be written.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Write the ends of files. Raises OSError."""


class AudioFolder(Layout):
    """The layout of the library `datasets`."""

    hub_files = "{split}/**"

    def add(self, row: ExportRow, split: str) -> None:
        name = self.context.place(row, split)
        values = {"file_name": name, **self.context.columns(row)}
        self.context.write_line(f"{split}/metadata.jsonl", as_json(values))


class NamedFiles(Layout):
    """Audio under names by a pattern, and `files.csv` with their texts, in manifest order."""

    _COLUMNS = ("file", "id", "text", "character", "voice", "language", "duration")

    def add(self, row: ExportRow, split: str) -> None:
        name = self.context.audio.place(row, self.context.artifacts, self.context.names.of(row))
        table = self.context.artifacts.open("files.csv")
        if table.tell() == 0:
            table.write(_csv_line(self._COLUMNS))
        table.write(_csv_line([name, *(row.values[column] for column in self._COLUMNS[1:])]))


def _csv_line(cells: Sequence[Any]) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer).writerow("" if cell is None else cell for cell in cells)
    return buffer.getvalue().encode()


class LJSpeech(Layout):
    def add(self, row: ExportRow, split: str) -> None:
        name = self.context.place(row, "wavs").removesuffix(".wav")
        cells = [name]
        for text in (row.values["text"], row.values["spoken_text"]):
            cells.append(" ".join(text.replace("|", ", ").replace(" , ", ", ").split()))
        tables = ["metadata.csv"]
        if len(self.context.splits) > 1:
            tables.append(f"metadata_{split}.csv")
        for table in tables:
            self.context.write_line(table, "|".join(cells))


class NeMo(Layout):
    def __init__(self, context: LayoutContext) -> None:
        super().__init__(context)
        self._numbers = {voice: number for number, voice in enumerate(context.voices)}

    def add(self, row: ExportRow, split: str) -> None:
        name = self.context.place(row, "audio")
        known = {key: value for key, value in row.values.items() if value is not None}
        values = {
            "audio_filepath": f"audio/{name}",
            "duration": known["duration"],
            "text": known["text"],
            "normalized_text": known["spoken_text"],
        }
        if "voice" in known:
            values |= {"speaker": self._numbers[known["voice"]], "speaker_name": known["voice"]}
        if "language" in known:
            values["lang"] = code_of(known["language"]) or known["language"]
        values |= {key: known[key] for key in ("id", "take", "character") if key in known}
        extras = (one for one in self.context.extras if one in row.extra)
        values |= {extra_name(one): row.extra[one] for one in extras}
        self.context.write_line(f"{split}_manifest.jsonl", as_json(values))

    def close(self) -> None:
        text = json.dumps(self._numbers, ensure_ascii=False, indent=2)
        self.context.write_line("speakers.json", text)


class Shard(Protocol):
    def add(self, name: str, content: Content, columns: dict[str, Any]) -> None:
        """Add a row."""

    def close(self) -> None:
        """Write the end of the file."""


class Sharded(Layout):
    """Files `data/SPLIT-NUMBER.SUFFIX` of bounded size, with the audio in them."""

    hub_files = "data/{split}-*"
    file_name = ""  # with the fields `split` and `number`

    def __init__(self, context: LayoutContext) -> None:
        super().__init__(context)
        self._shards: dict[str, Shard] = {}  # by split
        self._bytes: Counter[str] = Counter()
        self._numbers: Counter[str] = Counter()

    def new_shard(self, file: BinaryIO) -> Shard:
        raise NotImplementedError

    def add(self, row: ExportRow, split: str) -> None:
        content = self.context.audio.content(row)
        if self._bytes[split] + len(content.data) > self.context.shard_bytes:
            self._end(split)
        if split not in self._shards:
            self._shards[split] = self.new_shard(self.context.artifacts.open(self._name(split)))
        columns = self.context.columns(row)
        self._shards[split].add(self.context.names.of(row), content, columns)
        self._bytes[split] += len(content.data)

    def close(self) -> None:
        for shard in self._shards.values():
            shard.close()

    def _end(self, split: str) -> None:
        if shard := self._shards.pop(split, None):
            shard.close()
            self.context.artifacts.finish(self._name(split))
            self._bytes[split] = 0
            self._numbers[split] += 1

    def _name(self, split: str) -> str:
        return f"data/{self.file_name.format(split=split, number=self._numbers[split])}"


class WebDataset(Sharded):
    has_dots = False
    file_name = "{split}-{number:06d}.tar"

    def new_shard(self, file: BinaryIO) -> Shard:
        return _TarFile(file)


class _TarFile:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def add(self, name: str, content: Content, columns: dict[str, Any]) -> None:
        self._write(f"{name}{content.suffix}", content.data)
        self._write(f"{name}.json", f"{as_json(columns)}\n".encode())

    def close(self) -> None:
        self._file.write(bytes(2 * _BLOCK_BYTES))

    def _write(self, name: str, data: bytes) -> None:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        info.mode = 0o644
        header = info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")
        self._file.write(header + data + bytes(-len(data) % _BLOCK_BYTES))


def as_json(values: dict[str, Any]) -> str:
    """Return values as one line of readable JSON."""
    return json.dumps(values, ensure_ascii=False, allow_nan=False)
