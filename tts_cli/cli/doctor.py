"""`tts-cli doctor`: show what is installed, what is missing, and how to get it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from tts_cli.cli.options import common_options
from tts_cli.cli.screen import echo_json, show_table
from tts_cli.config import RunConfig


@click.command("doctor")
@common_options
def command(**options: Any) -> int:
    """Check this machine: versions, devices, driver, caches, disk, and how to get what is missing.

    Exit code 3: something is missing that every synthesis needs.
    """
    config = RunConfig.from_options(options)
    from tts_cli.app.doctor import all_findings

    findings = all_findings()
    if config.json:
        echo_json([asdict(finding) for finding in findings])
    else:
        rows = [
            [f.name, f.status, f.detail + (f"; {f.remedy}" if f.remedy else "")] for f in findings
        ]
        show_table("tts-cli doctor", ["item", "status", "details"], rows)
    return 3 if any(finding.status == "missing" for finding in findings) else 0
