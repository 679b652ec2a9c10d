"""How many workers there are to be, and what is said where they cannot."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tts_cli.config import RunConfig
from tts_cli.errors import SetupError, UsageError
from tts_cli.workers import cluster as module
from tts_cli.workers.cluster import Cluster, Share, _ToLog, require_listener, share_of
from tts_cli.workers.session import elsewhere

CONFIG = RunConfig(workers="all")


@pytest.mark.parametrize(
    ("workers", "device", "nodes", "wanted"),
    [
        ("all", "auto", [(16, 2)], Share(2, True, 8)),
        ("1", "cuda", [(16, 2)], Share(1, True, 16)),
        ("all", "auto", [(0, 3), (8, 0), (8, 0)], Share(3, True, 5)),
        ("all", "cpu", [(16, 2)], Share(8, False, 2)),
        ("all", "auto", [(1, 0)], Share(1, False, 1)),
        ("all", "auto", [(5, 0), (3, 0)], Share(3, False, 2)),
        ("2", "auto", [(2, 0)], Share(2, False, 1)),
        ("2", "auto", [(7, 0)], Share(2, False, 3)),
        ("2", "auto", [(4, 0), (2, 0), (1, 0)], Share(2, False, 2)),  # three fit on one only
    ],
)
def test_shares(workers: str, device: str, nodes: list[tuple[int, int]], wanted: Share) -> None:
    config = replace(CONFIG, workers=workers, device=device)
    assert share_of(config, nodes, "here") == wanted


def test_more_workers_than_gpus_is_told_with_both_numbers() -> None:
    with pytest.raises(UsageError, match=r"--workers 3: here has 2 free GPUs.*workers 2"):
        share_of(replace(CONFIG, workers="3"), [(16, 2)], "here")


def test_more_workers_than_cores_is_told_with_both_numbers() -> None:
    with pytest.raises(UsageError, match=r"--workers 9: here has 8 free cores"):
        share_of(replace(CONFIG, workers="9"), [(8, 0)], "here")


def test_a_gpu_that_is_not_there() -> None:
    with pytest.raises(SetupError, match="no free CUDA device on the cluster"):
        share_of(replace(CONFIG, device="cuda"), [(8, 0)], "the cluster")


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SetupError, match='ray is not installed; pip install "ray>='):
        Cluster(CONFIG)


class _Ray:
    """A Ray that notes the password, and keeps how it is used in the environment as the real one
    does.
    """

    __version__ = "0"

    def __init__(self, problem: str | None = None) -> None:
        self.problem = problem
        self.passwords: list[str | None] = []

    def is_initialized(self) -> bool:
        return False

    def init(self, **_: Any) -> SimpleNamespace:
        self.passwords.append(os.environ.get("RAY_AUTH_TOKEN"))
        os.environ["RAY_AUTH_MODE"] = "token"
        if self.problem is not None:
            raise RuntimeError(self.problem)
        return SimpleNamespace(address_info={})

    def shutdown(self) -> None:
        self.passwords.append(os.environ.get("RAY_AUTH_TOKEN"))


@pytest.fixture
def no_password(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An environment that says nothing of Ray."""
    with monkeypatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("RAY_")]:
            patch.delenv(name)
        yield
        for name in [name for name in os.environ if name.startswith("RAY_")]:
            del os.environ[name]


@pytest.mark.usefixtures("no_password")
def test_the_password_leaves_the_environment_with_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All programs that the process started later could read it."""
    before, ray = dict(os.environ), _Ray()
    monkeypatch.setattr(module, "require_ray", lambda: ray)
    for _ in range(2):
        cluster = Cluster(replace(CONFIG, device="cpu"))
        with closing(cluster):
            cluster.open()
        assert dict(os.environ) == before
    # Ray keeps the first one in a process, so the second cluster has the same.
    assert len(ray.passwords) == 4
    assert len(set(ray.passwords)) == 1
    assert len(ray.passwords[0] or "") == 64


@pytest.mark.usefixtures("no_password")
def test_nothing_stays_of_a_ray_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where voices are made it stayed open: passwords in the environment, stdout in the log."""
    before, stdout, ray = dict(os.environ), sys.stdout, _Ray("no port is free")
    monkeypatch.setattr(module, "require_ray", lambda: ray)
    with pytest.raises(SetupError, match="no port is free"), elsewhere(CONFIG):
        pytest.fail("it has started")
    assert (dict(os.environ), sys.stdout) == (before, stdout)


def test_what_ray_prints_becomes_messages(caplog: pytest.LogCaptureFixture) -> None:
    stream = _ToLog()
    with caplog.at_level("DEBUG", "tts_cli"):
        print("\x1b[33m(raylet)\x1b[0m a worker", file=stream, end=" ")
        print("died\n\nnot whole", file=stream, end="")
    assert [record.message for record in caplog.records] == ["ray: (raylet) a worker died"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"workers": "0"}, "--workers '0': must be all or a number"),
        ({"workers": "two"}, "--workers 'two'"),
        ({"workers": "2", "device": "cuda:1"}, "workers take one each.*CUDA_VISIBLE_DEVICES"),
        ({"ray_address": "auto", "device": "cuda:0"}, "workers take one each"),
        ({"ray_address": ""}, "--ray-address is empty"),
    ],
)
def test_flags_that_make_no_sense(options: dict[str, str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        RunConfig.from_options(options)


def test_cores_are_those_this_process_may_use() -> None:
    from tts_cli.startup import usable_cores

    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


def test_a_cluster_that_nobody_runs_is_told_at_once() -> None:
    with pytest.raises(SetupError, match=r"--ray-address 127.0.0.1:1: .*refused"):
        require_listener("127.0.0.1:1")
    require_listener("auto")
