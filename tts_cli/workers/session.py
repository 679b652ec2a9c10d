"""Synthesize through workers: start them, dispatch rows to them, and sum up their reports.

The caller's thread does all of it; other threads plan and record rows, see `Dispatcher`. If voices
must be generated, a worker does it, because the driver has no model.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tts_cli.atomic import remove_stale_parts, stage
from tts_cli.config import RunConfig
from tts_cli.core import Keep, Task
from tts_cli.engine.session import LocalSession, SessionFacts, Step
from tts_cli.workers.cluster import Cluster, Share
from tts_cli.workers.dispatch import Dispatcher, DriverQueue, Drop
from tts_cli.workers.messages import WorkerConfig
from tts_cli.workers.voices import ClusterVoices
from tts_cli.workers.worker import Worker, version

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.engine.made_voices import RunWork, Work
    from tts_cli.plan.room import Needs
    from tts_cli.voices.needs import Cloning

log = logging.getLogger(__name__)


class WorkerSession:
    """Synthesize through workers; see `engine.session.Session`. `drop` removes files of a worker
    that are not needed any more.
    """

    def __init__(
        self,
        config: RunConfig,
        info: ModelInfo,
        cloning: Cloning,
        out: Path,
        comment: str,
        drop: Drop,
    ) -> None:
        self._config = config
        self._info = info
        self._out = out.absolute()
        self._comment = comment
        self._cluster = Cluster(config)
        self._events = events = DriverQueue()
        self._voices = ClusterVoices(lambda: events.put(lambda: None), self._cluster.keep)
        self._dispatcher = Dispatcher(
            self._cluster, events, self._voices, cloning, drop, info.sample_rate_hz
        )
        self._is_closed = self._has_run = False
        self._room: Needs | None = None  # of the workers; None: there are none
        self._token: Path | None = None

    def steps(self, needs: Needs | None = None) -> Iterator[Step]:
        """Start Ray and the workers. Workers with too little room for the rows are replaced."""
        if needs is None or (self._room is not None and needs.fits(self._room)):
            return
        if self._room is None:
            yield "starting Ray", self._cluster.open
        else:
            needs = needs.joined(self._room)
        self._room = needs
        yield "loading the model in each worker", lambda: self._start(needs)

    def speak(self, tasks: Iterable[Task | None], keep: Keep) -> None:
        self._has_run = True
        self._dispatcher.run(tasks, keep)
        if self._events.error is not None:
            raise self._events.error

    def stop(self) -> None:
        self._events.stop()

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._dispatcher.end()
        is_tidy = not any(worker.restarts for worker in self._dispatcher.workers)
        self._cluster.close(is_tidy=is_tidy)
        if self._token is not None:
            remove_stale_parts(self._token.parent)  # the token, and parts of workers that died

    def facts(self) -> SessionFacts:
        """Return the sums of all workers, and the device of the first one."""
        workers = self._dispatcher.workers
        if self._has_run:
            self._dispatcher.collect_reports()
        found = [worker.counted for worker in workers]
        misses: Counter[str] = Counter()
        for one in found:
            misses.update(one.graph_misses_by)
        peaks = [one.peak_memory_bytes for one in found if one.peak_memory_bytes is not None]
        return SessionFacts(
            load_s=max((one.load_s for one in workers), default=0.0),
            capture_s=max((one.capture_s for one in workers), default=0.0),
            references=self._voices.num_encoded,
            reference_ms=self._voices.encode_ms,
            reference_load_ms=1000 * self._dispatcher.load_s,
            graph_hits=sum(one.graph_hits for one in found),
            graph_misses=sum(one.graph_misses for one in found),
            graph_misses_by=dict(misses),
            peak_memory_bytes=max(peaks, default=None),
            device=next((dict(one.device) for one in workers if one.device), {}),
            workers=[worker.facts() for worker in workers],
        )

    def _start(self, needs: Needs) -> None:
        self._dispatcher.end()
        share = self._cluster.share
        settings = self._worker_config(needs)
        devices = "GPU" if share.is_gpu else "CPU"
        log.info("workers: %d, each on a %s", share.num_workers, devices)
        numbers = range(1, share.num_workers + 1)
        spawn = self._cluster.spawn
        dispatcher = self._dispatcher
        dispatcher.start([spawn(Worker, replace(settings, number=number)) for number in numbers])
        if remote := [
            one.number for one in dispatcher.workers if one.ready and not one.ready.has_folder
        ]:
            log.info(
                "workers %s cannot see the output folder: their audio is sent through Ray",
                ", ".join(map(str, remote)),
            )

    def _worker_config(self, needs: Needs) -> WorkerConfig:
        share = self._cluster.share
        config = there(self._config, share)
        text = secrets.token_hex(16)
        if self._token is not None:
            self._token.unlink(missing_ok=True)
        self._token = Path(stage(self._out / "workers", text.encode(), secrets.token_hex(8)))
        rows = -(-needs.rows // share.num_workers)
        return WorkerConfig(
            0,
            config,
            self._out,
            self._info.identity,
            version(),
            replace(needs, rows=rows),
            self._comment,
            str(self._token),
            text,
            None if "OMP_NUM_THREADS" in os.environ else share.num_cpus,
            logging.getLogger("tts_cli").getEffectiveLevel(),
        )


@contextmanager
def elsewhere(config: RunConfig) -> Iterator[RunWork]:
    """Yield a function that calls other functions in one worker, to generate voices."""
    alone = config if config.ray_address is not None else replace(config, workers="1")
    cluster = Cluster(alone)

    def done(work: Work, config: RunConfig, info: ModelInfo, asked: list[Any]) -> list[Any]:
        share = cluster.share
        found: list[Any] = cluster.call(_done, work, there(config, share), info, asked, share)
        return found

    is_tidy = False
    try:
        cluster.open()
        yield done
        is_tidy = True
    finally:
        cluster.close(is_tidy=is_tidy)


def there(config: RunConfig, share: Share) -> RunConfig:
    """Return the settings for another process."""
    model = config.model
    if model is not None and Path(model).expanduser().is_dir():
        model = str(Path(model).expanduser().absolute())
    return replace(
        config,
        out=None if config.out is None else config.out.absolute(),
        model=model,
        device="cuda" if share.is_gpu else "cpu",
        kernel_cache=None if config.kernel_cache is None else config.kernel_cache.absolute(),
    )


def _done(
    work: Work, config: RunConfig, info: ModelInfo, asked: list[Any], share: Share
) -> list[Any]:
    import torch

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(share.num_cpus)
    with closing(LocalSession(config, info)) as session:
        return work(session, asked)
