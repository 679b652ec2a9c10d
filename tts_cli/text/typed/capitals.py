"""Words in capitals that are not acronyms, as in headings and shouts.

Three words or more in a row are written small, whatever stands between them, but for what is said
letter by letter or looks otherwise when it is small: acronyms, words without a vowel, Roman
numerals, units behind a number. A single acronym list stays what it is: two of the words at least
must be none of these.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from tts_cli.text.reading import TAKEN, Change

_ACRONYMS = """
    AAA AARP ABC ABS AC ACLU ADHD AFAIK AFK AI AIDS AKA AOL API ASAP ASCII ASEAN ATM AWOL AWS BAFTA
    BCE BIPOC BMI BYOB CBI CEO CFO CIA CIO CNBC COVID CPA CPU CSI CTO DEA DIY DNA DOA DOB DOE DOJ
    DUI EBITDA ECB ECG ECOWAS EDF EDM EEC EEG EFTA EKG EMI EMT EPA EPS ESA ESL ESP ESPN ETA ETF EU
    EULA EUR EV FAA FAO FAQ FBI FDA FEMA FIFA FIFO FOMO FUBAR FYI GAAP GAO GATT GIF GIS GMO GOP GPA
    GPU GUI HIPAA HIV HMO HOA IAEA IATA IBM ICBM ICJ ICU ID IDE IDF IDK IED IEEE IKEA ILO IMAX IMDB
    IMF IMHO IMO IO IOC IOS IOU IP IPA IPCC IPO IQ IRA IRC IRL IRS ISBN ISIS ISO ISP ISS ITN ITV IUD
    IVF LAPD LIFO LOL MBA MIT MOMA MRI MTA NAACP NAFTA NASA NASCAR NASDAQ NATO NBA NCAA NIH NOAA NRA
    NSA NYC NYPD OBE OCD OCR OECD OED OEM OK OPEC OS OSHA OTC PTA PUBG QA QED RAF REIT REM RNA ROI
    ROTC SARS SEO SMS SOS STI SUV SWAT TBA TOEFL TSA UAE UAV UCLA UEFA UFC UFO UHF UHT UI UK UN
    UNCTAD UNESCO UNHCR UNICEF UNRWA UPC UPS URI URL USA USAF USB USC USD USDA USMC USPS USS USSR
    UTC UUID UV UX VAT VIP VOIP WIFI WMD WTO WYSIWYG YMCA YOLO YWCA
"""
ACRONYMS = frozenset(_ACRONYMS.split())
LEAST_WORDS = 3  # in a row
LEAST_SMALL = 2  # of those, that are written small
# Units that are words or look like one.
_UNITS = "AD AM BCE CAL CE GAL HA KCAL KPA MAH MI MIN MINS MPA OZ SEC SECS"
BEHIND_NUMBERS = frozenset(_UNITS.split())

_VOWELS = frozenset("AEIOUYÆŒØАЕЁИОУЫЭЮЯІЄΑΕΗΙΟΥΩ")
_CAPITAL = "A-Z\u00c0-\u00d6\u00d8-\u00de\u0386-\u03ab\u0400-\u042f"
_MARKS = "'\u2018\u2019\u02bc"
_LOUD = re.compile(rf"[{_CAPITAL}]{{2}}\W+[{_CAPITAL}]")
_TOKEN = re.compile(rf"[^\W_]+(?:[{_MARKS}][^\W_]+)*")
_MAC = re.compile(r"(?:Ma?c)(?=[A-Z]{2})")  # McDONALD
_LETTERS = re.compile(r"[^\W_]+")
_ROMAN = re.compile(r"C{0,3}(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
_BEGINS = re.compile(
    "(?:^|\n|[.!?\u2026][\"'\u201d\u2019\u00bb)\\]]{0,3}\\s)\\s{0,3}[\"'\u201c\u2018\u00ab(\\[]{0,3}$"
)
_BEHIND_NUMBER = re.compile(rf"[0-9{TAKEN}] ?$")


def small(text: str) -> list[Change]:
    """The words of a text that are written small, TAKEN in it being none."""
    if _LOUD.search(text) is None:
        return []
    return [change for run in _runs(text) for change in _lowered(run, text)]


def _runs(text: str) -> Iterator[list[re.Match[str]]]:
    """Words in capitals with none other between them; what has a figure is no word."""
    run: list[re.Match[str]] = []
    for token in _TOKEN.finditer(text):
        word = token.group()
        loud = _MAC.sub("", word).replace("\u00df", "SS")  # neither has capitals alone
        if loud.isupper() and not any(map(str.isdigit, word)):
            run.append(token)
        elif not any(map(str.isdigit, word)):
            yield run
            run = []
    yield run


def _lowered(run: list[re.Match[str]], text: str) -> Iterator[Change]:
    """The changes of one run, if it is one of words."""
    words = [token for token in run if len(token.group()) > 1 or token.group() in "AI"]
    kept = {token.start() for token in run if _stays(token, text)}
    num_small = sum(token.start() not in kept and len(token.group()) > 1 for token in run)
    if len(words) < LEAST_WORDS or num_small < LEAST_SMALL:
        return
    for token in run:
        for piece in _LETTERS.finditer(text, *token.span()):
            letters = piece.group()
            if piece.start() > token.start():
                said = letters.lower()  # of an acronym as well: NASA's
            elif token.start() in kept or letters == "I":
                continue
            elif mac := _MAC.match(letters):
                said = mac.group() + letters[mac.end() :].capitalize()
            else:
                before = text[max(0, piece.start() - 8) : piece.start()]
                said = letters.capitalize() if _BEGINS.search(before) else letters.lower()
            if said != letters:
                yield Change(piece.start(), piece.end(), said.replace("i\u0307", "i"))


def _stays(token: re.Match[str], text: str) -> bool:
    """Whether a word is one that is not written small."""
    word = re.split(f"[{_MARKS}]", token.group())[0]
    if len(word) == 1 and word not in "AIO":
        return True
    start, end = token.span()
    if len(word) == 1:  # of U.S.A., or somebody's name
        beside = text[start - 1 : start] + text[end : end + 1]
        return token.group() != "I" and "." in beside
    if word in BEHIND_NUMBERS and _BEHIND_NUMBER.search(text[max(0, start - 2) : start]):
        return True
    bare = unicodedata.normalize("NFD", word)
    return word in ACRONYMS or _VOWELS.isdisjoint(bare) or _ROMAN.fullmatch(word) is not None
