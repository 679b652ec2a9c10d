"""Parquet as the Hugging Face library `datasets` reads it: `data/SPLIT-00000.parquet` with a column
`audio` of structs (bytes, path), and metadata of the schema which states that it is audio.

Rows are written in groups of at most 32 MiB of audio, because a reader holds a whole group.

Source: https://huggingface.co/docs/hub/datasets-audio, and `datasets.Features.arrow_schema`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from tts_cli.export.audio import Content
from tts_cli.export.layouts import LayoutContext, Shard, Sharded
from tts_cli.export.row import COLUMNS, WORD, extra_name
from tts_cli.extras import load

if TYPE_CHECKING:
    import pyarrow

GROUP_BYTES = 32 << 20
_PAGE_ROWS = 16  # a page ends only after a multiple of these
_NAMES = {str: "string", int: "int64", float: "float64", bool: "bool"}  # in both libraries


class Parquet(Sharded):
    """Parquet files of a data set. Raises SetupError if pyarrow is not installed."""

    file_name = "{split}-{number:05d}.parquet"

    def __init__(self, context: LayoutContext) -> None:
        super().__init__(context)
        self._schema = schema_of(context.rate_hz, context.extras)

    def new_shard(self, file: BinaryIO) -> Shard:
        return _ParquetFile(file, self._schema)


class _ParquetFile:
    def __init__(self, file: BinaryIO, schema: pyarrow.Schema) -> None:
        import pyarrow.parquet

        # Audio does not get smaller by these, and the writer would hold it several times.
        texts = [name for name in schema.names if name != "audio"]
        coded = {**dict.fromkeys(texts, "snappy"), "audio.path": "snappy", "audio.bytes": "none"}
        self._table_of = partial(pyarrow.Table.from_pylist, schema=schema)
        self._writer = pyarrow.parquet.ParquetWriter(
            file,
            schema,
            compression=coded,
            use_dictionary=["voice", "language"],
            write_statistics=texts,
            write_batch_size=_PAGE_ROWS,
        )
        self._rows: list[dict[str, Any]] = []
        self._waiting_bytes = 0

    def add(self, name: str, content: Content, columns: dict[str, Any]) -> None:
        if self._rows and self._waiting_bytes + len(content.data) > GROUP_BYTES:
            self._write_group()
        audio = {"bytes": content.data, "path": f"{name}{content.suffix}"}
        self._rows.append({"audio": audio, **columns})
        self._waiting_bytes += len(content.data)

    def close(self) -> None:
        self._write_group()
        self._writer.close()

    def _write_group(self) -> None:
        if self._rows:
            self._writer.write_table(self._table_of(self._rows), row_group_size=len(self._rows))
        self._rows, self._waiting_bytes = [], 0


def schema_of(rate_hz: int | None, extras: Sequence[str]) -> pyarrow.Schema:
    """Return the columns of a file, with their types as `datasets` reads them. Raises SetupError:
    pyarrow is not installed.

    Args:
        rate_hz: of all audio; None: unknown or different.
        extras: names of extra columns, which are texts.
    """
    pyarrow = load("export", "pyarrow", "--to parquet")
    rate = {} if rate_hz is None else {"sampling_rate": rate_hz}
    audio = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    columns, features = [("audio", audio)], {"audio": {**rate, "_type": "Audio"}}

    def described(kind: type) -> tuple[Any, Any]:
        if kind is list:
            word = {name: described(one) for name, one in WORD.items()}
            struct = pyarrow.struct([(name, one) for name, (one, _) in word.items()])
            return pyarrow.list_(struct), [{name: feature for name, (_, feature) in word.items()}]
        return pyarrow.type_for_alias(_NAMES[kind]), {"dtype": _NAMES[kind], "_type": "Value"}

    types = {name: kind for name, (kind, _) in COLUMNS.items()}
    for name, kind in (types | dict.fromkeys(map(extra_name, extras), str)).items():
        column, features[name] = described(kind)
        columns.append((name, column))
    about = json.dumps({"info": {"features": features}})
    return pyarrow.schema(columns, metadata={"huggingface": about})
