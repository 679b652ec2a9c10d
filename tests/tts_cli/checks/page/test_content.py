"""What the page is made of, without a browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from spoken_folders import RUN_ID, TEXT, many_records, record, run, tone, write_folder

from tts_cli.checks.folder_rows import read_folder
from tts_cli.checks.page.build import as_safe_json, build_page
from tts_cli.checks.page.content import audio_url, content_of
from tts_cli.checks.verdicts import SUSPECT, Segment, TakeVerdict, Transcript, write_verdicts
from tts_cli.checks.word_times import TimedWord, WordTimes
from tts_cli.core import Kind, Remark


def content(out: Path) -> dict[str, Any]:
    return content_of(read_folder(out), "0.2.0")


def test_rows_come_in_the_order_people_count(tmp_path: Path) -> None:
    ids = ["b/line10", "b/line2", "a", "2", "10", "b/line2b"]
    write_folder(tmp_path, [record(row_id) for row_id in ids])
    rows = content(tmp_path)["rows"]
    assert [row["id"] for row in rows] == ["2", "10", "a", "b/line2", "b/line2b", "b/line10"]
    assert [row["place"] for row in rows] == [3, 4, 2, 1, 5, 0]


def test_a_usual_row_has_what_the_page_needs(tmp_path: Path) -> None:
    write_folder(tmp_path, [record("x/ü", seed=0, spoken_text=TEXT, level_dbfs=0.0)])
    (row,) = content(tmp_path)["rows"]
    (take,) = row.pop("takes")
    assert len(take.pop("waveform")) == 160
    assert take == {"take": 1, "seed": 0, "audio_s": 4.0, "url": "x/%C3%BC.wav", "level_dbfs": 0.0}
    assert row == {
        "id": "x/ü",
        "status": "ok",
        "voice": "clara",
        "text": TEXT,
        "rate": 17.63,
        "level_dbfs": 0.0,
        "peak_dbfs": -6.0,
        "run": 0,
        "place": 0,
        "severity": 0,
        "chosen": 0,
    }


def test_what_a_recogniser_heard_stands_with_its_take(tmp_path: Path) -> None:
    """Not with audio that has replaced what was heard."""
    rows = [record("a", sha256="aa"), record("b", sha256="bb")]
    write_folder(tmp_path, rows)
    pieces = (Segment("every clock", "every clock"), Segment("in", ""), Segment("", "<b>"))
    asr = Transcript("ear 1", "Every clock, <b>", 0.125, "words", 3, 2, 0.1, 3, pieces)
    wrong = (Remark(Kind.WORDS, "2 of 3", 2.0), Remark(Kind.FAST, "long ago", 9.0))
    write_verdicts(
        tmp_path,
        [
            TakeVerdict("a", 1, "aa", SUSPECT, wrong, asr=asr),
            TakeVerdict("b", 1, "xx", SUSPECT, wrong, asr=asr),
        ],
    )
    found = {row["id"]: row for row in content(tmp_path)["rows"]}
    assert found["a"]["takes"][0]["asr"] == {
        "error": 0.125,
        "unit": "words",
        "longest": 2,
        "by": "ear 1",
        "heard": [["every clock"], ["in", ""], ["", "<b>"]],
    }
    assert found["a"]["reasons"] == [["words", "2 of 3", 2.0]], "rates are judged anew"
    assert "asr" not in found["b"]["takes"][0]
    assert "reasons" not in found["b"]
    assert content(tmp_path)["totals"]["suspect"] == 1


def test_words_stand_with_the_take_whose_audio_they_are_of(tmp_path: Path) -> None:
    """Not with audio that has replaced what was aligned, nor with another text."""
    rows = [record(name, sha256=name * 32, text="Hi, you.") for name in ("aa", "bb", "cc")]
    write_folder(tmp_path, rows)
    words = [
        TimedWord("Hi", 0.104, 0.35, 0.5, 0, 2, "dictionary"),
        TimedWord("you", 0.4, 1.2, None, 4, 7, "neighbours"),
    ]
    times = WordTimes("aa", 1, "aa" * 32, "an aligner", "Hi, you.", 4.0, 0.5, words, ["score 0.1"])
    for name, text in (("aa", "Hi, you."), ("bb", "Hi, you."), ("cc", "Hi, you!")):
        found = replace(times, id=name, text=text, sha256=("aa" if name == "bb" else name) * 32)
        (tmp_path / f"{name}.words.json").write_bytes(found.encode())
    aligned, stale, other = (row["takes"][0] for row in content(tmp_path)["rows"])
    assert aligned["words"] == [0, 2, 10, 35, 4, 7, 40, 120]
    assert aligned["unsure"] == ["score 0.1"]
    assert not {"words", "unsure"} & {*stale, *other}


def test_speed_is_not_told_where_runs_were_not_counted(tmp_path: Path) -> None:
    write_folder(tmp_path, [record("a", run_id=None), record("b")])
    assert content(tmp_path)["totals"]["wall_s"] is None


@pytest.mark.parametrize("totals", [None, [], {"wall_s": "x", "load_s": None, "ok": []}])
def test_runs_that_make_no_sense(tmp_path: Path, totals: Any) -> None:
    write_folder(tmp_path, [record("a")], runs=[run(totals=totals, model=7, started=1)])
    assert content(tmp_path)["runs"][0]["started"] is None


def test_time_of_all_runs_and_of_the_last_ones(tmp_path: Path) -> None:
    runs = [run(f"r{number}") for number in range(8)] + [run()]
    write_folder(tmp_path, [record("a"), record("b")], runs=runs)
    times = content(tmp_path)["charts"]["time"]
    assert [entry["name"] for entry in times] == ["all 9 runs"] + [
        f"run {number}" for number in range(6, 10)
    ]
    # loading, graphs, prefill, decode, vocoder, write, and what is left of 10 s
    assert times[-1]["seconds"] == [2.0, 1.0, 0.02, 0.2, 0.08, 0.004, 9.696]
    assert times[0]["seconds"][0] == 18.0
    assert (times[-1]["wall_s"], times[0]["wall_s"]) == (10.0, 90.0)


def test_voices_and_their_outliers(tmp_path: Path) -> None:
    write_folder(tmp_path, many_records(1000), audio={})
    found = content(tmp_path)
    level = found["charts"]["level"]
    assert [entry["voice"] for entry in level["voices"]] == ["arthur", "ewan", "clara", "dora"]
    arthur = level["voices"][0]
    marks = arthur["marks"]
    assert marks == sorted(marks)
    for value, place in arthur["outliers"]:
        assert found["rows"][place]["level_dbfs"] == pytest.approx(value, abs=0.01)
        assert not marks[0] <= value <= marks[-1]


def test_takes_of_another_text_say_so(tmp_path: Path) -> None:
    rows = [record("a", text="Old words of this row."), record("a", take=2, role="own")]
    write_folder(tmp_path, rows, audio={"takes/a/1.wav": tone(0.1), "a.wav": tone(0.1)})
    first, second = content(tmp_path)["rows"][0]["takes"]
    assert (first["is_other"], first["said"]) == (True, "Old words of this row.")
    assert "is_other" not in second


def test_addresses_cannot_be_anything_but_files_here() -> None:
    assert audio_url("a b/\u00fc#%?.wav") == "a%20b/%C3%BC%23%25%3F.wav"
    assert audio_url("javascript:alert(1)") == "javascript%3Aalert%281%29"


def test_json_cannot_end_its_element() -> None:
    value = {"</script><!--": "&\u2028\u2029 \ud800 \u00fc"}
    text = as_safe_json(value)
    assert not re.search("[<>&\u2028\u2029]", text)
    assert json.loads(text) == value


def test_the_policy_names_what_is_there(tmp_path: Path) -> None:
    write_folder(tmp_path / "<b>$title", [record("a", text="\ud800 </script>")])
    page = build_page(content(tmp_path / "<b>$title")).decode()
    assert "<title>&lt;b&gt;$title - tts-cli report</title>" in page
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    for tag, start in (("script", "<script>"), ("style", "<style>")):
        inside = page.split(start)[1].split(f"</{tag}>")[0]
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "http" not in policy
    assert "unsafe" not in policy


def test_the_script_makes_no_markup() -> None:
    text = resources.files("tts_cli.checks.page").joinpath("page.js").read_text(encoding="utf-8")
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert way not in text, way


def test_a_run_is_named_by_its_rows(tmp_path: Path) -> None:
    other = run("other", manifests=["/other.csv"])
    write_folder(tmp_path, [record("a"), record("b", run_id="gone")], runs=[other, run()])
    found = content(tmp_path)
    first, second = found["rows"]
    assert found["runs"][first["run"]]["command"][:2] == ["synth", "/books/my lines.jsonl"]
    assert found["runs"][first["run"]]["run_id"] == RUN_ID
    assert found["runs"][first["run"]]["model"] == "sample voice"
    assert "run" not in second
    assert found["last"][:2] == ["synth", "/books/my lines.jsonl"]
