"""All rules of English in the order they run: what is most particular comes first."""

from __future__ import annotations

from tts_cli.text.english import (
    abbreviations,
    contacts,
    dates,
    money,
    numbers,
    roman,
    symbols,
    times,
    units,
)

RULES = (
    *contacts.RULES,
    *dates.RULES,
    *times.RULES,
    *money.RULES,
    *roman.RULES,
    *units.RULES,
    *abbreviations.RULES,
    *contacts.VERSIONS,
    *numbers.COMPOUND,
    *symbols.RULES,
    *dates.YEARS,
    *numbers.RULES,
)
