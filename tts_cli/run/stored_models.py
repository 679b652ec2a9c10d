"""Checkpoints at hand, in the hub's cache, and how others come there."""

from __future__ import annotations

import logging
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from models.checkpoint.files import HUB_FILES, CheckpointError, NoSuchCheckpoint, fetch
from models.registry import describe, did_you_mean, family_of
from tts_cli.errors import SetupError, UsageError
from tts_cli.run.consent import accepted_on, require_consent
from tts_cli.run.model_source import sample_voice

if TYPE_CHECKING:
    from models.base import Licence
    from tts_cli.config import RunConfig

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StoredModel:
    """A checkpoint on this machine."""

    name: str  # what --model takes; "sample voice" where it is left out
    family: str
    path: str
    size_bytes: int
    licence: Licence | None = None

    @property
    def licence_state(self) -> str:
        """Whether there is one to be accepted, and when it was."""
        if self.licence is None:
            return "none asked for"
        day = accepted_on(self.licence)
        return f"{self.licence.name}, " + (f"accepted on {day}" if day else "not accepted yet")

    def facts(self) -> dict[str, Any]:
        """As JSON can hold it."""
        licence = self.licence
        return {
            "model": self.name,
            "family": self.family,
            "folder": self.path,
            "bytes": self.size_bytes,
            "licence": None if licence is None else licence.name,
            "licence_accepted": None if licence is None else accepted_on(licence),
        }


@dataclass(frozen=True)
class Downloaded:
    """A checkpoint that was fetched."""

    folder: Path
    family: str
    next_step: str | None  # a command without which it cannot be used yet


def stored_models() -> list[StoredModel]:
    """The sample voice, and every checkpoint of our families in the hub's cache.

    Raises:
        SetupError: the sample voice is missing.
    """
    sample = sample_voice()
    size = sum(path.stat().st_size for path in sample.rglob("*") if path.is_file())
    found = [StoredModel("sample voice", family_of(sample)[0], str(sample), size)]
    from huggingface_hub import CacheNotFound, constants, scan_cache_dir

    try:
        cache = scan_cache_dir(constants.HF_HUB_CACHE)
    except (CacheNotFound, OSError) as error:
        log.debug("no hub cache: %s", error)
        return found
    for repository in sorted(cache.repos, key=lambda repository: repository.repo_id):
        for revision in sorted(repository.revisions, key=lambda revision: -revision.last_modified):
            try:
                family, licence = family_of(revision.snapshot_path)
            except CheckpointError:
                continue  # something else
            name, folder = repository.repo_id, str(revision.snapshot_path)
            if not {"main"} & revision.refs:
                name += f" --revision {min(revision.refs, default=revision.commit_hash)}"
            found.append(StoredModel(name, family, folder, revision.size_on_disk, licence))
    return found


def download(config: RunConfig) -> Downloaded:
    """Fetch the checkpoint that `config.model` names.

    Raises:
        SetupError: there is no such repository, the hub cannot be reached, or it is of no family.
        UsageError: its licence was never accepted, or it is a folder.
    """
    assert config.model is not None
    model, revision = config.model, config.revision
    if Path(model).expanduser().exists():
        raise UsageError(f"{model}: is on this machine already", "name a repository of the hub")
    try:
        family, licence = family_of(fetch(model, revision, ["config.json"]))
        require_consent(licence, config)
        log.info("fetching %s", model)
        folder = fetch(model, revision, HUB_FILES)
    except NoSuchCheckpoint as error:
        raise SetupError(f"{error}{did_you_mean(model)}") from None
    except CheckpointError as error:
        raise SetupError(str(error)) from None
    next_step = None
    try:
        describe(str(folder))
    except CheckpointError as error:
        if "models convert" not in str(error):
            raise SetupError(f"{model} was fetched, but is not whole: {error}") from None
        flags = f" --revision {shlex.quote(revision)}" if revision else ""
        next_step = f"tts-cli models convert {shlex.quote(model)}{flags}"
    return Downloaded(folder, family, next_step)
