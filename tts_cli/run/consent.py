"""Consent to the terms of weights that ask for it: shown before the first use, recorded for good.

What was accepted is kept in `licences.json` in the user's configuration folder, each licence with
a hash of the terms that were shown; other terms ask again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tts_cli.errors import StoppedEarly, UsageError
from tts_cli.output.atomic import write_atomic
from tts_cli.run.model_source import read_info

if TYPE_CHECKING:
    from models.base import Licence, ModelInfo
    from tts_cli.config import RunConfig

log = logging.getLogger(__name__)


def consent_file() -> Path:
    """Where accepted licences are kept."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(folder) if os.path.isabs(folder) else Path.home() / ".config"
    return base / "tts-cli" / "licences.json"


def accepted_on(licence: Licence) -> str | None:
    """The day these very terms were accepted, None if they were not."""
    entry = _read().get(licence.name)
    if not isinstance(entry, dict) or entry.get("terms") != _hash(licence):
        return None
    return str(entry.get("accepted"))


def require_consent(licence: Licence | None, config: RunConfig) -> None:
    """Go on only where a licence is accepted; `--accept-licence` does so, and is remembered.

    Args:
        licence: of the weights about to be used; None where they ask for nothing.
    Raises:
        UsageError: it was never accepted; the message holds its terms.
    """
    if licence is None or accepted_on(licence) is not None:
        return
    if not config.accept_licence:
        raise UsageError(
            f"these weights are under the {licence.name}. {licence.terms} It must be accepted "
            "before their first use",
            remedy="if you do, add --accept-licence once",
        )
    log.warning("accepted: the %s. %s", licence.name, licence.terms)
    accept(licence)


def approved_info(config: RunConfig) -> ModelInfo:
    """`read_info` for a run that goes on to load the weights: their licence is accepted.

    Raises:
        SetupError: the checkpoint cannot be read.
        UsageError: its licence was never accepted.
    """
    info = read_info(config)
    require_consent(info.licence, config)
    return info


def accept(licence: Licence) -> None:
    """Record consent. Where that cannot be written it holds for this run, and is said."""
    path = consent_file()
    known = _read()
    today = datetime.now(timezone.utc).date().isoformat()
    known[licence.name] = {"accepted": today, "terms": _hash(licence)}
    text = json.dumps(known, indent=2, ensure_ascii=False) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text.encode())
    except (OSError, StoppedEarly) as error:
        log.warning("%s cannot be written (%s): --accept-licence is needed again", path, error)


def describe_consent(licence: Licence) -> str:
    """One line: name, whether it was accepted, terms."""
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
