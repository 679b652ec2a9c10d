"""Voices made by a worker, for a run whose driver has no model: each call is a process of its own,
with a worker's share of the devices.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tts_cli.config import RunConfig
from tts_cli.workers.cluster import Cluster, Share

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.core import Spoken, Task
    from tts_cli.engine.made_voices import Words
    from tts_cli.plan.free_voices import Maker
    from tts_cli.voices.recording import Reference
    from tts_cli.voices.voice_file import StoredVoice


@contextmanager
def elsewhere(config: RunConfig) -> Iterator[Elsewhere]:
    """One worker, as long as voices are made."""
    alone = config if config.ray_address is not None else replace(config, workers="1")
    cluster = Cluster(alone)
    cluster.open()
    is_tidy = False
    try:
        yield Elsewhere(cluster)
        is_tidy = True
    finally:
        cluster.close(is_tidy=is_tidy)


class Elsewhere:
    """A `Studio` in a worker of a cluster that is open."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def speak(self, maker: Maker, asked: list[Words]) -> list[tuple[Task, Spoken]]:
        """See `speak_voices`."""
        share = self._cluster.share
        found: list[tuple[Task, Spoken]]
        found = self._cluster.call(_speak, there(maker.config, share), maker.info, asked, share)
        return found

    def encode(
        self, config: RunConfig, info: ModelInfo, references: list[Reference]
    ) -> list[StoredVoice]:
        """See `encode_voices`."""
        share = self._cluster.share
        found: list[StoredVoice]
        found = self._cluster.call(_encode, there(config, share), info, references, share)
        return found


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


def _speak(
    config: RunConfig, info: ModelInfo, asked: list[Words], share: Share
) -> list[tuple[Task, Spoken]]:
    from tts_cli.engine.local import WarmModel
    from tts_cli.engine.made_voices import speak_voices

    _take_share(share)
    with WarmModel(config, info) as model:
        return speak_voices(model, asked)


def _encode(
    config: RunConfig, info: ModelInfo, references: list[Reference], share: Share
) -> list[StoredVoice]:
    from tts_cli.engine.local import WarmModel
    from tts_cli.engine.made_voices import encode_voices

    _take_share(share)
    with WarmModel(config, info) as model:
        return encode_voices(model, references)


def _take_share(share: Share) -> None:
    import torch

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(share.num_cpus)
