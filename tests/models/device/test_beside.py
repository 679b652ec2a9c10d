"""Work in a thread beside: it is waited for, and what goes wrong in it is left to others."""

from __future__ import annotations

import threading

import torch

from models.device.beside import Beside

CPU = torch.device("cpu")


def test_waiting_returns_once_the_work_is_done() -> None:
    done, go = [], threading.Event()

    def work() -> None:
        assert torch.is_inference_mode_enabled()
        go.wait(10)
        done.append(threading.current_thread().name)

    beside = Beside(CPU)
    beside.start(work)
    assert done == []
    go.set()
    beside.wait()
    assert done == ["beside"]
    beside.wait()


def test_work_begins_when_what_was_begun_before_is_over() -> None:
    order: list[int] = []
    beside = Beside(CPU)
    for number in range(5):
        beside.start(lambda number=number: order.append(number))  # type: ignore[misc]
    beside.wait()
    assert order == [0, 1, 2, 3, 4]


def test_what_fails_is_left_to_who_does_it_in_earnest() -> None:
    def fail() -> None:
        raise torch.OutOfMemoryError("no room")

    beside = Beside(CPU)
    beside.start(fail)
    beside.wait()
