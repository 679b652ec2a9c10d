"""Folders to export, cheaply made: rows of tones, each with its line and hash.

    python tests/support/exports.py 5000 FOLDER    # writes FOLDER/wavs, exports it in five layouts

reads each back with the library that its users load it with, and prints seconds and sizes.
"""

from __future__ import annotations

import csv
import gc
import hashlib
import io
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import soundfile
from spoken_folders import RATE_HZ, VOICES, record, tone, with_file, write_folder

from tts_cli.sources.ids import natural_order

Array = np.ndarray[Any, Any]


class Read(NamedTuple):
    """A row as a loader gives it."""

    text: str
    spoken_text: str
    samples: Array
    rate_hz: int


def sound(number: int) -> bytes:
    """Write the file of a row: a distinct tone of 0.1 to 0.2 s."""
    return tone(0.1 + number % 11 / 100, hz=200.0 + number % 2000)


def rows_of(count: int) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Lines and files: ids with folders and dots, texts with bars, breaks and quotes."""
    for number in range(count):
        names = (f"r{number:05d}", f"test/v1.{number:05d}", f"a.b/{number:05d}.x")
        text = (f"Line {number}.", f'Line | {number},\n"two"', f"Zeile {number}: Grüße")[number % 3]
        content = sound(number)
        changes = {
            "text": text,
            "spoken_text": f"line number {number}" if number % 2 else None,
            "voice": VOICES[number % len(VOICES)],
            "language": ("english", "auto", "german")[number % 3],
            "audio_s": (len(content) - 44) / 2 / RATE_HZ,
            "seed": number,
        }
        yield record(names[number % 3], **changes, **with_file(content)), content


def write_rows(out: Path, count: int) -> dict[str, Read]:
    """Write a folder of so many rows; what a loader must give of each, by id."""
    lines, audio, wanted = [], {}, {}
    for line, content in rows_of(count):
        lines.append(line)
        audio[line["path"]] = content
        samples = soundfile.read(io.BytesIO(content), dtype="float32")[0]
        spoken = line["spoken_text"] or line["text"]
        wanted[line["id"]] = Read(line["text"], spoken, samples, RATE_HZ)
    write_folder(out, lines, audio=audio)
    return wanted


def read_audiofolder(out: Path) -> Iterator[tuple[str, Read]]:
    """By `datasets`, through the card."""
    yield from _read_hub(out)


def read_parquet(out: Path) -> Iterator[tuple[str, Read]]:
    """By `datasets`, through the card and the schema."""
    yield from _read_hub(out)


def _read_hub(out: Path) -> Iterator[tuple[str, Read]]:
    from datasets import Audio, disable_progress_bars, load_dataset

    disable_progress_bars()
    with _torchcodec_at_hand():
        found = load_dataset(str(out), cache_dir=str(out.parent / "cache"))
    for data in found.values():
        assert isinstance(data.features["audio"], Audio), data.features
        for row in data.cast_column("audio", Audio(decode=False)):
            content = row["audio"]["bytes"] or Path(row["audio"]["path"]).read_bytes()
            yield row["id"], _decoded(row["text"], row["spoken_text"], content)


@contextmanager
def _torchcodec_at_hand() -> Iterator[None]:
    """`datasets` asks for torchcodec before it notes where a file is, and then has no use for it.
    It needs FFmpeg's libraries: where it cannot be loaded an empty module stands for it. The audio
    is decoded by libsndfile here.
    """
    try:
        import torchcodec.encoders
    except (ImportError, OSError, RuntimeError):
        module = ModuleType("torchcodec.encoders")
        module.AudioEncoder = None  # type: ignore[attr-defined]
        names = {"torchcodec": ModuleType("torchcodec"), "torchcodec.encoders": module}
        sys.modules.update(names)
        try:
            yield
        finally:
            for name in names:
                del sys.modules[name]
    else:
        assert torchcodec.encoders
        yield


def read_webdataset(out: Path) -> Iterator[tuple[str, Read]]:
    """By `webdataset`."""
    import webdataset

    for path in sorted((out / "data").glob("*.tar")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # it leaves closing to Python
            samples = list(webdataset.WebDataset(str(path), shardshuffle=False))
            gc.collect()
        for sample in samples:
            facts = json.loads(sample["json"])
            yield facts["id"], _decoded(facts["text"], facts["spoken_text"], sample["wav"])


def read_ljspeech(out: Path) -> Iterator[tuple[str, Read]]:
    """As torchaudio's LJSPEECH does it: csv, `|`, no quotes, wavs/NAME.wav."""
    with open(out / "metadata.csv", newline="", encoding="utf-8") as file:
        for name, text, spoken in csv.reader(file, delimiter="|", quoting=csv.QUOTE_NONE):
            content = (out / "wavs" / f"{name}.wav").read_bytes()
            assert soundfile.info(io.BytesIO(content)).subtype == "PCM_16"
            yield name, _decoded(text, spoken, content)


def read_nemo(out: Path) -> Iterator[tuple[str, Read]]:
    """As NeMo's manifests are documented: a path that is not absolute starts at the manifest."""
    for manifest in sorted(out.glob("*_manifest.jsonl")):
        for line in manifest.read_text(encoding="utf-8").split("\n")[:-1]:
            row = json.loads(line)
            content = (manifest.parent / row["audio_filepath"]).read_bytes()
            found = _decoded(row["text"], row["normalized_text"], content)
            assert abs(row["duration"] - len(found.samples) / found.rate_hz) < 1e-3
            yield row["id"], found


def _decoded(text: str, spoken_text: str, content: bytes) -> Read:
    samples, rate_hz = soundfile.read(io.BytesIO(content), dtype="float32")
    assert samples.ndim == 1
    return Read(text, spoken_text, samples, rate_hz)


READERS: dict[str, Callable[[Path], Iterator[tuple[str, Read]]]] = {
    "ljspeech": read_ljspeech,
    "audiofolder": read_audiofolder,
    "nemo": read_nemo,
    "webdataset": read_webdataset,
    "parquet": read_parquet,
}


def check_read(to: str, out: Path, wanted: dict[str, Read]) -> int:
    """Compare every row that a loader returns with the folder; return the number of rows."""
    if to == "ljspeech":  # which has no ids but names, and texts on one line without bars
        return _check_ljspeech(out, wanted)
    seen = set()
    for row_id, row in READERS[to](out):
        assert row_id not in seen, row_id
        seen.add(row_id)
        assert row[:2] == wanted[row_id][:2], row_id
        assert row.rate_hz == wanted[row_id].rate_hz
        assert np.array_equal(row.samples, wanted[row_id].samples), row_id
    assert seen == set(wanted)
    return len(seen)


def _check_ljspeech(out: Path, wanted: dict[str, Read]) -> int:
    count = 0
    rows = sorted(wanted.items(), key=lambda one: natural_order(one[0]))  # no manifest is there
    for (name, row), (row_id, spoken) in zip(read_ljspeech(out), rows, strict=True):
        assert name.startswith(row_id.replace("/", "_")), name
        for text, was in zip(row[:2], spoken[:2], strict=True):
            assert text.split() == was.replace(" |", ",").split(), text
        assert row.rate_hz == 22_050
        assert abs(len(row.samples) / 22_050 - len(spoken.samples) / spoken.rate_hz) < 1e-3
        assert abs(_level(row.samples) - _level(spoken.samples)) < 0.05 * _level(spoken.samples)
        count += 1
    return count


def _level(samples: Array) -> float:
    return float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))


def size_of(out: Path) -> tuple[int, int]:
    """Files of a folder, and the bytes they have beside hard links."""
    stats = [path.stat() for path in out.rglob("*") if path.is_file()]
    return len(stats), sum(found.st_size for found in stats if found.st_nlink == 1)


def digest_of(out: Path) -> dict[str, str]:
    """Every file of a folder and its hash."""
    return {
        path.relative_to(out).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file()
    }


def main(count: int, folder: Path) -> None:
    """Measure."""
    from tts_cli.main import main as tts_cli

    os.environ["HF_HUB_OFFLINE"] = "1"
    wanted = write_rows(folder / "wavs", count)
    for to in READERS:
        started_s = time.perf_counter()
        flags = ["--to", to, "--out", str(folder / to), "--split", "train=0.9,valid=0.1", "-q"]
        code = tts_cli(["export", str(folder / "wavs"), *flags])
        seconds = time.perf_counter() - started_s
        files, num_bytes = size_of(folder / to)
        started_s = time.perf_counter()
        rows = check_read(to, folder / to, wanted)
        read_s = time.perf_counter() - started_s
        print(
            f"{to}: exit {code}, {seconds:.1f} s, {files} files, {num_bytes / 1e6:.1f} MB beside "
            f"links; {rows} rows read back and equal in {read_s:.1f} s"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
