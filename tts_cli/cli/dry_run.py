"""`--dry-run`: what a run would do, from a folder that is only looked at."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from tts_cli.cli.screen import long_step
from tts_cli.cli.validate import say_kept, say_problems, say_space, show_summary
from tts_cli.config import RunConfig
from tts_cli.errors import UsageError
from tts_cli.folder.folder import Folder
from tts_cli.folder.mend import find_orphans
from tts_cli.manifest.source import Manifest
from tts_cli.plan.plan import Plan
from tts_cli.plan.strays import Strays

if TYPE_CHECKING:
    from models.base import ModelInfo
    from tts_cli.plan.free_voices import Maker
    from tts_cli.plan.tally import Survey

log = logging.getLogger(__name__)


def show_plan(
    source: Manifest, config: RunConfig, out: Path, info: ModelInfo, maker: Maker, own: str = ""
) -> int:
    """Tell what the run would do, from a folder that is only looked at. Returns the exit code."""
    folder = Folder.at(out, config, info)
    plan = Plan(source, config, info, folder, maker=maker, keeps=False)
    with long_step("checking the manifest, and which rows are done", config.progress):
        survey = plan.survey()
    say_problems(survey.summary, config)
    say_kept(survey)
    if not config.skip_invalid:
        survey.summary.require_good()
    plan.voices.require_there()
    say_choices(survey, config, plan.voices.is_two)
    try:
        survey.require_own_files()
    except UsageError as error:
        if folder.is_new:
            raise
        # After a crash, or beside a run that goes on, files can be ours and not recorded yet.
        log.warning("%s", error)
    if folder.is_new or not config.overwrite:
        say_space(survey.summary, out)
    if folder.is_new:
        show_summary(survey.summary, config)
    else:
        survey.strays = Strays(folder, source, plan.rows, own)
        orphans = find_orphans(out, folder.journal, plan.rows.has_id)
        show_summary(survey.summary, config, survey, orphans)
    return 0


def say_choices(survey: Survey, config: RunConfig, is_two: bool) -> None:
    """Tell of chosen takes that do not fit their rows any more, and of rows that have one take."""
    fallen = sum(survey.fallen.values())
    if fallen:
        named = ", ".join(filter(None, survey.fallen)) + ", ..." * ("" in survey.fallen)
        what = "text, voice or other settings have changed since a take was chosen"
        fate = "would be spoken again" if config.dry_run else "spoken again"
        log.warning("%s; %s, and the old take kept in takes/: %s", what, fate, named)
    if survey.served and survey.takes:
        takes = "1 take counts" if survey.served == 1 else f"{survey.served} takes count"
        log.info("%s that a run has spoken which was cut short", takes)
    if survey.unfixed:
        rows = "1 row was" if survey.unfixed == 1 else f"{survey.unfixed} rows were"
        log.warning(
            "%s spoken in a voice that nothing fixed, and %s spoken again in one that is kept; %s "
            "leaves those that were spoken in one as they are",
            *(rows, "would be" if config.dry_run else "will be"),
            "a run without --clone-model" if is_two else "--free-voice each",
        )
    if survey.one_take:
        rows = "1 row draws" if survey.one_take == 1 else f"{survey.one_take} rows draw"
        log.warning("%s nothing (greedy), so every take would be the same: none is spoken", rows)
