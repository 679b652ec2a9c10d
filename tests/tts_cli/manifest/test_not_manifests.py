from __future__ import annotations

from pathlib import Path

import pytest

from tts_cli.errors import ManifestError
from tts_cli.manifest.manifest import open_source


def refusal(path: Path) -> str:
    with pytest.raises(ManifestError) as caught, open_source(str(path)):
        pass
    return str(caught.value).removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a.wav", "is audio; a manifest has the rows to speak"),
        ("a.EPUB", "is a book or a text with marks; tts-cli book "),
        ("a.docx", "is a document; save it as plain text"),
        ("a.safetensors", "is a checkpoint; name its folder by --model"),
        ("a.xyz", "the suffix '.xyz' does not tell the format; add --manifest-format"),
    ],
)
def test_files(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / name).touch()
    assert refusal(tmp_path / name).startswith(words)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("timings.jsonl", "is a folder of a run; give the manifest it was made of"),
        ("config.json", "is the folder of a checkpoint; name it by --model"),
        ("b.csv", "is a folder; give a file in it, such as "),
        ("notes.pdf", "is a folder; give a manifest file"),
    ],
)
def test_folders(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / name).touch()
    assert refusal(tmp_path).startswith(words)
