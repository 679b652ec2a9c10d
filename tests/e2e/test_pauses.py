"""Pauses that texts of a manifest mark."""

from __future__ import annotations

import numpy as np
from workbench import Workbench

RATE_HZ = 24_000
SAID = ("The boat left after five,", "and nobody spoke.", "Nobody at all!")
TEXT = f"[pause 200ms] {SAID[0]} [pause 0.5 s]{SAID[1]}[pause 30ms]\n{SAID[2]} [pause 1s]"
ROW = {"id": "marked", "text": TEXT, "seed": 3}
PLAIN = {"id": "plain", "text": "Yes, [pause] so it was.", "seed": 4}
FLAGS = ("--accept-truncated", "--max-seconds", 2, "--save-codes")


def test_they_are_silence_of_that_length(bench: Workbench) -> None:
    result = bench.synth([ROW, PLAIN], *FLAGS, "--split", "off").expect(0)
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
