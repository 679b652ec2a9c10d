"""Pronunciations of one row, and sounds in a lexicon, from the manifest to the journal."""

from __future__ import annotations

import pytest
from workbench import Workbench

pytestmark = pytest.mark.slow


def test_homographs_by_row(bench: Workbench) -> None:
    rows = [
        {"id": "metal", "text": "The lead is heavy.", "lexicon": "lead=led"},
        {"id": "dog", "text": "The lead is long.", "lexicon": "lead=leed"},
        {"id": "plain", "text": "The lead is here."},
    ]
    lexicon = bench.write("lead\tleadd\nheavy\thevvy\n", "words.tsv")
    bench.synth(rows, "--lexicon", lexicon, "--max-seconds", 1).expect(0)
    records = bench.out().records
    assert records["metal"]["spoken_text"] == "The led is hevvy."
    assert records["dog"]["spoken_text"] == "The leed is long."
    assert records["plain"]["spoken_text"] == "The leadd is here."
    before = records["plain"]["started"]
    rows[0]["lexicon"] = "lead=ledd"
    bench.synth(rows, "--lexicon", lexicon, "--max-seconds", 1).expect(0)
    records = bench.out().records
    assert records["metal"]["spoken_text"] == "The ledd is hevvy."
    assert records["plain"]["started"] == before, "other rows stay"
    bench.synth([{"id": "a", "text": "Hello.", "lexicon": "hello"}]).expect(2, "word=pronunciation")


def test_sounds_for_a_model_that_reads_none(bench: Workbench) -> None:
    lexicon = bench.write("Siobhan\tʃɪˈvɔːn\tany\tany\tipa\n", "words.tsv")
    rows = [{"id": "a", "text": "Siobhan waits."}]
    bench.synth(rows, "--lexicon", lexicon, "--max-seconds", 1).expect(
        0, "1 entry has sounds, which this model does not read"
    )
    assert bench.out().records["a"]["spoken_text"] == "shih-vawn waits."
