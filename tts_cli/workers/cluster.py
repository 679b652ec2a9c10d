"""Start Ray on this machine for one run, or join a running cluster, which stays unchanged. The only
file that imports ray.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from tts_cli.config import RunConfig
from tts_cli.errors import SetupError, UsageError, first_line
from tts_cli.extras import load
from tts_cli.named import counted
from tts_cli.signals import restored_handlers
from tts_cli.startup import usable_cores

log = logging.getLogger(__name__)

# Rows and results are small; the default of Ray is a third of the memory.
STORE_BYTES = 128 * 2**20
CONNECT_S = 10.0
SETTLE_S, WAIT_S = 5.0, 0.05
CORES = 2  # of a CPU worker with `--workers all`
MEMORY_BYTES = 2**30  # the minimum for other uses of Ray, of which we have none
# For Ray of this run, unless the user sets them: no usage reports, and no worker is killed because
# other processes use memory.
_OWN = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_memory_monitor_refresh_ms": "0"}
# How Ray's processes authenticate; by default with a password of the run.
_AUTH = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Share:
    num_workers: int
    is_gpu: bool
    num_cpus: int  # cores, and threads of torch

    def options(self, *, has_own_ray: bool) -> dict[str, Any]:
        """Return the options for Ray, which reserves no core for a GPU worker.

        If Ray was started for this run, it starts one process per core, so its number of cores is
        the number of workers.
        """
        if self.is_gpu:
            return {"num_gpus": 1, "num_cpus": 0}
        return {"num_gpus": 0, "num_cpus": 1 if has_own_ray else self.num_cpus}


def require_ray() -> Any:
    return load("ray", "ray", "--workers")


class Cluster:
    """Ray with resources for the workers of a run, until it is closed. A cluster that this process
    has joined before is used and not left.
    """

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._ray = require_ray()
        self._is_ours_to_leave = False
        self._session_dir: str | None = None  # if Ray was started here
        self._stack = contextlib.ExitStack()
        self.share = Share(1, False, 1)
        self.is_local = config.ray_address is None

    def open(self) -> None:
        """Start Ray or join a cluster. Raises UsageError if more workers than devices are
        requested, and SetupError if Ray cannot be started or reached.
        """
        ray, config = self._ray, self._config
        self._stack.enter_context(_environment_kept((*_OWN, *_AUTH)))
        if self.is_local and not ray.is_initialized():
            self.share = share_of(config, [(usable_cores(), _local_gpus(config))], "this machine")
            for name, value in _OWN.items():
                os.environ.setdefault(name, value)
        if not config.debug and not ray.is_initialized():
            logger = logging.getLogger("ray")
            self._stack.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.ERROR)
        self._stack.enter_context(_stdout_kept_clean())
        if not ray.is_initialized():
            self._start()
        if not self.is_local or not self._is_ours_to_leave:
            self.share = share_of(config, self._free(), "the cluster")

    def spawn(self, kind: type, *args: Any) -> Any:
        """Start an actor: a worker in a separate process, which Ray restarts when it dies."""
        actor = self._ray.remote(
            max_restarts=-1,
            max_task_retries=0,
            max_concurrency=10_000,
            **self.share.options(has_own_ray=self._session_dir is not None),
        )(kind)
        return actor.remote(*args)

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function in a separate process with a worker's share of the devices. Raises the
        function's error, and SetupError if the process died.
        """
        options = self.share.options(has_own_ray=self._session_dir is not None)
        remote = self._ray.remote(max_retries=0, **options)(function)
        before = self._num_free()
        try:
            return self._ray.get(remote.remote(*args))
        except self._ray.exceptions.RayError as error:
            cause = self.cause(error)
        finally:
            self._wait_until_free(before)
        if isinstance(cause, self._ray.exceptions.RayError):
            raise SetupError(f"a worker died: {first_line(cause)}", "see the logs of its machine")
        raise cause

    def keep(self, value: Any) -> Any:
        return self._ray.put(value)

    def kill(self, actor: Any, *, is_final: bool) -> None:
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.kill(actor, no_restart=is_final)

    def is_death(self, error: BaseException) -> bool:
        """Whether a call failed because its process has ended."""
        return isinstance(error, self._ray.exceptions.RayActorError)

    def is_final(self, error: BaseException) -> bool:
        """Whether Ray will not restart the process."""
        return isinstance(error, self._ray.exceptions.ActorDiedError)

    def cause(self, error: BaseException) -> BaseException:
        is_raised = isinstance(error, self._ray.exceptions.RayTaskError)
        cause: BaseException = error.cause if is_raised else error  # type: ignore[attr-defined]
        return cause

    def close(self, *, is_tidy: bool = True) -> None:
        """Stop Ray if it was started here, or leave the cluster. If nothing went wrong (`is_tidy`),
        Ray's logs are removed.
        """
        if self._is_ours_to_leave:
            self._is_ours_to_leave = False
            self._ray.shutdown()
            if self._session_dir is not None and is_tidy:
                shutil.rmtree(self._session_dir, ignore_errors=True)
        self._stack.close()

    def _start(self) -> None:
        ray = self._ray
        options: dict[str, Any] = {"address": self._config.ray_address}
        if self.is_local:
            if not any(name in os.environ for name in _AUTH):
                os.environ["RAY_AUTH_TOKEN"] = _token()
            share = self.share
            options = {
                "address": "local",
                "num_cpus": share.num_workers,
                "num_gpus": share.num_workers if share.is_gpu else 0,
                "object_store_memory": STORE_BYTES,
                "_memory": MEMORY_BYTES,
                "include_dashboard": False,
            }
        else:
            require_listener(str(self._config.ray_address))
        try:
            # It replaces our handler of SIGTERM.
            is_first = threading.current_thread() is threading.main_thread()
            with restored_handlers((signal.SIGINT, signal.SIGTERM) if is_first else ()):
                found = ray.init(log_to_driver=False, configure_logging=False, **options)
        except (RuntimeError, ConnectionError, OSError, ValueError, TimeoutError) as error:
            where = "Ray cannot be started on this machine"
            if not self.is_local:
                where = f"no Ray cluster can be joined at {self._config.ray_address}"
            raise SetupError(
                f"{where}: {first_line(error)}",
                remedy="see `ray status`, and check that the cluster has this version of Ray "
                f"({ray.__version__})",
            ) from error
        self._is_ours_to_leave = True
        if self.is_local:
            self._session_dir = found.address_info.get("session_dir")
            log.debug("Ray %s started; its logs: %s", ray.__version__, self._session_dir)

    def _num_free(self) -> float:
        free = self._ray.available_resources()
        return float(free.get("GPU", 0) + free.get("CPU", 0))

    def _wait_until_free(self, before: float) -> None:
        """Wait until the share of a finished call is free: about a second in a joined cluster."""
        deadline_s = time.monotonic() + SETTLE_S * (self._session_dir is None)
        while self._num_free() < before and time.monotonic() < deadline_s:
            time.sleep(WAIT_S)

    def _free(self) -> list[tuple[int, int]]:
        """Return (0, free GPUs of all nodes), and (free cores, 0) of each node."""
        free = self._ray.available_resources()
        gpus, cores = int(free.get("GPU", 0)), int(free.get("CPU", 0))
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        return [(0, gpus), *((min(cores, int(node.get("CPU", 0))), 0) for node in nodes)]


def require_listener(address: str) -> None:
    """Raise SetupError if no server listens at HOST:PORT; Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        return  # auto, or another form that Ray accepts
    try:
        socket.create_connection((host, int(port)), CONNECT_S).close()
    except (OSError, OverflowError) as error:
        raise SetupError(
            f"--ray-address {address}: {error}", remedy="start the cluster, or see `ray status`"
        ) from None


def share_of(config: RunConfig, nodes: list[tuple[int, int]], where: str) -> Share:
    """Return the number of workers, and the share of each, from the free cores and GPUs of each
    node. Raises UsageError if more workers are requested than possible.
    """
    num_gpus = 0 if config.device == "cpu" else sum(gpus for _, gpus in nodes)
    asked, cores = config.num_workers, sum(cores for cores, _ in nodes)
    if num_gpus or config.device == "cuda":
        if not num_gpus:
            raise SetupError(
                f"--device cuda: no free CUDA device on {where}", remedy="use --device cpu"
            )
        if asked is not None and asked > num_gpus:
            gpus = counted(num_gpus, "free GPU")
            raise UsageError(
                f"--workers {asked}: {where} has {gpus}, and each worker needs one",
                remedy=f"use --workers {num_gpus}, or --device cpu",
            )
        return Share(asked or num_gpus, True, max(1, cores // (asked or num_gpus)))
    if asked is None:
        return Share(max(1, sum(cores // CORES for cores, _ in nodes)), False, min(CORES, cores))
    if asked > cores:
        raise UsageError(
            f"--workers {asked}: {where} has {cores} free cores and no GPU",
            remedy=f"use --workers {cores} or fewer",
        )
    each = cores // asked
    while sum(cores // each for cores, _ in nodes) < asked:
        each -= 1
    return Share(asked, False, each)


def _local_gpus(config: RunConfig) -> int:
    if config.device == "cpu":
        return 0
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


@cache
def _token() -> str:
    """Return one password for all clusters of this process, because Ray uses the first one."""
    return secrets.token_hex(32)


@contextlib.contextmanager
def _environment_kept(names: Iterable[str]) -> Iterator[None]:
    """Restore environment variables at the end; Ray sets some of them."""
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is not None:
                os.environ[name] = value
            else:
                os.environ.pop(name, None)


class _ToLog:
    """A stream whose lines become debug messages."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self._line = ""

    def write(self, text: str) -> int:
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            if line.strip():
                log.debug("ray: %s", _COLOURS.sub("", line).strip()[:500])
        return len(text)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return False


@contextlib.contextmanager
def _stdout_kept_clean() -> Iterator[None]:
    """Log Ray's messages about its processes instead of printing them to stdout."""
    with contextlib.redirect_stdout(_ToLog()):
        yield
