"""Moments of a start: in their order, each noted once, from the process's own beginning on."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from functools import partial

import pytest

from tts_cli import startup


@pytest.fixture(autouse=True)
def _fresh() -> None:
    startup.begin_command()


def test_moments_are_told_in_their_order_and_only_the_first_of_each() -> None:
    startup.reach("ready_s")
    first = startup.moments()["ready_s"]
    time.sleep(0.01)
    startup.reach("loaded_s")
    startup.reach("ready_s")
    told = startup.moments()
    assert list(told) == ["command_s", "loaded_s", "ready_s"]
    assert told["ready_s"] == first


def test_the_next_command_of_a_process_begins_anew() -> None:
    time.sleep(0.02)
    startup.reach("spoken_s")
    startup.begin_command()
    assert list(startup.moments()) == ["command_s"]
    assert startup.moments()["command_s"] < 0.02


def test_a_moment_nobody_knows_is_refused() -> None:
    with pytest.raises(AssertionError, match="lunch_s"):
        startup.reach("lunch_s")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says when it began")
def test_a_process_counts_from_its_own_beginning() -> None:
    program = (
        "import time; time.sleep(0.3)\n"
        "from tts_cli import startup\n"
        "startup.begin_process(); startup.begin_command(); print(startup.moments()['command_s'])"
    )
    began_s = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert 0.3 <= float(done.stdout) <= time.perf_counter() - began_s + 0.02  # ticks of 10 ms


@pytest.mark.slow
def test_imports_are_not_searched_for_garbage_and_it_is_collected_again_behind() -> None:
    program = (
        "import gc, sys\n"
        "from tts_cli import startup\n"
        "with startup.importing():\n"
        "    assert not gc.isenabled()\n"
        "    import torch\n"
        "print(gc.isenabled(), gc.get_freeze_count() > 10000)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.split() == [b"True", b"True"]


def test_what_is_imported_already_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch  # noqa: F401

    changes: list[str] = []
    for name in ("freeze", "disable", "enable"):
        monkeypatch.setattr(gc, name, partial(changes.append, name))
    with startup.importing():
        assert gc.isenabled()
    assert changes == []
