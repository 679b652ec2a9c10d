"""The data set's card: `README.md` with metadata in YAML that the Hugging Face hub reads.

No licence is made up: that of the checkpoint's weights is stated if run.json has it, else none.

Source: https://huggingface.co/docs/hub/datasets-cards
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
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
_SETTINGS = (  # of the folder's last run; those with paths of the machine are private
    *("seed", "layout", "split", "normalize", "format", "subtype", "sample_rate", "loudness"),
    *("highpass", "trim", "pad", "pause_paragraph", "pause_sentence", "pause_clause"),
    *("max_seconds", *SAMPLING_FLAGS),
)


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
        settings: of the export.
        report: run.json of the folder; may be incomplete.
        version: of tts-cli.
    """
    model, made_with = model_of(report), report.get("settings")
    licence = model.pop("licence", None)
    rows, length = statistics["rows"], statistics["length_s"]
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
    if licence is not None:
        terms = (
            f"The checkpoint's weights have this licence: {_cell(licence)}. Its terms state what "
            "applies to audio made with them. The terms of the texts are unknown."
        )
    else:
        whose = (
            "The sample voice of tts-cli is under Apache-2.0."
            if model.get("source") == SAMPLE_VOICE
            else "The checkpoint's weights needed no acceptance of terms; see the licence of the "
            "checkpoint."
        )
        terms = (
            f"{whose} No licence is stated for the audio: the publisher of this data set must "
            "state the terms for the audio and the texts."
        )
    used = made_with if isinstance(made_with, dict) else {}
    sections = {
        "Model": [f"- {name}: {_cell(value)}" for name, value in model.items()]
        or ["The exported folder does not state it."],
        "Licence": [terms],
        **{
            name.capitalize(): _table(statistics[name])
            for name in ("splits", "voices", "languages")
        },
        "Columns": ["In addition to the audio:", ""]
        + [f"- `{name}`: {meaning}" for name, (_, meaning) in COLUMNS.items()],
        "Left out": [f"- {count}: {reason}" for reason, count in statistics["left_out"].items()],
        "Settings": [
            *("Settings of the export:", ""),
            f"    {json.dumps(settings, ensure_ascii=False)}",
            *("", "Settings of the folder's last run:", ""),
            "    "
            + json.dumps(
                {name: used[name] for name in _SETTINGS if used.get(name) is not None},
                ensure_ascii=False,
            ),
        ],
    }
    if to not in ("audiofolder", "parquet", "webdataset"):
        del sections["Columns"]
    lines = [
        *("---", head.to_yaml(), "---", "", "# Synthetic speech", ""),
        f"All speech in this data set is synthetic: {counted(rows, 'row')}, "
        f"{statistics['hours']:.2f} hours, synthesized and exported by tts-cli "
        f"{version or '(version unknown)'} as {to}.",
    ]
    if length:
        lines.append(
            f"Duration of a row: median {length['p50']:.1f} s; 5th to 95th percentile "
            f"{length['p5']:.1f} to {length['p95']:.1f} s; minimum {length['min']:.1f} s, "
            f"maximum {length['max']:.1f} s."
        )
    for title, body in sections.items():
        lines += ["", f"## {title}", "", *body] if body else []
    return "\n".join(lines) + "\n"


def model_of(report: Mapping[str, Any]) -> dict[str, str]:
    """Return what may be published about the model of a run. The path of a checkpoint becomes its
    name, because paths of the machine are private.
    """
    model = report.get("model")
    names = ("source", "family", "type", "size", "identity", "licence")
    values = {name: model.get(name) for name in names} if isinstance(model, dict) else {}
    found = {name: one for name, one in values.items() if isinstance(one, str) and one.strip()}
    if "source" in found and not _REPOSITORY.fullmatch(found["source"]):
        found["source"] = PurePath(found["source"]).name
    return found


def _table(sums: Mapping[str, Mapping[str, float]]) -> list[str]:
    rows = [f"| {_cell(name)} | {one['rows']} | {one['hours']:.2f} |" for name, one in sums.items()]
    more = [f"| {len(rows) - _MAX_NAMED} more | | |"] if len(rows) > _MAX_NAMED else []
    return ["| name | rows | hours |", "|---|---|---|", *rows[:_MAX_NAMED], *more]


def _cell(text: str) -> str:
    """Return a text as one line in which Markdown sees no table, link or tag."""
    line = " ".join(text.split())[:200]
    return line if line == NONE else re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", line)
