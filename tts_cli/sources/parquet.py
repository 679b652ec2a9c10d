"""Read manifests in Parquet: a row per record, by pyarrow.

Columns of text, numbers and truth values are read; others, such as audio, are left out and
reported. Batches are small, because a text that is stored once may occur in every row.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from tts_cli.errors import ManifestError, library_errors
from tts_cli.extras import load
from tts_cli.named import first_few
from tts_cli.sources.item import Item, ManifestFile

log = logging.getLogger(__name__)

MAX_CHUNK_BYTES = 512 << 20  # of a column in a row group, decompressed
_BATCH_ROWS = 100
_PLAIN = re.compile(
    r"(?:dictionary<values=)?"
    r"(?:(?:large_)?string|string_view|u?int\d+|halffloat|float|double|bool|null)\b.*"
)
_REMEDY = "write it again, or save it as .jsonl"


def parquet_items(file: BinaryIO, manifest: ManifestFile) -> Iterator[Item]:
    """Return an item per record. Raises ManifestError, and SetupError without pyarrow."""
    name = manifest.name
    parquet = load("parquet", "pyarrow", f"{name}: .parquet, unless it is saved as .jsonl,")
    with library_errors(name, _REMEDY):
        source = parquet.ParquetFile(file)
        columns = [one.name for one in source.schema_arrow if _PLAIN.fullmatch(str(one.type))]
        chunks = _chunks(source.metadata, columns)
    others = [one for one in source.schema_arrow.names if one not in columns]
    if others:
        log.warning(
            "%s: columns that are not text or numbers are left out: %s", name, first_few(others)
        )
    if max(chunks, default=0) > MAX_CHUNK_BYTES:
        raise ManifestError(
            f"{name}: has a part of more than {MAX_CHUNK_BYTES >> 20} MiB",
            "write it with smaller row groups",
        )
    line = 0
    batches = source.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False)
    while True:
        with library_errors(name, _REMEDY):
            batch = next(batches, None)
            rows = [] if batch is None else batch.to_pylist()
        if batch is None:
            return
        for row in rows:
            line += 1
            values = {key: None if value != value else value for key, value in row.items()}
            yield Item(line, values, is_object=True)


def _chunks(metadata: Any, columns: list[str]) -> list[int]:
    """Return the decompressed bytes of each column chunk, as the file states them."""
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    found = (group.column(nth) for group in groups for nth in range(group.num_columns))
    return [one.total_uncompressed_size for one in found if one.path_in_schema in columns]
