"""What a run would do: `validate`, whatever a folder holds, and `--dry-run`, from one that is only
looked at.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple

from tts_cli.app.run import Screen, approved, survey_of, warn_of_space
from tts_cli.config import RunConfig
from tts_cli.errors import UsageError
from tts_cli.folder.folder import Folder
from tts_cli.folder.mend import find_orphans
from tts_cli.folder.run_file import measured_xrt
from tts_cli.manifest.source import Manifest
from tts_cli.named import Named
from tts_cli.plan.checkpoint import read_info
from tts_cli.plan.checks import require_possible
from tts_cli.plan.free_voices import who_speaks
from tts_cli.plan.plan import Plan
from tts_cli.plan.strays import Strays
from tts_cli.plan.tally import Survey

log = logging.getLogger(__name__)


class Looked(NamedTuple):
    """What was found."""

    survey: Survey
    xrt: float | None  # of the folder's last run; None: nobody knows
    orphans: Named | None = None  # ids that no row has; None: there is no folder to be looked at


def validate(source: Manifest, config: RunConfig, screen: Screen) -> Looked:
    """Judge every row of a manifest. Raises ManifestError, UsageError, SetupError."""
    config, info, maker = who_speaks(config, read_info(config))
    require_possible(config, info)
    plan = Plan(source, config, info, maker=maker, is_heard=True, keeps=False)
    survey = plan.survey()
    warnings = survey.summary.warnings
    is_whole = config.limit is None and config.shard is None and not config.only
    if is_whole and (unused := plan.planner.care.unused()):
        warnings.append(unused)
    try:
        plan.voices.require_there()
    except UsageError as error:  # voices may be made before that run starts
        warnings.append(str(error))
    screen.problems(survey)
    if config.out is None:
        return Looked(survey, None)
    if not Folder.is_there(config.out):
        warn_of_space(survey, config.out)
    return Looked(survey, measured_xrt(config.out))


def look(
    source: Manifest, config: RunConfig, out: Path, screen: Screen, *, own: str = ""
) -> Looked:
    """Plan a run, see `app.run.run`, and write nothing."""
    config, info, maker = approved(config)
    folder = Folder.at(out, config, info)
    plan = Plan(source, config, info, folder, maker=maker, keeps=False)
    survey = survey_of(plan, screen)
    try:
        survey.require_own_files()
    except UsageError as error:
        if folder.is_new:
            raise
        # After a crash, or beside a run that goes on, files can be ours and not recorded yet.
        log.warning("%s", error)
    if folder.is_new or not config.overwrite:
        warn_of_space(survey, out)
    screen.choices(plan, survey)
    if folder.is_new:
        return Looked(survey, measured_xrt(out))
    survey.strays = Strays(folder, source, plan.rows, own)
    orphans = find_orphans(out, folder.journal, plan.rows.has_id)
    return Looked(survey, measured_xrt(out), orphans)
