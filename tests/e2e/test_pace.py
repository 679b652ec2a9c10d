"""Pace: `speed`, `duration_s` and `--fit cues` change files, not speech."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import soundfile
from workbench import Workbench, forbid_weights

from tts_cli.audio.subtitles import clock
from tts_cli.plan.checkpoint import sample_voice

pytestmark = pytest.mark.slow

TEXT = "The quay was under water, as it is."
ROWS = [
    {"id": "usual", "text": TEXT, "seed": 1},
    {"id": "fast", "text": TEXT, "seed": 1, "speed": 1.25},
    {"id": "slot", "text": TEXT, "seed": 1, "duration_s": 3.0},
]


@pytest.fixture
def checkpoint() -> Path:
    return sample_voice()


def seconds(folder: Path, name: str) -> float:
    return float(soundfile.info(folder / name).duration)


def test_fields_and_what_needs_no_synthesis(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = [{name: row[name] for name in ("id", "text", "seed")} for row in ROWS]
    bench.synth_once(plain)
    out = bench.out()
    usual_s, run_ids = seconds(out.path, "usual.wav"), {r["run_id"] for r in out.records.values()}
    forbid_weights(monkeypatch)
    bench.synth(ROWS).expect(0)
    assert seconds(out.path, "fast.wav") == pytest.approx(usual_s / 1.25, abs=1e-3)
    assert seconds(out.path, "slot.wav") == pytest.approx(3.0, abs=1e-3)
    assert {record["run_id"] for record in out.records.values()} == run_ids
    assert out.records["usual"]["applied"] is None
    assert out.records["fast"]["applied"]["speed"] == 1.25
    assert out.records["fast"]["audio_s"] == pytest.approx(usual_s / 1.25, abs=1e-3)
    assert "nothing to do" in bench.synth(ROWS).out

    # A flag is for rows that have no pace of their own.
    bench.synth(ROWS, "--speed", 0.8).expect(0)
    assert seconds(out.path, "usual.wav") == pytest.approx(usual_s / 0.8, abs=1e-3)
    assert seconds(out.path, "fast.wav") == pytest.approx(usual_s / 1.25, abs=1e-3)
    assert bench.run("check", out.path).code == 0, "a pace that was asked for is no fault"

    # `encode` keeps the pace of files, or sets one for rows that have none of their own.
    flac, faster = bench.folder / "flac", bench.folder / "faster"
    bench.run("encode", out.path, "--format", "flac", "--out", flac).expect(0)
    assert seconds(flac, "slot.flac") == pytest.approx(3.0, abs=1e-3)
    assert seconds(flac, "fast.flac") == pytest.approx(usual_s / 1.25, abs=1e-3)
    encoded = bench.run("encode", out.path, "--speed", 1.5, "--out", faster)
    assert "2 rows with `speed` or `duration_s`: as in the manifest" in encoded.out
    lengths = {"usual.wav": usual_s / 1.5, "fast.wav": usual_s / 1.25, "slot.wav": 3.0}
    assert {name: seconds(faster, name) for name in lengths} == pytest.approx(lengths, abs=1e-3)
    again = bench.run("encode", faster, "--speed", 1.2, "--format", "flac")
    assert "2 rows with `speed`" in again.out, "the folder remembers whose pace it is"
    bench.synth(plain, "--forget", "speed").expect(0)
    assert seconds(out.path, "fast.wav") == pytest.approx(usual_s, abs=1e-3)


def cues(texts: list[tuple[str, float, float]]) -> str:
    return "".join(
        f"{number}\n{clock(round(1000 * start))} --> {clock(round(1000 * end))}\n{text}\n\n"
        for number, (text, start, end) in enumerate(texts, 1)
    )


def test_cues_are_met_within_50_ms(bench: Workbench) -> None:
    pytest.importorskip("pysubs2")
    words = ["One", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    texts = [
        (" ".join(words[: 1 + number % 4]), 4.0 * number, 4.0 * number + 1.6 + (number % 7) / 4)
        for number in range(8)
    ]
    path = bench.folder / "film.srt"
    path.write_text(cues(texts), encoding="utf-8")
    bench.synth(path, "--fit", "cues", "--subtitles", "srt", "--max-seconds", 4).expect(0)
    records = [record for _, record in sorted(bench.out().records.items())]
    assert len(records) == 8
    missed = []
    for record, (_, start, end) in zip(records, texts, strict=True):
        length_s = seconds(bench.out().path, record["path"])
        if abs(length_s - (end - start)) > 0.05:
            missed.append((record["id"], length_s, end - start))
    assert missed == []


def test_what_does_not_fit_is_suspect(bench: Workbench) -> None:
    rows: list[dict[str, Any]] = [{"id": "a", "text": TEXT, "duration_s": 0.7}]
    result = bench.synth(rows)
    record = bench.out().records["a"]
    assert record["applied"]["speed"] == 1.4
    assert "for a slot of 0.70 s" in record["remarks"][0][1]
    assert "suspect" in result.out
    bench.run("check", bench.out().path).expect(1)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"speed": 3}, "speed: must be 0.5 to 2"),
        ({"speed": "fast"}, "speed"),
        ({"duration_s": 0}, "duration_s"),
        ({"duration_s": 5, "speed": 1.1}, "both speed and duration_s"),
    ],
)
def test_what_is_no_pace(bench: Workbench, fields: dict[str, Any], words: str) -> None:
    bench.synth([{"id": "a", "text": TEXT, **fields}]).expect(2, words)
