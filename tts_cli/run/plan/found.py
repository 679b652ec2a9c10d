"""What a survey of a manifest found: what is left to do."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tts_cli.errors import UsageError
from tts_cli.output.record import RowRecord
from tts_cli.run.needs import Needs
from tts_cli.run.plan.standing import State
from tts_cli.run.plan.strays import Strays
from tts_cli.run.plan.tally import ManifestSummary

MAX_NAMED = 4  # files or rows a message names


@dataclass
class Survey:
    """What is left to do."""

    summary: ManifestSummary
    needs: Needs = field(default_factory=Needs)  # of the rows to speak
    silent: int = 0  # rows without words, which need no model
    bad: int = 0  # selected rows to record as failed: bad ones, and those certain to fail
    hopeless: int = 0  # of those, good ones that are certain to fail
    skipped: int = 0  # done by an earlier run, or left out by --retry-failed
    due: Counter[State] = field(default_factory=Counter)  # pending rows, by what there is
    reread: int = 0  # of those, changed by what is taken out of texts now, or read otherwise
    unfixed: int = 0  # of those, spoken in a voice that nothing fixed, and now in a made one
    takes: int = 0  # more of rows, to be spoken beside their own
    with_takes: int = 0  # rows that these are of
    served: int = 0  # takes that count, of a run that did not come to its end
    one_take: int = 0  # rows that draw nothing, so that every take would be the same
    back: list[str] = field(default_factory=list)  # ids of State.BACK
    strays: Strays | None = None  # of the folder, once they were looked for
    held: int = 0  # rows whose chosen takes hold
    fallen: Counter[str] = field(default_factory=Counter)  # by id, rows whose chosen do not
    foreign: list[str] = field(default_factory=list)  # files in the way of rows never recorded
    damaged: list[str] = field(default_factory=list)  # some ids of State.DAMAGED
    # Rows whose delivery alone is another one: to be made anew, by what of, and to be spoken again.
    kept: Counter[str] = field(default_factory=Counter)
    remade: int = 0  # once that was done
    unmade: list[RowRecord] = field(default_factory=list)
    again: int = 0
    first_again: str = ""  # its id and why

    def require_own_files(self) -> None:
        """Raise UsageError if rows would replace files that no run is known to have written."""
        if self.foreign:
            shown = ", ".join(self.foreign[:3]) + (", ..." if len(self.foreign) > 3 else "")
            raise UsageError(
                f"{shown}: in the folder without a line in timings.jsonl, so not of an earlier run",
                remedy="move them, choose another --out, or add --overwrite to replace them",
            )

    @property
    def needs_model(self) -> bool:
        """Whether anything is to be spoken."""
        return self.needs.rows > 0

    @property
    def pending(self) -> int:
        """Rows to speak, or to keep as silence."""
        return sum(self.due.values())
