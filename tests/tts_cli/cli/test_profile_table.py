from __future__ import annotations

from typing import Any

import pytest

from tts_cli.cli.profile import amount, show

STAGE: dict[str, Any] = {
    "stage": "frame",
    "p50_ms": 2.5,
    "p95_ms": 3.0,
    "p99_ms": 3.1,
    "share": 1.0,
    "launches": None,
    "num_bytes": 78_100,
    "num_ops": 0,
    "gb_s": 0.03,
    "gb_s_share": None,
    "tflop_s": None,
    "tflop_s_share": None,
    "roofline_ms": None,
}
GPU = {"launches": 835, "gb_s": 2100.0, "gb_s_share": 0.5, "roofline_ms": 1.0, "num_ops": 3 * 10**9}


@pytest.mark.parametrize(
    ("stages", "columns"),
    [
        # A CPU's table had seven columns of nothing but '-'.
        ([STAGE], "stage | p50 ms | p95 ms | p99 ms | of frame | MB | GB/s"),
        (
            [STAGE, {**STAGE, **GPU}],
            "stage | p50 ms | p95 ms | p99 ms | of frame | kernels | MB | GFLOP | GB/s | of peak | "
            "roofline ms",
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


@pytest.mark.parametrize(
    ("value", "words"), [(0.0781, "0.0781"), (92.17, "92.2"), (22_927.2, "22,927"), (0.0, "0")]
)
def test_amounts(value: float, words: str) -> None:
    assert amount(value) == words
