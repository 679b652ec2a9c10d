"""Pauses that texts of a manifest mark."""

from __future__ import annotations

import numpy as np
import pytest
from workbench import MakeCheckpoint, Workbench

from tts_cli.cli import messages as msg

RATE_HZ = 24_000
SAID = ("The boat left after five,", "and nobody spoke.", "Nobody at all!")
TEXT = f"[pause 200ms] {SAID[0]} [pause 0.5 s]{SAID[1]}[pause 30ms]\n{SAID[2]} [pause 1s]"
ROW = {"id": "marked", "text": TEXT, "seed": 3}
PLAIN = {"id": "plain", "text": "Yes, [pause] so it was.", "seed": 4}
FLAGS = ("--accept-truncated", "--max-seconds", 2, "--save-codes")


def test_they_are_silence_of_that_length(bench: Workbench) -> None:
    result = bench.synth([ROW, PLAIN], *FLAGS, "--split", "off")
    assert result.code == 0, result.err
    assert "[pause]" in result.err, "without a number it is read aloud, and that is said"
    assert "[pause 0.5 s]" not in result.err
    out = bench.out()
    record = out.records["marked"]
    parts = record["parts"]
    assert [TEXT[part["text_start"] : part["text_end"]] for part in parts] == list(SAID)
    assert [part["boundary"] for part in parts] == ["pause"] * 3
    samples = out.samples("marked.wav")
    edges = [0.0, *(part[name] for part in parts for name in ("start_s", "end_s"))]
    edges.append(len(samples) / RATE_HZ)
    gaps = [later - before for before, later in zip(edges[::2], edges[1::2], strict=True)]
    # A part keeps up to 20 ms of its own silence on each side, which counts.
    for gap, asked in zip(gaps, (0.2, 0.5, 0.03, 1.0), strict=True):
        assert asked - 0.041 <= gap <= asked + 1e-4
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        assert not np.any(samples[round(start * RATE_HZ) : round(end * RATE_HZ)])
    steps = np.abs(np.diff(samples))
    for part in parts:
        for edge in (part["start_s"], part["end_s"]):
            place = round(edge * RATE_HZ)
            assert steps[max(0, place - 2) : place + 2].max() < 0.01
    assert record["text"] == TEXT
    assert record["spoken_text"] is None
    assert out.records["plain"]["parts"] == []


def test_a_marked_row_is_done_and_changes_as_any(bench: Workbench) -> None:
    assert bench.synth([ROW, PLAIN], *FLAGS).code == 0
    again = bench.synth([ROW, PLAIN], *FLAGS, "--pause-sentence", 0.1, "--split", 200)
    assert again.out == msg.nothing_to_do(2) + "\n"
    changed = {**ROW, "text": TEXT.replace("0.5 s", "0.6 s")}
    before = bench.out().records["marked"]["audio_s"]
    assert msg.synthesized(1, 2) in bench.synth([changed, PLAIN], *FLAGS).out
    assert bench.out().records["marked"]["audio_s"] == pytest.approx(before + 0.1)


def test_only_pauses_are_silence(bench: Workbench) -> None:
    rows = [{"id": "gap", "text": "[pause 1.5s]"}, {"id": "no", "text": "[pause 90 s] Yes."}]
    assert bench.synth(rows[:1]).code == 0
    assert bench.out().records["gap"]["audio_s"] == 1.5
    assert bench.out().records["gap"]["finish_reason"] == "wordless"
    bad = bench.run("validate", bench.write(rows), "--model", bench.model)
    assert bad.code == 2
    assert "rows.jsonl:2: id 'no': text: [pause 90 s] is longer than 60 s" in bad.err


def test_without_a_voice_to_keep_they_are_left_out(
    bench: Workbench, make_checkpoint: MakeCheckpoint
) -> None:
    model = make_checkpoint("voice_design")
    row = {**ROW, "instruct": "An old man.", "max_frames": 20}
    flags = ("--accept-truncated",)
    result = bench.synth([row], *flags, model=model)
    assert result.code == 0, result.err
    assert (
        "id 'marked': its pauses are left out, because its voice would change after a pause"
        in result.err
    )
    record = bench.out().records["marked"]
    assert (record["text"], record["spoken_text"]) == (TEXT, " ".join(SAID))
    assert record["parts"] == []
    plain = bench.synth([{**row, "text": " ".join(SAID)}], *flags, out="plain", model=model)
    assert plain.code == 0
    assert bench.out().files == bench.out("plain").files
