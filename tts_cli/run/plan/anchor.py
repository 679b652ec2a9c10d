"""Which row is the anchor: `--anchor first|ID`, and whether its speech is there. What that is to
the others is in `voices/anchor.py`.

`first` is the first row that is about as long as a good reference. Which one it was is kept in
`anchor.json`, and stays so as long as the manifest has that row: one put in at the top must not
give all others another voice.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tts_cli.errors import RowError, StoppedEarly, UsageError
from tts_cli.manifest.ids import fold_id, is_recorded_id
from tts_cli.manifest.request import usual_s
from tts_cli.manifest.row import BadRow, Row
from tts_cli.output.atomic import write_atomic
from tts_cli.run.leads import need_of
from tts_cli.run.plan.standing import OutputFolder, State
from tts_cli.text.pauses import without_pauses
from tts_cli.voices.anchor import Anchor, read_anchor, unspoken_anchor
from tts_cli.voices.recording import MAX_SECONDS

if TYPE_CHECKING:
    from models.base import ModelInfo, SpeechRequest
    from tts_cli.config import RunConfig
    from tts_cli.run.leads import Leads
    from tts_cli.run.plan.identity import RowIdentity
    from tts_cli.run.plan.split_rule import SplitRule
    from tts_cli.voices.resolve import Cloning
    from tts_cli.voices.speech_row import SpeechRow

log = logging.getLogger(__name__)

ANCHOR_NAME = "anchor.json"
FIRST = "first"
GOOD_S = (3.0, 20.0)  # usual seconds of a text whose speech makes a good reference
_MAX_BYTES = 1 << 16


class AnchorRow:
    """The anchor of a run: its row and, once it was looked for, its speech."""

    def __init__(
        self,
        config: RunConfig,
        info: ModelInfo,
        cloning: Cloning,
        split_rule: SplitRule,
        identity: RowIdentity,
        folder: OutputFolder,
        clone: ModelInfo | None = None,
    ) -> None:
        self._config = config
        self._info = info
        self._clone = clone  # the checkpoint that speaks the others, if it is another one
        self.leads: Leads | None = None  # speech that was kept for that
        self._cloning = cloning
        self._split_rule = split_rule
        self._identity = identity
        self._folder = folder
        self.row: Row | None = None  # the others that nothing gives a voice follow it
        self.is_new = False  # spoken by this run

    @property
    def speech(self) -> Anchor | None:
        """What rows that follow it clone; None: it was not looked for, or no row needs one."""
        return self._cloning.anchor

    def find(
        self,
        read: Callable[[], Iterator[Row | BadRow]],
        request_of: Callable[[Row], tuple[SpeechRequest, bool]],
    ) -> None:
        """Choose it, and find out whether its speech is there.

        Args:
            read: reads the manifest from its start.
            request_of: what a row asks of the model, and whether it has no words.
        Raises:
            UsageError: there is no such row, or it cannot be the anchor.
            StoppedEarly: its speech, made by this run, is no reference.
        """

        def is_free(row: Row) -> bool:
            request, is_silent = request_of(row)
            if self._clone is not None and self._config.anchor == FIRST:
                is_silent = is_silent or self._split_rule.is_split(request)
            return not is_silent and request.voice is None and request.ref_audio is None

        if self.row is None:
            self.row = choose_anchor(self._config, read, is_free)
        row = self.row
        if row is None:
            log.warning("--anchor first: every row has a voice of its own, or no words")
            return
        self._cloning.anchor = None
        request, _ = request_of(row)
        planned = self._identity.planned(row.id, request, None, False)
        path, text = Path(row.id), without_pauses(request.text)
        writer = self._folder.writer
        if writer is not None:
            path = writer.path_of(row.id)
        if not self._is_spoken(planned):
            if problem := too_long(row, text, self._split_rule.is_long(request)):
                raise problem
            if self._clone is not None and self._split_rule.is_split(request):
                raise UsageError(
                    f"--anchor: row '{row.id}' has pauses, so that it is not spoken in one",
                    remedy="name a row without pauses, of 5 to 15 s",
                )
            anchor = unspoken_anchor(row.id, path, text, request.max_frames, self._info)
            if self._clone is not None:
                need = need_of(request, self._clone, self._cloning.silence_s)
                anchor = replace(anchor, need=need)
            self._cloning.anchor = anchor
            return
        assert writer is not None
        codes_path: Path | None = writer.codes_path_of(row.id)
        if self._clone is not None:  # it has another encoder, and takes in what is heard
            codes_path, path = None, self._kept_path(row.id) or path
        info, silence_s = self._clone or self._info, self._cloning.silence_s
        try:
            self._cloning.anchor = read_anchor(row.id, path, codes_path, text, info, silence_s)
        except RowError as error:
            kind = StoppedEarly if self.is_new else UsageError
            raise kind(
                f"the anchor, row '{row.id}': {error}", remedy="name another row by --anchor"
            ) from None

    def _kept_path(self, row_id: str) -> Path | None:
        """Where its speech is kept as it was spoken, whatever its file is by now."""
        assert self._folder.journal is not None
        line = self._folder.journal.ok_line(row_id)
        if self.leads is None or line is None:
            return None
        digest = str(line.get("request_hash"))
        return self.leads.path_of(digest) if self.leads.has(digest) else None

    def _is_spoken(self, row: SpeechRow) -> bool:
        """Whether its speech is in the folder and is to stay."""
        folder = self._folder
        if folder.journal is None or folder.writer is None:
            return False
        if folder.journal.status(row.id) != "ok":
            return False
        if self._config.overwrite and not self.is_new:
            return False
        standing = folder.standing(row.id, row.request, row.need, False, is_close=True)
        if standing.state is State.KEPT:  # in another format; what is cloned is not its file
            if self._clone is not None:
                return self._kept_path(row.id) is not None
            return folder.writer.codes_path_of(row.id).is_file()
        return standing.state is State.DONE

    def is_row(self, row: Row | BadRow) -> bool:
        """Whether a row is the anchor."""
        return self.speech is not None and row.id == self.speech.id

    def is_described_as(self, row: Row) -> bool:
        """Whether a row asks for the same voice."""
        return self.row is not None and self.row.instruct == row.instruct

    def followed_by(self, request: SpeechRequest) -> Anchor | None:
        """The anchor, if a request was given its voice."""
        speech = self.speech
        return speech if speech is not None and speech.is_voice_of(request) else None


def require_free_voices(config: RunConfig, info: ModelInfo, clone: ModelInfo | None) -> None:
    """Raise UsageError where no row needs an anchor, or none can be one.

    Args:
        clone: the checkpoint that speaks rows in its voice, if that is another one.
    """
    flag = f"--anchor {config.anchor}"
    if info.voices or info.needs_reference or config.voice is not None:
        raise UsageError(
            f"{flag}: every row has a voice already",
            remedy="leave it out; it is for checkpoints that make up a voice for every row",
        )
    if clone is None and (not info.can_clone or "icl" not in info.clone_modes):
        reason = info.needs or f"a {info.type} checkpoint cannot clone the anchor"
        raise UsageError(
            f"{flag}: {reason}",
            remedy="name a Base checkpoint that can by --clone-model, or make a voice with "
            "`tts-cli voices design`, and speak with a Base checkpoint",
        )


def choose_anchor(
    config: RunConfig,
    read: Callable[[], Iterator[Row | BadRow]],
    is_free: Callable[[Row], bool],
) -> Row | None:
    """The anchor's row; None for `first` where no row needs one.

    Args:
        read: reads the manifest from its start.
        is_free: whether nothing fixes a row's voice.
    Raises:
        UsageError: there is no such row, or it cannot be the anchor.
    """
    assert config.anchor is not None
    if config.anchor != FIRST:
        return _named(config.anchor, read(), is_free)
    kept = _kept_id(config.out)
    fitting: Row | None = None
    free: Row | None = None
    for row in read():
        if isinstance(row, BadRow) or not is_free(row):
            continue
        if row.id == kept:
            return row
        free = free or row
        if fitting is None and GOOD_S[0] <= usual_s(row.text) <= GOOD_S[1]:
            fitting = row
            if kept is None:
                break
    return fitting or free


def _named(row_id: str, rows: Iterator[Row | BadRow], is_free: Callable[[Row], bool]) -> Row:
    for row in rows:
        if row.id is None or fold_id(row.id) != fold_id(row_id):
            continue
        if isinstance(row, BadRow):
            raise UsageError(f"--anchor {row_id}: line {row.line} is bad: {row.message}")
        if not is_free(row):
            raise UsageError(
                f"--anchor {row_id}: the row has a voice or a recording of its own, or no words",
                remedy="name a row whose voice the checkpoint makes up, or give that voice to all",
            )
        return row
    raise UsageError(f"--anchor {row_id}: no row has this id", remedy="name a row of the manifest")


def too_long(row: Row, text: str, is_split: bool) -> UsageError | None:
    """The error of an anchor whose speech would be longer than a reference may be.

    Args:
        text: what is spoken.
        is_split: it is longer than the checkpoint speaks well.
    """
    seconds = usual_s(text)
    if seconds <= MAX_SECONDS and not is_split:
        return None
    return UsageError(
        f"--anchor: row '{row.id}' would take about {seconds:.0f} s, and a reference lasts at most "
        f"{MAX_SECONDS:g} s",
        remedy="name a shorter row, of 5 to 15 s",
    )


def _kept_id(out: Path | None) -> str | None:
    """The anchor that the folder was spoken with before."""
    if out is None:
        return None
    try:
        with open(out / ANCHOR_NAME, "rb") as file:
            found = json.loads(file.read(_MAX_BYTES))["id"]
    except (OSError, ValueError, RecursionError, TypeError, KeyError):
        return None
    return found if is_recorded_id(found) else None


def keep_anchor(out: Path, row_id: str, digest: str) -> None:
    """Note which row the others follow. Raises DiskFull."""
    data = (json.dumps({"id": row_id, "digest": digest}, indent=2) + "\n").encode()
    path = out / ANCHOR_NAME
    if not path.is_file() or path.read_bytes() != data:
        write_atomic(path, data)
