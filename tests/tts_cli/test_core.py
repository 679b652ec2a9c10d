"""The words of files, as they are written."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import pytest

from tts_cli.core import Finish, Kind, Remark, Role, Status, Unfinished

WORDS = [word for kind in (Role, Status, Finish, Unfinished, Kind) for word in kind]


@pytest.mark.parametrize("word", WORDS)
def test_a_word_is_its_text(word: Kind) -> None:
    text = word.value
    assert (str(word), f"{word}", "%s" % word, json.dumps(word)) == (text, text, text, f'"{text}"')  # noqa: UP031
    assert word == text
    assert pickle.loads(pickle.dumps(word)) is word


def test_ends_that_are_not_all_of_the_text() -> None:
    assert [end for end in Finish if end.is_runaway] == ["max_frames", "early", "stuck"]


def test_what_remarks_are_about() -> None:
    assert [kind for kind in Kind if kind.about == "file"] == ["level", "noise_floor"]
    assert {kind.about for kind in Kind} == {"file", "speech"}
    assert Remark(Kind.LONG, "x").weight == 2.0


def test_no_heavy_import() -> None:
    code = "import sys, tts_cli.core; print([n for n in ('numpy', 'torch') if n in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
