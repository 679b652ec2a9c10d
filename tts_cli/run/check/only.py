"""`--only`: the rows that somebody names: by id, by pattern, in a file, or as suspects."""

from __future__ import annotations

import fnmatch
import heapq
import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path

from tts_cli.errors import UsageError
from tts_cli.listen.judgement import judged
from tts_cli.listen.speech import Speech, speech_of
from tts_cli.listen.usual import Voices
from tts_cli.manifest.ids import fold_id, id_hash
from tts_cli.output.checks import read_checks
from tts_cli.output.journal import JOURNAL_NAME, Journal

SUSPECTS = "suspects"
_MAX_FILE_BYTES = 1 << 28
_MAX_NAMED = 5  # names that a message tells of
_NUM_NEAREST = 3
_WILD = re.compile(r"[*?[]")


class Only:
    """The rows that are named. It remembers which names have met a row.

    Args:
        values: as `RunConfig.only` has them; none: every row is named.
        out: the output folder, whose journal tells of suspects; None: there is none.
    Raises:
        UsageError: a file of names cannot be read, or nobody can tell what is suspect.
    """

    def __init__(self, values: Sequence[str], out: Path | None) -> None:
        self.is_given = bool(values)
        self._ids: dict[str, bool] = {}  # folded -> whether a row has it
        self._patterns: list[tuple[str, re.Pattern[str]]] = []
        self._met: set[str] = set()
        self._suspects: set[int] | None = None
        for name in _names(values):
            if name == SUSPECTS:
                self._suspects = suspects_of(out)
            elif _WILD.search(name):
                self._patterns.append((name, re.compile(fnmatch.translate(fold_id(name)))))
            else:
                self._ids[fold_id(name)] = False

    def names(self, row_id: str) -> bool:
        """Whether a row is named."""
        if not self.is_given:
            return True
        folded = fold_id(row_id)
        is_named = folded in self._ids
        if is_named:
            self._ids[folded] = True
        for name, pattern in self._patterns:
            if pattern.fullmatch(folded):
                is_named = True
                self._met.add(name)
        return is_named or (self._suspects is not None and id_hash(row_id) in self._suspects)

    def strays(self) -> list[str]:
        """Names that have met no row."""
        strays = [name for name, has_met in self._ids.items() if not has_met]
        return strays + [name for name, _ in self._patterns if name not in self._met]

    def require_rows(self, manifest: str, ids: Iterable[str]) -> None:
        """Raise UsageError if a name has met no row, with the ids that come nearest.

        Args:
            ids: of the manifest's rows; read only if there is something to tell.
        """
        strays = self.strays()
        if not strays:
            return
        found = list(ids) if len(strays) > 1 else ids
        advice = [f"'{name}'{nearest_ids(name, found)}" for name in strays[:_MAX_NAMED]]
        more = f" and {len(strays) - _MAX_NAMED} more" if len(strays) > _MAX_NAMED else ""
        raise UsageError(f"--only: no row of {manifest} is called {', '.join(advice)}{more}")


def suspects_of(out: Path | None) -> set[int]:
    """Hashes of the ids whose file failed or is suspect: what `tts-cli report` and `tts-cli check`
    show as such. That is by the last line of each row, extra takes left out, held against its voice
    in this folder, and by `checks.jsonl` as far as it was made of this very audio.

    Lines of the journal are read twice, not kept; of checks only those of suspects are.

    Raises:
        UsageError: there is no journal that could tell.
        SetupError: it cannot be read.
    """
    path = None if out is None else out / JOURNAL_NAME
    if out is None or path is None or not path.is_file():
        raise UsageError(
            f"--only {SUSPECTS}: {path or 'no --out'}: no journal tells of suspect rows",
            remedy="speak the manifest into --out first",
        )
    checks = {
        (id_hash(check.id), check.take): check for check in read_checks(out) if check.is_suspect
    }
    journal = Journal(out, is_read_only=True)
    voices = Voices(_speeches(journal))
    found: set[int] = set()
    for speech in _speeches(journal):
        key = id_hash(speech.id)
        if not speech.is_ok or judged(speech, voices, checks.get((key, speech.take))):
            found.add(key)
    return found


def _speeches(journal: Journal) -> Iterator[Speech]:
    """The last line of each row's file."""
    for place, line in enumerate(journal.file_lines()):
        speech = speech_of(line, place)
        if speech is not None:
            yield speech


def _names(values: Sequence[str]) -> Iterator[str]:
    """Every name that the values give. Raises UsageError."""
    for value in values:
        names = value.split(",")
        if value.startswith("@"):
            names = _read(value[1:])
        yield from filter(None, map(str.strip, names))
    if values and not any(value.strip(", ") for value in values):
        raise UsageError("--only is empty", remedy="name a row, or leave it out")


def _read(path: str) -> list[str]:
    """The lines of a file of names, those that begin with # left out."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read(_MAX_FILE_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"--only @{path}: cannot be read: {reason}") from error
    names = [line.strip() for line in text.splitlines()]
    names = [name for name in names if name and not name.startswith("#")]
    if not names:
        raise UsageError(f"--only @{path}: names no row", remedy="write one id a line")
    return names


def nearest_ids(name: str, ids: Iterable[str]) -> str:
    """What to say of the ids that come nearest to a name."""
    matcher = SequenceMatcher(b=name, autojunk=False)

    def likeness(row_id: str) -> float:
        return max(ratio(part) for part in {fold_id(row_id), fold_id(row_id.rpartition("/")[2])})

    def ratio(text: str) -> float:
        matcher.set_seq1(text)
        return matcher.ratio() if matcher.real_quick_ratio() > 0.5 else 0.0

    best = heapq.nlargest(_NUM_NEAREST, ((likeness(row_id), row_id) for row_id in ids))
    close = [f"'{row_id}'" for ratio, row_id in best if ratio > 0.5]
    return f" (nearest: {', '.join(close)})" if close else ""
