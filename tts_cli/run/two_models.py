"""A run with `--clone-model`: two passes over the rows of one plan.

The first checkpoint, which makes up voices, speaks its rows, the anchor among them, and of each row
in parts the one whose voice the others are to have (`RowPlan.due`). What the second one clones is
kept (`leads.py`). Then that one speaks the rest (`RowPlan.due_cloned`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tts_cli.config import RunConfig
from tts_cli.output.run_file import Totals
from tts_cli.run.consent import require_consent
from tts_cli.run.leads import Leads
from tts_cli.run.passes import Pass, Passes
from tts_cli.run.plan.clone_model import clone_config
from tts_cli.run.plan.found import Survey
from tts_cli.run.plan.row_plan import RowPlan
from tts_cli.run.speakers import Due, add_device_totals
from tts_cli.voices.speech_row import SpeechRow

if TYPE_CHECKING:
    from tts_cli.run.records import Recorder
    from tts_cli.run.warm_model import WarmModel


class TwoModels(Passes):
    """The two passes, from a survey to rows at their ends; as `Speakers` for a manifest.

    Args:
        survey: what the plan found.
        out: folder to keep voices in.
        is_int16, takers, model: as in `Passes`.
        comment: in every file that is kept for the second checkpoint.
    Raises:
        UsageError: the second checkpoint's licence was never accepted.
    """

    def __init__(
        self,
        config: RunConfig,
        plan: RowPlan,
        survey: Survey,
        out: Path,
        *,
        is_int16: bool,
        takers: int = 1,
        model: WarmModel | None = None,
        comment: str = "",
    ) -> None:
        assert plan.clone_info is not None
        second = clone_config(config)
        require_consent(plan.clone_info.licence, second)
        super().__init__(
            [Pass(config, survey.needs), Pass(second, survey.clone_needs, plan.cloning)],
            is_int16=is_int16,
            takers=takers,
            model=model,
        )
        self._plan = plan
        self._leads = Leads(out, plan.info, comment)
        self._counts = Totals()
        self.is_gpu = False

    def steps(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """See `Speakers`."""
        yield "loading the first model", self._begin

    def _begin(self) -> None:
        self.is_gpu = self.prepare().device.type == "cuda"

    def speak(self, due: Due, recorder: Recorder) -> None:
        """Speak and record all rows of the plan, whose `due` are those of the first pass.

        Raises:
            SetupError: a checkpoint cannot be loaded.
            StoppedEarly, Exception: as `SpeechRun.run`.
        """
        plan = self._plan
        anchor = plan.anchor

        def take(row: SpeechRow) -> None:
            is_anchor = anchor is not None and row.id == anchor.id and not row.is_extra
            if row.is_lead or (is_anchor and row.error is None):
                self._leads.take(row)
            if not row.is_lead:
                recorder.take(row)

        def first(is_stopped: Callable[[], bool]) -> Iterator[SpeechRow]:
            return iter(due(recorder, is_stopped))

        def second(is_stopped: Callable[[], bool]) -> Iterator[SpeechRow]:
            return plan.due_cloned(recorder, is_stopped)

        with self._open_leads():
            self.run([first, second], take, partial(add_device_totals, self._counts))

    def close(self) -> None:
        """See `Speakers`."""

    def counted(self, totals: Totals) -> Totals:
        """See `Speakers`."""
        counts = self._counts
        return replace(
            totals,
            load_s=self.load_s,
            capture_s=self.capture_s,
            graph_hits=counts.graph_hits,
            graph_misses=counts.graph_misses,
            graph_misses_by=counts.graph_misses_by,
            peak_memory_bytes=counts.peak_memory_bytes,
            **self.reference_facts(),
        )

    def device_facts(self) -> dict[str, Any]:
        """See `Speakers`; of the last pass."""
        return self.facts

    def worker_facts(self) -> list[dict[str, Any]]:
        """See `Speakers`."""
        return []

    def speak_row(self, row: SpeechRow) -> SpeechRow:
        """Speak the one row of a plan, without an output folder. Returns it at its end, with its
        error if there is one. Raises as `speak`.
        """
        plan = self._plan
        spoken: list[SpeechRow] = []

        def take(row: SpeechRow) -> None:
            if row.is_lead:
                self._leads.take(row)
            else:
                spoken.append(row)

        def second(_: Callable[[], bool]) -> Iterator[SpeechRow]:
            found = plan.cloned.with_lead(row, self.is_int16)
            if found.error is None:
                yield found
            else:
                spoken.append(found)

        with self._open_leads():
            if row.identity is None:
                self.run([lambda _: [row], lambda _: []], take)
            else:
                self.run([lambda _: [plan.cloned.lead_of(row)], second], take)
        return spoken[0] if spoken else row

    @contextmanager
    def _open_leads(self) -> Iterator[None]:
        self._leads.open()
        self._plan.use_leads(self._leads)
        try:
            yield
        finally:
            self._leads.close()
