"""Training texts: WordNet's examples and glosses, draws of a grammar, and several in a row.

Only WordNet items of 4 to 16 plain words that are all in the pronouncing dictionary are taken; the
test sentences (all of `sentences*.txt`) are left out. Figures and abbreviations are written in
words by `tts-cli`'s own rules, as the model gets them in a run. All draws come from one seeded
generator, so the same inputs give the same file.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Container
from pathlib import Path
from random import choice, randint

from grammar import Grammar, Words

from tts_cli.text.frontend import normalize
from tts_cli.text.normalized_text import NormalizedText

TEACHER_VOICES = 3 * ["heart"] + ["michael", "fenrir"]  # those drawn more have more speech
CAPITALS_RATE = 0.02  # share of texts with a word in capitals
NUM_DRAWS = 300_000  # of the grammar
NUM_JOINED = 56_000  # texts of several sentences
MIN_CHARS, MAX_CHARS = 2, 300

# What the rules may read otherwise than it is written: asking them for every text takes minutes.
READ = re.compile(r"""[^A-Za-z ,.'?!;:"-]|\b[A-Za-z]{1,4}\. |[A-Z]{2}""")
QUESTION = re.compile(
    r"(?i)(who|what|where|when|why|how|can|could|do|does|did|is|are|will|would|shall|may)\b"
)


def dress(text: str, end_rate: float = 0.8) -> str:
    """Add a capital and, at `end_rate`, an end mark, most of the time."""
    text = text.strip(" ;,")
    if random.random() < 0.75:
        text = text[0].upper() + text[1:]
    if text[-1] not in ".?!" and random.random() < end_rate:
        text += "?" if QUESTION.match(text) else choice("......!")
    return text


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


def join(sentences: list[str]) -> str:
    """A few sentences in a row, up to a drawn length."""
    limit = randint(60, MAX_CHARS)
    text = choice(sentences)
    while len(longer := f"{text} {choice(sentences)}") <= limit:
        text = longer
    return text


def read_out(text: str) -> str:
    """The text as a run hands it to the model."""
    if READ.search(text):
        text = NormalizedText.of(text, normalize(text, "english")).spoken
    return text


def read(text: str) -> str:
    """The text as a run hands it to the model, now and then with a word in capitals."""
    text = read_out(text)
    words = re.findall(r"\b[A-Za-z]{3,}\b", text)
    if words and random.random() < CAPITALS_RATE:
        word = choice(words)
        text = re.sub(rf"\b{word}\b", word.upper(), text, count=1)
    return text


def make_rows(
    examples: list[str], glosses: list[str], grammar: Grammar, test_texts: Container[str]
) -> list[tuple[str, str]]:
    """All (voice, text) rows, shuffled. Seed `random` first.

    `test_texts` are in `plain` form and left out.
    """
    rows = []
    for example in examples:
        rows += [(voice, dress(example)) for voice in random.sample(TEACHER_VOICES, 2)]
    rows += [(choice(TEACHER_VOICES), dress(gloss)) for gloss in glosses]
    draws = list(dict.fromkeys(grammar.draw() for _ in range(NUM_DRAWS)))
    rows += [(choice(TEACHER_VOICES), text) for text in draws]
    sentences = draws + [dress(example, 1.0) for example in examples]
    rows += [(choice(TEACHER_VOICES), join(sentences)) for _ in range(NUM_JOINED)]
    rows = [
        (voice, text)
        for voice, text in ((voice, read(text)) for voice, text in rows)
        if text.isascii() and "|" not in text and MIN_CHARS <= len(text) <= MAX_CHARS
        if plain(text) not in test_texts
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
    parser.add_argument("out", type=Path, help='file to write, lines "id|voice|text"')
    parser.add_argument(
        "--grammar", type=Path, default=Path(__file__).parent / "grammar.txt", help="(grammar.txt)"
    )
    args = parser.parse_args()
    random.seed(11)
    files = Path(__file__).parent.glob("sentences*.txt")
    test_texts = {plain(line) for path in files for line in path.read_text().splitlines()}
    entries = [line.split()[0] for line in args.cmudict.read_text().splitlines() if line.strip()]
    known = {re.sub(r"\(\d+\)", "", entry) for entry in entries}
    grammar = Grammar(args.grammar, Words(args.wordnet, known))
    rows = make_rows(*read_wordnet(args.wordnet, known), grammar, test_texts)
    lines = [f"{index}|{voice}|{text}\n" for index, (voice, text) in enumerate(rows)]
    args.out.write_text("".join(lines))
    print(len(rows), "texts")


if __name__ == "__main__":
    main()
