"""Reports that are held against earlier ones: what is compared, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tts_cli.app.baseline import Baseline, conditions_of, times_of
from tts_cli.errors import UsageError


def report(**times: float) -> dict[str, Any]:
    stages = [{"stage": name, "p50_ms": value} for name, value in times.items()]
    return {
        "model": "synthetic:qwen3-tts-0.6b",
        "device": {"name": "H200", "dtype": "bfloat16", "cuda": "13.0", "kernels": "Triton 3.6.0"},
        "versions": {"tts-cli": "0.4.0", "torch": "2.11.0", "triton": "3.6.0"},
        "frames": 125,
        "results": [{"batch": 64, "stages": stages}],
    }


def baseline(folder: Path, found: Any, tolerance: str = "5%") -> Baseline:
    path = folder / "before.json"
    path.write_text(json.dumps(found))
    return Baseline.read(path, tolerance, conditions_of, times_of)


def test_what_takes_longer_than_it_may(tmp_path: Path) -> None:
    before = baseline(tmp_path, report(frame=2.0, talker=1.0, gone=1.0))
    now = times_of(report(frame=2.11, talker=1.04, new=9.0))
    (one,) = before.slower(now)
    assert (one["what"], one["before"], one["now"]) == ("frame, batch 64", 2.0, 2.11)
    assert one["more"] == pytest.approx(0.055)
    assert baseline(tmp_path, report(frame=2.0), " 6 % ").slower(now) == []
    assert len(baseline(tmp_path, report(frame=2.0), "0").slower(now)) == 1
    with pytest.raises(UsageError, match="has no stage in common with this measurement"):
        before.slower({"vocoder, batch 64": 1.0})


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("device", "name"), "H100", "another GPU: H100, now H200"),
        (("device", "dtype"), "float32", "another dtype: float32, now bfloat16"),
        (("device", "cuda"), "12.8", "another version of CUDA"),
        (("device", "kernels"), "portable", "another kernels"),
        (("versions", "torch"), "2.13.0", "another version of torch: 2.13.0"),
        (("versions", "triton"), None, "another version of triton: None"),
        (("model",), "other", "another model"),
        (("frames",), 5, "another number of --frames: 5, now 125"),
    ],
)
def test_what_is_not_alike_is_refused(
    place: tuple[str, ...], value: object, words: str, tmp_path: Path
) -> None:
    found = report(frame=2.0)
    *outer, last = place
    target = found[outer[0]] if outer else found
    target[last] = value
    with pytest.raises(UsageError, match=words):
        baseline(tmp_path, found).require_like(conditions_of(report()))


def test_our_own_version_may_change(tmp_path: Path) -> None:
    found = report(frame=2.0)
    found["versions"]["tts-cli"] = "0.3.0"
    baseline(tmp_path, found).require_like(conditions_of(report()))


@pytest.mark.parametrize("found", [[], {"device": 1}, {}, None, {"results": []}])
def test_other_files_are_no_reports(found: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a report of this command"):
        baseline(tmp_path, found)
