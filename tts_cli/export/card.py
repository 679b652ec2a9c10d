"""The data set's card: `README.md` with metadata in YAML for the Hugging Face hub. Its text is in
`card.md`.

No licence is made up: that of the checkpoint's weights is stated if run.json has it, else none.

Source: https://huggingface.co/docs/hub/datasets-cards
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import PurePath
from string import Template
from typing import Any

from huggingface_hub import DatasetCardData

from tts_cli.config import SAMPLE_VOICE
from tts_cli.export.row import COLUMNS
from tts_cli.export.statistics import NONE
from tts_cli.named import counted
from tts_cli.setting import SAMPLING_FLAGS
from tts_cli.text.languages import code_of

_MAX_NAMED = 30  # voices and languages in a table
_REPOSITORY = re.compile(rf"[\w.-]+(/[\w.-]+)?|synthetic:.*|{SAMPLE_VOICE}")  # of the hub, or ours
_SIZES = {"n<1K": 1_000, "1K<n<10K": 10_000, "10K<n<100K": 100_000, "100K<n<1M": 1_000_000}
# Settings of the folder's last run that a card states; those with paths of the machine are private.
_SETTINGS = (
    *("seed", "layout", "split", "normalize", "format", "subtype", "sample_rate", "loudness"),
    *("highpass", "trim", "pad", "pause_paragraph", "pause_sentence", "pause_clause"),
    *("max_seconds", *SAMPLING_FLAGS, "bitrate", "preset", "speed", "fit", "mark"),
)
_DURATIONS = (
    "Duration of a row: median {p50:.1f} s; 5th to 95th percentile {p5:.1f} to {p95:.1f} s; "
    "minimum {min:.1f} s, maximum {max:.1f} s.\n"
)
_UNSTATED = (
    " No licence is stated for the audio: the publisher of this data set must state the terms for "
    "the audio and the texts."
)
_TERMS = {
    "licence": "The checkpoint's weights have this licence: {licence}. Its terms state what "
    "applies to audio made with them. The terms of the texts are unknown.",
    "sample": "The sample voice of tts-cli is under Apache-2.0." + _UNSTATED,
    "none": "The checkpoint's weights needed no acceptance of terms; see the licence of the "
    "checkpoint." + _UNSTATED,
}


def card(
    to: str,
    hub_files: str | None,
    splits: Sequence[str],
    statistics: Mapping[str, Any],
    settings: Mapping[str, Any],
    report: Mapping[str, Any],
    version: str | None,
) -> str:
    """Return the text of a card.

    Args:
        to: name of the layout.
        hub_files: pattern of a split's files; None: the hub cannot load them.
        statistics: see `Statistics.as_dict`.
        report: run.json of the folder; may be incomplete.
    """
    model, used = model_of(report), report.get("settings", {})
    licence = model.pop("licence", None)
    rows, length, left_out = (statistics[name] for name in ("rows", "length_s", "left_out"))
    files = [
        {"split": split, "path": hub_files.format(split=split)}
        for split in splits
        if hub_files is not None and split in statistics["splits"]
    ]
    codes = sorted({code for name in statistics["languages"] if (code := code_of(name))})
    identifier = re.sub("[^a-z0-9.]+", "-", (licence or "").lower()).strip("-")
    head = DatasetCardData(
        language=codes or None,
        license="other" if licence else None,
        license_name=identifier or None,
        task_categories=["text-to-speech"],
        tags=["synthetic", "speech"],
        size_categories=[next((name for name, end in _SIZES.items() if rows < end), "n>1M")],
        configs=[{"config_name": "default", "data_files": files}] if files else None,
    )
    kind = "licence" if licence else "sample" if model.get("source") == SAMPLE_VOICE else "none"
    columns = {f"`{name}`": meaning for name, (_, meaning) in COLUMNS.items()}
    reasons = [f"- {count}: {reason}" for reason, count in left_out.items()]
    shown = {name: used[name] for name in _SETTINGS if used.get(name) is not None}
    text = Template(resources.files(__package__ or "").joinpath("card.md").read_text("utf-8"))
    body = text.substitute(
        rows=counted(rows, "row"),
        hours=f"{statistics['hours']:.2f}",
        version=version or "(version unknown)",
        to=to,
        durations=_DURATIONS.format(**length) if length else "",
        model="\n".join(_list(model)) or "The exported folder does not state it.",
        terms=_TERMS[kind].format(licence=_cell(licence or "")),
        columns=_section("Columns", _list(columns), "In addition to the audio:\n\n")
        if to in ("audiofolder", "parquet", "webdataset")
        else "",
        left_out=_section("Left out", reasons) if reasons else "",
        settings=json.dumps(settings, ensure_ascii=False),
        last_settings=json.dumps(shown, ensure_ascii=False),
        **{name: _table(statistics[name]) for name in ("splits", "voices", "languages")},
    )
    return f"---\n{head.to_yaml()}\n---\n\n{body}"


def model_of(report: Mapping[str, Any]) -> dict[str, str]:
    """Return what may be published about the model of a run. The path of a checkpoint becomes
    its name, because paths of the machine are private.
    """
    model = report.get("model", {})
    names = ("source", "family", "type", "size", "identity", "licence")
    values = {name: model.get(name) for name in names}
    found = {name: one for name, one in values.items() if isinstance(one, str) and one.strip()}
    if "source" in found and not _REPOSITORY.fullmatch(found["source"]):
        found["source"] = PurePath(found["source"]).name
    return found


def _list(values: Mapping[str, str]) -> list[str]:
    return [f"- {name}: {_cell(value)}" for name, value in values.items()]


def _section(title: str, lines: Sequence[str], first: str = "") -> str:
    return f"\n## {title}\n\n{first}" + "\n".join(lines) + "\n"


def _table(sums: Mapping[str, Mapping[str, float]]) -> str:
    rows = [f"| {_cell(name)} | {one['rows']} | {one['hours']:.2f} |" for name, one in sums.items()]
    more = [f"| {len(rows) - _MAX_NAMED} more | | |"] if len(rows) > _MAX_NAMED else []
    return "\n".join(["| name | rows | hours |", "|---|---|---|", *rows[:_MAX_NAMED], *more])


def _cell(text: str) -> str:
    """Return a text as one line without Markdown tables, links or tags."""
    line = " ".join(text.split())[:200]
    return line if line == NONE else re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", line)
