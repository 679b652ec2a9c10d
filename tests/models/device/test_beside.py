"""Work in the thread beside: what is begun and waited for, and what is done at once."""

from __future__ import annotations

import contextvars
import threading

import pytest
import torch

from models.device.beside import Beside, load_libraries

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
    assert done == ["beside_0"]
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


def test_at_once_it_is_done_here_on_a_cpu() -> None:
    assert Beside(CPU).run(threading.current_thread) is threading.current_thread()


WORD: contextvars.ContextVar[str] = contextvars.ContextVar("WORD", default="")


@pytest.mark.gpu
def test_at_once_it_is_done_there_on_the_callers_stream_in_his_context() -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    stream = torch.cuda.Stream(device)
    beside, threads = Beside(device), []

    def look() -> tuple[torch.cuda.Stream, str, bool]:
        threads.append(threading.current_thread())
        return torch.cuda.current_stream(), WORD.get(), torch.is_inference_mode_enabled()

    beside.start(lambda: threads.append(threading.current_thread()))
    token = WORD.set("mine")
    try:
        with torch.cuda.stream(stream):
            assert beside.run(look) == (stream, "mine", True)
            assert beside.run(lambda: beside.run(look)) == (stream, "mine", True)
    finally:
        WORD.reset(token)
    assert len(set(threads)) == 1
    assert threads[0] is not threading.current_thread()
    with pytest.raises(ZeroDivisionError):
        beside.run(lambda: 1 // 0)


@pytest.mark.gpu
def test_libraries_are_loaded_there() -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    for dtype in (torch.float32, torch.bfloat16):
        Beside(device).run(lambda dtype=dtype: load_libraries(device, dtype))  # type: ignore[misc]
