from __future__ import annotations

from pathlib import Path

import pytest

from tts_cli.errors import ManifestError
from tts_cli.sources.open import open_source


def refusal(path: Path) -> str:
    with pytest.raises(ManifestError) as caught, open_source(str(path)):
        pass
    return str(caught.value).removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "a.wav",
            "is audio; a manifest has the rows to synthesize: .jsonl, .csv, .tsv, or "
            ".txt with one text per line",
        ),
        ("a.EPUB", "is a book or a formatted text; use: tts-cli book "),
        ("a.docx", "is a document; save it as plain text, and use tts-cli book"),
        ("a.safetensors", "is a checkpoint; give its folder with --model"),
        ("a.xyz", "the suffix '.xyz' is not a manifest format; add --manifest-format"),
    ],
)
def test_files(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / name).touch()
    assert refusal(tmp_path / name).startswith(words)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "timings.jsonl",
            "is the output folder of a run; give the manifest of that run, and the "
            "folder with --out",
        ),
        ("config.json", "is the folder of a checkpoint; give it with --model"),
        ("b.csv", "is a folder; give a file in it, such as "),
        ("notes.pdf", "is a folder; give a manifest file"),
    ],
)
def test_folders(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / name).touch()
    assert refusal(tmp_path).startswith(words)
