"""The data set's card: `README.md` with the head in YAML that the Hugging Face hub reads.

No licence is made up: that of the checkpoint's weights is named if run.json names it, else none.

Source: https://huggingface.co/docs/hub/datasets-cards
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from tts_cli.config import SAMPLE_VOICE
from tts_cli.export.row import COLUMNS
from tts_cli.export.statistics import NONE, OTHERS
from tts_cli.named import counted
from tts_cli.setting import SAMPLING_FLAGS
from tts_cli.text.languages import code_of

_MAX_NAMED = 30  # voices and languages in a table
_REPOSITORY = re.compile(rf"[\w.-]+(/[\w.-]+)?|synthetic:.*|{SAMPLE_VOICE}")  # of the hub, or ours
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (10**6, "100K<n<1M"))
_MEANINGS = {
    "id": "of the row in the manifest",
    "take": "take number of the row",
    "text": "as written",
    "spoken_text": "text as the model received it, with figures and abbreviations as words if "
    "requested; otherwise the same as text",
    "voice": "speaker, voice file or generated voice; null: the model chose one",
    "character": "speaker in the story; null: not specified",
    "language": "as in the manifest; null: not specified",
    "duration": "duration in seconds",
    "sample_rate": "Hz",
    "seed": "seed of the sampling",
    "error": "error rate of the transcript: share of words or characters; null: not transcribed",
    "mos": "predicted opinion score (DNSMOS), 1 to 5; null: not measured",
    "words": "time of each word: word, start and end in seconds, score; null: not aligned",
    "words_unsure": "whether these times may be wrong; null: not aligned",
}


@dataclass(frozen=True)
class CardFacts:
    """What a card tells beside the figures."""

    to: str  # the format
    splits: Sequence[str]
    hub_files: str | None  # pattern of a split's files; None: the hub cannot load it
    report: Mapping[str, Any]  # run.json of the folder; may lack anything
    settings: Mapping[str, Any]  # of the export
    version: str | None  # of tts-cli


def card(about: CardFacts, statistics: Mapping[str, Any]) -> str:
    """The card's text.

    Args:
        statistics: as `Statistics.as_dict` gives them.
    """
    head = "\n".join(_head(about, statistics))
    body = "\n".join(_body(about, statistics))
    return f"---\n{head}\n---\n\n{body}\n"


def _head(about: CardFacts, statistics: Mapping[str, Any]) -> Iterator[str]:
    codes = sorted({code for name in statistics["languages"] if (code := code_of(name))})
    if codes:
        yield "language:"
        yield from (f"- {_quoted(code)}" for code in codes)
    licence = model_of(about.report).get("licence")
    if licence is not None:
        yield "license: other"
        yield f"license_name: {_quoted(re.sub('[^a-z0-9.]+', '-', licence.lower()).strip('-'))}"
    yield "task_categories:"
    yield "- text-to-speech"
    yield "tags:"
    yield "- synthetic"
    yield "- speech"
    size = next((name for limit, name in _SIZES if statistics["rows"] < limit), "n>1M")
    yield "size_categories:"
    yield f"- {size}"
    if about.hub_files is not None:
        yield "configs:"
        yield "- config_name: default"
        yield "  data_files:"
        for split in about.splits:
            if split in statistics["splits"]:
                yield f"  - split: {split}"
                yield f"    path: {_quoted(about.hub_files.format(split=split))}"


def _body(about: CardFacts, statistics: Mapping[str, Any]) -> Iterator[str]:
    model, settings = model_of(about.report), _object(about.report.get("settings"))
    length = statistics["length_s"]
    yield "# Synthetic speech"
    yield ""
    yield (
        f"All speech in this data set is synthetic: {counted(statistics['rows'], 'row')}, "
        f"{statistics['hours']:.2f} hours, synthesized and exported by tts-cli "
        f"{about.version or '(version unknown)'} as {about.to}."
    )
    if length:
        yield (
            f"Duration of a row: median {length['p50']:.1f} s; 5th to 95th percentile "
            f"{length['p5']:.1f} to {length['p95']:.1f} s; minimum {length['min']:.1f} s, "
            f"maximum {length['max']:.1f} s."
        )
    yield ""
    yield "## Model"
    yield ""
    yield from (f"- {name}: {_cell(value)}" for name, value in model.items() if name != "licence")
    if not model:
        yield "The exported folder does not state it."
    yield ""
    yield "## Licence"
    yield ""
    licence = model.get("licence")
    if licence is None:
        whose = (
            "The checkpoint's weights needed no acceptance of terms; see the licence of the "
            "checkpoint."
        )
        if model.get("source") == SAMPLE_VOICE:
            whose = "The sample voice of tts-cli is under Apache-2.0."
        yield (
            f"{whose} No licence is stated for the audio: the publisher of this data set must "
            "state the terms for the audio and the texts."
        )
    else:
        yield (
            f"The checkpoint's weights have this licence: {_cell(licence)}. Its terms state "
            "what applies to audio made with them. The terms of the texts are unknown."
        )
    yield ""
    for title, key in (("Splits", "splits"), ("Voices", "voices"), ("Languages", "languages")):
        yield f"## {title}"
        yield ""
        yield from _table(statistics[key])
        yield ""
    if about.to in ("audiofolder", "parquet", "webdataset"):
        yield "## Columns"
        yield ""
        yield "In addition to the audio:"
        yield ""
        yield from (f"- `{name}`: {_MEANINGS[name]}" for name in COLUMNS)
        yield ""
    if statistics["left_out"]:
        yield "## Left out"
        yield ""
        yield from (f"- {count}: {reason}" for reason, count in statistics["left_out"].items())
        yield ""
    yield "## Settings"
    yield ""
    yield "Settings of the export:"
    yield ""
    yield f"    {json.dumps(about.settings, ensure_ascii=False)}"
    yield ""
    yield "Settings of the folder's last run:"
    yield ""
    yield f"    {json.dumps(_public(settings), ensure_ascii=False)}"


def model_of(report: Mapping[str, Any]) -> dict[str, str]:
    """What may be told of the model of a report, in texts. Of a checkpoint's path it is the name:
    where it lies is nobody's business.
    """
    model = _object(report.get("model"))
    names = ("source", "family", "type", "size", "identity", "licence")
    found = {name: value for name in names if (value := _text(model.get(name))) is not None}
    source = found.get("source")
    if source is not None and not _REPOSITORY.fullmatch(source):
        found["source"] = PurePath(source).name
    return found


def _table(sums: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    yield "| name | rows | hours |"
    yield "|---|---|---|"
    for name, one in list(sums.items())[:_MAX_NAMED]:
        yield f"| {_cell(name)} | {one['rows']} | {one['hours']:.2f} |"
    if len(sums) > _MAX_NAMED:
        yield f"| {len(sums) - _MAX_NAMED} more | | |"


def _public(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that say how it sounds. Paths of the machine are nobody's business."""
    names = ("seed", "layout", "split", "normalize", "format", "subtype", "sample_rate")
    more = ("loudness", "highpass", "trim", "pad", "pause_paragraph", "pause_sentence")
    shown = (*names, *more, "pause_clause", "max_seconds", *SAMPLING_FLAGS)
    return {name: settings[name] for name in shown if settings.get(name) is not None}


def _quoted(text: str) -> str:
    """A text that YAML takes for nothing else: `no` is Norwegian."""
    return json.dumps(text)


def _cell(text: str) -> str:
    """A text on one line, in which Markdown sees no table, link or tag."""
    line = " ".join(text.split())[:200]
    if line in (NONE, OTHERS):
        return line
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", line)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
