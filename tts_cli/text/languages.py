"""Map ISO codes of languages to the names of checkpoints (`en`, `en-US`, `zh-CN`, `pt_BR`, `deu`),
and read numbers of languages other than English with num2words.

Whole numbers, decimals, percentages and amounts of euros are read as a plain count, in the
masculine nominative, unless they are part of a date, time, other price, ordinal or unit. Telephone
numbers are read digit by digit. Everything else is left as written.

num2words is LGPL 2.1: it is imported, never copied or changed, and only installed with the extra
`languages`. It has no Chinese.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache

from tts_cli.extras import load
from tts_cli.text.rule import Rule
from tts_cli.text.tables import load_table

# Codes of two letters and of three (ISO 639-1, 639-2 and 639-3), and those of training lists,
# by the names that checkpoints use.
CODES: dict[str, list[str]] = load_table("languages")["codes"]
_NAMES = {code: name for name, codes in CODES.items() for code in codes}
_TAG = re.compile(r"([a-z]{2,3})(?:[-_][a-z0-9]{1,8})*", re.IGNORECASE)


def named_language(value: str, known: Iterable[str]) -> str:
    """Return the known name (lower case) for a name or code, or `value` itself."""
    return _named(value, known if isinstance(known, tuple) else tuple(known))


@lru_cache(maxsize=256)
def _named(value: str, known: tuple[str, ...]) -> str:
    folded = value.casefold()
    if folded in (name.casefold() for name in known):
        return value
    match = _TAG.fullmatch(folded)
    name = _NAMES.get(match[1]) if match else None
    return name if name in known else value


def is_code(value: str) -> bool:
    """Return whether a text is the code of a language that some checkpoint has."""
    match = _TAG.fullmatch(value)
    return match is not None and match[1].casefold() in _NAMES


def code_of(language: str) -> str | None:
    """Return the code of two or three letters for a language's name or code; None for `auto`."""
    folded = language.casefold().strip()
    if folded.endswith("_dialect"):  # of Chinese, as Qwen3-TTS names them
        return "zh"
    if folded in CODES:
        return CODES[folded][0]
    match = _TAG.fullmatch(folded)
    if match is None:
        return None
    name = _NAMES.get(match[1])
    return CODES[name][0] if name else match[1]


def long_code_of(language: str) -> str | None:
    """Return the code of three letters, as in MP4, for a language's name or code, or None."""
    code = code_of(language) or ""
    codes = next((codes for codes in CODES.values() if code in codes), [code])
    return next((one for one in codes if len(one) == 3), None)


# Words that most English texts have, and that mean nothing in languages with the same letters.
_ENGLISH = re.compile(
    r"\b(?:the|and|of|to|it|he|she|they|you|we|his|her|my|your|this|that|with|for|from|have|had|are"
    r"|were|be|not|at|by|what|there|i['\u2019]m)\b",
    re.IGNORECASE,
)


def may_be_english(text: str) -> bool:
    """Return whether a text of unknown language may be English: all letters are ASCII, or most are
    and it has an English word. Other signs, such as curly quotes, do not count.
    """
    letters = [char for char in unicodedata.normalize("NFC", text) if char.isalpha()]
    others = sum(not char.isascii() for char in letters)
    return not others or (4 * others < len(letters) and _ENGLISH.search(text) is not None)


@dataclass(frozen=True)
class Writing:
    code: str  # of num2words
    thousands: str  # characters between groups of three digits
    point: str  # before the decimals
    said_point: str = ""  # word of the decimal point; empty: num2words reads the number as a whole
    percent: str | None = None  # None: its form depends on the number
    euros: str = ""  # word after an amount; empty: amounts are not read
    of_euros: tuple[str, str] = ("", "")  # pattern of large numbers, and the word after these
    cents: str | None = None  # between that word and the cents; None: these are not read
    years: tuple[int, int] = (0, 0)  # numbers from the first on, below the second, are years
    ordinals: str = ""  # pattern of an ordinal number and of what follows it
    is_joined: bool = False  # written without spaces
    plus: str = ""  # word before a telephone number's country; empty: these stay as written
    in_pairs: bool = False  # two digits of a telephone number are read as one number
    counters: str = ""  # letters that may directly follow; others need another kind of number
    agrees: str = ""  # pattern of digits whose words change with the noun after them
    free: str = ""  # pattern of following words that are not nouns
    masculine: str = ""  # pattern of nouns with which the number is in the masculine
    shortened: tuple[str, ...] = ()  # endings before such a noun: full, short, full, short, ...
    mistakes: str = ""  # pattern of wrong results of num2words; such numbers stay as written


_SPACES = " \u00a0\u202f"
LANGUAGES = {name: Writing(**facts) for name, facts in load_table("languages")["numbers"].items()}
# Telephone numbers: +49 171 1234567, 0171/1234567, 06 12 34 56 78, 91 123 45 67, 03-1234-5678.
_PHONE = (
    r"(?<![\w+.,/-])(?:\+[1-9][0-9]{0,2}(?:[ /-]?\(?[0-9]{1,12}\)?){1,6}"
    "|(?:0[0-9]{1,4}|\\(0[0-9]{1,4}\\))(?: [0-9]{2,9}){1,5}|0[0-9]{2,4}[/-][0-9]{4,9}"
    "|[0-9]{2,3} [0-9]{3} [0-9]{2} [0-9]{2}|0[0-9]{1,3}-[0-9]{3,4}-[0-9]{4}"
    "|8 ?\\(?[0-9]{3}\\)? ?[0-9]{3}-[0-9]{2}-[0-9]{2})(?!\\w|[.,:/-][0-9])"
)
_SIGNS = "$£€¥₩₽#@°º"  # next to a number: prices and other figures that are left as written


def _has_noun(behind: str, free: str) -> bool:
    """Return whether a noun follows, perhaps behind another number: 1 ou 2 injections."""
    found = re.match(rf"(?:[{_SPACES}](?:{free}) [0-9]+)?[{_SPACES}]([^\W\d_]+)", behind)
    return found is not None and re.fullmatch(free, found[1], re.IGNORECASE) is None


def _shortened(writing: Writing, said: str) -> str:
    """Return a number in the form before a masculine noun."""
    for long, short in zip(writing.shortened[::2], writing.shortened[1::2], strict=True):
        said = re.sub(rf"{long}$", short, said)
    return said


def _amount(writing: Writing, words: Callable[[int], str], euros: str, cents: str) -> str | None:
    """Return an amount of euros in words; None if it stays as written."""
    has_cents = cents != "00"
    if not writing.euros or euros[0] == "0" or euros == "1" or len(cents) != 2:
        return None
    if has_cents and (writing.cents is None or cents[0] == "0"):
        return None
    said = _shortened(writing, words(int(euros)))
    large, of_euros = writing.of_euros
    said += f" {of_euros if large and re.search(rf'(?:{large})$', said) else writing.euros}"
    if has_cents:
        said += f"{writing.cents}{words(int(cents))}"
    return None if writing.mistakes and re.search(writing.mistakes, said) else said


@cache
def rules_of(language: str) -> tuple[Rule, ...]:
    """Return the rules of a language of LANGUAGES. Raises SetupError without num2words."""
    what = f"reading numbers in {language}, unless --normalize is off,"
    num2words = load("languages", "num2words", what).num2words
    writing = LANGUAGES[language]
    groups = f"[{re.escape(writing.thousands)}]"

    def words(number: int | str, to: str = "cardinal") -> str:
        return str(num2words(number, lang=writing.code, to=to))

    def read(match: re.Match[str]) -> str | None:
        before, after = re.sub(groups, "", match["whole"]), match["decimals"]
        if match["sign"].strip(_SPACES) in ("€", writing.euros or "€"):
            return _amount(writing, words, before, after or "00")
        if writing.ordinals and re.match(writing.ordinals, before + match["behind"]):
            return None
        noun = re.match(rf"[{_SPACES}](?:{writing.masculine})\b", match["behind"])
        is_masculine = noun is not None and bool(writing.masculine)
        is_free = is_masculine or (match["sign"] and before != "1")
        if writing.agrees and not (after or is_free) and _has_noun(match["behind"], writing.free):
            is_year = len(before) == 4 and before.isdecimal() and match["whole"] == before
            if not is_year and re.fullmatch(writing.agrees, before):
                return None
        if (len(before) > 1 and before[0] == "0") or (match["sign"] and not writing.percent):
            return None
        if after == "000":
            return None  # 5,000 means five thousand in Mexico, five in Spain
        if after and writing.said_point:
            # Digit by digit: as one number num2words takes them for a float, or drops them.
            parts = [words(int(before)), writing.said_point, *(words(int(one)) for one in after)]
            said = ("" if writing.is_joined else " ").join(parts)
        elif after:
            said = words(f"{before}.{after}")
        elif match["whole"].isdecimal() and int(before) in range(*writing.years):
            said = words(int(before), "year")
        else:
            said = words(int(before))
        if is_masculine and not after:
            said = _shortened(writing, said)
        said += writing.percent or "" if match["sign"] else ""
        return None if writing.mistakes and re.search(writing.mistakes, said) else said

    def dialled(match: re.Match[str]) -> str | None:
        groups = re.findall("[0-9]+", match.group())
        if len("".join(groups)) < 7:
            return None
        if not writing.plus:
            return match.group()
        said = ", ".join(
            words(int(group))
            if writing.in_pairs and len(group) == 2 and group[0] != "0"
            else " ".join(words(int(digit)) for digit in group)
            for group in groups
        )
        return f"{writing.plus} {said}" if match.group()[0] == "+" else said

    edge = "(?<![A-Za-z0-9])" if writing.is_joined else r"(?<!\w)"
    behind = (
        "(?![A-Za-z0-9])"
        if writing.is_joined
        else rf"(?![^\W{writing.counters}])"
        if writing.counters
        else r"(?!\w)"
    )
    number = (
        rf"(?P<whole>[0-9]{{1,3}}(?:{groups}[0-9]{{3}}){{1,4}}(?![0-9])|[0-9]{{1,15}}(?![0-9]))"
        rf"(?:{re.escape(writing.point)}(?P<decimals>[0-9]{{1,9}}))?"
    )
    near = (
        rf"(?<![{_SIGNS}])(?<![{_SIGNS}][{_SPACES}])(?<!\b0[0-9] )(?<![0-9][.,:/\u2013'\u2019-])"
        r"(?<![-+\u2212])"
    )
    far = (
        rf"(?![{_SPACES}]?[{_SIGNS}])(?![.,:/\u2013'\u2019-][0-9])(?![{_SPACES}][0-9]+/[0-9])"
        rf"(?![{_SPACES}][-\u2013][{_SPACES}][0-9.,]{{1,9}}[{_SPACES}]?[{_SIGNS}])"
        rf"(?!{groups}[0-9]{{3}})(?!\.?[ªº])(?!\.-)(?=(?P<behind>.{{0,16}}))"
    )
    in_words = rf"|(?<=,[1-9][0-9])[{_SPACES}]{writing.euros}" if writing.euros else ""
    sign = rf"(?P<sign>[{_SPACES}]?(?:%|€(?!/)){in_words}|)"
    pattern = rf"{edge}{near}(?P<it>{number}{sign}){behind}{far}"
    return (Rule(_PHONE, dialled, needs="[+0-9][0-9][0-9)]*[ /-]"), Rule(pattern, read, re.DOTALL))
