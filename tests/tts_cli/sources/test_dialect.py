"""Lists and tables as people have them: separators, quotation marks, columns without names."""

from __future__ import annotations

import csv
import logging
import re
import shlex
from pathlib import Path

import pandas
import pytest
from cases import cases
from manifest_rows import read

from tts_cli.core import BadRow, Row
from tts_cli.errors import ManifestError, UsageError

CASES = cases(__file__)["dialect"]


def said(path: Path, **settings: object) -> dict[str, str]:
    """Id -> text of rows that are all good."""
    rows = read(path, **settings)
    assert all(isinstance(row, Row) for row in rows), rows
    return {row.id: row.text for row in rows if isinstance(row, Row)}


SAID = ["The lamp is lit.", "Mind the step, please.", 'She said "no" and left.', "It is 5 p.m."]
NAMES = ["a01", "a02", "b01", "b02"]


# Lists for trainings, without a header: a file, and how its lines are made of a name {n}, a text
# {t} and a number {i}. All are read as the same rows.
LISTS = [
    *((f"list.{suffix}", "{n}|{t}") for suffix in ("txt", "csv", "list", "lst")),
    *((f"list.{suffix}", "{n}\t{t}") for suffix in ("tab", "tsv")),
    *(("paths.txt", f"{folder}{{n}}.wav|{{t}}") for folder in ("/data/", "C:\\wavs\\", "../../")),
    ("metadata.csv", "{n}|{t}|a reading in words"),  # LJSpeech
    ("metadata.csv", "{n}|{t}|"),
    ("train.txt", "w/{n}.wav|{t}|{i}"),  # StyleTTS2
    ("train.txt", "w/{n}.wav|{t}|200{i}"),
    ("slicer_opt.list", "/data/{n}.wav||EN|{t}"),  # GPT-SoVITS without speakers
    ("train.txt", "w/{n}.wav|tom|EN|{t}|_ ax _|0 1 0|1 1 1"),  # Bert-VITS2, with its readings
    ("meta.lst", "{n}|What it says.|p/{n}.wav|{t}|w/{n}.wav"),  # seed-tts-eval, with the truth
]


@pytest.mark.parametrize(("name", "line"), LISTS)
def test_lists(tmp_path: Path, name: str, line: str) -> None:
    pairs = enumerate(zip(NAMES, SAID, strict=True))
    path = tmp_path / name
    path.write_text("".join(line.format(n=n, t=t, i=i) + "\n" for i, (n, t) in pairs))
    assert said(path) == dict(zip(NAMES, SAID, strict=True))


# A file, its content, and the rows.
FILES: list[tuple[str, str, dict[str, str]]] = CASES["files"]


@pytest.mark.parametrize(("name", "content", "rows"), FILES)
def test_files(tmp_path: Path, name: str, content: str, rows: dict[str, str]) -> None:
    (tmp_path / name).write_text(content)
    assert said(tmp_path / name) == rows


# A file, its content, --columns, and the message about the file or its last row.
REFUSED = [
    ("a.txt", "w/a.wav|A lamp.\n" * 60 + "w/x.wav|One|two.\n", "", "3 cells, but the list has 2"),
    ("m.csv", 'id,text\na,"b\nc,d\ne,f\n', "", r"2 lines after the first would be lost\)"),
    ("m.csv", "id,text\r1,One.\r2,Two.\n", "", "a lone carriage return; save the file with Unix"),
    ("m.csv", "id,text\na,One.\n", "id,text", "1: has column names, but --columns is given too"),
    ("m.csv", "id,text\na,One.\n", ",", "names no column"),
]


@pytest.mark.parametrize(("name", "content", "columns", "words"), REFUSED)
def test_refused(tmp_path: Path, name: str, content: str, columns: str, words: str) -> None:
    (tmp_path / name).write_bytes(content.encode())
    try:
        *_, bad = read(tmp_path / name, **({"columns": columns} if columns else {}))
        message = bad.message if isinstance(bad, BadRow) else ""
    except (ManifestError, UsageError) as error:
        message = str(error)
    assert re.search(words, message)


class TestLists:
    """Lists for trainings, which have no header."""

    def test_a_path_twice_is_told_by_its_rows(self, tmp_path: Path) -> None:
        path = tmp_path / "filelist.txt"
        path.write_text("x/1.wav|One.\nx/1.wav|Two.\n")
        assert [row.id for row in read(path) if isinstance(row, Row)] == ["1", "1"]

    def test_speakers_and_languages(self, tmp_path: Path) -> None:
        path = tmp_path / "train.list"
        rows = zip(NAMES, ["arthur", "clara"] * 2, ["EN", "ZH", "JP", "EN"], SAID, strict=True)
        path.write_text("".join(f"wavs/{n}.wav|{s}|{code}|{t}\n" for n, s, code, t in rows))
        first = read(path)[0]
        assert isinstance(first, Row)
        assert (first.id, first.text, first.language) == ("a01", SAID[0], "EN")
        assert (first.voice, first.character, first.extra) == (None, None, {"speaker": "arthur"})
        assert first.ref_audio is None
        cast = tmp_path / "cast.toml"
        cast.write_text("")
        rows_with_cast = read(path, cast=cast)
        assert [row.character for row in rows_with_cast if isinstance(row, Row)] == [
            *("arthur", "clara", "arthur", "clara")
        ]
        by_map = read(path, map="speaker=voice")[1]
        assert isinstance(by_map, Row)
        assert by_map.voice == "clara"
        assert said(path, extra="drop")

    def test_recordings_to_clone(self, tmp_path: Path) -> None:
        path = tmp_path / "meta.lst"
        path.write_text(
            "".join(
                f"{n}|What it says.|prompts/{n}.wav|{t}\n" for n, t in zip(NAMES, SAID, strict=True)
            )
        )
        row = read(path)[1]
        assert isinstance(row, Row)
        assert (row.id, row.text, row.ref_text) == ("a02", SAID[1], "What it says.")
        assert row.ref_audio == str(tmp_path / "prompts/a02.wav")

    def test_paths_are_never_spoken(self, tmp_path: Path) -> None:
        path = tmp_path / "train.txt"
        pairs = zip(NAMES, SAID, strict=True)
        path.write_text("".join(f"w/{n}.wav|x y|{t}|z z {n}|q|r\n" for n, t in pairs))
        with pytest.raises(ManifestError, match="which cell is the text") as caught:
            read(path)
        flags = str(caught.value.remedy).split()
        columns, extra = flags[2], flags[4].strip(",")
        assert said(path, columns=columns, extra=extra) == dict(zip(NAMES, SAID, strict=True))

    @pytest.mark.parametrize("odd", ["# a comment\n", "w/x.wav|One|two.\n"])
    def test_an_odd_line_among_paths(self, tmp_path: Path, odd: str) -> None:
        path = tmp_path / "train.txt"
        path.write_text(odd + "".join(f"w/{n}.wav|{t}\n" for n, t in zip(NAMES, SAID, strict=True)))
        with pytest.raises(ManifestError) as caught:
            read(path)
        assert str(caught.value.remedy).startswith("add --columns path,text,")
        bad, *rows = read(path, columns="path,text")
        assert isinstance(bad, BadRow)
        assert [row.id for row in rows if isinstance(row, Row)] == NAMES

    def test_a_text_that_may_be_a_table_is_told(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        path = tmp_path / "m.txt"
        path.write_text("".join(f"{n}|x|y|z|{t}\n" for n, t in zip(NAMES, SAID, strict=True)))
        assert len(said(path)) == 4
        (warning,) = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
        (flags,) = re.findall("add (--columns .*)", warning)
        _, columns, _, extra = flags.split()
        assert said(path, columns=columns, extra=extra) == dict(zip(NAMES, SAID, strict=True))


class TestColumns:
    def test_the_message_prints_it(self, tmp_path: Path) -> None:
        path = tmp_path / "m.csv"
        path.write_text('a7,"Come in and sit down.",x9\na8,Three of them.,y9\n')
        with pytest.raises(ManifestError) as caught:
            read(path)
        found = re.search(r"--columns (\S+) --extra drop", f"{caught.value} {caught.value.remedy}")
        assert found
        assert list(said(path, columns=found[1], extra="drop")) == ["a7", "a8"]


class TestQuotes:
    """Quotation marks in .tsv and | are CSV's where the whole file shows it, and else letters."""

    @pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
    @pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
    def test_what_pandas_writes(self, tmp_path: Path, separator: str, quoting: int) -> None:
        table = pandas.DataFrame({"id": NAMES, "text": ["a;b", "a,b", 'a "b"', "a\nb"]})
        path = tmp_path / ("m.tsv" if separator == "\t" else "m.csv")
        table.to_csv(path, sep=separator, quoting=quoting, index=False)
        assert list(said(path).items()) == list(zip(table["id"], table["text"], strict=True))


class TestNameless:
    """Columns without a name are called by their place."""

    def test_the_index_of_pandas(self, tmp_path: Path) -> None:
        path = tmp_path / "m.csv"
        pandas.DataFrame({"text": SAID, "voice": ["clara"] * 4}).to_csv(path)
        assert list(said(path, extra="drop")) == ["000001", "000002", "000003", "000004"]
        assert list(said(path, map="#1=id")) == ["0", "1", "2", "3"]
        with pytest.raises(ManifestError) as caught:
            read(path)
        assert caught.value.remedy == 'add --map "#1=id" or --extra keep or drop'

    def test_keys_and_languages_of_games(self, tmp_path: Path) -> None:
        path = tmp_path / "m.csv"
        path.write_text(",en,de\nKEY_A,Hello there.,Hallo.\nKEY_B,See you.,Bis bald.\n")
        for language, text in (
            (None, "Hello there."),
            ("german", "Hallo."),
            ("en", "Hello there."),
        ):
            with pytest.raises(ManifestError) as caught:
                read(path, language=language)
            words = shlex.split(f"{caught.value}")
            fields = words[words.index("--map") + 1]
            assert said(path, map=fields, extra="drop")["KEY_A"] == text

    def test_languages_of_unity(self, tmp_path: Path) -> None:
        path = tmp_path / "m.csv"
        path.write_text("Key,English(en),German(de)\nA,Hello there.,Hallo.\n")
        with pytest.raises(ManifestError) as caught:
            read(path, language="german")
        words = shlex.split(f"{caught.value}")
        assert said(path, map=words[words.index("--map") + 1], extra="drop") == {"A": "Hallo."}

    @pytest.mark.parametrize("extra", ["drop", "keep"])
    def test_a_separator_too_many_is_told(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, extra: str
    ) -> None:
        path = tmp_path / "m.csv"
        path.write_text("id,text,\na,Come in, please.\nb,No.,\n")
        assert list(said(path, extra=extra)) == ["a", "b"]
        (warning,) = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
        assert "text after the last named column in 1 row of 2: a;" in warning
        (bad, good) = read(path)
        assert isinstance(bad, BadRow)
        assert (
            "' please.' after the last named column; if it belongs to a sentence, put "
            "that cell in quotes; --extra drop ignores all of that column"
        ) in bad.message
        assert isinstance(good, Row)


BATCH = (
    '{"custom_id": "r1", "method": "POST", "url": "/v1/audio/speech", '
    '"body": {"model": "m", "input": "The lamp is lit.", "voice": "clara"}}\n'
)


def test_fields_inside_of_objects(tmp_path: Path) -> None:
    """The message for a batch file names what leads to rows; a column of that very name wins."""
    path = tmp_path / "m.jsonl"
    path.write_text(BATCH)
    (bad,) = read(path)
    assert isinstance(bad, BadRow)
    words = shlex.split(bad.message)
    fields = words[words.index("--map") + 1]
    assert fields == "custom_id=id,body.input=text,body.voice=voice"
    (row,) = read(path, map=fields, extra="drop")
    assert isinstance(row, Row)
    assert (row.id, row.text, row.voice) == ("r1", "The lamp is lit.", "clara")
    path.write_text('{"body.input": "This.", "body": {"input": "Not this.", "ref_audio": "x"}}\n')
    assert list(said(path, map="body.input=text", extra="drop").values()) == ["This."]
    path.write_text('{"text": "This.", "body": {"ref_audio": "https://example.org/a.wav"}}\n')
    (bad,) = read(path, map="body.ref_audio=ref_audio", extra="drop")
    assert isinstance(bad, BadRow)
    assert "is a URL" in bad.message


def test_one_line_with_a_cell_too_many_does_not_make_a_list_a_table(tmp_path: Path) -> None:
    # Its first line was then split at commas and taken for a header.
    lines = [f"ann_{n}|Well, it is {n}.|Well, it is {n}." for n in range(20)]
    path = tmp_path / "metadata.csv"
    path.write_text("\n".join([*lines, "ann_x|So, no.||So, no."]))
    *rows, odd = read(path)
    assert {row.text for row in rows if isinstance(row, Row)} == {
        f"Well, it is {n}." for n in range(20)
    }
    assert isinstance(odd, BadRow)
    assert "has 4 cells, but the list has 3" in odd.message
