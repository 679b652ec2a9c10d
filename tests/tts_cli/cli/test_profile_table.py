from __future__ import annotations

from typing import Any

import pytest

from tts_cli.cli.profile import show

STAGE: dict[str, Any] = {
    "stage": "frame",
    "p50_ms": 2.5,
    "p95_ms": 3.0,
    "p99_ms": 3.1,
    "share": 1.0,
    "launches": None,
}


@pytest.mark.parametrize(
    ("stages", "columns"),
    [
        # A CPU's table had columns of nothing but '-'.
        ([STAGE], "stage | p50 ms | p95 ms | p99 ms | of frame"),
        (
            [STAGE, {**STAGE, "launches": 835}],
            "stage | p50 ms | p95 ms | p99 ms | of frame | kernels",
        ),
    ],
    ids=["cpu", "gpu"],
)
def test_columns_without_a_value_are_hidden(
    capsys: pytest.CaptureFixture[str], stages: list[dict[str, Any]], columns: str
) -> None:
    rates = {"codes_xrt": 1.0, "vocoder_xrt": 1.0, "xrt": 1.0, "rtf": 1.0, "graph_speedup": None}
    show({"batch": 1, "stages": stages, **rates})
    title, header, *rows, conclusion = capsys.readouterr().out.splitlines()
    assert title == "batch 1"
    assert header.split() == columns.replace("|", "").split()
    assert len(rows) == len(stages)
    assert "xRT" in conclusion
