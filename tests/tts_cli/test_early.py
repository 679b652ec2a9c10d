"""What is begun beside the imports: of whom, in which order, and silently nothing elsewhere."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tts_cli import startup


class FakeLibrary:
    """As NVIDIA's driver: notes what it is asked, and answers 0 where all is well."""

    def __init__(self, devices: int = 1) -> None:
        self.devices = devices
        self.asked: list[Any] = []

    def cuInit(self, flags: Any) -> int:  # noqa: N802
        self.asked.append("init")
        return 0 if self.devices else 100

    def cuDeviceGet(self, device: Any, index: Any) -> int:  # noqa: N802
        self.asked.append(index.value)
        return 0 if index.value < self.devices else 101

    def cuDevicePrimaryCtxRetain(self, context: Any, device: Any) -> int:  # noqa: N802
        self.asked.append("context")
        return 0


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    for cached in (startup._driver, startup.use_device):
        cached.cache_clear()
    yield
    for cached in (startup._driver, startup.use_device):
        cached.cache_clear()


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    library = FakeLibrary(devices=2)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    return library


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the threads that were started; each has run to its end."""
    names: list[str] = []

    def at_once(name: str, work: Callable[[], object]) -> None:
        names.append(name)
        work()

    monkeypatch.setattr(startup, "_in_thread", at_once)
    return names


@pytest.mark.parametrize("command", startup.SPEAKING)
def test_commands_that_speak_start_the_driver(
    command: str, driver: FakeLibrary, begun: list[str]
) -> None:
    startup.begin_driver([command, "a"])
    assert begun == ["driver"]
    assert driver.asked == ["init"]


@pytest.mark.parametrize(
    "args", [[], ["doctor"], ["synth", "a", "--help"], ["-h"], ["synth", "a", "--dry-run"]]
)
def test_others_begin_nothing(args: list[str], driver: FakeLibrary, begun: list[str]) -> None:
    startup.begin_driver(args)
    assert (begun, driver.asked) == ([], [])


@pytest.mark.parametrize("args", [["--device", "cpu"], ["--device=cpu"]])
def test_a_run_on_a_cpu_leaves_the_driver_alone(
    args: list[str], driver: FakeLibrary, begun: list[str]
) -> None:
    startup.begin_driver(["synth", "a", *args])
    startup.use_device("cpu")
    assert (begun, driver.asked) == ([], [])


@pytest.mark.parametrize(("device", "index"), [("auto", 0), ("cuda", 0), ("cuda:1", 1)])
def test_the_context_is_that_of_the_device(
    device: str, index: int, driver: FakeLibrary, begun: list[str]
) -> None:
    startup.use_device(device)
    startup.use_device(device)  # by whoever is not sure that it has begun
    assert driver.asked == ["init", index, "context"]


def test_a_device_that_is_not_there_is_somebody_elses_error(
    driver: FakeLibrary, begun: list[str]
) -> None:
    startup.use_device("cuda:7")
    assert driver.asked == ["init", 7]
    driver.devices = 0
    assert not startup.make_context(0)


def test_without_a_driver_nothing_happens(
    monkeypatch: pytest.MonkeyPatch, begun: list[str]
) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert not startup.start_driver()
    assert not startup.make_context(0)


def test_a_library_of_that_name_without_its_functions_is_no_driver(
    monkeypatch: pytest.MonkeyPatch, begun: list[str]
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert not startup.start_driver()
    assert not startup.make_context(0)


def test_what_goes_wrong_in_a_thread_stays_there(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr(threading, "excepthook", seen.append)

    def fail() -> None:
        raise OSError("no such device")

    startup._in_thread("test", fail)
    for thread in threading.enumerate():
        if thread.name == "test":
            thread.join()
    assert seen == []
