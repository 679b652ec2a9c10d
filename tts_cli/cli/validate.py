"""`tts-cli validate`: everything `synth` checks, without a model in memory."""

from __future__ import annotations

from typing import Any

import click

from tts_cli.cli.command import SectionedCommand
from tts_cli.cli.options import (
    common_options,
    manifests_argument,
    model_options,
    output_options,
    reference_options,
    row_options,
    sampling_options,
)
from tts_cli.cli.plan_words import RunScreen, show_plan
from tts_cli.config import RunConfig
from tts_cli.manifest.manifest import open_manifests


@click.command("validate", cls=SectionedCommand)
@manifests_argument
@model_options
@row_options
@sampling_options
@reference_options
@output_options()
@common_options
def command(manifests: tuple[str, ...], **options: Any) -> int:
    """Check manifests without a model in memory.

    Reads every row of MANIFEST (JSONL, CSV, TSV, .xlsx, .txt, or - for JSONL on stdin) and reports
    bad rows, duplicate ids, voices and languages the checkpoint lacks, and estimates of audio and
    disk. With --out DIR also how long speaking it all takes, at the speed of the last run there;
    what is done in DIR already is told by synth --dry-run. The options are those of synth, so its
    command line can be tried here. Exit code 1: some rows would fail, 2: synth would speak none.
    """
    config = RunConfig.from_options(options)
    with open_manifests(manifests, config) as source:
        from tts_cli.app.look import validate

        looked = validate(source, config, RunScreen(config))
    show_plan(looked, config)
    if looked.survey.summary.bad_rows and not config.skip_invalid:
        return 2
    return int(looked.survey.hopeless > 0)
