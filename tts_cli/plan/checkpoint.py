"""Find and describe the checkpoint of a run, list and download checkpoints, and ask for consent to
their licences. A checkpoint is described from its small files, without torch.

Accepted licences are stored in `licences.json` in the user's configuration folder with a hash of
the terms that were shown, so new terms must be accepted again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shlex
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from models.base import ModelInfo
from models.checkpoint.files import HUB_FILES, CheckpointError, NoSuchCheckpoint, fetch
from models.registry import describe, did_you_mean, family_of, is_synthetic, load_prompt_counter
from tts_cli.atomic import write_atomic
from tts_cli.config import SAMPLE_VOICE, RunConfig, users_folder
from tts_cli.errors import SetupError, StoppedEarly, UsageError
from tts_cli.plan.room import Count

if TYPE_CHECKING:
    from models.base import Licence, ModelInfo
    from tts_cli.config import RunConfig


CHECKOUT_FOLDER = Path("samples") / "voice" / "checkpoint"
INSTALLED_FOLDER = "sample_voice"  # pyproject.toml puts it there


def sample_voice() -> Path:
    """Return the folder of the sample voice, in the checkout or the package. Raises SetupError."""
    package = Path(__file__).resolve().parents[1]
    installed = package / INSTALLED_FOLDER
    for folder in (package.parent / CHECKOUT_FOLDER, installed):
        if (folder / "config.json").is_file():
            return folder
    raise SetupError(
        f"the sample voice is missing ({installed})",
        remedy="install tts-cli again, or give a checkpoint with --model",
    )


def model_source(model: str | None) -> str:
    """Return the argument of `models.registry` for a `--model` value."""
    return str(sample_voice()) if model is None else model


def model_label(model: str | None) -> str:
    return SAMPLE_VOICE if model is None else model


def never_ends(model: str | None) -> bool:
    """Return whether a `--model` value means random weights, which never generate EOS."""
    return model is not None and is_synthetic(model)


def prompt_counter(config: RunConfig) -> Count:
    """Return a function that counts the prompt tokens of a request with a number of reference
    frames. The tokenizer is loaded once. Raises SetupError.
    """
    try:
        return _prompt_counter(model_source(config.model), config.revision)
    except CheckpointError as error:
        raise SetupError(str(error)) from None


_prompt_counter = lru_cache(maxsize=1)(load_prompt_counter)


def read_info(config: RunConfig) -> ModelInfo:
    """Describe the run's checkpoint. Raises SetupError."""
    try:
        return describe(model_source(config.model), config.revision)
    except CheckpointError as error:
        raise SetupError(
            str(error), remedy="see `tts-cli voices --help` for the values of --model"
        ) from None


def is_at_hand(model: str | None, revision: str | None) -> bool:
    """Return whether a `--model` value needs no download: a folder, random weights, or cached."""
    if model is None or is_synthetic(model) or Path(model).expanduser().exists():
        return True
    from huggingface_hub import try_to_load_from_cache

    try:
        return isinstance(try_to_load_from_cache(model, "config.json", revision=revision), str)
    except (ValueError, OSError):
        return False


def model_facts(config: RunConfig, info: ModelInfo) -> dict[str, Any]:
    return {
        "source": model_label(config.model),
        "family": info.family,
        "type": info.type,
        "size": info.size,
        "identity": info.identity,
        "licence": None if info.licence is None else info.licence.name,
        "default_voice": config.voice or (info.voices[0] if info.voices else None),
    }


log = logging.getLogger(__name__)


def consent_file() -> Path:
    return users_folder("XDG_CONFIG_HOME", ".config") / "licences.json"


def accepted_on(licence: Licence) -> str | None:
    """Return the day on which these terms were accepted, or None."""
    entry = _read().get(licence.name)
    if not isinstance(entry, dict) or entry.get("terms") != _hash(licence):
        return None
    return str(entry.get("accepted"))


def require_consent(licence: Licence | None, config: RunConfig) -> None:
    """Require that a licence is accepted; `--accept-licence` accepts it for good. None: no
    consent is needed. Raises UsageError, whose message contains the terms.
    """
    if licence is None or accepted_on(licence) is not None:
        return
    if not config.accept_licence:
        raise UsageError(
            f"the {licence.name} applies to these weights. {licence.terms} You must accept it "
            "before their first use",
            remedy="to accept it, add --accept-licence once",
        )
    log.warning("accepted: the %s. %s", licence.name, licence.terms)
    accept(licence)


def approved_info(config: RunConfig) -> ModelInfo:
    """Describe the run's checkpoint and require consent. Raises SetupError, UsageError."""
    info = read_info(config)
    require_consent(info.licence, config)
    return info


def accept(licence: Licence) -> None:
    """Record consent. If that fails, warn; the consent is valid for this run."""
    path = consent_file()
    known = _read()
    today = datetime.now(timezone.utc).date().isoformat()
    known[licence.name] = {"accepted": today, "terms": _hash(licence)}
    text = json.dumps(known, indent=2, ensure_ascii=False) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text.encode())
    except (OSError, StoppedEarly) as error:
        log.warning("%s cannot be written (%s): give --accept-licence again next time", path, error)


def describe_consent(licence: Licence) -> str:
    day = accepted_on(licence)
    state = "not accepted yet, see --accept-licence" if day is None else f"accepted on {day}"
    return f"{licence.name} ({state}). {licence.terms}"


def _hash(licence: Licence) -> str:
    return hashlib.sha256(f"{licence.name}\0{licence.terms}".encode()).hexdigest()[:16]


def _read() -> dict[str, Any]:
    path = consent_file()
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        log.warning("%s cannot be read, so no licence counts as accepted: %s", path, error)
        return {}
    return found if isinstance(found, dict) else {}


@dataclass(frozen=True)
class StoredModel:
    name: str  # value for --model, or "sample voice"
    family: str
    path: str
    size_bytes: int
    licence: Licence | None = None

    @property
    def licence_state(self) -> str:
        if self.licence is None:
            return "no acceptance needed"
        day = accepted_on(self.licence)
        return f"{self.licence.name}, " + (f"accepted on {day}" if day else "not accepted yet")

    def facts(self) -> dict[str, Any]:
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
    folder: Path
    family: str
    next_step: str | None  # command to run before it can be used; None: it is ready


def stored_models() -> list[StoredModel]:
    """Return the sample voice and supported checkpoints in the hub's cache. Raises SetupError."""
    sample = sample_voice()
    size = sum(path.stat().st_size for path in sample.rglob("*") if path.is_file())
    found = [StoredModel(SAMPLE_VOICE, family_of(sample)[0], str(sample), size)]
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


def download(model: str, config: RunConfig) -> Downloaded:
    """Download a checkpoint from the hub.

    Raises:
        SetupError: the repository does not exist, the hub cannot be reached, or the model is not
            supported.
        UsageError: its licence was never accepted, or `model` is a folder.
    """
    revision = config.revision
    if Path(model).expanduser().exists():
        raise UsageError(f"{model}: is already on this machine", "give a repository of the hub")
    try:
        family, licence = family_of(fetch(model, revision, ["config.json"]))
        require_consent(licence, config)
        log.info("downloading %s", model)
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
            raise SetupError(f"{model} was downloaded, but is incomplete: {error}") from None
        flags = f" --revision {shlex.quote(revision)}" if revision else ""
        next_step = f"tts-cli models convert {shlex.quote(model)}{flags}"
    return Downloaded(folder, family, next_step)
