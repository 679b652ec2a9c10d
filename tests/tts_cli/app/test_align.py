"""Words of a folder's rows are found, kept, judged, and written beside the audio."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_aligner import FakeAligner
from spoken_folders import record, tone, with_file, write_folder

from tts_cli.app.align import FolderAlignment, passages_of
from tts_cli.checks.verdicts import SUSPECT, TakeVerdict, write_verdicts
from tts_cli.checks.word_times import WordTimes
from tts_cli.config import RunConfig
from tts_cli.events import Event
from tts_cli.store.entry import JournalEntry
from tts_cli.store.files import TEXTGRID_SUFFIX, WORDS_SUFFIX, WORDS_VTT_SUFFIX

SOUND = tone(2.0)
SHA = with_file(SOUND)["sha256"]


def spoken(out: Path, *rows: dict[str, Any]) -> Path:
    lines = [record(**{"language": "english", **row}, **with_file(SOUND)) for row in rows]
    audio = {line["path"]: SOUND for line in lines}
    write_folder(out, lines, audio=audio)
    return out


def aligned(
    out: Path, aligner: FakeAligner, forms: tuple[str, ...] = (), **settings: Any
) -> FolderAlignment:
    config = RunConfig(**settings)
    progress = lambda count: nullcontext(SimpleNamespace(update=lambda *_: None))  # noqa: E731
    found = FolderAlignment(out, config, forms)
    found.run(aligner, progress)  # type: ignore[arg-type]
    return found


def words_of(out: Path, row_id: str) -> WordTimes:
    found = WordTimes.decode((out / f"{row_id}{WORDS_SUFFIX}").read_bytes())
    assert found is not None
    return found


def test_words_are_those_of_the_manifest(tmp_path: Path) -> None:
    row = {
        "row_id": "a/b",
        "text": "It costs $3.50, Nguyen.",
        "spoken_text": "It costs three dollars and fifty cents, win.",
        "edits": [[9, 14, "three dollars and fifty cents"], [16, 22, "win"]],
    }
    out, aligner = spoken(tmp_path / "out", row), FakeAligner()
    done = aligned(out, aligner, (WORDS_VTT_SUFFIX, TEXTGRID_SUFFIX))
    measured = done.events.of(Event.MEASURED)
    assert (measured.count, measured.sums["words"], done.problems) == (1, 4, [])
    found = words_of(out, "a/b")
    assert [word.word for word in found.words] == ["It", "costs", "$3.50", "Nguyen"]
    assert [found.text[word.text_start : word.text_end] for word in found.words][2] == "$3.50"
    assert aligner.asked[0].passages[0].words[2] == ("three", "dollars", "and", "fifty", "cents")
    assert (out / "a/b.words.vtt").is_file()
    assert (out / "a/b.TextGrid").is_file()


def test_a_file_name_of_another_row_stays_its_own(tmp_path: Path) -> None:
    """`a.words.vtt` would be the words of row `a`, and is the subtitles of row `a.words`."""
    out = spoken(tmp_path / "out", {"row_id": "A"}, {"row_id": "a.words"})
    (out / "a.words.vtt").write_text("subtitles")
    for _ in range(2):
        done = aligned(out, FakeAligner(), (WORDS_VTT_SUFFIX, TEXTGRID_SUFFIX))
        why = "A.words.vtt is the name of the subtitles of row 'a.words'; change one of the two ids"
        assert done.problems == [("A", why)]
        assert (out / "a.words.vtt").read_text() == "subtitles"
        assert not (out / "A.words.vtt").exists()
        made = {path.name for path in out.glob("*.[wT]*") if path.suffix != ".wav"}
        assert {"A.TextGrid", "a.words.TextGrid", "a.words.words.vtt"} <= made
        assert words_of(out, "A").words


def test_unsure_rows(tmp_path: Path) -> None:
    ids = [f"r{number}" for number in range(12)]
    out = spoken(tmp_path / "out", *({"row_id": row_id} for row_id in ids))
    write_verdicts(
        out, [TakeVerdict("r5", 1, SHA, SUSPECT), TakeVerdict("r6", 1, "other", SUSPECT)]
    )
    aligner = FakeAligner({"r1": 0.05, "r2": -1.0, "r3": 0.2})
    done = aligned(out, aligner)
    assert [row_id for row_id, _ in done.problems] == ["r2"]
    assert [row_id for row_id, _ in done.unsure] == ["r1", "r3", "r5"]
    assert not (out / f"r2{WORDS_SUFFIX}").exists()
    assert "usual for its voice: 0.31" in words_of(out, "r3").unsure[0]
    assert words_of(out, "r5").unsure == ["check flagged it"]
    assert words_of(out, "r4").unsure == []
    assert "below 0.12" in words_of(out, "r1").unsure[0]


def test_what_is_not_aligned_is_counted(tmp_path: Path) -> None:
    out = spoken(
        tmp_path / "out",
        {"row_id": "chinese", "language": "chinese", "text": "\u4f60\u597d"},
        {"row_id": "wordless", "text": "..."},
        {"row_id": "gone"},
    )
    (out / "gone.wav").unlink()
    done = aligned(out, FakeAligner())
    for kind in (Event.OTHER_LANGUAGE, Event.WITHOUT_WORDS, Event.WITHOUT_AUDIO):
        assert done.events.num(kind) == 1
    assert done.problems == [("gone", "its audio file is missing")]


def test_a_lexicon_says_what_the_dictionary_lacks(tmp_path: Path) -> None:
    out, aligner = (
        spoken(tmp_path / "out", {"row_id": "a", "text": "Ask Xqwy 7 times."}),
        FakeAligner(),
    )
    lexicon = tmp_path / "words.tsv"
    lexicon.write_text("Xqwy\tex cue\n")
    aligned(out, aligner, lexicon=lexicon)
    assert aligner.asked[0].passages[0].words == (("Ask",), ("ex", "cue"), ("seven",), ("times",))


def test_parts_are_looked_for_where_they_lie() -> None:
    """The journal has their places in the file, whatever was put in front."""
    parts = [
        {"text_start": 0, "text_end": 4, "start_s": 0.4, "end_s": 1.4},
        {"text_start": 4, "text_end": 9, "start_s": 2.4, "end_s": 3.4},
    ]
    applied = {"pad_start_s": 0.5, "trimmed_start_s": 0.1}
    line = json.dumps(record("a", text="one. two.", parts=parts, applied=applied))
    take = JournalEntry.decode(line.encode())
    assert take is not None
    words = [(0, ("one",)), (5, ("two",))]
    found = list(passages_of(take, words))
    assert [(round(one.start_s, 3), one.end_s, one.words) for one in found] == [
        (0.0, pytest.approx(1.9), (("one",),)),
        (1.9, None, (("two",),)),
    ]


def test_files_that_somebody_edited_stay(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A TextGrid corrected in Praat was replaced as soon as another form was asked for."""
    out = spoken(tmp_path / "out", {"row_id": "a"})
    aligned(out, FakeAligner(), (TEXTGRID_SUFFIX,))
    grid, words = out / "a.TextGrid", out / "a.words.json"
    grid.write_text("corrected")
    done = aligned(out, FakeAligner(), (TEXTGRID_SUFFIX, WORDS_VTT_SUFFIX))
    assert (done.events.num(Event.MEASURED_BEFORE), grid.read_text()) == (1, "corrected")
    assert (out / "a.words.vtt").is_file()
    corrected = words.read_text().replace('"start_s": 0.', '"start_s":  0.')
    words.write_text(corrected)
    line = record("a", language="english", **with_file(tone(1.0)))
    write_folder(out, [line], audio={"a.wav": tone(1.0)})
    caplog.clear()
    done = aligned(out, FakeAligner(), (TEXTGRID_SUFFIX, WORDS_VTT_SUFFIX))
    assert done.events.num(Event.MEASURED) == 1
    assert (grid.read_text(), words.read_text()) == ("corrected", corrected)
    assert "2 files are kept, not written: edited since" in caplog.text
    assert "a.TextGrid, a.words.json; delete one to have it made again" in caplog.text
