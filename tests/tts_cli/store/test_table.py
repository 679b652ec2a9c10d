"""What the table of a journal remembers, against the rule in plain words."""

from __future__ import annotations

import random

import pytest
from tts_cli.store.table import RecordTable, RowFile, line_of

from tts_cli.core import Role, Status
from tts_cli.store.take import Take


class Slow:
    """A row, line by line."""

    def __init__(self) -> None:
        self.lines: dict[int, Take] = {}
        self.file: int | None = None
        self.has_failed_since = False

    def put(self, record: Take) -> None:
        self.lines[record.take] = record
        if record.role == Role.EXTRA:
            return
        is_lost = self.file is None or self.lines[self.file].status != "ok"
        if record.status == "ok" or is_lost or record.take == self.file:
            self.file, self.has_failed_since = record.take, False
        else:
            self.has_failed_since = True

    def found(self) -> RowFile | None:
        if self.file is None:
            return None
        line = self.lines[self.file]
        has_failed = self.has_failed_since or line.status == "failed"
        return RowFile(self.file, line.role == Role.HELD, has_failed)


@pytest.mark.parametrize("seed", range(20))
def test_rows_with_takes(seed: int) -> None:
    dice = random.Random(seed)
    table, rows = RecordTable(), {row_id: Slow() for row_id in ("a", "sub/b", "\u00fc")}
    for number in range(200):
        row_id = dice.choice(list(rows))
        row = rows[row_id]
        take = dice.randint(1, 4)
        others = [Role.OWN, Role.HELD, Role.EXTRA, Role.EXTRA]
        role = Role.OWN if take == row.file else dice.choice(others)
        status = dice.choice([Status.OK, Status.OK, Status.FAILED])
        record = Take(row_id, status, take, role, request_hash=f"{number:x}", audio_s=number)
        table.put(line_of(record), 10 * number)
        row.put(record)
        for name, slow in rows.items():
            assert table.file(name) == slow.found()
            assert table.numbers(name) == sorted(slow.lines)
        assert table.offset(row_id, take) == 10 * number
        found = [slow.found() for slow in rows.values()]
        sums = table.rows()
        assert sums.ok == sum(file is not None and not file.has_failed for file in found)
        assert sums.ok + sums.failed == sum(file is not None for file in found)
