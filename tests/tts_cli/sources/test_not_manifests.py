from __future__ import annotations

from pathlib import Path

import pytest
from cases import cases

from tts_cli.errors import ManifestError
from tts_cli.sources.open import open_source

CASES = cases(__file__)["not_manifests"]


def refusal(path: Path) -> str:
    with pytest.raises(ManifestError) as caught, open_source(str(path)):
        pass
    return str(caught.value).removeprefix(f"{path}: ")


@pytest.mark.parametrize(("name", "words"), CASES["files"])
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


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"PK\x03\x04\0\0", "is a ZIP archive, or a document in one; unpack it"),
        (b"\x1f\x8b\x08", "is compressed; unpack it"),
        (b'\xef\xbb\xbf<?xml version="1.0"?>', "is XML or HTML; write its texts"),
        (b' {\n "a": 1}', "is JSON; add --manifest-format jsonl"),
        (b"\x7fELF\1\1\1\0\2\3abc", "is not a text; a manifest has"),
        (b"a-1 It is lit.\n", "the suffix '.xyz' is not a manifest format; name it .txt if"),
    ],
)
def test_content_of_an_unknown_suffix(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "a.xyz").write_bytes(content)
    assert refusal(tmp_path / "a.xyz").startswith(words)


@pytest.mark.parametrize(
    "suffix",
    [
        *(
            "fdx",
            "ssml",
            "xml",
            "yml",
            "twee",
            "feather",
            "gz",
            "numbers",
            "fb2",
            "mdx",
            "TextGrid",
        ),
        "xcstrings",
    ],
)
def test_no_suffix_of_another_kind_gets_a_format(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"a.{suffix}").touch()
    assert "--manifest-format" not in refusal(tmp_path / f"a.{suffix}")
