"""A folder that results are committed into."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from store_bench import StoreBench


@pytest.fixture
def bench(tmp_path: Path, make_info: Any) -> StoreBench:
    """An output folder that does not exist yet."""
    return StoreBench(tmp_path / "out", make_info())
