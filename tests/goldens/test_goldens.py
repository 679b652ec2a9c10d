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

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="goldens are of Linux"),
]
FOLDERS = write.kept("folders")


# Folders whose rows are all due again: which of them come out as they were, the processor decides.
SPOKEN_ANEW = ("schema_0", "schema_1")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A desk with checkpoints and frozen folders."""
    return write.make_desk(tmp_path_factory.mktemp("goldens") / "desk")


@pytest.fixture(scope="module")
def is_like_home() -> bool:
    """False: audio is not compared bit for bit, see `spoken.calibrate`."""
    return write.is_like_home()


def require_same(section: str, wanted: Any, found: Any, is_like_home: bool) -> None:
    found = write.as_kept(found)
    if not is_like_home:
        wanted, found = write.elsewhere(section, wanted), write.elsewhere(section, found)
    differing = list(write.differences(wanted, found))
    assert not differing, f"{len(differing)} differ:\n{write.told(differing)}"


@pytest.mark.parametrize("section", ["spoken", "states", "words"])
def test_is_as_before(section: str, desk: Desk, is_like_home: bool) -> None:
    require_same(section, write.kept(section), write.SECTIONS[section](desk), is_like_home)


@pytest.mark.parametrize("name", FOLDERS)
def test_readers_say_as_before(name: str, desk: Desk, is_like_home: bool) -> None:
    wanted, found = FOLDERS[name], readers.facts_of(desk, name)
    if not is_like_home and name in SPOKEN_ANEW:
        wanted, found = ({**facts, "again": {"files": []}} for facts in (wanted, found))
    require_same("folders", wanted, found, is_like_home)


def test_every_folder_is_read() -> None:
    assert set(freeze.all_names()) == set(FOLDERS) == set(freeze.frozen_names())
