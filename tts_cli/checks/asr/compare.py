"""Compare transcripts with texts: how much is wrong, and how much of it in succession.

Both are normalized first, so that case, punctuation, numbers and spelling do not count: by
Whisper's normalizer (transformers) for English, by its basic one for other languages. Spelling is
folded by rule (`colour` and `color` are one word). A text may be synthesized as it is written or as
the lexicon and the number reader respelled it, so each form is compared, and the best one counts.
Words are compared, or characters in scripts without spaces between words.

A voice that repeats words leaves a phrase twice in a row in the transcript. A recognizer seldom
transcribes the same words the same way twice ("by mr peterman second in mr peterman seconded by"),
so the two must be alike, not equal. Two equal short words are often adjacent by chance ("of the day
of the").

Source: Radford et al. 2022, appendix C, for the normalizer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import Any, Literal

from msgspec.structs import replace

from tts_cli.checks.verdicts import DECIMALS, Segment, Transcript
from tts_cli.text.languages import code_of, may_be_english
from tts_cli.text.pauses import without_pauses
from tts_cli.text.tables import script

# Languages without spaces between words.
BY_CHARACTER = frozenset(("zh", "ja", "ko", "yue", "th", "lo", "km", "my", "bo"))
_NO_SPACES = re.compile(f"[{script('southeast_asian', 'kana', 'ideographs', 'hangul')}]")
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

Normalizer = Callable[[str], str]
Unit = Literal["words", "characters"]


def unit_of(language: str | None, text: str) -> Unit:
    """Return the unit of errors, by the language or by most letters of the text."""
    code = code_of(language or "")
    if code in BY_CHARACTER:
        return "characters"
    letters = sum(map(str.isalnum, text))
    return "characters" if 2 * len(_NO_SPACES.findall(text)) > letters > 0 else "words"


def compare(
    forms: Iterable[str | None],
    transcript: str,
    language: str | None,
    recognizer: str,
    spellings: tuple[tuple[str, str], ...] = (),
) -> Transcript | None:
    """Compare a transcript with a text. Return the comparison with the form that fits best; None:
    no form has words.

    Args:
        forms: the text as synthesized and as written; None is ignored.
        language: as in the manifest; None or auto: unknown.
        recognizer: its name.
        spellings: of a Whisper checkpoint's `normalizer.json`, in addition to our rules.
    """
    best: Transcript | None = None
    for text in dict.fromkeys(forms):
        if text is None:
            continue
        unit = unit_of(language, text)
        for normalize in normalizers(language, text, spellings):
            wanted = units(normalize(_bare(text)), unit)
            if not wanted:
                continue
            found = _compared(wanted, units(normalize(transcript), unit), unit)
            if best is None or (found.wer, found.longest_wrong) < (best.wer, best.longest_wrong):
                best = found
    return best and replace(best, recognizer=recognizer, text=transcript)


def units(text: str, unit: Unit) -> list[str]:
    """Return the words of a normalized text, or its letters and digits."""
    if unit == "words":
        return [word for word in text.split() if any(map(str.isalnum, word))]
    return [char for char in text if char.isalnum()]


def _compared(wanted: list[str], heard: list[str], unit: Unit) -> Transcript:
    from rapidfuzz.distance import Levenshtein

    gap = " " if unit == "words" else ""
    segments: list[Segment] = []
    longest_wrong = most_letters = num_wrong = num_letters = 0
    edits = Levenshtein.opcodes(wanted, heard)
    for is_equal, group in groupby(edits, key=lambda edit: edit.tag == "equal"):
        found = list(group)
        left = wanted[found[0].src_start : found[-1].src_end]
        right = heard[found[0].dest_start : found[-1].dest_end]
        segments.append(Segment(gap.join(left), gap.join(right)))
        if not is_equal:
            letters = Levenshtein.distance("".join(left), "".join(right))
            num_letters, most_letters = num_letters + letters, max(most_letters, letters)
            longest_wrong = max(longest_wrong, len(left), len(right))
            num_wrong += sum(
                max(one.src_end - one.src_start, one.dest_end - one.dest_start) for one in found
            )
    return Transcript(
        "",
        "",
        round(num_wrong / len(wanted), DECIMALS),
        unit,
        len(wanted),
        longest_wrong,
        round(num_letters / max(1, sum(map(len, wanted))), DECIMALS),
        most_letters,
        tuple(segments),
    )


def _bare(text: str) -> str:
    """Return a text without pause marks and tags; words in parentheses are synthesized."""
    text = _BRACKETED.sub(" ", without_pauses(text))
    return re.sub(r"[()\[\]<>]", " ", text)


def normalizers(
    language: str | None, text: str, spellings: tuple[tuple[str, str], ...] = ()
) -> list[Normalizer]:
    """Return the ways to read a text: in English with numbers as figures, and as written."""
    code = code_of(language or "")
    basic = _basic()
    if code != "en" and not (code is None and may_be_english(text)):
        return [basic]
    english = _english(spellings)
    return [lambda read: fold_spelling(english(read)), lambda read: fold_spelling(basic(read))]


def fold_spelling(text: str) -> str:
    """Return a text with American endings instead of British ones. Both sides are folded, so
    that a wrong word does no harm.
    """
    for pattern, ending in _SPELLINGS:
        text = pattern.sub(ending, text)
    return text


@cache
def _basic() -> Normalizer:
    from transformers.models.whisper.english_normalizer import BasicTextNormalizer

    basic = BasicTextNormalizer()

    def normalize(text: str) -> str:
        # An apostrophe inside a word would split it.
        return str(basic(re.sub("(?<=\\w)['\u2019](?=\\w)", "", text)))

    return normalize


@cache
def _english(spellings: tuple[tuple[str, str], ...]) -> Normalizer:
    from transformers.models.whisper.english_normalizer import EnglishTextNormalizer

    english: Any = EnglishTextNormalizer(dict(spellings))  # type: ignore[no-untyped-call]
    return lambda text: str(english(text))


_ALIKE = 0.75  # share of the letters of both phrases that are the same in the same order
_MAX_UNITS = {"words": 8, "characters": 24}  # of a phrase
_MAX_OFF = {"words": 2, "characters": 1}  # difference of the number of units of two phrases


def repeat_of(units: Sequence[str], unit: Unit) -> tuple[str, int] | None:
    """Return the clearest repeat: the phrase as first written, and the number of letters that both
    have in the same order. The clearest one has most equal letters, less those that differ.

    Args:
        units: words, or characters, in order.
    """
    from rapidfuzz.distance import LCSseq

    best: tuple[str, int] | None = None
    most = 0
    for start, middle, end in _neighbours(len(units), unit):
        left, right = "".join(units[start:middle]), "".join(units[middle:end])
        total = len(left) + len(right)
        if 4 * min(len(left), len(right)) - total <= most:
            continue
        same = LCSseq.similarity(left, right)
        if 2 * same >= _ALIKE * total and 4 * same - total > most:
            most = 4 * same - total
            best = (" " if unit == "words" else "").join(units[start:middle]), same
    return best


def _neighbours(num_units: int, unit: Unit) -> Iterator[tuple[int, int, int]]:
    """Yield start, middle and end of two adjacent phrases, the longest first."""
    for size in range(min(_MAX_UNITS[unit], num_units // 2), 0, -1):
        for start in range(num_units - size):
            middle = start + size
            for other in range(max(1, size - _MAX_OFF[unit]), size + _MAX_OFF[unit] + 1):
                if middle + other <= num_units:
                    yield start, middle, middle + other
