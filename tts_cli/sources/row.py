"""Check the fields of one row. `plan.checks` does checks that need other rows or the checkpoint."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Mapping
from typing import Any

from models.sampling import SETTINGS as SAMPLING
from models.sampling import Range
from tts_cli.config import SETTINGS
from tts_cli.core import BadRow, Row
from tts_cli.named import MAX_DEPTH, is_too_deep, shown
from tts_cli.sources.ids import ContentIds, default_id, manifest_id_problem
from tts_cli.sources.mapping import (
    ALIASES,
    KINDS,
    MAX_NAME_CHARS,
    RowProblem,
    as_flag,
    guess_mapping,
    unknown_names,
)
from tts_cli.text.lexicon import parse_row_lexicon
from tts_cli.text.pauses import pause_problem
from tts_cli.text.unicode import clean_unicode
from tts_cli.text.words import is_blank, strip_markup


def expand_greedy(given: Mapping[str, float]) -> dict[str, Any]:
    """Return sampling settings in which `greedy` is also the default for the further codebooks."""
    if "greedy" not in given:
        return dict(given)
    return {"subtalker_greedy": given["greedy"], **given}


MAX_TEXT_CHARS = 20_000
MAX_PATH_CHARS = 4096
MAX_EXTRA_CHARS = 1 << 16

# Values of cells that show an error, in all programs for workbooks.
CELL_ERRORS = ("#N/A", "#NAME?", "#REF!", "#VALUE!", "#DIV/0!")

CLONE_MODES = ("icl", "xvec")
_OF_REFERENCE = {"ref_audio", "ref_text", "clone_mode", "x_vector_only_mode"}
# Fields that have other limits than a flag of the same name, or no such flag.
_LIMITS = {
    "max_frames": Range(1, 1_000_000, is_integer=True),
    "duration_s": Range(0.0, 3600.0, is_low_open=True),
}

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # except tab and newline
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
# Of spreadsheets, pandas and databases; "null" and "None" are words.
_NO_VALUES = {*CELL_ERRORS, "#NULL!", "#NUM!", "NaN", "nan", "NULL", "<NA>"}
_FORMULA = re.compile(r"=\s*[A-Z][A-Z0-9.]*\(.*\)")
_INT = re.compile(r"[+-]?[0-9]{1,30}")
_FLOAT = re.compile(r"[+-]?([0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})([eE][+-]?[0-9]{1,4})?")
_BOOLS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|data:")


def build_row(
    values: Mapping[str, Any],
    *,
    line: int,
    number: int,
    folder: str,
    is_text: bool = False,
    extra: Mapping[str, Any] | None = None,
    content_ids: ContentIds | None = None,
    strips_markup: bool = False,
) -> Row | BadRow:
    """Check the values of one row.

    Args:
        values: by field or alias. None is not given, nor is "" in a table or an optional field.
        folder: base of a relative path in `ref_audio`.
        is_text: whether values are cells of a table, with numbers and booleans as text.
        content_ids: makes ids for rows without one; None: the number becomes the id.
    """
    row_id: str | None = None
    try:
        row_id = _find_id(values, is_text)  # first, so that other problems can name it
        if row_id is None and content_ids is None:
            row_id = default_id(number)
        given = _canonical(values, is_text)
        given.pop("id", None)
        fields = {name: _convert(name, value, is_text) for name, value in given.items()}
        if "text" not in fields:
            texts = [key for key, value in (extra or {}).items() if isinstance(value, str)]
            fits = {key: field for key, field in guess_mapping(texts).items() if field == "text"}
            fits = fits or ({"KEY": "text"} if extra and not is_text else {})
            raise RowProblem(
                "has no text" + (f"; name its text with {as_flag(fits)}" if fits else "")
            )
        if strips_markup:
            fields["text"] = _without_markup(fields["text"])
        if row_id is None:
            assert content_ids is not None
            row_id = content_ids.next(
                fields["text"], fields.get("voice") or fields.get("character")
            )
        if "[" in fields["text"] and (problem := pause_problem(fields["text"])):
            raise RowProblem(f"text: {problem}")
        if not _OF_REFERENCE.isdisjoint(fields):
            _resolve_reference(fields, folder)
        if "max_frames" in fields and "max_seconds" in fields:
            raise RowProblem("has both max_frames and max_seconds; give only one")
        if "speed" in fields and "duration_s" in fields:
            raise RowProblem("has both speed and duration_s; give only one")
        if "lexicon" in fields:
            try:
                parse_row_lexicon(fields["lexicon"])
            except ValueError as error:
                raise RowProblem(f"lexicon: {error}") from None
        sampling = {name: fields.pop(name) for name in fields.keys() & SAMPLING.keys()}
        if extra:
            fields["extra"] = _bounded(extra)
        return Row(line=line, number=number, id=row_id, sampling=sampling, **fields)
    except RowProblem as problem:
        return BadRow(line, number, row_id, str(problem), text=_known_text(values))


def _bounded(extra: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return extra values. Raises RowProblem if they are too large for a line of the journal."""
    if is_too_deep(extra):
        raise RowProblem(f"not a row: values are nested more than {MAX_DEPTH} deep")
    size = len(json.dumps(extra))
    if size > MAX_EXTRA_CHARS:
        raise RowProblem(
            f"has {size} characters of JSON in unrecognized columns; the maximum is "
            f"{MAX_EXTRA_CHARS}; leave some out, or add --extra drop"
        )
    return extra


def _known_text(values: Mapping[str, Any]) -> str | None:
    text = values.get("text", values.get("input"))
    return clean_unicode(text) if isinstance(text, str) and len(text) <= MAX_TEXT_CHARS else None


def _canonical(values: Mapping[str, Any], is_text: bool) -> dict[str, Any]:
    given: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for key, value in values.items():
        name = ALIASES.get(key, key)
        if name not in KINDS:
            raise RowProblem(unknown_names(values))
        if is_text and KINDS[name] != "text":
            value = value.strip()
        if is_text and name == "text" and (problem := _cell_problem(value)):
            raise RowProblem(f"text: {problem}")
        if is_text and name != "text" and value in _NO_VALUES:
            continue
        is_optional = is_text or name not in ("id", "text")
        if value is None or (is_optional and value == ""):
            continue
        if name in given and (type(given[name]) is not type(value) or given[name] != value):
            raise RowProblem(
                f"has '{origin[name]}' and '{key}' with different values; give only one"
            )
        given[name], origin[name] = value, key
    return given


def _cell_problem(value: str) -> str | None:
    """Return the problem of a cell that a program has filled with an error, or None."""
    value = value.strip()
    if value in _NO_VALUES:
        return f"is {value!r}, by which programs mean no value; leave the cell empty or fill it"
    if _FORMULA.fullmatch(value):
        return "is a formula; save the table with its results"
    return None


def _find_id(values: Mapping[str, Any], is_text: bool) -> str | None:
    value = values.get("id")
    if is_text and value is not None:
        value = value.strip() or None
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise RowProblem(f"id: must be text, not {shown(value)}; put it in quotes")
    if problem := manifest_id_problem(value):
        raise RowProblem(f"id {shown(value)} {problem}")
    return value


def _convert(name: str, value: Any, is_text: bool) -> Any:
    kind = KINDS[name]
    if kind in ("int", "float"):
        return _number(name, value, is_text, is_integer=kind == "int")
    if kind == "bool":
        if is_text and value.lower() in _BOOLS:
            return _BOOLS[value.lower()]
        if not isinstance(value, bool):
            raise RowProblem(f"{name}: must be true or false, not {shown(value)}")
        return value
    if not isinstance(value, str):
        advice = "; join its pieces" if isinstance(value, list) else ""
        raise RowProblem(f"{name}: must be text, not {shown(value)}{advice}")
    if kind == "clone" and value not in CLONE_MODES:
        raise RowProblem(f"clone_mode: must be icl or xvec, not {shown(value)}")
    return _clean_text(name, value, kind)


def _number(name: str, value: Any, is_text: bool, is_integer: bool) -> int | float:
    if is_text:
        pattern = _INT if is_integer else _FLOAT
        if pattern.fullmatch(value):
            value = int(value) if is_integer else float(value)
    wanted = "a whole number" if is_integer else "a number"
    is_number = isinstance(value, int) or (isinstance(value, float) and not is_integer)
    if not is_number or isinstance(value, bool):
        raise RowProblem(f"{name}: must be {wanted}, not {shown(value)}")
    if isinstance(value, int) and abs(value) >= 2**64:
        raise RowProblem(f"{name}: has too many digits")
    limits = _LIMITS.get(name) or SETTINGS[name].limits  # the same as of the flags
    if limits and (problem := limits.problem(value)):
        raise RowProblem(f"{name}: {problem}")
    return value if is_integer else float(value)


def _clean_text(name: str, value: str, kind: str) -> str:
    """Return a text with newlines as line ends. Raises RowProblem if it is invalid."""
    if "\r" in value:
        value = value.replace("\r\n", "\n").replace("\r", "\n")
    if match := _CONTROL.search(value):
        raise RowProblem(
            f"{name}: contains the control character U+{ord(match.group()):04X} at position "
            f"{match.start() + 1}; remove it"
        )
    if kind == "text" and not value.isascii():
        value = clean_unicode(value)
    limit = {"text": MAX_TEXT_CHARS, "path": MAX_PATH_CHARS}.get(kind, MAX_NAME_CHARS)
    if len(value) > limit:
        advice = "; split it into several rows" if name == "text" else ""
        raise RowProblem(f"{name}: has {len(value)} characters; the maximum is {limit}{advice}")
    if kind != "text" and ("\n" in value or "\t" in value):
        raise RowProblem(f"{name}: must be one line without tabs, not {shown(value)}")
    if is_blank(value):
        raise RowProblem(f"{name}: is blank")
    return value


def _without_markup(text: str) -> str:
    stripped = _ENTITY.sub(lambda found: html.unescape(found[0]), strip_markup(text))
    stripped = stripped.replace("\xa0", " ").strip()
    if is_blank(stripped):
        raise RowProblem("text: is blank without its markup")
    return stripped


def _resolve_reference(fields: dict[str, Any], folder: str) -> None:
    """Set the path in ref_audio and clone_mode, in place. Raises RowProblem."""
    is_xvec = fields.pop("x_vector_only_mode", None)
    mode = fields.get("clone_mode")
    if is_xvec is not None and mode is not None and is_xvec is not (mode == "xvec"):
        raise RowProblem("clone_mode and x_vector_only_mode contradict each other; give only one")
    audio = fields.get("ref_audio")
    if audio is None:
        for name in ("ref_text", "clone_mode"):
            if name in fields:
                raise RowProblem(f"has {name} without ref_audio")
        if is_xvec:
            raise RowProblem("has x_vector_only_mode without ref_audio")
        return
    if mode is None and is_xvec is not None:
        mode = "xvec" if is_xvec else "icl"
    if _URL.match(audio):
        raise RowProblem(f"ref_audio: {shown(audio)} is a URL; download the file and give its path")
    if mode is None:
        mode = "icl" if "ref_text" in fields else "xvec"
    if mode == "icl" and "ref_text" not in fields:
        raise RowProblem("clone_mode icl needs ref_text, the words of the reference; or use xvec")
    fields["clone_mode"] = mode
    fields["ref_audio"] = os.path.join(folder, audio)
