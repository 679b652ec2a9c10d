"""Triton's hash is begun once, in a thread, and waited for."""

from __future__ import annotations

import threading

import pytest

from kernels.launch import own_hash


@pytest.fixture(autouse=True)
def _nothing_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_hash, "_thread", None)
    monkeypatch.setenv("TRITON_INTERPRET", "0")


def test_it_is_made_once_and_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made, go = [], threading.Event()

    def make() -> None:
        go.wait(10)
        made.append(threading.current_thread().name)

    monkeypatch.setattr(own_hash, "make_hash", make)
    own_hash.wait_for_hash()  # nobody has begun
    for _ in range(3):
        own_hash.begin_hash()
    assert made == []
    go.set()
    own_hash.wait_for_hash()
    assert made == ["hash"]


def test_interpreted_kernels_have_no_use_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(own_hash, "make_hash", lambda: pytest.fail("was made"))
    own_hash.begin_hash()
    own_hash.wait_for_hash()
