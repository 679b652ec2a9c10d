"""Golden files say which official packages made them; tests/oracle/README.md tells of these."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ORACLE = Path(__file__).parents[1] / "oracle"
OFFICIAL = {  # package: how the page names it with its version
    "qwen-tts": "qwen-tts=={}",
    "qwen-tts-hf": "qwen-tts-hf=={}",
    "fish-speech": "`fish-speech` package ({},",
    "mlx-audio": "mlx-audio=={}",
    "vllm-omni": "vLLM-Omni wheel ({})",
}


@pytest.mark.parametrize("path", sorted(ORACLE.glob("*.json")), ids=lambda path: path.stem)
def test_golden_files_name_the_versions_that_made_them(path: Path) -> None:
    versions = json.loads(path.read_text(encoding="utf-8"))["versions"]
    assert {"torch", "transformers", "tokenizers", "numpy"} <= versions.keys()
    official = {name: version for name, version in versions.items() if name in OFFICIAL}
    assert official
    page = " ".join((ORACLE / "README.md").read_text(encoding="utf-8").split())
    for name, version in official.items():
        assert OFFICIAL[name].format(version) in page
