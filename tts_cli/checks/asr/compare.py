"""Compare what was heard with the text: how much is wrong, and how much of it in a row.

Both are normalised first, so that case, punctuation, numbers and spelling count for nothing: by
Whisper's normaliser (transformers) for English, by its basic one for other languages, and spelling
is folded by rule (`colour` and `color` are one word). A text may be said as it is written or as the
lexicon and the number reader respelled it, so each form is compared and the best one counts.

Words are compared, or characters where a script puts no spaces between words.

Source: Radford et al. 2022, appendix C, for the normaliser.

A phrase that stands twice in a row, by its letters: what a voice that says words again leaves in
a transcript.

A recogniser seldom hears the same words the same way twice ("by mr peterman second in mr peterman
seconded by"), so the two need not be equal, only alike; and two equal words are nothing, because
short ones stand beside each other by chance ("of the day of the").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import cache
from typing import Any, NamedTuple

from tts_cli.checks.verdicts import DECIMALS, Heard, Stretch
from tts_cli.text.languages import code_of, may_be_english
from tts_cli.text.pauses import without_pauses

# Languages whose words are not parted by spaces.
BY_CHARACTER = frozenset(("zh", "ja", "ko", "yue", "th", "lo", "km", "my", "bo"))
_NO_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]"
)
_BRACKETED = re.compile(r"\[[^\[\]]{0,200}\]|<[^<>]{0,200}>")
# Endings of British spelling and the American ones, of words of six letters and more.
_SPELLINGS = tuple(
    (re.compile(rf"(?<=\w\w\w){ours}\b"), theirs)
    for ours, theirs in (
        (r"our(s|ed|ing|er|ers|ful|ite|ites|able|ably|less|hood|hoods)?", r"or\1"),
        (r"is(e|es|ed|ing|ation|ations|er|ers)", r"iz\1"),
        (r"ys(e|es|ed|ing)", r"yz\1"),
        (r"([bt])re(s?)", r"\1er\2"),
        (r"ogue(s?)", r"og\1"),
        (r"ence(s?)", r"ense\1"),
        (r"ll(ed|ing|er|ers|or|ors)", r"l\1"),
        (r"gramme(s?)", r"gram\1"),
        (r"ement(s?)", r"ment\1"),
    )
)

Normaliser = Callable[[str], str]


def unit_of(language: str | None, text: str) -> str:
    """What is counted: words, or characters by the language or by most of the text's letters."""
    code = code_of(language or "")
    if code in BY_CHARACTER:
        return "characters"
    letters = sum(map(str.isalnum, text))
    return "characters" if 2 * len(_NO_SPACES.findall(text)) > letters > 0 else "words"


def compare(
    forms: Iterable[str | None],
    heard: str,
    language: str | None,
    recogniser: str,
    spellings: tuple[tuple[str, str], ...] = (),
) -> Heard | None:
    """Hold what was heard against a text.

    Args:
        forms: the text as spoken and as written; equal ones and None are passed over.
        language: as in the manifest; None or auto: not told.
        recogniser: to be noted.
        spellings: of a Whisper checkpoint's `normalizer.json`, beside our rules.
    Returns:
        The best of all forms; None where no form has anything to say.
    """
    written = [text for text in dict.fromkeys(forms) if text is not None]
    best: Heard | None = None
    for text in written:
        unit = unit_of(language, text)
        for normalise in normalisers(language, text, spellings):
            wanted = units(normalise(_bare(text)), unit)
            if not wanted:
                continue
            found = _compared(wanted, units(normalise(heard), unit), unit, heard, recogniser)
            if best is None or (found.error, found.longest_wrong) < (
                best.error,
                best.longest_wrong,
            ):
                best = found
    return best


def units(text: str, unit: str) -> list[str]:
    """The words of a normalised text, or its letters and digits."""
    if unit == "words":
        return [word for word in text.split() if any(map(str.isalnum, word))]
    return [char for char in text if char.isalnum()]


def longest_wrong(stretches: Iterable[Stretch], unit: str) -> int:
    """Most wrong units in a row: of each stretch the longer side counts."""
    longest = run = 0
    for stretch in stretches:
        if not stretch.is_wrong:
            run = 0
            continue
        run += max(_count(stretch.wanted, unit), _count(stretch.heard, unit))
        longest = max(longest, run)
    return longest


def _count(text: str, unit: str) -> int:
    return len(text.split()) if unit == "words" else len(text)


def _compared(
    wanted: list[str], heard: list[str], unit: str, as_heard: str, recogniser: str
) -> Heard:
    import jiwer

    gap = " " if unit == "words" else ""
    if heard:  # units go in as words, so that one way of counting serves both
        found = jiwer.process_words([" ".join(wanted)], [" ".join(heard)])
        stretches = tuple(_stretches(found.alignments[0], wanted, heard, gap))
        error = float(found.wer)
    else:
        stretches = (Stretch(gap.join(wanted), ""),)
        error = 1.0
    wrong = [wrong_letters(stretch) for stretch in stretches]
    return Heard(
        recogniser,
        as_heard,
        round(error, DECIMALS),
        unit,
        len(wanted),
        longest_wrong(stretches, unit),
        round(sum(wrong) / max(1, sum(map(len, wanted))), DECIMALS),
        max(wrong),
        stretches,
    )


def wrong_letters(stretch: Stretch) -> int:
    """Letters and digits that make the difference of a stretch (Levenshtein)."""
    import jiwer

    if not stretch.is_wrong:
        return 0
    wanted, heard = stretch.wanted.replace(" ", ""), stretch.heard.replace(" ", "")
    if not wanted or not heard:
        return len(wanted) + len(heard)
    found = jiwer.process_characters(wanted, heard)
    return int(found.substitutions + found.insertions + found.deletions)


def _stretches(
    chunks: Iterable[Any], wanted: list[str], heard: list[str], gap: str
) -> Iterator[Stretch]:
    """Equal and wrong stretches in turn: wrong ones that touch are one."""
    left: list[str] = []
    right: list[str] = []
    for chunk in chunks:
        said = wanted[chunk.ref_start_idx : chunk.ref_end_idx]
        found = heard[chunk.hyp_start_idx : chunk.hyp_end_idx]
        if chunk.type == "equal":
            if left or right:
                yield Stretch(gap.join(left), gap.join(right))
                left, right = [], []
            yield Stretch(gap.join(said), gap.join(found))
        else:
            left += said
            right += found
    if left or right:
        yield Stretch(gap.join(left), gap.join(right))


def _bare(text: str) -> str:
    """A text without marks of pauses and tags; what stands in parentheses is said."""
    text = _BRACKETED.sub(" ", without_pauses(text))
    return re.sub(r"[()\[\]<>]", " ", text)


def normalisers(
    language: str | None, text: str, spellings: tuple[tuple[str, str], ...] = ()
) -> list[Normaliser]:
    """How a text may be read: in English with numbers as figures, and as it stands."""
    code = code_of(language or "")
    basic = _basic()
    is_english = code == "en" or (code is None and may_be_english(text))
    if not is_english:
        return [basic]
    english = _english(spellings)
    return [lambda read: fold_spelling(english(read)), lambda read: fold_spelling(basic(read))]


def fold_spelling(text: str) -> str:
    """British endings as American ones, of both sides alike, so that a word too many does no
    harm.
    """
    for pattern, ending in _SPELLINGS:
        text = pattern.sub(ending, text)
    return text


@cache
def _basic() -> Normaliser:
    from transformers.models.whisper.english_normalizer import BasicTextNormalizer

    basic = BasicTextNormalizer()

    def normalise(text: str) -> str:
        # An apostrophe within a word would part it.
        return str(basic(re.sub("(?<=\\w)['\u2019](?=\\w)", "", text)))

    return normalise


@cache
def _english(spellings: tuple[tuple[str, str], ...]) -> Normaliser:
    from transformers.models.whisper.english_normalizer import EnglishTextNormalizer

    english: Any = EnglishTextNormalizer(dict(spellings))  # type: ignore[no-untyped-call]
    return lambda text: str(english(text))


ALIKE = 0.75  # share of both phrases' letters that are the same in the same order
PIECE = {"words": 3, "characters": 1}  # letters in a row that both must have
MOST_UNITS = {"words": 8, "characters": 24}  # of a phrase
MOST_OFF = {"words": 2, "characters": 1}  # units that one of the two has more


class Repeat(NamedTuple):
    """A phrase that stands twice."""

    phrase: str  # as it stands first
    num_letters: int  # that both have in the same order


def repeat_of(units: Sequence[str], unit: str) -> Repeat | None:
    """The clearest repeat: most letters that are the same, less those that are not. None: there is
    none.

    Args:
        units: words, or characters, in order.
        unit: which of the two.
    """
    best: Repeat | None = None
    most = 0
    pieces = _pieces(units, PIECE[unit])
    for start, middle, end in _neighbours(len(units), unit):
        if not _union(pieces[start:middle]) & _union(pieces[middle:end]):
            continue
        left, right = "".join(units[start:middle]), "".join(units[middle:end])
        total = len(left) + len(right)
        if 4 * min(len(left), len(right)) - total <= most:
            continue
        same = _num_same(left, right)
        if 2 * same >= ALIKE * total and 4 * same - total > most:
            most = 4 * same - total
            best = Repeat((" " if unit == "words" else "").join(units[start:middle]), same)
    return best


def _neighbours(num_units: int, unit: str) -> Iterator[tuple[int, int, int]]:
    """Start, middle and end of phrases that follow each other, the longest first."""
    for size in range(min(MOST_UNITS[unit], num_units // 2), 0, -1):
        for start in range(num_units - size):
            middle = start + size
            for other in range(max(1, size - MOST_OFF[unit]), size + MOST_OFF[unit] + 1):
                if middle + other <= num_units:
                    yield start, middle, middle + other


def _pieces(units: Sequence[str], size: int) -> list[int]:
    """The runs of so many letters that start in each unit, a bit each. Two phrases that are alike
    share some, most others do not: that takes a tenth of the time of comparing them all.
    """
    letters = "".join(units)
    numbers: dict[str, int] = {}
    found, place = [], 0
    for one in units:
        bits = 0
        for at in range(place, place + len(one)):
            bits |= 1 << numbers.setdefault(letters[at : at + size], len(numbers))
        found.append(bits)
        place += len(one)
    return found


def _union(pieces: Sequence[int]) -> int:
    found = 0
    for bits in pieces:
        found |= bits
    return found


def _num_same(left: str, right: str) -> int:
    """Letters that both have in the same order; 0: by far too few."""
    found = SequenceMatcher(None, left, right, autojunk=False)
    if found.quick_ratio() < ALIKE:
        return 0
    return sum(block.size for block in found.get_matching_blocks())
