"""A manifest of many rows, and a folder in which all of them are done, without synthesis.

    python tests/support/many_rows.py 1000000 FOLDER    # writes FOLDER/rows.jsonl and FOLDER/out/

`samples/` has the sample voice for it: `tts-cli synth FOLDER/rows.jsonl --out FOLDER/out` then has
nothing to do, and takes what it takes to find that out.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tts_cli.config import RunConfig
from tts_cli.core import Finish, Row, Status
from tts_cli.plan.checkpoint import read_info
from tts_cli.plan.resolve import ResolvedRow, build_request
from tts_cli.sources.open import open_source, read_rows
from tts_cli.store.entry import JournalEntry
from tts_cli.store.files import JOURNAL_NAME, AudioWriter, prepare_folder

FILES_A_FOLDER = 1000
AUDIO = b"RIFF" + bytes(40)  # of a row; whether it can be played is not asked
TEXT = "every clock in the long street was wrong again by noon while rain fell on old roofs"


def manifest_rows(count: int) -> Iterator[dict[str, Any]]:
    """Rows as users have them: an id in a subfolder, some 80 characters, here and there a voice."""
    for number in range(count):
        words = itertools.islice(itertools.cycle(TEXT.split()), number % 7, number % 7 + 15)
        row = {"id": f"part{number // FILES_A_FOLDER:04d}/{number:07d}", "text": " ".join(words)}
        yield row if number % 3 else {**row, "voice": "clara", "seed": number}


def write_manifest(path: Path, count: int) -> None:
    """Write rows as JSONL."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in manifest_rows(count))


def write_done(manifest: Path, out: Path, config: RunConfig | None = None) -> None:
    """Make the folder of a run that has synthesized every row of a manifest."""
    config = replace(config or RunConfig(), out=out)
    info = read_info(config)
    prepare_folder(out)
    writer = AudioWriter(out, config, info.sample_rate_hz)
    with (
        open_source(str(manifest)) as source,
        (out / JOURNAL_NAME).open("w", encoding="utf-8") as journal,
    ):
        for row in read_rows(source):
            assert isinstance(row, Row), row
            request = build_request(row, config, info)
            resolved = ResolvedRow(row, request, False, None, None, None, "", info.identity)
            path = writer.path_of(row.id)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(AUDIO)
            record = JournalEntry(
                row.id,
                Status.OK,
                finish_reason=Finish.EOS,
                path=path.relative_to(out).as_posix(),
                bytes=len(AUDIO),
                sha256="0" * 64,
                voice=request.voice,
                seed=request.seed,
                attempts=1,
                text_chars=len(row.text),
                frames=75,
                audio_s=6.0,
                request_hash=resolved.request_hash(),
                delivery_hash=writer.delivery_hash_of(),
            )
            journal.write(record.to_line())


if __name__ == "__main__":
    folder = Path(sys.argv[2])
    folder.mkdir(exist_ok=True)
    write_manifest(folder / "rows.jsonl", int(sys.argv[1]))
    write_done(folder / "rows.jsonl", folder / "out")
