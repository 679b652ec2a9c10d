"""Which folder a row is taken from, against a plain reading of the rule."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from spoken_folders import record, tone, with_file, write_folder

from tts_cli.errors import UsageError
from tts_cli.store.journal import Journal
from tts_cli.store.merge import Origins

A, B = tone(0.1), tone(0.2)
KINDS = {"ok A": A, "ok B": B, "failed": None, "none": None}


def write(out: Path, kind: str) -> Path:
    if kind == "failed":
        return write_folder(out, [record("x", status="failed", path=None)])
    if kind == "none":
        return write_folder(out, [])
    content = KINDS[kind]
    assert content is not None
    return write_folder(out, [record("x", **with_file(content))], audio={"x.wav": content})


def wanted(kinds: tuple[str, ...], preferred: int) -> int | str | None:
    """The index of the folder, or `conflict`."""
    there = [index for index, kind in enumerate(kinds) if kind != "none"]
    ok = [index for index in there if kinds[index].startswith("ok")]
    if not ok:
        return there[0] if there else None
    if len({kinds[index] for index in ok}) == 1:
        return ok[0]
    if 0 in ok or ok[0] > preferred:
        return "conflict"
    return ok[0]


@pytest.mark.parametrize("preferred", [0, 1, 2])
def test_every_case_of_a_target_and_two_folders(tmp_path: Path, preferred: int) -> None:
    for number, kinds in enumerate(product(KINDS, repeat=3)):
        folders = [
            write(tmp_path / f"{number}" / f"{place}", kind) for place, kind in enumerate(kinds)
        ]
        origins = Origins(folders, preferred)
        for index, folder in enumerate(folders):
            origins.add(index, Journal(folder, is_read_only=True))
        expected = wanted(kinds, preferred)
        if expected == "conflict":
            with pytest.raises(
                UsageError, match="1 row has different audio in another folder; nothing was written"
            ):
                origins.require_no_conflicts()
        else:
            origins.require_no_conflicts()
            assert origins.folder_of("x") == expected, (kinds, preferred)
            assert sum(origins.taken.values()) == (expected is not None)
