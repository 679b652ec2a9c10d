"""Figures of systems that spoke the same texts, and whether they differ.

Texts are drawn again with replacement (bootstrap), the same ones for both systems, so that what a
text does to both of them cancels out. All takes of a text, in all voices and seeds, are drawn
together. A figure's own interval holds in 95 of 100 runs. Those of the differences are wider: all
of one comparison together hold in 95 of 100 (Bonferroni), so that looking at many figures finds
nothing by chance.

Source: Bisani and Ney 2004, "Bootstrap estimates for confidence intervals in ASR performance
evaluation".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
JournalEntry = Mapping[str, float]  # what was found in one: see `FIGURES`

RESAMPLES = 10_000
MISSED = 0.05  # share of runs in which an interval may miss
_AT_ONCE = 500  # draws in memory


class Figure(NamedTuple):
    """A share: the sum of one value of the takes by the sum of another."""

    name: str  # as the table has it, with its unit
    value: str  # of a take
    by: str | None = None  # of a take; None: 1
    scale: float = 1.0
    better: int = 0  # 1: more is better, -1: less is; 0: neither, of a length
    digits: int = 2


FIGURES = (
    Figure("words wrong, %", "wrong", "words", 100.0, better=-1),
    Figure("speaker similarity", "similarity", better=1, digits=3),
    Figure("DNSMOS, overall", "mos", better=1),
    Figure("DNSMOS, P.808", "mos_p808", better=1),
    Figure("length, s", "audio_s"),
    Figure("runaways, %", "is_runaway", scale=100.0, better=-1),
    Figure("early ends, %", "is_early", scale=100.0, better=-1),
)


class Estimate(NamedTuple):
    """A value and its interval."""

    value: float
    low: float
    high: float


class Difference(NamedTuple):
    """Of one system from another, in a figure."""

    figure: Figure
    ours: Estimate
    theirs: Estimate
    off: Estimate  # ours less theirs

    @property
    def verdict(self) -> str:
        """`within` its interval, or what ours is."""
        if self.off.low <= 0 <= self.off.high:
            return "within"
        is_more = self.off.value > 0
        if not self.figure.better:
            return "longer" if is_more else "shorter"
        return "better" if is_more == (self.figure.better > 0) else "worse"

    @property
    def worst(self) -> float:
        """By how much ours may be worse than theirs, as far as this run can tell."""
        return max(0.0, -self.off.low if self.figure.better > 0 else self.off.high)


class Tables(NamedTuple):
    """Sums of every text."""

    texts: list[str]
    sums: Array  # (texts, systems, figures, 2) float64: of values, and of what they go by
    figures: list[Figure]  # that any take has


def tabulate(systems: Sequence[Mapping[tuple[str, ...], JournalEntry]]) -> Tables:
    """Add takes up by their texts. A figure has the takes of which every system has it.

    Args:
        systems: each (text, ...) -> take; all have the same keys.
    """
    texts = list(dict.fromkeys(key[0] for key in systems[0]))
    places = {text: place for place, text in enumerate(texts)}
    figures = []
    sums = np.zeros((len(texts), len(systems), len(FIGURES), 2))
    for figure in FIGURES:
        both = [key for key in systems[0] if all(figure.value in takes[key] for takes in systems)]
        for number, takes in enumerate(systems):
            for key in both:
                by = takes[key][figure.by] if figure.by else 1.0
                value = figure.scale * takes[key][figure.value]
                sums[places[key[0]], number, len(figures)] += value, by
        if both:
            figures.append(figure)
    return Tables(texts, sums[:, :, : len(figures)], figures)


def compare(tables: Tables) -> list[Difference]:
    """The first of two systems held against the second."""
    drawn = _drawn(tables.sums)
    found = _shares(tables.sums.sum(axis=0))
    level = MISSED / max(1, len(tables.figures))
    differences = []
    for column, figure in enumerate(tables.figures):
        ours, theirs = (
            _estimate(found[system, column], drawn[:, system, column], MISSED) for system in (0, 1)
        )
        apart = drawn[:, 0, column] - drawn[:, 1, column]
        off = _estimate(found[0, column] - found[1, column], apart, level)
        differences.append(Difference(figure, ours, theirs, off))
    return differences


def _drawn(sums: Array) -> Array:
    """Figures of texts drawn with replacement: (RESAMPLES, systems, figures)."""
    draw, count = np.random.default_rng(0), len(sums)
    flat = sums.reshape(count, -1)
    parts = []
    for start in range(0, RESAMPLES, _AT_ONCE):
        size = min(_AT_ONCE, RESAMPLES - start)
        times = draw.multinomial(count, np.full(count, 1 / count), size)
        parts.append(_shares((times @ flat).reshape(size, *sums.shape[1:])))
    return np.concatenate(parts)


def _shares(sums: Array) -> Array:
    return np.asarray(sums[..., 0] / np.maximum(sums[..., 1], 1e-12))


def _estimate(value: float, drawn: Array, missed: float) -> Estimate:
    low, high = np.quantile(drawn, [missed / 2, 1 - missed / 2])
    return Estimate(float(value), float(low), float(high))


def table(differences: Sequence[Difference], ours: str, theirs: str) -> str:
    """A comparison as Markdown."""
    head = ["figure", ours, theirs, "difference", f"{ours} is"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for one in differences:
        form = f"{{:.{one.figure.digits}f}}"
        forms = (form, form, form.replace(":", ":+"))
        cells = [
            "{} ({} to {})".format(*map(form.format, estimate)) if any(estimate) else "0"
            for form, estimate in zip(forms, (one.ours, one.theirs, one.off), strict=True)
        ]
        lines.append(f"| {' | '.join([one.figure.name, *cells, one.verdict])} |")
    return "\n".join(lines)


def conclusion(differences: Sequence[Difference], ours: str, theirs: str) -> str:
    """Whether the two differ, in a sentence or two."""
    named: dict[str, list[str]] = {}
    for one in differences:
        named.setdefault(one.verdict, []).append(one.figure.name.removesuffix(", %"))
    said = [
        f"{ours} is {verdict} than {theirs} in: {'; '.join(named[verdict])}."
        for verdict in ("worse", "better")
        if verdict in named
    ]
    said += [f"It is {verdict}." for verdict in ("longer", "shorter") if verdict in named]
    if not said:
        said = [f"No difference between {ours} and {theirs} was found."]
    open_ = [
        f"{one.worst:.{one.figure.digits}f}{' %' * one.figure.name.endswith('%')} in "
        f"{one.figure.name.removesuffix(', %')}"
        for one in differences
        if one.verdict == "within" and one.figure.better and one.worst > 0
    ]
    if open_:
        said.append(f"{ours.capitalize()} may still be worse by up to {'; '.join(open_)}.")
    return " ".join(said)
