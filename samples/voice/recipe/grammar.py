"""Draws sentences from grammar.txt, with words of WordNet by how common they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from pathlib import Path
from random import choice, choices, randint, random

RANKED_WORDS = 3000  # of each kind, the most common first
SLOT = re.compile(r"\{([^{}]+)\}")
KINDS = {"noun": "1", "verb": "2", "adj": "3", "adv": "4"}  # WordNet's numbers in sense keys
ONES = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def number_words(number: int) -> str:
    """A number below one million in English words."""
    if number < 20:
        return ONES[number]
    if number < 100:
        ending = f" {ONES[number % 10]}" if number % 10 else ""
        return TENS[number // 10 - 2] + ending
    if number < 1000:
        ending = f" and {number_words(number % 100)}" if number % 100 else ""
        return f"{ONES[number // 100]} hundred{ending}"
    ending = f" {number_words(number % 1000)}" if number % 1000 else ""
    return f"{number_words(number // 1000)} thousand{ending}"


def draw_number(low: int, high: int) -> str:
    """A number between the two, as figures or in words."""
    number = randint(low, high)
    return str(number) if random() < 0.6 else number_words(number)


def plural(noun: str) -> str:
    """The regular plural or third person."""
    if re.search(r"(s|x|z|ch|sh)$", noun):
        return noun + "es"
    if re.search(r"[^aeiou]y$", noun):
        return noun[:-1] + "ies"
    return noun + "s"


def with_ending(verb: str, ending: str) -> str:
    """A verb with -ed or -ing, spelt by the regular rules."""
    if verb.endswith("e") and not (ending == "ing" and verb.endswith(("ee", "ye", "oe"))):
        return verb[:-1] + ending
    if ending == "ed" and re.search(r"[^aeiou]y$", verb):
        return verb[:-1] + "ied"
    if re.fullmatch(r"[^aeiou]*[aeiou][^aeiouwxy]", verb):
        return verb + verb[-1] + ending
    return verb + ending


class Words:
    """WordNet's words of one kind each, common ones drawn more often.

    Args:
        folder: WordNet's dictionary with cntlist.rev and verb.exc.
        known: words of the pronouncing dictionary; all others are left out.
    """

    def __init__(self, folder: Path, known: Container[str]) -> None:
        counts: dict[str, dict[str, int]] = {kind: {} for kind in KINDS}
        of_number = {number: kind for kind, number in KINDS.items()} | {"5": "adj"}
        for line in (folder / "cntlist.rev").read_text().splitlines():
            key, _, count = line.split()
            word, rest = key.split("%")
            if word in known and len(word) > 2 and word.isalpha():
                kind = counts[of_number[rest[0]]]
                kind[word] = kind.get(word, 0) + int(count)
        lines = (folder / "verb.exc").read_text().splitlines()
        irregular = {line.split()[1] for line in lines}
        ranked = {
            kind: sorted(count, key=lambda word: (-count[word], word))[:RANKED_WORDS]
            for kind, count in counts.items()
        }
        nouns, verbs = ranked["noun"], ranked["verb"]
        self.forms = {
            **ranked,
            "nouns": [plural(word) for word in nouns],
            "verbs": [plural(word) for word in verbs],
            "verbing": [with_ending(word, "ing") for word in verbs],
            "verbed": [with_ending(word, "ed") for word in verbs if word not in irregular],
        }
        self.forms = {
            name: [word for word in words if word in known] for name, words in self.forms.items()
        }
        self.weights = {
            name: [(rank + 20) ** -0.75 for rank in range(len(words))]
            for name, words in self.forms.items()
        }

    def draw(self, form: str) -> str:
        """One word of a form such as `nouns`."""
        return choices(self.forms[form], self.weights[form])[0]


class Grammar:
    """Rules of a grammar file."""

    def __init__(self, path: Path, words: Words) -> None:
        self.words = words
        self.rules: dict[str, list[str]] = {}
        for line in path.read_text().splitlines():
            if not line or line.startswith("#"):
                continue
            head, body = line.split(": ", 1)
            *weight, symbol = head.split()
            options = [option.strip() for option in body.split(" | ")]
            self.rules.setdefault(symbol, []).extend(options * int(weight[0] if weight else 1))
        self.numbers: dict[str, Callable[[int, int], str]] = {
            "n": draw_number,
            "d": lambda low, high: str(randint(low, high)),
            "w": lambda low, high: number_words(randint(low, high)),
            "digits": lambda low, high: " ".join(
                choice(ONES[:10]) for _ in range(randint(low, high))
            ),
        }

    def _fill(self, match: re.Match[str]) -> str:
        slot = match[1]
        if slot in self.rules:
            return SLOT.sub(self._fill, choice(self.rules[slot]))
        if slot == "initial":
            return choice("ABCDEFGHJKLMNPRSTW")
        if ":" in slot:
            kind, span = slot.split(":")
            low, high = map(int, span.split("-"))
            return self.numbers[kind](low, high)
        return self.words.draw(slot)

    def draw(self) -> str:
        """One sentence, its first letter a capital."""
        text = SLOT.sub(self._fill, choice(self.rules["S"]))
        text = re.sub(r"\ba (?=[aeiou])", "an ", text)
        return re.sub(r"^\W*\w", lambda start: start[0].upper(), text)
