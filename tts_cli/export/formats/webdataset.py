"""WebDataset: `data/SPLIT-000000.tar`, in which a sample is NAME.wav (or its other suffix) and
NAME.json, one behind the other.

A sample's key ends at the first dot of its name, so names have none but the suffix's. Headers hold
no time, no user and no mode of the machine: the same rows give the same bytes.

Source: https://github.com/webdataset/webdataset, "The WebDataset Format".
"""

from __future__ import annotations

import tarfile
from collections.abc import Sequence

from tts_cli.export.formats.target import Plan, Target, json_line
from tts_cli.export.row import ExportRow
from tts_cli.export.whole_file import WholeFile

_FOLDER = "data"
_BLOCK = 512
_END = bytes(2 * _BLOCK)


class WebDataset(Target):
    """See the module."""

    hub_files = "data/{split}-*"
    has_dots = False

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._numbers = dict.fromkeys(plan.splits, 0)
        self._bytes = dict.fromkeys(plan.splits, 0)

    @staticmethod
    def folders(splits: Sequence[str]) -> tuple[str, ...]:
        return (_FOLDER,)

    def add(self, row: ExportRow, split: str) -> None:
        audio, suffix, _ = self.plan.audio.content(row)
        key = self.plan.names.of(row)
        facts = json_line(row.columns(self.plan.audio.rate_hz))
        sample = _member(f"{key}{suffix}", audio) + _member(f"{key}.json", facts)
        if split in self._open and self._bytes[split] + len(sample) > self.plan.shard_bytes:
            self._finish(split)
        if split not in self._open:
            name = f"{_FOLDER}/{split}-{self._numbers[split]:06d}.tar"
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
