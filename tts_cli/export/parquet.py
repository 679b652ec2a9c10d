"""Parquet as the Hugging Face library `datasets` reads it: `data/SPLIT-00000.parquet`, with a
column `audio` of structs (bytes, path), and the schema's metadata saying that it is audio.

Rows are written in groups of at most 32 MiB of audio: a reader holds no more, and this writer a few
times that. A file is closed at `--shard-mb`.

Source: https://huggingface.co/docs/hub/datasets-audio, and `datasets.Features.arrow_schema`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tts_cli.export.audio import WholeFile
from tts_cli.export.layouts import ExportPlan, Target
from tts_cli.export.row import COLUMNS, WORD, ExportRow, extra_name
from tts_cli.extras import load

if TYPE_CHECKING:
    import pyarrow
    from pyarrow.parquet import ParquetWriter

_PAGE_ROWS = 16  # looked at together for a page's end
GROUP_BYTES = 32 << 20
_FOLDER = "data"
_NAMES = {str: "string", int: "int64", float: "float64", bool: "bool"}  # in both libraries


class _Shard:
    """A file, and the rows that wait for their group."""

    def __init__(self, file: WholeFile, schema: pyarrow.Schema) -> None:
        from pyarrow.parquet import ParquetWriter

        # Audio gets no smaller by these, and its writer would hold it several times.
        texts = [name for name in schema.names if name != "audio"]
        coded = {**dict.fromkeys(texts, "snappy"), "audio.path": "snappy", "audio.bytes": "none"}
        self.file = file
        self.bytes = 0
        self._schema = schema
        self._writer: ParquetWriter = ParquetWriter(
            file.file,
            schema,
            compression=coded,
            use_dictionary=["voice", "language"],
            write_statistics=texts,
            write_batch_size=_PAGE_ROWS,
        )
        self._rows: list[dict[str, Any]] = []
        self._waiting_bytes = 0

    def add(self, values: dict[str, Any], num_bytes: int) -> None:
        if self._rows and self._waiting_bytes + num_bytes > GROUP_BYTES:
            self._write_group()
        self._rows.append(values)
        self._waiting_bytes += num_bytes
        self.bytes += num_bytes

    def close(self) -> None:
        self._write_group()
        self._writer.close()
        self.file.close()

    def abort(self) -> None:
        with contextlib.suppress(Exception):
            self._writer.close()  # else it tries when it is collected, and complains

    def _write_group(self) -> None:
        import pyarrow

        if self._rows:
            table = pyarrow.Table.from_pylist(self._rows, schema=self._schema)
            self._writer.write_table(table, row_group_size=len(self._rows))
        self._rows, self._waiting_bytes = [], 0


class Parquet(Target):
    """See the module. Raises SetupError where pyarrow is not installed."""

    hub_files = "data/{split}-*"

    def __init__(self, plan: ExportPlan) -> None:
        super().__init__(plan)
        self._schema = schema_of(plan.rate_hz, plan.extras)
        self._shards: dict[str, _Shard] = {}
        self._numbers = dict.fromkeys(plan.splits, 0)

    @staticmethod
    def folders(splits: Sequence[str]) -> tuple[str, ...]:
        return (_FOLDER,)

    def add(self, row: ExportRow, split: str) -> None:
        audio, suffix, _ = self.plan.audio.content(row)
        shard = self._shards.get(split)
        if shard is not None and shard.bytes + len(audio) > self.plan.shard_bytes:
            shard.close()
            del self._shards[split]
        if split not in self._shards:
            name = f"{_FOLDER}/{split}-{self._numbers[split]:05d}.parquet"
            file = self._open[split] = self.plan.open(name)
            self._shards[split] = _Shard(file, self._schema)
            self._numbers[split] += 1
        values = {"audio": {"bytes": audio, "path": f"{self.plan.names.of(row)}{suffix}"}}
        values |= self.plan.columns(row)
        self._shards[split].add(values, len(audio))

    def close(self) -> None:
        for shard in self._shards.values():
            shard.close()

    def abort(self) -> None:
        for shard in self._shards.values():
            shard.abort()
        super().abort()


def schema_of(rate_hz: int | None, extras: Sequence[str] = ()) -> pyarrow.Schema:
    """Columns of a file, with what tells `datasets` their kinds.

    Args:
        rate_hz: of all audio; None: not known, or several.
        extras: columns of `--extra keep`, which are texts.
    Raises:
        SetupError: pyarrow is not installed.
    """
    pyarrow = load("export", "pyarrow", "--to parquet")
    audio = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    columns = [("audio", audio)]
    features: dict[str, Any] = {"audio": {"_type": "Audio"}}
    if rate_hz is not None:
        features["audio"] = {"sampling_rate": rate_hz, "_type": "Audio"}
    word = [(name, pyarrow.type_for_alias(_NAMES[kind])) for name, kind in WORD.items()]
    for name, kind in (COLUMNS | dict.fromkeys(map(extra_name, extras), str)).items():
        is_list = kind is list
        columns.append(
            (
                name,
                pyarrow.list_(pyarrow.struct(word))
                if is_list
                else pyarrow.type_for_alias(_NAMES[kind]),
            )
        )
        features[name] = [{one: _value(k) for one, k in WORD.items()}] if is_list else _value(kind)
    about = json.dumps({"info": {"features": features}})
    return pyarrow.schema(columns, metadata={"huggingface": about})


def _value(kind: type) -> dict[str, str]:
    return {"dtype": _NAMES[kind], "_type": "Value"}
