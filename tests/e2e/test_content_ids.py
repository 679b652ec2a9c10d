"""`--ids content`: rows named by what they say."""

from __future__ import annotations

from workbench import Workbench

from tts_cli.cli import messages as msg

LINES = "Good morning.\nSo it goes.\nGood morning.\n"
FLAGS = ("--ids", "content", "--accept-truncated", "--max-seconds", 0.1)


def test_a_line_put_in_at_the_top_speaks_one(bench: Workbench) -> None:
    manifest = bench.write(LINES, "lines.txt")
    assert msg.synthesized(3, 3) in bench.synth(manifest, *FLAGS).out
    first = bench.out().files
    assert len(first) == 3, "the same line twice is two rows"
    bench.write("A new one.\n\n" + LINES, "lines.txt")
    dry = bench.synth(manifest, *FLAGS, "--dry-run").out
    assert ": ".join(msg.PLAN_PENDING).format(rows=msg.rows(1)) + ": 1 new\n" in dry
    result = bench.synth(manifest, *FLAGS)
    assert msg.synthesized(1, 4, done=3) in result.out
    assert {**bench.out().files, **first} == bench.out().files
    (new,) = set(bench.out().files) - set(first)
    assert bench.out().records[new.removesuffix(".wav")]["text"] == "A new one."
    bench.write("So it goes.\nGood morning.\n", "lines.txt")
    dry = bench.synth(manifest, *FLAGS, "--dry-run").out
    assert "2 done or not selected" in dry
    assert msg.PLAN_ORPHANS[0] + ": 2 ids that no row has; their files stay" in dry
