"""Detect names in front of lines: `Anna: Come in.`, as Yarn Spinner, screenplays and podcasts write
them. A model reads them aloud.
"""

from __future__ import annotations

import re
from collections import Counter

from tts_cli.named import some_of

_MAX_NAMES = 1000  # that are counted
_MAX_SHOWN = 5
_LEAST_ROWS = 3  # of a name
_LEAST_SHARE = 0.2  # of the rows
# In brackets or bold letters too; a direction behind it, `ANNA (softly):`, is not said either.
_NAME = re.compile(
    r"\s*(?:\*\*|\[)?((?:(?:Dr|Mr|Mrs|Ms|Prof|St|Sgt|Lt|Capt)\. ?)?"
    r"[^\W\d_][^:\uff1a\n\"“”«».,;!?()\[\]*]{0,29})"
    r"(?:\*\*|\])?\s*(?:\([^()\n:]{1,40}\))?\s*(?::(?:\*\*)?\s+|\uff1a(?:\*\*)?\s*)(?=\S)"
)
_SMALL_WORDS = "and,of,the,und,y,et,e,von,van,der,den,de,del,della,di,da,du,la,le"  # in a name
_SMALL = frozenset(_SMALL_WORDS.split(","))
# What stands in front of a colon and names nobody.
_WORDS = (
    "note,notes,warning,caution,important,tip,hint,example,examples,step,part,chapter,scene,act,"
    "question,answer,summary,conclusion,update,reminder,attention,ps,nb,result,results,monday,"
    "tuesday,wednesday,thursday,friday,saturday,sunday,today,tomorrow,price,address,phone,email,"
    "date,time,place,subject,title,total,hinweis,achtung,wichtig,beispiel,schritt,teil,kapitel,"
    "frage,antwort,note,remarque,exemple,étape,partie,nota,ejemplo,paso,parte,attenzione,esempio,"
    "внимание,пример,шаг,часть,глава"
)
_LABELS = frozenset(_WORDS.split(","))
_MAX_WORDS = 3


def name_in_front(text: str) -> tuple[str, str] | None:
    """A name at the start of a line and what is said behind it; None: there is none."""
    if ":" not in text and "\uff1a" not in text:
        return None
    found = _NAME.match(text)
    if found is None:
        return None
    name = found[1].strip()
    words = name.split()
    is_name = not any(word[0].islower() for word in (words[0], *set(words) - _SMALL))
    if len(words) > _MAX_WORDS or not is_name or _LABELS & {name.casefold(), words[0].casefold()}:
        return None
    return name, text[found.end() :]


class SpeakerNames:
    """Counts names in front of the texts of a manifest."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._rows = 0

    def add(self, text: str) -> None:
        """A row's text."""
        self._rows += 1
        found = name_in_front(text)
        if found and (found[0] in self._counts or len(self._counts) < _MAX_NAMES):
            self._counts[found[0]] += 1

    def warning(self) -> str | None:
        """What is said of them, where they are names of speakers: two or more come again and again,
        or every row has one.
        """
        often = {name: count for name, count in self._counts.items() if count >= _LEAST_ROWS}
        with_name = sum(self._counts.values())
        is_each = with_name == self._rows >= _LEAST_ROWS and len(self._counts) < with_name
        is_often = len(often) > 1 and sum(often.values()) >= _LEAST_SHARE * self._rows
        if len(self._counts) < 2 or not (is_often or is_each):
            return None
        named = some_of([name for name, _ in self._counts.most_common()], _MAX_SHOWN)
        return (
            f"{with_name} rows start with a name and a colon ({named}), which would be read "
            "aloud; in a manifest, --speaker-prefix removes the names"
        )
