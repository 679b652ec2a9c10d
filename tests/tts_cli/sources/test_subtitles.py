"""Subtitles as manifests: cues, times, tags, sounds, and files that are none."""

from __future__ import annotations

from pathlib import Path

import pytest
from manifest_rows import read

from tts_cli.core import Row
from tts_cli.errors import ManifestError

SRT = """1
00:00:01,000 --> 00:00:03,500
{\\an8}<i>The lamp</i>
is <font color="red">lit</font>.

2
00:00:04,000 --> 00:00:05,000
[music]

3
00:00:06,000 --> 00:00:07,250
♪ Row, row ♪

4
00:00:08,000 --> 00:00:09,000
- Mind the step.
- No.
"""
VTT = """WEBVTT

intro
00:00:01.000 --> 00:00:03.500 align:start
<v Anna><c.yellow>The lamp</c> is <i>lit</i>.
"""
ASS = """[Script Info]
ScriptType: v4.00+

[V4+ Styles]
Format: Name, Fontname, Fontsize
Style: Default,Arial,20

[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
Comment: 0,0:00:00.00,0:00:01.00,Default,,0,0,0,,note
Dialogue: 0,0:00:01.00,0:00:03.50,Default,Anna,0,0,0,,{\\pos(1,2)}The lamp\\Nis lit.
Dialogue: 0,0:00:01.00,0:00:03.50,Default,,0,0,0,,{\\p1}m 0 0 l 10 10{\\p0}
"""


def good(path: Path, **settings: object) -> list[Row]:
    rows = read(path, **settings)
    assert all(isinstance(row, Row) for row in rows), rows
    return [row for row in rows if isinstance(row, Row)]


@pytest.mark.parametrize("name", ["a.srt", "a.txt"])
def test_srt(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(SRT)
    rows = good(path)
    assert [row.text for row in rows] == [
        "The lamp is lit.",
        "♪",
        "Row, row",
        "- Mind the step. - No.",
    ]
    assert [(row.id, row.line) for row in rows][:3] == [
        ("000001", 2),
        ("000002", 7),
        ("000003", 11),
    ]
    assert rows[2].extra == {"start_s": "6", "end_s": "7.25"}
    assert good(path, extra="drop")[0].extra is None


def test_vtt_and_ass(tmp_path: Path) -> None:
    path = tmp_path / "a.vtt"
    path.write_bytes(b"\xef\xbb\xbf" + VTT.replace("\n", "\r\n").encode())
    assert [row.text for row in good(path)] == ["The lamp is lit."]
    assert good(path)[0].extra["speaker"] == "Anna"
    path = tmp_path / "a.ass"
    path.write_text(ASS)
    first, second = good(path)
    assert (first.text, first.line, second.text) == ("The lamp is lit.", 11, "♪")
    assert first.extra == {"start_s": "1", "end_s": "3.5", "speaker": "Anna"}
    cast = tmp_path / "cast.toml"
    cast.write_text("")
    assert good(path, cast=cast)[0].character == "Anna"


def test_captions_timed_by_words(tmp_path: Path) -> None:
    """YouTube's: a line is shown again above the next."""
    path = tmp_path / "a.vtt"
    path.write_text(
        "WEBVTT\n\n00:00:00.000 --> 00:00:02.000 align:start\n \n"
        "the<00:00:00.500><c> lamp</c><00:00:00.900><c> is</c>\n\n"
        "00:00:02.000 --> 00:00:02.010\nthe lamp is\n \n\n"
        "00:00:02.010 --> 00:00:04.000\nthe lamp is\nlit<00:00:02.500><c> &amp; warm</c>\n"
    )
    assert [row.text for row in good(path)] == ["the lamp is", "♪", "lit & warm"]
    assert [row.line for row in good(path)] == [3, 7, 11]


@pytest.mark.parametrize("content", ["", "hello\n", "\x00\x01"])
def test_what_is_none(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.srt"
    path.write_text(content)
    with pytest.raises(ManifestError, match="cannot be read as subtitles"):
        read(path)


@pytest.mark.parametrize("name", ["a.po", "a.yarn", "a.rpy", "a.ttml"])
def test_what_to_export_instead(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("x")
    with pytest.raises(ManifestError) as caught:
        read(path)
    assert "txt" not in f"{caught.value.remedy}"
    assert caught.value.remedy


@pytest.mark.parametrize(("name", "head"), [("a.srt", ""), ("a.vtt", "WEBVTT\n\n")])
def test_braces_are_text_outside_of_ass(tmp_path: Path, name: str, head: str) -> None:
    """ "Press {E}" became "Press"."""
    path = tmp_path / name
    text = "{\\an8}Press {E} to <i>open</i>\n{the door}, {name}."
    path.write_text(f"{head}00:00:01.000 --> 00:00:03.500\n{text}\n")
    if name == "a.srt":
        path.write_text(f"1\n00:00:01,000 --> 00:00:03,500\n{text}\n")
    assert [row.text for row in good(path)] == ["Press {E} to open {the door}, {name}."]


TEAMS = """WEBVTT

3f9a-12/8-0
00:00:03.350 --> 00:00:05.110
<v Doe, Jane>Hello everyone.</v>

3f9a-12/9-0
00:00:05.110 --> 00:00:08.000
<v Tom>Look: <ruby>kan<rt>ji</rt></ruby>.
Good morning.</v>
"""
SBV = """0:00:00.599,0:00:04.160
>> ANNA: The lamp
is lit.

0:00:04.160,0:00:06.770
&gt;&gt; Mind the step.
"""


def test_names_of_cues_and_readings_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.vtt"
    path.write_text(TEAMS)
    assert [row.text for row in good(path)] == ["Hello everyone.", "Look: kan. Good morning."]


@pytest.mark.parametrize("name", ["a.sbv", "a.txt"])
def test_sbv(tmp_path: Path, name: str) -> None:
    """As YouTube has it; signs of a change of speakers are not read."""
    path = tmp_path / name
    path.write_text(SBV)
    rows = good(path)
    assert [row.text for row in rows] == ["ANNA: The lamp is lit.", "Mind the step."]
    assert [row.line for row in rows] == [1, 5]
    assert rows[0].extra == {"start_s": "0.599", "end_s": "4.16"}


def test_subtitles_of_substation_in_a_txt_are_no_lines(tmp_path: Path) -> None:
    # Styles and times were read aloud.
    names = "Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text"
    cue = "Dialogue: 0,0:00:01.00,0:00:03.00,Default,,0,0,0,,Mind, the step."
    path = tmp_path / "film.txt"
    path.write_text(f"[Script Info]\n\n[V4+ Styles]\n\n[Events]\nFormat: {names}\n{cue}\n")
    (row,) = read(path)
    assert isinstance(row, Row)
    assert row.text == "Mind, the step."
