"""Rows that two checkpoints speak, or the second one alone: `--clone-model`.

Of a row in parts the first checkpoint, which makes up voices, speaks one, the lead; the second one
clones it for the others. Rows that follow an anchor are the second one's as a whole. What the first
one spoke is kept (`run/leads.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tts_cli.errors import RowError
from tts_cli.output.hashes import request_hash
from tts_cli.run.leads import Leads, need_of
from tts_cli.run.plan.found import Survey
from tts_cli.run.plan.identity import RowIdentity
from tts_cli.run.plan.split_rule import SplitRule
from tts_cli.voices.resolve import Need
from tts_cli.voices.speech_row import PlannedPart, SpeechRow

if TYPE_CHECKING:
    from models.base import ModelInfo, SpeechRequest


class ClonedRows:
    """Who speaks what of the rows of a run.

    Args:
        first: what the run's checkpoint offers.
        info: what the second one offers; None: there is none.
        silence_s: seconds of silence behind what is cloned.
    """

    def __init__(
        self,
        first: ModelInfo,
        info: ModelInfo | None,
        split_rule: SplitRule,
        identity: RowIdentity,
        silence_s: float,
    ) -> None:
        self._first = first
        self.info = info
        self._split_rule = split_rule
        self._identity = identity
        self.silence_s = silence_s
        self.leads: Leads | None = None  # what the first one spoke; None: there is no folder yet

    def identity_of(self, request: SpeechRequest, is_silent: bool) -> str | None:
        """The second checkpoint's, if it speaks the row or some of its parts."""
        if self.info is None or not self._identity.is_cloned(request, is_silent):
            return None
        return self.info.identity

    def lead_of(self, row: SpeechRow) -> SpeechRow:
        """The part of a row that the first checkpoint speaks, whose voice the others have."""
        place = self._split_rule.lead(row.parts)
        request = row.parts[place].request
        lead = SpeechRow(
            f"{row.id}, part {place + 1} of {len(row.parts)}",
            request,
            request_hash(request, self._first.identity),
        )
        lead.is_lead = True
        return lead

    def missing_lead(self, row: SpeechRow) -> SpeechRow | None:
        """That part, unless it is there."""
        lead = self.lead_of(row)
        if self.leads is not None:
            if self.leads.has(lead.request_hash):
                return None
            if not lead.request.sampling.draws_nothing:
                lead.attempts_before = self.leads.attempts_in_vain(lead.request_hash)
        return lead

    def with_lead(self, row: SpeechRow, is_int16: bool) -> SpeechRow:
        """A row with the voice that its other parts have; or with the error that there is none.

        Args:
            is_int16: what its samples are to be.
        """
        assert self.leads is not None
        assert self.info is not None
        lead, place = self.lead_of(row), self._split_rule.lead(row.parts)
        part = f"part {place + 1} of {len(row.parts)}"
        digest = lead.request_hash
        if not self.leads.has(digest):
            row.error = f"{part}: {self.leads.problem(digest)}"
            return row
        try:
            voice = self.leads.voice(row.id, digest, lead.request.text, self.info, self.silence_s)
        except RowError as error:
            row.error = f"{part} gives no voice to the others: {error}"
            return row
        row.request, row.need = voice.given_to(row.request), voice.need
        row.lead = self.leads.part(digest, place, lead.request, is_int16)
        return row

    def has_lead(self, request: SpeechRequest) -> bool:
        """Whether the part that the first checkpoint speaks of a row is there."""
        if self.leads is None or request.ref_audio is not None:
            return False
        parts = self._split_rule.parts(request)
        if len(parts) < 2:
            return False
        lead = parts[self._split_rule.lead(parts)].request
        return self.leads.has(request_hash(lead, self._first.identity))

    def make_room(
        self,
        found: Survey,
        request: SpeechRequest,
        parts: tuple[PlannedPart, ...],
        need: Need | None,
        has_lead: bool,
    ) -> None:
        """Count a row, or its parts, in with those that its checkpoint speaks.

        Args:
            has_lead: the part that the first one speaks of a row for both is there.
        """
        requests = [part.request for part in parts]
        if self.info is None or not self._identity.is_cloned(request):
            if parts:
                found.needs.add_parts(requests, self._first, need)
            else:
                found.needs.add(request, self._first, need)
            return
        if need is None:
            lead = requests.pop(self._split_rule.lead(parts))
            if not has_lead:
                found.needs.add(lead, self._first)
            need = need_of(lead, self.info, self.silence_s)
        for one in requests or [request]:
            found.clone_needs.add(one, self.info, need)
