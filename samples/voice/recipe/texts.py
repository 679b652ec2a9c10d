"""Training texts: WordNet's examples and glosses, and templates with numbers.

Only WordNet items of 4 to 16 plain words that are all in the pronouncing dictionary are taken; the
test sentences are left out. All draws come from one seeded generator, so the same inputs give the
same file.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Callable, Container
from pathlib import Path
from random import choice, randint

TEACHER_VOICES = ["rms", "slt", "awb"]
NUM_TEMPLATE_DRAWS = 60_000
NUM_JOINED = 22_000  # items of two or three examples in a row
MIN_CHARS, MAX_CHARS = 3, 220


def _options(text: str) -> list[str]:
    """Options separated by bars."""
    return text.split("|")


ONES = _options(
    "zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|"
    "fifteen|sixteen|seventeen|eighteen|nineteen"
)
TENS = _options("twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety")
DAYS = _options("Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday")
MONTHS = _options(
    "January|February|March|April|May|June|July|August|September|October|November|December"
)
PEOPLE = _options(
    "my brother|my sister|the teacher|our neighbour|the doctor|a young man|the old woman|"
    "her friend|the manager|everyone|nobody|the driver|their son|the new student|I|we|they|you|"
    "he|she|my father|your mother|the captain|our guests|two girls|the children|a tall boy|"
    "the mayor|Anna|Peter|Mister Brown|my wife|his uncle"
)
ACTIONS = _options(
    "went to|came back from|walked to|drove past|waited outside|talked about|forgot about|"
    "asked about|left|found|painted|visited|looked at|ran to|stayed near|dreamed of|heard about|"
    "took a picture of|got lost near|fell in love with"
)
PLACES = _options(
    "the market|the station|the river|the school|the library|the red house|the museum|the garden|"
    "the hospital|a small shop|the kitchen|the office|the beach|the village|the airport|"
    "the bridge|the city|the mountain|a quiet street|the old church|the new hotel|"
    "the post office|the theater|the bank|the farm|a blue car|the window|the table"
)
ADJECTIVES = _options(
    "good|bad|cold|warm|long|short|quiet|loud|bright|dark|heavy|light|fresh|sweet|empty|full|"
    "clean|dirty|happy|sad|early|late|quick|slow|strange|simple|beautiful|terrible|wonderful|"
    "important"
)
THINGS = _options(
    "morning|evening|day|night|idea|story|song|letter|dinner|breakfast|cup of coffee|"
    "glass of water|book|question|answer|plan|journey|game|picture|phone call|meeting|train ride|"
    "walk|dream|garden|dog|cat|bird|computer|lesson|voice|message|holiday"
)
UNITS = _options(
    "people|books|cars|trees|letters|miles|seconds|pages|birds|stars|houses|minutes|hours"
)
GREETINGS = _options(
    "Hello|Good morning|Good evening|Thank you|Welcome|Goodbye|Excuse me|Well|Yes|No|Of course|"
    "Please"
)
NAMES = _options("Anna|Peter|John|Mary|David|Susan|Michael|Helen|George|Laura")
ORDERS = _options("open|close|clean|bring|count|paint|sell|find|keep|move|buy|show me")
OBJECTS = _options(
    "the door|the window|the box|the table|two chairs|my book|a glass of water|the keys|your bag|"
    "the lamp"
)
EVENTS = _options("train|bus|plane|ferry|concert|film|class")
TIMED = _options("train|bus|plane|meeting|concert")
NUMBERED = _options("item|chapter|test|line|number|part|page|step")
MINUTES_IN_WORDS = _options("fifteen|thirty|forty five|oh five|twenty|ten")
MINUTES = _options("00|15|30|45|10|20|50")

QUESTION = re.compile(
    r"(?i)(who|what|where|when|why|how|can|could|do|does|did|is|are|will|would|shall|may)\b"
)


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
    """A number between the two, as digits or in words."""
    number = randint(low, high)
    return str(number) if random.random() < 0.5 else number_words(number)


def dress(text: str, end_rate: float = 0.8) -> str:
    """Add a capital and, at `end_rate`, an end mark, most of the time."""
    text = text.strip(" ;,")
    if random.random() < 0.75:
        text = text[0].upper() + text[1:]
    if text[-1] not in ".?!" and random.random() < end_rate:
        text += "?" if QUESTION.match(text) else choice("......!")
    return text


def _digits(count: int) -> str:
    return " ".join(choice(ONES[:10]) for _ in range(count))


def _act() -> str:
    return f"{choice(PEOPLE)} {choice(ACTIONS)} {choice(PLACES)}"


def _item() -> str:
    return f"{choice(ADJECTIVES)} {choice(THINGS)}"


TEMPLATES: list[Callable[[], str]] = [
    lambda: f"{_act()} on {choice(DAYS)}.",
    lambda: f"{_act()}, and then {_act()}.",
    lambda: (
        f"The {choice(EVENTS)} {choice(['leaves', 'starts', 'arrives', 'ends'])} "
        f"at {draw_number(1, 12)} {choice(MINUTES_IN_WORDS)}."
    ),
    lambda: f"The {choice(TIMED)} is at {randint(1, 12)}:{choice(MINUTES)}.",
    lambda: f"The meeting is on {choice(DAYS)}, {choice(MONTHS)} {draw_number(1, 31)}.",
    lambda: f"It costs {draw_number(2, 999)} dollars and {draw_number(1, 99)} cents.",
    lambda: f"It costs ${randint(1, 200)}.",
    lambda: f"In {randint(1700, 2030)}, {_act()}.",
    lambda: f"My number is {_digits(3)}, {_digits(4)}.",
    lambda: f"There are {draw_number(2, 9999)} {choice(UNITS)} in {choice(PLACES)}.",
    lambda: f"{_digits(randint(1, 6))}.",
    lambda: f"Can you tell me where {choice(PLACES)} is?",
    lambda: f"Please {choice(ORDERS)} {choice(OBJECTS)} before {choice(DAYS)}.",
    lambda: f"It was a {_item()}.",
    lambda: f"What a {_item()}!",
    lambda: f"I would like a {_item()} and a {_item()}.",
    lambda: f"Hello, my name is {choice(NAMES)}.",
    lambda: f"{choice(GREETINGS)}, {_act()}.",
    lambda: f"Is the {choice(THINGS)} {choice(ADJECTIVES)} or {choice(ADJECTIVES)}?",
    lambda: (
        f"{choice(PEOPLE)} said that the {choice(THINGS)} was {choice(ADJECTIVES)}, "
        f"but {choice(PEOPLE)} did not agree."
    ),
    lambda: f"This is {choice(NUMBERED)} {draw_number(1, 300)}.",
]


def is_usable(text: str, known: Container[str]) -> bool:
    """Whether a WordNet text is 4 to 16 plain words, each in the pronouncing dictionary."""
    parts = re.findall(r"[a-z']+", text.lower())
    is_plain = not re.search(r"[^A-Za-z ,.'?!;:-]", text)
    return 4 <= len(parts) <= 16 and is_plain and all(part in known for part in parts)


def read_wordnet(folder: Path, known: Container[str]) -> tuple[list[str], list[str]]:
    """Usable example sentences and glosses of WordNet's `data.*` files, sorted."""
    examples, glosses = set(), set()
    for path in folder.glob("data.*"):
        for line in path.read_text().splitlines():
            if "|" not in line or line.startswith("  "):
                continue
            note = line.split("|", 1)[1].strip()
            examples.update(example.strip(" ;") for example in re.findall(r'"([^"]+)"', note))
            gloss = re.sub(r'"[^"]*"', "", note).split(";")[0].strip()
            glosses.add(re.sub(r"\([^)]*\)", "", gloss).strip())

    def keep(texts: set[str]) -> list[str]:
        return sorted(text for text in texts if is_usable(text, known))

    return keep(examples), keep(glosses)


def plain(text: str) -> str:
    """Lower-case letters and spaces only: how texts are compared."""
    return re.sub(r"[^a-z ]", "", text.lower()).strip()


def make_rows(
    examples: list[str], glosses: list[str], test_texts: Container[str]
) -> list[tuple[str, str]]:
    """All (voice, text) rows, shuffled. Seed `random` first.

    `test_texts` are in `plain` form and left out.
    """
    rows = []
    for example in examples:
        rows += [(voice, dress(example)) for voice in random.sample(TEACHER_VOICES, 2)]
    rows += [(choice(TEACHER_VOICES), dress(gloss)) for gloss in glosses]
    seen = set()
    for _ in range(NUM_TEMPLATE_DRAWS):
        text = choice(TEMPLATES)()
        text = text[0].upper() + text[1:]
        if text not in seen:
            seen.add(text)
            rows.append((choice(TEACHER_VOICES), text))
    for _ in range(NUM_JOINED):
        voice = choice(TEACHER_VOICES)
        rows.append((voice, " ".join(dress(choice(examples), 1.0) for _ in range(randint(2, 3)))))
    rows = [
        (voice, text)
        for voice, text in rows
        if plain(text) not in test_texts and "|" not in text and MIN_CHARS <= len(text) <= MAX_CHARS
    ]
    random.shuffle(rows)
    return rows


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "wordnet", type=Path, help="WordNet 3.0 folder with data.noun, data.verb, ..."
    )
    parser.add_argument(
        "cmudict", type=Path, help="pronouncing dictionary: a word starts each line"
    )
    parser.add_argument("sentences", type=Path, help="test sentences to leave out, one a line")
    parser.add_argument("out", type=Path, help='file to write, lines "id|voice|text"')
    args = parser.parse_args()
    random.seed(11)
    test_texts = {plain(line) for line in args.sentences.read_text().splitlines()}
    entries = [line.split()[0] for line in args.cmudict.read_text().splitlines() if line.strip()]
    known = {re.sub(r"\(\d+\)", "", entry) for entry in entries}
    rows = make_rows(*read_wordnet(args.wordnet, known), test_texts)
    lines = [f"{index}|{voice}|{text}\n" for index, (voice, text) in enumerate(rows)]
    args.out.write_text("".join(lines))
    print(len(rows), "texts")


if __name__ == "__main__":
    main()
