"""Shared by all tests: one thread, interpreted kernels without a GPU, seeds, skips of `gpu` tests.

Triton reads TRITON_INTERPRET when a kernel is decorated, so it is set here, before anything imports
`kernels`; OpenMP reads its wait policy and its threads when torch is loaded.
"""

from __future__ import annotations

import functools
import gc
import itertools
import logging
import os
import random
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as `tts_cli.main` does
# Tensors this small only lose time to threads, here and in the processes that tests start.
os.environ["OMP_NUM_THREADS"] = "1"

import pytest
import torch

SHARED_MEMORY, ROOM_BYTES = Path("/dev/shm"), 8 << 30
HAS_CUDA = torch.cuda.is_available()
if not HAS_CUDA:
    os.environ["TRITON_INTERPRET"] = "1"
IS_PORTABLE = os.environ.get("TTS_CLI_KERNELS") == "portable"  # as commands take the setting
if IS_PORTABLE:  # before anything imports `AUTO`
    from kernels.launch import dispatch

    dispatch.AUTO = dispatch.Kernels.named("portable")
    dispatch._current.set(dispatch.AUTO)


_FOLDER_NUMBERS = itertools.count()


def pytest_configure() -> None:
    """Have folders of tests in memory where there is enough of it, and programs may run from it:
    commands sync every file, which takes a disk longer than they take for all else.

    What is imported and collected is not searched for garbage meanwhile; it has none. pytest adds
    its handlers to each logger that does not propagate, six times a test: torch has 43 of those.
    """
    gc.disable()
    for logger in logging.root.manager.loggerDict.values():
        if isinstance(logger, logging.Logger) and logger.name.split(".")[0] == "torch":
            logger.handlers.clear()
            logger.propagate = True
    if SHARED_MEMORY.is_dir() and "PYTEST_DEBUG_TEMPROOT" not in os.environ:
        found = os.statvfs(SHARED_MEMORY)
        has_room = found.f_bavail * found.f_frsize >= ROOM_BYTES
        if has_room and not found.f_flag & getattr(os, "ST_NOEXEC", 0):
            os.environ["PYTEST_DEBUG_TEMPROOT"] = str(SHARED_MEMORY)


def pytest_xdist_auto_num_workers() -> int | None:
    """Return the workers of `-n auto`: none if tests share and time one GPU."""
    return 0 if HAS_CUDA else None


@pytest.hookimpl(tryfirst=True)  # before `long` ones are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked `gpu` where no CUDA device is, and those of kernels for Hopper's copy
    engine on a GPU that has none, or is to do without: they would compare a reference with itself.
    What asks an official package afresh takes long; golden files hold its answers. Goldens, of
    which a section is one worker's work, come first, so that no worker is left with them alone.
    """
    items.sort(key=lambda item: "goldens" not in item.path.parts)
    for item in items:
        if item.get_closest_marker("oracle"):
            item.add_marker("long")
    name, reason = "gpu", "needs a CUDA device"
    if HAS_CUDA:
        from kernels.launch.dispatch import has_copy_engine

        if has_copy_engine(torch.device("cuda", 0)):
            return
        why = "TTS_CLI_KERNELS=portable does without" if IS_PORTABLE else "this GPU lacks"
        name, reason = "copy_engine", f"needs Hopper's copy engine, which {why}"
    skip = pytest.mark.skip(reason=reason)
    for item in items:
        if item.get_closest_marker(name):
            item.add_marker(skip)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Modules and collected tests are no garbage, and nobody looks for any among their million
    objects: each session that closes does, which took 0.6 s of every command that speaks.
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 10)  # what a test leaves is less than what it takes to look often
    gc.enable()


def pytest_sessionfinish() -> None:
    """Let Python and its extensions clean up as usual."""
    gc.unfreeze()


@pytest.fixture(autouse=HAS_CUDA or IS_PORTABLE)
def _kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """On a GPU no model gives Triton up, except in tests that ask for `falls_back`. With
    TTS_CLI_KERNELS=portable sessions that are opened without a command line take those kernels.
    """
    from kernels.launch.dispatch import AUTO, Kernels

    failures: list[str] = []
    given_up = Kernels.given_up

    def note(kernels: Kernels, failure: str) -> Kernels:
        failures.append(failure)
        return given_up(kernels, failure)

    monkeypatch.setattr(Kernels, "given_up", note)
    if IS_PORTABLE:
        monkeypatch.setattr("tts_cli.engine.load.choose_kernels", lambda *_: AUTO)
    yield
    assert not HAS_CUDA or not failures or "falls_back" in request.fixturenames


@pytest.fixture
def falls_back() -> None:
    """For tests in which Triton fails."""


@pytest.fixture(autouse=True, scope="session")
def _interpreter() -> Iterator[None]:
    """Interpreted kernels round as compiled ones do, and take half the time."""
    from kernels.launch import dispatch

    with pytest.MonkeyPatch.context() as patch:
        if dispatch.IS_INTERPRETED:
            import interpreter

            interpreter.round_like_hardware(patch)
            interpreter.interpret_quickly(patch)
        yield


@pytest.fixture(autouse=True, scope="module")
def _no_garbage() -> Iterator[None]:
    """Nor is what a file leaves for good: imports, trees of sources, a dictionary."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _versions() -> Iterator[None]:
    """Packages are asked for their versions once, and not by every run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metadata, "version", functools.cache(metadata.version))
        yield


@pytest.fixture(autouse=True)
def seed() -> int:
    """Seed the random numbers of every test. For devices that are not there `torch.manual_seed`
    notes its callers, which takes 0.5 ms.
    """
    value = 1234
    random.seed(value)
    (torch.manual_seed if HAS_CUDA else torch.default_generator.manual_seed)(value)
    return value


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder. To number its own, pytest reads the names of all earlier ones: 1 ms."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    path = tmp_path_factory.getbasetemp() / f"{name}{next(_FOLDER_NUMBERS)}"
    path.mkdir(0o700)
    return path


@pytest.fixture(autouse=True)
def config_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration folder of the test's own, not made yet: consent is the user's to give."""
    folder = tmp_path_factory.getbasetemp() / f"config{next(_FOLDER_NUMBERS)}"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    return folder
