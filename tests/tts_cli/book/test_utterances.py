"""A book as rows: where they are cut, what names them, and what a change touches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tts_cli.book.utterances import (
    JOINED_BYTES,
    LONGEST_BYTES,
    BookPauses,
    Utterance,
    segment_book,
    to_manifest,
)
from tts_cli.errors import ManifestError
from tts_cli.sources.folder import read_book
from tts_cli.sources.ids import id_problem

PAUSES = BookPauses(word=0.05, clause=0.15, sentence=0.35, paragraph=0.8, heading=1.2, scene=1.5)
STORY = """# The ferry

The ferryman had not slept, and the river was high. "Stay," he said. "Please." She did not stay.
Mr. Dorn, who kept the inn at No. 5, saw her go at half past nine and thought nothing of it.

Nobody spoke of it again. Yes. [pause 2s] It was Jan. 3rd. See www.example.org/a.b?c=D for more.

---

"Yes." The ferryman had not slept, and the river was high.

# The end

Nobody spoke of it again.
"""


def script(tmp_path: Path, text: str) -> list[Utterance]:
    path = tmp_path / "ferry.md"
    path.write_text(text, encoding="utf-8")
    return segment_book(read_book(path), PAUSES)


def test_signs_that_nobody_sees_name_no_row(tmp_path: Path) -> None:
    plain = script(
        tmp_path, "# One\n\nIt was cold today.\n\n***\n\n# Two\n\nThe office was cold.\n"
    )
    text = (
        "\ufeff# One\n\nIt was co\u200bld to\u00adday.\n\n*\u200b**\n\n"
        "\ufeff# Two\n\nThe o\ufb03ce was\u2060 cold.\n"
    )
    assert script(tmp_path, text) == plain


def test_rows_are_sentences_with_short_ones_in_company(tmp_path: Path) -> None:
    rows = script(tmp_path, STORY)
    assert [(row.chapter, row.paragraph, row.text, row.pause_after_s) for row in rows] == [
        (0, 0, "The ferry", 1.2),
        (
            0,
            1,
            'The ferryman had not slept, and the river was high. "Stay," he said. "Please." '
            "She did not stay.",
            0.35,
        ),
        (
            0,
            1,
            "Mr. Dorn, who kept the inn at No. 5, saw her go at half past nine and thought nothing "
            "of it.",
            0.8,
        ),
        (0, 2, "Nobody spoke of it again. Yes.", 2.0),
        (0, 2, "It was Jan. 3rd. See www.example.org/a.b?c=D for more.", 1.5),
        (0, 3, '"Yes." The ferryman had not slept, and the river was high.', 0.8),
        (1, 0, "The end", 1.2),
        (1, 1, "Nobody spoke of it again.", 0.8),
    ]


def test_places_lead_back_to_the_text(tmp_path: Path) -> None:
    path = tmp_path / "ferry.md"
    path.write_text(STORY, encoding="utf-8")
    book = read_book(path)
    rows = segment_book(book, PAUSES)
    for row in rows:
        paragraph = book.chapters[row.chapter].paragraphs[row.paragraph]
        assert paragraph.text[row.start : row.end] == row.text
        assert row.place == paragraph.place
    assert rows[3].place == "ferry.md:6"


def test_ids_can_name_files_and_are_all_different(tmp_path: Path) -> None:
    rows = script(tmp_path, STORY + "\nYes, it was.\n\nYes, it was.\n\n{voice=ann} Yes, it was.\n")
    ids = [row.id for row in rows]
    assert len(set(ids)) == len(ids)
    assert not any(map(id_problem, ids))
    assert [json.loads(line) for line in to_manifest(rows).splitlines()] == [
        {"id": row.id, "text": row.text} | ({"voice": row.voice} if row.voice else {})
        for row in rows
    ]


def changed(tmp_path: Path, before: str, after: str) -> tuple[list[str], list[str]]:
    """Texts of rows that are new, and of those that are gone."""
    old = {row.id: row.text for row in script(tmp_path, before)}
    new = {row.id: row.text for row in script(tmp_path, after)}
    assert all(new[key] == old[key] for key in new.keys() & old.keys())
    return [new[key] for key in new.keys() - old.keys()], [
        old[key] for key in old.keys() - new.keys()
    ]


def test_a_sentence_that_stands_twice_is_two_rows(tmp_path: Path) -> None:
    again = STORY + "\nNobody spoke of it again.\n"
    assert changed(tmp_path, STORY, again) == (["Nobody spoke of it again."], [])


def test_pauses_that_stand_alone_or_first(tmp_path: Path) -> None:
    rows = script(
        tmp_path,
        "[pause 1s] The first of them stands here.\n\nThe second of them.\n\n[pause 3 s]\n\n"
        "[pause 250ms] The third of them.\n\n---\n\n[PAUSE 0.1s]\n\nThe [pause] and [pause 3].",
    )
    assert [row.pause_after_s for row in rows] == [0.8, 0.25, 0.1, 0.8]
    assert rows[-1].text == "The [pause] and [pause 3]."
    with pytest.raises(ManifestError, match=r"ferry.md:1: \[pause 61s\] is longer than 60 s"):
        script(tmp_path, "Now [pause 61s] then.")


def test_what_has_no_word_is_no_row(tmp_path: Path) -> None:
    rows = script(tmp_path, 'She waited for an answer that never came.\n\n"…?!"\n\nThen she left.')
    assert [row.text for row in rows][1:] == ["Then she left."]
    with pytest.raises(ManifestError, match="no word"):
        script(tmp_path, "…\n\n?!")


def test_rows_are_bounded(tmp_path: Path) -> None:
    rows = script(tmp_path, "No. " * 400)
    assert all(len(row.text.encode()) <= JOINED_BYTES for row in rows)
    assert " ".join(row.text for row in rows) == ("No. " * 400).strip()
    rows = script(tmp_path, "a word, and another one " * 1500)
    assert all(len(row.text.encode()) <= LONGEST_BYTES for row in rows)
    assert "".join(row.text for row in rows).replace(" ", "") == "aword,andanotherone" * 1500
    assert {row.pause_after_s for row in rows[:-1]} <= {0.05, 0.15}


def test_chinese(tmp_path: Path) -> None:
    rain = "今天下了一整天的大雨，河水涨得很高。"
    slept = "船夫一夜没有睡觉，他一直在等她回来。"
    assert [row.text for row in script(tmp_path, f"{rain}{slept}他说：“不。”")] == [
        rain,
        f"{slept}他说：“不。”",
    ]
