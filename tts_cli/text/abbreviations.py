"""Abbreviations, whose dot ends no sentence, in the alphabets of the models' languages.

One list for all languages, since a row's language is often `auto`. Three kinds:

TITLES stand before something: their dot never ends a sentence.
COUNTED stand before a number: "No. 5" and "Jan. 3rd", but "No. He won't."
ENDINGS may end a sentence, and do before a word that mostly begins one: "at 5 p.m. The bus".
"""

from __future__ import annotations

import re


def _words(words: str) -> frozenset[str]:
    return frozenset(words.split())


TITLES = _words(
    # English
    "mr mrs ms messrs dr prof st mt gen adm col capt cmdr lt maj sgt cpl pvt rev hon rep sen "
    "gov pres supt fr vs viz cf eg ie e.g i.e al msgr "
    # German
    "hr hrn fr frl dipl bzw z.b d.h u.a.m i.d.r o.ä s.o s.u v.a z.t z.zt ggf evtl bspw "
    "sog vgl ca geb gest hrsg med phil rer nat inkl exkl zzgl abzgl str tel "
    # French
    "mme mlle mgr p.ex c.-à-d env av apr boul bd hab réf tél "
    # Spanish, Portuguese, Italian
    "ee sr sra srta sres dña dra drs ud uds vd vds p.ej fdo exc excmo ilmo avda prov "
    "exmo exma sto sta eng arq "
    "sig sigg dott avv geom sen egr gent spett ecc.mo p.es ad.es sig.ra sig.na "
    # Russian
    "т.е т.к т.н т.о г-н г-жа им ул пр просп пер наб пл обл р-н св проф акад доц гр тов ср см напр "
    "тел кв корп стр"
)
COUNTED = _words(
    "no nos nr num núm nº n art arts abs bd bde vol vols ch chap cap kap fig figs abb tab p pp pg "
    "pág págs pag sec secs v vv ziff ref op bwv kv rte hwy apt fl rm ext "
    "jan feb mar apr jun jul aug sep sept oct nov dec mär okt dez janv févr avr juil déc ene abr "
    "ago dic gen giu lug ott fev maio dez "
    "mon tue tues wed thu thur thurs fri "
    "т рис табл гл ч с стр п пп ст илл"
)
ENDINGS = _words(
    "etc inc ltd co corp llc bros jr sr esq ph.d m.d b.a m.a d.c u.s u.s.a u.k u.n e.u a.m p.m a.d "
    "b.c b.c.e c.e ave blvd rd sq ln dept univ assn approx govt "
    "ft oz lb lbs hrs mins secs cm km kg "
    "usw etc u.a u.ä o.ä u.s.w jh jhd n.chr v.chr gmbh std "
    "j.-c cie sté "
    "ee.uu uu s.a s.l s.r.l s.p.a cía ltda cia a.c d.c a.m p.m "
    "ecc "
    "т.д т.п др пр г гг в вв н.э руб коп тыс млн млрд чел мин"
)
# Words that mostly begin a sentence when they follow a dot with a capital letter.
STARTERS = _words(
    "the a an he she it they we you i this "
    "that these those there here his her its their our my your "
    "in on at by for from with after before when while "
    "if as but and so or then now what who why how "
    "where which no yes not one some all many most every each although because since until once "
    "der die das er sie es wir ihr ein eine dann da "
    "doch und aber als wenn im am in auf mit nach vor "
    "dies diese dieser dieses man nun so hier "
    "le la les il elle ils elles nous vous on un une ce cette ces mais et puis quand dans en alors "
    "el los las ella ellos un una pero y entonces cuando en por como no se su "
    "o os ele ela eles elas um uma mas e quando em depois não "
    "lo gli i lui lei loro ma poi quando nel non si "
    "он она оно они мы вы я это этот эта эти но и а потом затем когда в на с как так не"
)
_LOOK_BACK = 24  # characters before a dot that may belong to its abbreviation
# The word before the dot; single letters with dots and perhaps spaces between: "U.S", "z. B".
_BEFORE = re.compile(r"(?:(?<!\w)(?:\w\.[ \u00a0\u202f]?|\w{2,4}\.))*(?<!\w)\w+(?:-\w+)*$")
_NUMBER = re.compile(r"\d+(\.\d+)*")
_UNIT = re.compile(r"\d\s?$")
_WORD = re.compile(r"\w+")
_ROMAN = re.compile(r"[IVXLCDM]+\b")
_MONTHS = _words(
    "januar jänner februar märz april mai juni juli august september oktober november dezember "
    "jahrhundert jahrhunderts klasse stock kapitel auflage"
)
# German words before which or behind which a number with a dot is an ordinal.
_BEFORE_ORDINAL = _words(
    "am der den dem des die das vom zum zur beim im bis ab seit und jeder jeden jedem"
)


def word_before(text: str, dot: int) -> str:
    """The word whose dot stands at `dot`, with what belongs to it: `z.B` of "z. B."; may be empty.

    Dots between its letters stay, spaces go.
    """
    found = _BEFORE.search(text[max(0, dot - _LOOK_BACK) : dot])
    return "" if found is None else re.sub(r"\s", "", found.group())


def is_abbreviation(text: str, dot: int, after: int) -> bool:
    """Whether the dot at `dot` belongs to a shortened word or an initial and ends no sentence.

    Args:
        after: index of the first letter or digit behind it, len(text) if there is none.
    """
    word = word_before(text, dot)
    found = _WORD.match(text, after, after + _LOOK_BACK)
    if not word or found is None:
        return False
    follower = found.group()
    if _NUMBER.fullmatch(word):
        return _is_ordinal(text, dot - len(word), word, follower)
    start = dot - len(word)
    if len(word) == 1 and word.islower() and _UNIT.search(text, max(0, start - 2), start):
        return len(follower) == 1 and text[found.end() : found.end() + 1] == "."
    if text[start - 1 : start] == "°":
        return False
    return _is_shortened(word, follower, text[found.end() : found.end() + 1])


def _is_shortened(word: str, follower: str, behind: str) -> bool:
    """Whether a word with a dot is in the tables, or letters with dots.

    Args:
        follower: the word behind it. behind: the character behind that one.
    """
    key, last = word.lower(), word.lower().rpartition(".")[2]
    is_acronym = all(len(part) == 1 and part.isalpha() for part in key.split("."))
    if not is_acronym and key not in TITLES and key not in ENDINGS:
        key = last
    if key in TITLES or key.endswith("str"):  # German streets, in one word with their names
        return True
    if follower[0].isdigit() or (_ROMAN.fullmatch(follower) and follower != "I"):
        return key in COUNTED or key in ENDINGS or is_acronym
    if is_acronym and (word == "I" or (len(follower) == 1 and behind == ".")):
        return word != "I"
    return (key in ENDINGS or is_acronym) and follower.lower() not in STARTERS


def _is_ordinal(text: str, start: int, digits: str, follower: str) -> bool:
    """Whether a number with a dot is German for first, second, ..., or numbers a list's entry.

    Args:
        start: index of its first digit. follower: the word behind it.
    """
    before = text[max(0, start - _LOOK_BACK) : start].rstrip(" \t")
    if not before or before[-1] in "!?\n":
        return True
    if before[-1] == ".":
        word = word_before(before, len(before) - 1)
        return not word or bool(_NUMBER.fullmatch(word)) or not _is_shortened(word, digits, ".")
    if len(digits) > 2:
        return False
    found = re.search(r"\w+$", before)
    is_german = found is not None and found.group().lower() in _BEFORE_ORDINAL
    return follower.lower() in _MONTHS or (is_german and follower.lower() not in STARTERS)
