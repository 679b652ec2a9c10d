"""The index of a journal, against a plain reading of the same lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from properties import holds_for

from tts_cli.core import Role, Status
from tts_cli.sources.ids import id_hash
from tts_cli.store.entry import JournalEntry
from tts_cli.store.index import Index, RowTakes

IDS = ("a", "b", "sub/c")
HASHES = ("", "1", "2")
LINES = st.lists(
    st.builds(
        JournalEntry,
        st.sampled_from(IDS),
        st.sampled_from([Status.OK, Status.OK, Status.FAILED, Status.REMOVED]),
        take=st.integers(1, 4),
        role=st.sampled_from(Role),
        request_hash=st.sampled_from(HASHES),
        delivery_hash=st.sampled_from(HASHES),
        bytes=st.integers(0, 3),
        audio_s=st.sampled_from([0.0, 1.5]),
        origin=st.sampled_from([None, None, "user"]),
    ),
    max_size=12,
)


@dataclass
class Model:
    """What the lines of one row say, by the rules of `tts_cli.store.index`."""

    last: dict[int, JournalEntry] = field(default_factory=dict)  # by number
    at: dict[int, int] = field(default_factory=dict)  # where the last line of a take is
    was_own: dict[int, int] = field(default_factory=dict)  # and the last one with an own role
    was_ok: set[int] = field(default_factory=set)

    def put(self, line: JournalEntry, at: int) -> None:
        self.last[line.take], self.at[line.take] = line, at
        if line.role is not Role.EXTRA:
            self.was_own[line.take] = at
        if line.status is Status.OK:
            self.was_ok.add(line.take)

    def file(self) -> tuple[int, bool, bool, bool] | None:
        """The current take, and whether it is pinned, failed and removed."""
        if not self.was_own:
            return None
        numbers = sorted(self.was_own, key=lambda number: self.was_own[number])
        number = numbers[-1]
        has_failed = self.last[number].status is Status.FAILED
        if has_failed:
            good = [
                one
                for one in numbers
                if one in self.was_ok and self.last[one].status is not Status.REMOVED
            ]
            number = (good or numbers)[-1]
        last = self.last[number]
        is_removed = last.status is Status.REMOVED
        return number, last.role is Role.HELD, has_failed, is_removed


def facts(file: RowTakes) -> tuple[int, bool, bool, bool] | None:
    """The same of an index."""
    if file.current is None:
        return None
    return file.take, file.is_held, file.has_failed, file.is_removed


def models_of(lines: list[JournalEntry]) -> dict[str, Model]:
    found: dict[str, Model] = {row_id: Model() for row_id in IDS}
    for at, line in enumerate(lines):
        found[line.id].put(line, at)
    return found


def indexed(lines: list[JournalEntry], batches: list[int]) -> Index:
    """An index that got the lines in batches."""
    index, at = Index(), 0
    while at < len(lines):
        size = batches[at % len(batches)] if batches else 1
        index.put((line, at + n) for n, line in enumerate(lines[at : at + size]))
        at += size
    return index


@holds_for(LINES, st.lists(st.integers(1, 5), max_size=3), st.booleans())
def test_it_says_what_the_lines_say(
    lines: list[JournalEntry], batches: list[int], is_together: bool
) -> None:
    index, models = indexed(lines, batches), models_of(lines)
    if is_together:
        index.look_up([*models, "unknown"])
    for row_id, model in models.items():
        assert facts(index.row(row_id)) == model.file()
        row = index.row(row_id)
        found = {one.take: one for one in row.takes}
        assert list(found) == sorted(model.last)
        for number, one in found.items():
            last = model.last[number]
            assert row.number(number) == one
            assert (one.status, one.is_held) == (last.status, last.role is Role.HELD)
            assert (one.size, one.offset) == (last.bytes, model.at[number])
            assert one.own == model.was_own.get(number)
            assert (one.good is not None) == (number in model.was_ok)
            assert one.has_number == (number in model.was_ok or last.origin is not None)
            for request in HASHES:
                for delivery in HASHES:
                    is_of = (request, delivery) == (last.request_hash, last.delivery_hash)
                    assert one.is_of(request, delivery) == is_of
        assert row.number(5) is None


@holds_for(LINES, LINES)
def test_rows_that_were_looked_up_together_have_later_lines(
    before: list[JournalEntry], after: list[JournalEntry]
) -> None:
    index, lines = indexed(before, [1]), before + after
    index.look_up({line.id for line in lines})
    index.put((line, len(before) + at) for at, line in enumerate(after))
    for row_id, model in models_of(lines).items():
        assert facts(index.row(row_id)) == model.file()


@holds_for(LINES, st.lists(st.integers(1, 5), max_size=3))
def test_its_sums_and_lists_are_those_of_the_rows(
    lines: list[JournalEntry], batches: list[int]
) -> None:
    index, models = indexed(lines, batches), models_of(lines)
    files = {row_id: model.file() for row_id, model in models.items()}
    there = {row_id: one for row_id, one in files.items() if one and not one[3]}
    ok = [row_id for row_id, one in there.items() if not one[2]]
    totals = index.totals()
    assert (totals.ok, totals.failed) == (len(ok), len(there) - len(ok))
    assert totals.audio_s == sum(models[one].last[there[one][0]].audio_s for one in ok)
    current = sorted(models[row_id].at[one[0]] for row_id, one in files.items() if one)
    assert list(index.current_offsets(lambda *_: True)) == current
    absent = sorted(models[row_id].at[one[0]] for row_id, one in there.items() if row_id != "a")
    assert list(index.absent_offsets(lambda key: key == id_hash("a"))) == absent
    every = sorted(
        models[row_id].at[number]
        for row_id, one in files.items()
        for number, last in models[row_id].last.items()
        if (one is None or not one[3]) and last.status is not Status.REMOVED
    )
    assert list(index.all_offsets()) == every


def test_digests_are_kept_where_they_are_asked_for() -> None:
    line = JournalEntry("a", Status.OK, sha256="0123456789abcdef" * 4)
    for has_digests, wanted in ((False, None), (True, "0123456789abcdef")):
        index = Index(has_digests)
        index.put([(line, 0), (JournalEntry("b", Status.OK, sha256="no digest"), 9)])
        found = [index.row(row_id).number(1) for row_id in "abc"]
        assert [one and one.sha256 for one in found] == [wanted, None, None]


def test_ids_are_told_apart_as_they_are() -> None:
    """Ids that differ in letter case are rows of their own in a journal."""
    index = Index()
    index.put([(JournalEntry("A", Status.OK), 0), (JournalEntry("a", Status.FAILED), 9)])
    found: list[Any] = [index.row("A"), index.row("a")]
    assert [one.has_failed for one in found] in ([False, True], [True, True])
