"""What the tool did when the goldens were written, it does. See README.md beside this file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import freeze
import readers
import write
from desk import Desk
from workbench import described_once

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="goldens are of Linux"),
]
FOLDERS = write.kept("folders")


_described_once = pytest.fixture(autouse=True, scope="module")(described_once)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A desk with checkpoints and frozen folders."""
    return write.make_desk(tmp_path_factory.mktemp("goldens") / "desk")


def require_same(wanted: Any, found: Any) -> None:
    differing = list(write.differences(wanted, write.as_kept(found)))
    assert not differing, f"{len(differing)} differ:\n{write.told(differing)}"


@pytest.mark.parametrize("section", ["spoken", "states", "words"])
def test_is_as_before(section: str, desk: Desk) -> None:
    require_same(write.kept(section), write.SECTIONS[section](desk))


@pytest.mark.parametrize("name", FOLDERS)
def test_readers_say_as_before(name: str, desk: Desk) -> None:
    require_same(FOLDERS[name], readers.facts_of(desk, name))


def test_every_folder_is_read() -> None:
    assert set(freeze.all_names()) == set(FOLDERS) == set(freeze.frozen_names())
