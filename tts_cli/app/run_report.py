"""The content of run.json, and of the lines of runs.jsonl."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from tts_cli import startup
from tts_cli.config import RunConfig
from tts_cli.engine.session import SessionFacts
from tts_cli.errors import without_user_info
from tts_cli.plan.checkpoint import model_facts
from tts_cli.plan.plan import Plan
from tts_cli.plan.remembered import BookFacts, working_folder
from tts_cli.store.entry import iso_time
from tts_cli.versions import OWN_PACKAGE, versions


def report_of(
    plan: Plan,
    origins: Mapping[str, str] | None,
    totals: Mapping[str, Any] | None,
    facts: SessionFacts | None = None,
    *,
    run_id: str | None,
    started: datetime,
    book: BookFacts | None = None,
    exit_code: int | None = None,
    verified: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return run.json of a run that ends now, or its first line in `runs.jsonl`.

    Args:
        origins, book: see `synthesize`.
        totals: see `run_totals`; None, like the exit code, at the start.
        facts: of the session; None: no model was opened.
        run_id: None: the run synthesized nothing and is not recorded.
        started: start time in UTC.
    """
    voices, facts = plan.voices, facts or SessionFacts()
    return {
        "run_id": run_id,  # [text] id of the run; null in `--json` if nothing was synthesized
        "started": iso_time(started),  # [time] time when the manifest was checked and the run began
        # [time] time when the run ended; null in the first line of a run, like `exit_code` and
        # `totals`
        "ended": None if totals is None else iso_time(datetime.now(timezone.utc)),
        "exit_code": exit_code,  # [0 to 143] exit code of the command
        # [text] working folder of the command, which relative paths of `settings` start from; null:
        # it was removed (since 0.5)
        "working_folder": working_folder(),
        # [text] absolute path of the book; null: not a book (since 0.5)
        "book": None if book is None else os.path.abspath(book.path),
        # [list of text] absolute paths of the manifests; empty: a pipe
        "manifests": plan.source.paths,
        # [object] value of every setting, by the name of its flag
        "settings": _told(plan.planner.maker.config if book is None else book.config),
        # [object] origin of values other than defaults: `flag`, a variable, file and line, or
        # `folder`: the last run
        "settings_from": dict(origins or {}),
        # [list of objects] format of each manifest: path, format, and encoding, separator, sheet
        "read_as": plan.source.facts(),
        # [object] file, SHA-256 and characters of `--cast`; null: no cast
        "cast": plan.planner.validator.cast.facts(),
        # [object] source, family, type, size, identity, licence, default voice
        "model": model_facts(plan.config, plan.info),
        # [object] the same for the checkpoint that generates voices, with `--clone-model`; null:
        # none (since 0.4)
        "voice_model": model_facts(*voices.maker) if voices.is_two else None,
        "text": plan.planner.care.facts(),  # [object] settings of text care, see below
        # [object] time when each step of the start was finished; empty: nothing was synthesized
        # (since 0.4)
        "start": startup.moments() if facts.device else {},
        # [list of objects] voices for rows without one, see below (since 0.4)
        "made_voices": voices.facts(),
        # [object] device, memory and kernels; empty: nothing was synthesized
        "device": facts.device,
        # [list of objects] workers of `--workers`; empty without it (since 0.3)
        "workers": facts.workers,
        # [object] versions of Python and packages; null: not installed; only Python and tts-cli in
        # the first line of a run
        "versions": versions() if totals is not None else versions(OWN_PACKAGE),
        # [object] rows that `--verify` found right, fixed by retries, or still suspect; null: run
        # without `--verify` (since 0.4)
        "verified": verified,
        "totals": totals,  # [object] totals of this run
    }


def _told(config: RunConfig) -> dict[str, Any]:
    """Return the settings of a run, without passwords in URLs."""
    settings = config.as_dict()
    return {n: without_user_info(v) if isinstance(v, str) else v for n, v in settings.items()}
