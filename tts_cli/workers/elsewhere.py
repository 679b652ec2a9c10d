"""Voices made by a worker, for a run whose driver has no model: each call is a process of its own,
with a worker's share of the devices.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tts_cli.config import RunConfig
from tts_cli.engine.session import LocalSession
from tts_cli.workers.cluster import Cluster, Share

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.engine.made_voices import Made, Studio


@contextmanager
def elsewhere(config: RunConfig) -> Iterator[Studio]:
    """One worker, as long as voices are made."""
    alone = config if config.ray_address is not None else replace(config, workers="1")
    cluster = Cluster(alone)
    cluster.open()
    share = cluster.share

    def done(
        work: Callable[[LocalSession, list[Any]], list[Made]],
        config: RunConfig,
        info: ModelInfo,
        asked: list[Any],
    ) -> list[Made]:
        found: list[Made] = cluster.call(_done, work, there(config, share), info, asked, share)
        return found

    is_tidy = False
    try:
        yield done
        is_tidy = True
    finally:
        cluster.close(is_tidy=is_tidy)


def there(config: RunConfig, share: Share) -> RunConfig:
    """Settings as another process has them."""
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
    work: Callable[[LocalSession, list[Any]], list[Made]],
    config: RunConfig,
    info: ModelInfo,
    asked: list[Any],
    share: Share,
) -> list[Made]:
    import torch

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(share.num_cpus)
    with closing(LocalSession(config, info)) as session:
        return work(session, asked)
