"""What files say of themselves, read back by soundfile from every format."""

from __future__ import annotations

import io

import pytest
import soundfile
from sounds import tone

from tts_cli.audio.file import check_format, encode, wav_header
from tts_cli.audio.tags import Tags, comment_of_model, wav_chunk

RATE_HZ = 24_000
TAGS = Tags("Kapitel 1: Die Mühle 水车", "clara", "Das Buch", "synthetic speech; model x")
FORMATS = [
    ("wav", "PCM_16"),
    ("wav", "PCM_24"),
    ("wav", "FLOAT"),
    ("wav", "ULAW"),
    ("wav", "ALAW"),
    ("flac", "PCM_16"),
    ("flac", "PCM_24"),
    ("ogg", "PCM_16"),
    ("mp3", "PCM_16"),
    ("opus", "PCM_16"),
]


@pytest.mark.parametrize(("format", "subtype"), FORMATS)
@pytest.mark.parametrize("count", [1, 2, RATE_HZ])
def test_every_format_says_it(format: str, subtype: str, count: int) -> None:
    data = encode(
        tone(1, 220)[:count], RATE_HZ, format, check_format(format, subtype, 24_000), TAGS
    )
    with soundfile.SoundFile(io.BytesIO(data)) as file:
        found = file.copy_metadata()
        if format in ("wav", "flac"):
            assert file.frames == count
    named = ("title", "artist", "album", "comment")
    assert {name: found.get(name) for name in named} == {
        name: getattr(TAGS, name) for name in named
    }


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "FLOAT", "ULAW"])
def test_a_wav_is_the_same_but_for_its_size_and_its_end(subtype: str) -> None:
    """Readers that know nothing of the chunk find samples where they always were."""
    for count in (1, 2, 3):
        plain = encode(tone(1, 220)[:count], RATE_HZ, "wav", subtype)
        told = encode(tone(1, 220)[:count], RATE_HZ, "wav", subtype, TAGS)
        end = wav_chunk(TAGS)
        assert told[8:] == plain[8:] + end
        assert int.from_bytes(told[4:8], "little") == len(told) - 8
        assert len(end) % 2 == 0
        assert told.startswith(wav_header(count, RATE_HZ, subtype, len(end)))


def test_the_chunk_byte_by_byte() -> None:
    assert wav_chunk(Tags("ab", comment="x")) == (
        b"LIST\x2a\0\0\0INFOINAM\x03\0\0\0ab\0\0ICMT\x02\0\0\0x\0ISFT\x08\0\0\0tts-cli\0"
    )


def test_texts_of_anybody_are_made_harmless() -> None:
    found = Tags("a\0b\n\x1bc" + "水" * 1000, " ").texts()
    assert found["title"].startswith("a b c水")
    assert len(found["title"].encode()) <= 1000
    assert "artist" not in found


def test_what_is_known_of_the_model() -> None:
    assert comment_of_model({}) == "synthetic speech"
    model = {
        "family": "qwen3_tts",
        "size": "0b6",
        "type": "base",
        "identity": "abc",
        "source": "/h",
    }
    assert comment_of_model(model) == "synthetic speech; model qwen3_tts 0b6 base abc"


def test_a_made_voice_has_a_name_and_no_path() -> None:
    assert Tags.of_row("a", ".voices/ann-0123456789ab", "x").artist == "ann-0123456789ab"
    assert Tags.of_row("a", "clara", "x") == Tags("a", "clara", comment="x")
    assert Tags.of_row("a", None, "x").artist == ""
