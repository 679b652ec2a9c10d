"""Takes of a book's sentences: chosen ones are joined, and nothing is spoken for it."""

from __future__ import annotations

import json

import pytest
from workbench import Workbench, forbid_weights

pytestmark = pytest.mark.slow

STORY = """# The River

The ferryman had not slept, and the river was high that night.

He waited for her on the bank until the snow came.

# The End

Many years later a stranger came and asked for the ferry.
"""
FLAGS = ("--device", "cpu", "--max-seconds", 0.3, "--accept-truncated")


def test_a_chosen_take_is_joined(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    path, out = bench.folder / "story.md", bench.out()
    path.write_text(STORY)
    book = ("book", path, "--out", out.path, "--model", bench.model, *FLAGS)
    bench.run(*book).expect(0)
    rows = [json.loads(line) for line in (out.path / "book.jsonl").read_text().splitlines()]
    row_id = next(row["id"] for row in rows if "waited" in row["text"])
    before = out.files

    # Both ways to speak more of a sentence.
    again = ("synth", out.path / "book.jsonl", "--out", out.path, "--model", bench.model, *FLAGS)
    bench.run(*again, "--only", row_id, "--takes", 1).expect(0)
    bench.run(*book, "--only", row_id, "--takes", 1).expect(0)
    assert {name: out.files[name] for name in before if name != "book.json"} == {
        name: data for name, data in before.items() if name != "book.json"
    }
    assert f"takes/{row_id}/3.wav" in out.files
    result = bench.run("pick", out.path, f"{row_id}=2")
    assert result.out.splitlines()[1] == (
        "to update the chapters, run the tts-cli book command again"
    )
    forbid_weights(monkeypatch)
    num_lines = len(out.lines)
    stay = (out.path / "02-the-end.wav").stat().st_mtime_ns
    bench.run(*book).expect(0)
    assert len(out.lines) == num_lines
    after = out.files
    assert after["01-the-river.wav"] != before["01-the-river.wav"]
    assert (out.path / "02-the-end.wav").stat().st_mtime_ns == stay
    bench.run("pick", out.path, f"{row_id}=1").expect(0)
    bench.run(*book).expect(0)
    assert out.files["01-the-river.wav"] == before["01-the-river.wav"]
