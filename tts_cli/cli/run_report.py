"""What a command that speaks rows tells of its run: facts for the report, results on stdout."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from tts_cli.cli.command import Invocation
from tts_cli.cli.screen import show_or_warn
from tts_cli.folder.run_file import build_report

if TYPE_CHECKING:
    from datetime import datetime

    from tts_cli.plan.plan import RowPlan


def setting_origins() -> dict[str, str]:
    """Where the settings of this command come from that are not built in."""
    ctx = click.get_current_context(silent=True)
    return {} if ctx is None else ctx.ensure_object(Invocation).origins


def plan_facts(plan: RowPlan) -> dict[str, Any]:
    """What the report says of a run before a row of it is spoken, as `build_report` takes it."""
    from tts_cli.plan.checkpoint import model_facts

    return {
        "model": model_facts(plan.config, plan.info),
        "text": plan.care.facts(),
        "manifests": plan.source.paths,
        "read_as": plan.source.facts(),
        "cast": plan.rows.casting.cast.facts(),
        "origins": setting_origins(),
        "voice_model": model_facts(*plan.maker) if plan.voices.is_two else None,
        "made_voices": plan.voices.facts(),
    }


def first_report(plan: RowPlan, run_id: str, started: datetime) -> dict[str, Any]:
    """What is known of a run before a row of it is spoken."""
    return build_report(
        plan.maker.config,
        None,
        run_id=run_id,
        device={},
        started=started,
        exit_code=None,
        **plan_facts(plan),
    )


def show_report(report: Mapping[str, Any], exit_code: int) -> int:
    """Print a report as JSON, in the form of run.json. Returns the exit code."""
    return show_or_warn(json.dumps(report, indent=2), exit_code, is_json=True)
