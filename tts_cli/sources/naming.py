"""Names of delivered files, from a pattern such as `{character}/{n:04}_{id}`."""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping
from typing import Any

from tts_cli.errors import UsageError
from tts_cli.sources.ids import fold_id, id_problem

Key = tuple[str, int]  # id and take

FIELDS = ("id", "n", "character", "voice", "language", "take")


def delivered_names(pattern: str, rows: Iterable[tuple[Key, Mapping[str, Any]]]) -> dict[Key, str]:
    """Return the name of each row's file, without suffix. Raises UsageError if the pattern is
    invalid, a row lacks a field, or two rows share a name.

    Args:
        rows: in manifest order, with the values of `FIELDS` except n (from 1), and extra columns.
    """
    fields = _fields(pattern)
    found: dict[Key, str] = {}
    owners: dict[str, Key] = {}
    for number, (key, values) in enumerate(rows, 1):
        known = {**values, "n": number}
        used = {}
        for field in fields:
            if known.get(field) in (None, ""):
                raise UsageError(
                    f"--name-by: row {key[0]} has no {field!r}",
                    f"use only fields that all rows have; known are {', '.join(FIELDS)}",
                )
            value = known[field]
            is_text = isinstance(value, str) and field != "id"  # the folders of an id stay
            used[field] = value.replace("/", "_").strip(". ") if is_text else value
        try:
            name = pattern.format_map(used)
        except (ValueError, TypeError) as error:
            raise UsageError(f"--name-by {pattern!r}: {error}", "change the pattern") from None
        if problem := id_problem(name):
            place = f"--name-by: {name!r}, of row {key[0]},"
            raise UsageError(f"{place} {problem}", "change the pattern")
        if (owner := owners.setdefault(fold_id(name), key)) != key:
            raise UsageError(
                f"--name-by: rows {owner[0]} and {key[0]} would both be named {name!r}",
                "add {id} or {n} to the pattern, or {take} with --all-takes",
            )
        found[key] = name
    return found


def _fields(pattern: str) -> list[str]:
    try:
        parts = list(string.Formatter().parse(pattern))
    except ValueError as error:
        raise UsageError(f"--name-by {pattern!r}: {error}", "write {{ for a brace") from None
    fields = [field for _, field, _, _ in parts if field is not None]
    for _, field, spec, conversion in parts:
        if field is not None and (not field.isidentifier() or conversion or "{" in (spec or "")):
            raise UsageError(
                f"--name-by {pattern!r}: {field!r} is not a field",
                f"use {', '.join(FIELDS)}, or a column kept by --extra keep",
            )
    return fields
