"""Plan a run: the first part of `synth`, and all of a dry run and of `validate`."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tts_cli import signals
from tts_cli.app import device
from tts_cli.config import RunConfig
from tts_cli.errors import SettingsChanged, SetupError, UsageError
from tts_cli.events import Count, Event
from tts_cli.named import counted, shown_size, shown_value
from tts_cli.plan.checkpoint import approved_info, model_facts, read_info, require_consent
from tts_cli.plan.checks import require_possible
from tts_cli.plan.estimate import measured_xrt
from tts_cli.plan.free_voices import VoiceDesigner, who_speaks
from tts_cli.plan.plan import Plan
from tts_cli.plan.remembered import facts_of, settings_now
from tts_cli.plan.strays import Strays
from tts_cli.setting import About, flag
from tts_cli.sources.item import Manifest
from tts_cli.store.run_file import read_report, settings_of
from tts_cli.store.store import Store
from tts_cli.versions import versions

if TYPE_CHECKING:
    from models.base import ModelInfo

log = logging.getLogger(__name__)

Differences = dict[str, tuple[Any, Any]]  # settings by name: values then and now


class Screen(Protocol):
    def step(self, what: str) -> AbstractContextManager[Any]: ...

    def progress(self, num_rows: int) -> AbstractContextManager[Any]:
        """Show the progress of rows. The result's `update` is called after each row."""
        ...

    def problems(self, plan: Plan) -> None:
        """Report invalid rows, and notes on others."""
        ...

    def choices(self, plan: Plan, unlike: Differences) -> None:
        """Report pinned takes that are dropped, and done rows that change. `unlike` has the
        settings that differ from the folder's last run.
        """
        ...

    def due(self, plan: Plan) -> None:
        """Report damaged files, and voices that are not fixed."""
        ...


class DryRunReport(NamedTuple):
    plan: Plan
    xrt: float | None  # speed of the folder's last run; None: unknown
    warnings: Sequence[str] = ()  # besides those about rows
    strays: Strays | None = None  # rows that the manifest no longer has; None: without a folder
    orphans: Count | None = None  # ids of files that no row has; None: without a folder


def validate(source: Manifest, config: RunConfig, screen: Screen) -> DryRunReport:
    """Check every row of a manifest. Raises ManifestError, UsageError, SetupError."""
    config, info, maker = who_speaks(config, read_info(config))
    require_possible(config, info)
    plan = Plan(source, config, info, maker=maker, decodes_audio=True, keeps=False)
    plan.read()
    warnings = []
    if respelled := plan.planner.care.respelled():
        warnings.append(respelled)
    is_whole = config.limit is None and config.shard is None and not config.only
    if is_whole and (unused := plan.planner.care.unused()):
        warnings.append(unused)
    try:
        plan.voices.require_there()
    except UsageError as error:  # voices may be generated before the run starts
        warnings.append(str(error))
    screen.problems(plan)
    for warning in warnings:
        log.warning("%s", warning)
    if config.out is None:
        return DryRunReport(plan, None, warnings)
    if not Store.exists(config.out):
        warn_of_space(plan, config.out)
    return DryRunReport(plan, measured_xrt(config.out), warnings)


def approved(config: RunConfig) -> tuple[RunConfig, ModelInfo, VoiceDesigner]:
    """Check everything that needs no manifest. Returns as `who_speaks`."""
    signals.check()  # imports may have swallowed an interrupt
    if log.isEnabledFor(logging.DEBUG):  # reading them takes a while
        log.debug("versions: %s", listed(versions()))
    log.debug("settings: %s", listed(config.as_dict()))
    device.require_driver(config)
    info = read_info(config) if config.dry_run else approved_info(config)
    config, info, maker = who_speaks(config, info)
    require_possible(config, info)
    if not config.dry_run:
        require_consent(info.licence, config)
    return config, info, maker


def read_plan(plan: Plan, screen: Screen) -> None:
    """Read the manifest, and report problems. Raises ManifestError, UsageError, SetupError."""
    config, folder = plan.config, plan.folder
    with screen.step("checking the manifest and the done rows"):
        plan.read()
    log.debug("remaining: %s", plan.events)
    signals.check()
    screen.problems(plan)
    if respelled := plan.planner.care.respelled():
        log.warning("%s", respelled)
    if not config.skip_invalid:
        plan.require_valid()
    require_settled(plan)
    plan.voices.require_there()
    unlike = unlike_last_run(plan) if plan.needs_model and not folder.is_new else {}
    screen.choices(plan, unlike)
    try:
        plan.require_own_files()
    except UsageError as error:
        if folder.is_new or not config.dry_run:
            raise
        # After a crash, or during another run, files can be ours and not recorded yet.
        log.warning("%s", error)
    if folder.is_new or not config.overwrite:  # replacing files frees space
        warn_of_space(plan, folder.out)


def require_settled(plan: Plan) -> None:
    """Raise SettingsChanged if settings given now would change done rows, unless --redo or
    --keep-done is given.
    """
    if num_refused := plan.events.num(Event.REFUSED):
        changes = (
            f"{flag(name)} {shown_value(now)}, before {shown_value(then)}"
            for name, (then, now) in plan.changes.explicit.items()
        )
        rows = counted(num_refused, "done row")
        raise SettingsChanged(
            f"{rows} of {plan.folder.out} would change: {'; '.join(changes)}",
            remedy="add --redo to synthesize such rows again, or --keep-done to keep them and use "
            "the new settings for other rows only",
        )


def unlike_last_run(plan: Plan) -> Differences:
    """Return the speech settings that differ from the folder's last run: old and new value."""
    settings = settings_now(plan.planner.maker.config)
    report = {"model": model_facts(plan.config, plan.info), "settings": settings}
    now = settings_of(report, (About.SPEECH,))
    last = read_report(plan.folder.out)
    last["settings"] = facts_of(last).settings  # with absolute paths
    then = now | settings_of(last, (About.SPEECH,))
    return {name: (then[name], now[name]) for name in now if then[name] != now[name]}


def warn_of_space(plan: Plan, out: Path) -> None:
    """Warn if the rows do not fit on the disk. Raises SetupError if even half does not fit."""
    if problem := check_space(out, plan.disk_bytes):
        log.warning("%s", problem)


def listed(values: Mapping[str, Any]) -> str:
    """Return values with their names, without those that are None."""
    return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)


def check_space(out: Path, needed_bytes: int) -> str | None:
    """Return a warning if not all rows fit on the disk. Raises SetupError if not even half do."""
    place = out.absolute()
    while not place.exists():
        place = place.parent
    try:
        usage = shutil.disk_usage(place)
    except OSError as error:
        return f"the free space of {place} is unknown: {error.strerror or error}"
    free_bytes = usage.free
    if needed_bytes <= free_bytes or usage.total == 0:  # /proc and others have no size
        return None
    message = (
        f"about {shown_size(needed_bytes)} are needed, but only {shown_size(free_bytes)} are free"
    )
    if free_bytes == 0:
        message = f"the disk is full; about {shown_size(needed_bytes)} are needed"
    if needed_bytes > 2 * free_bytes:
        raise SetupError(
            f"--out {out}: {message}",
            remedy="free some space, use --format flac, or split the manifest with --shard",
        )
    return f"--out {out}: {message}; the run may stop early"
