"""Takes of rows on disk: what is kept, what is chosen, and that a crash anywhere spoils nothing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from tts_cli.store.recode import Order, Recoder
from tts_cli.store.takes import TakeFolder, room_of_takes

from tts_cli.config import RunConfig
from tts_cli.core import Place, Role, Status
from tts_cli.errors import RowError
from tts_cli.store import atomic
from tts_cli.store.atomic import remove_stale_parts
from tts_cli.store.files import AudioWriter
from tts_cli.store.journal import Journal
from tts_cli.store.sources import find_kept
from tts_cli.store.take import Take

RATE_HZ = 24_000


class Bench:
    """A folder that speech is put into, as a run does it."""

    def __init__(self, out: Path) -> None:
        self.out = out
        out.mkdir(exist_ok=True)
        remove_stale_parts(out)
        self.journal = Journal(out)
        self.takes = TakeFolder(out, self.journal)
        self.writer = AudioWriter(out, RunConfig(save_codes=True), RATE_HZ)

    def speak(self, value: int, take: int = 1, role: str = Role.OWN, row_id: str = "a") -> None:
        """Samples and codes that are all `value`."""
        samples, codes = np.full(100 + value, value, np.int16), np.full((1, 2), value)
        place = Place(take, role, take > 1 or role == Role.EXTRA)
        placed = self.takes.put(
            self.writer,
            row_id,
            self.writer.make(row_id, samples, codes, take=place.file_take(False)),
            place,
        )
        record = Take(
            row_id, Status.OK, placed.place.take, placed.place.role, request_hash=f"{value:x}",
            path=placed.file.path, bytes=placed.file.bytes, sha256=placed.file.sha256,
        )  # fmt: skip
        self.journal.append(*placed.first, record)
        self.takes.settle(row_id, placed)

    def value(self, name: str) -> int:
        """What the samples of a file are, and its codes."""
        path = self.out / name
        value = int(np.frombuffer(path.read_bytes()[-2:], "<i2")[0])
        codes = path.with_name(path.name.removesuffix(".wav") + ".codes.safetensors")
        assert (load_file(codes)["codes"] == value).all()
        return value

    def values(self) -> dict[str, int]:
        """The same of all files."""
        names = (path.relative_to(self.out).as_posix() for path in self.out.rglob("*.wav"))
        return {name: self.value(name) for name in sorted(names)}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "out")


def test_what_is_replaced_becomes_a_take(bench: Bench) -> None:
    bench.speak(1)
    assert bench.values() == {"a.wav": 1}
    bench.speak(2, take=2)
    assert bench.values() == {"a.wav": 2, "takes/a/1.wav": 1, "takes/a/2.wav": 2}
    assert os.path.samefile(bench.out / "a.wav", bench.out / "takes/a/2.wav")
    first, second = bench.journal.take("a", 1), bench.journal.take("a", 2)
    assert first is not None
    assert second is not None
    assert (first.path, second.path) == ("takes/a/1.wav", "takes/a/2.wav")
    bench.speak(3, take=3, role=Role.EXTRA)
    assert bench.value("a.wav") == 2
    assert room_of_takes(bench.out) == sum(
        path.stat().st_size for path in (bench.out / "takes/a").iterdir() if path.stem[0] in "13"
    )


def test_the_same_audio_is_no_new_take(bench: Bench) -> None:
    bench.speak(1)
    bench.speak(1, take=2)
    bench.takes.prune()
    assert bench.values() == {"a.wav": 1}
    assert not (bench.out / "takes").exists()
    assert bench.journal.top("a") == 1


def test_the_first_take_moves_in_beside_a_further_one(bench: Bench) -> None:
    bench.speak(1)
    bench.speak(2, take=2, role=Role.EXTRA)
    assert bench.values() == {"a.wav": 1, "takes/a/1.wav": 1, "takes/a/2.wav": 2}
    assert bench.journal.file("a") == (1, False, False)


def test_a_choice(bench: Bench) -> None:
    bench.speak(1)
    bench.speak(2, take=2, role=Role.EXTRA)
    assert bench.takes.choose("a", 2)
    assert not bench.takes.choose("a", 2)
    assert bench.value("a.wav") == 2
    bench.takes.write_list()
    found = json.loads((bench.out / "takes.json").read_text())
    assert list(found["choices"]) == ["a"]
    assert (found["choices"]["a"]["take"], found["choices"]["a"]["held"]) == (2, True)
    (bench.out / "takes/a/1.wav").write_bytes(b"cut")
    with pytest.raises(RowError, match="take 1 is missing or damaged"):
        bench.takes.choose("a", 1)
    assert bench.value("a.wav") == 2


def test_a_choice_of_the_only_take(bench: Bench) -> None:
    bench.speak(1)
    assert bench.takes.choose("a", 1)
    assert bench.values() == {"a.wav": 1}
    assert bench.journal.file("a") == (1, True, False)


def test_what_somebody_edited_is_kept(bench: Bench) -> None:
    bench.speak(1)
    bench.speak(2, take=2)
    samples = (bench.out / "takes/a/1.wav").read_bytes()
    (bench.out / "a.wav").unlink()  # as editors do that write anew
    (bench.out / "a.wav").write_bytes(samples[:44] + b"\7\0" * 101)
    (bench.out / "a.codes.safetensors").unlink()
    assert bench.takes.repair() == 0
    bench.speak(3, take=3)
    kept = bench.out / "takes/a/4.wav"
    assert kept.read_bytes()[-2:] == b"\7\0"
    take = bench.journal.take("a", 4)
    assert take is not None
    assert (take.role, take.bytes) == (Role.EXTRA, kept.stat().st_size)
    assert bench.value("a.wav") == 3
    assert bench.value("takes/a/2.wav") == 2


def test_without_hard_links(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(atomic.os, "link", refuse)
    bench.speak(1)
    bench.speak(2, take=2)
    assert bench.values() == {"a.wav": 2, "takes/a/1.wav": 1, "takes/a/2.wav": 2}
    assert not os.path.samefile(bench.out / "a.wav", bench.out / "takes/a/2.wav")
    assert bench.takes.repair() == 0


def test_the_file_of_a_row_is_put_back(bench: Bench) -> None:
    bench.speak(1)
    bench.speak(2, take=2)
    for spoil in (
        lambda path: path.unlink(),
        lambda path: path.with_suffix(".wav").write_bytes(b""),
    ):
        (bench.out / "a.wav").unlink()
        (bench.out / "a.wav").touch()
        spoil(bench.out / "a.wav")
        assert bench.takes.repair() == 1
        assert bench.values() == {"a.wav": 2, "takes/a/1.wav": 1, "takes/a/2.wav": 2}


def test_a_folder_of_an_older_version(bench: Bench) -> None:
    """There an id could begin with `takes/`."""
    bench.journal.append(Take("takes/a/2", Status.OK))
    bench.speak(1)
    with pytest.raises(
        RowError,
        match="is the file of a row 'takes/a/2' of an earlier version",
    ):
        bench.speak(2, take=2)
    assert bench.values() == {"a.wav": 1}


class Cut(BaseException):
    """The machine stops here."""


def cut_at(moment: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Stop before the `moment`th change to the disk; tells how many were asked for."""
    count = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            if count >= moment:
                raise Cut
            return real(*args, **named)

        return call

    for name in ("replace", "link", "mkdir", "write", "unlink", "rmdir"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))
    return lambda: count


def again(bench: Bench) -> None:
    """--overwrite with another seed."""
    bench.speak(2, take=bench.journal.top("a") + 1, role=Role.HELD)


def choose(bench: Bench) -> None:
    bench.takes.choose("a", 1)


@pytest.mark.parametrize("action", [again, choose])
@pytest.mark.slow
def test_a_crash_at_any_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: Callable[[Bench], None]
) -> None:
    moment, is_done = 0, False
    while not is_done:
        moment += 1
        bench = Bench(tmp_path / str(moment))
        bench.speak(1)
        before = 1
        if action is choose:
            bench.speak(3, take=2)
            before = 3
        with monkeypatch.context() as patch:
            asked = cut_at(moment, patch)
            try:
                action(bench)
                is_done = True
            except Cut:
                pass
        wanted = 2 if action is again else 1
        assert asked() >= moment or is_done
        # At once the row's file is whole: what it was, or what it is to be.
        assert (bench.out / "a.wav").read_bytes()[-2:] in (bytes([before, 0]), bytes([wanted, 0]))
        bench = Bench(bench.out)
        bench.takes.repair()
        file = bench.journal.file("a")
        assert file is not None
        assert not file.has_failed
        take = bench.journal.take("a", file.take)
        assert take is not None
        assert bench.value("a.wav") == int(take.request_hash, 16)
        if action is again:
            again(bench)
        else:
            choose(bench)
        assert bench.value("a.wav") == wanted
        assert bench.value("takes/a/1.wav") == 1
        values = bench.values()
        assert set(values.values()) == {before, wanted}, values
        first = bench.journal.take("a", 1)
        assert first is not None
        assert first.path == "takes/a/1.wav"
    assert moment > 5


def remake(bench: Bench, subtype: str = "PCM_24", format: str = "wav") -> None:
    """Another delivery of what the row's file is, as `encode` makes it."""
    record = bench.journal.ok_take("a")
    assert record is not None
    writer = AudioWriter(bench.out, RunConfig(format=format, subtype=subtype), RATE_HZ)
    order = Order(record, find_kept(bench.out, record, RATE_HZ))
    assert Recoder(bench.out, writer, bench.takes, "", None).run([order]).failed == []


def choose_if_whole(bench: Bench) -> None:
    with contextlib.suppress(RowError):  # the row's own file was edited
        choose(bench)


def remake_again(bench: Bench) -> None:
    remake(bench, "FLOAT")


def speak_another_text(bench: Bench) -> None:
    file, top = bench.journal.file("a"), bench.journal.top("a")
    assert file is not None
    is_free = not bench.journal.was_spoken("a", file.take)
    bench.speak(5, file.take if is_free else top + bench.journal.was_spoken("a", top))


def edit(bench: Bench, value: int = 7) -> None:
    """As an editor does that writes a new file."""
    data = (bench.out / "a.wav").read_bytes()[:44]
    frames = bytes([value, 0]) * 200
    head = data[:4] + (36 + len(frames)).to_bytes(4, "little") + data[8:40]
    (bench.out / "a.wav").unlink()
    (bench.out / "a.wav").write_bytes(head + len(frames).to_bytes(4, "little") + frames)


def sums(bench: Bench) -> set[str]:
    """Of all audio, whatever its name."""
    paths = [path for path in bench.out.rglob("*") if path.suffix in (".wav", ".original")]
    return {hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def speech(bench: Bench, setting: str) -> set[str]:
    """A folder to be worked on; the sums of what must stay."""
    bench.speak(1)
    if "take" in setting:
        bench.speak(2, take=2)
        bench.takes.choose("a", 2)
    kept = sums(bench)
    if "made" in setting:  # of what stays as `.original`, so not to be kept itself
        remake(bench)
    if "edited" in setting:
        edit(bench)
    return sums(bench) if "made" not in setting or "edited" in setting else kept


@pytest.mark.slow
@pytest.mark.parametrize("then", [speak_another_text, choose_if_whole, remake_again])
@pytest.mark.parametrize(
    "setting",
    [
        *("edited take", "made take"),
        *(
            pytest.param(name, marks=pytest.mark.long)
            for name in ("plain", "taken", "edited", "made", "edited made")
        ),
    ],
)
def test_a_remake_that_dies_destroys_no_speech(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
    then: Callable[[Bench], None],
) -> None:
    """Up to 8 of 60 rows lost their speech to what was spoken next."""
    moment, is_done = 0, False
    while not is_done:
        moment += 1
        bench = Bench(tmp_path / str(moment))
        wanted = speech(bench, setting)
        spoken = list(bench.journal.takes(has_extras=True))
        with monkeypatch.context() as patch:
            cut_at(moment, patch)
            try:
                remake_again(bench)
                is_done = True
            except Cut:
                pass
        bench = Bench(bench.out)
        bench.takes.repair()
        assert bench.journal.unfinished() == []
        assert bench.journal.status("a") == "ok", moment
        then(bench)
        remake(bench)
        assert wanted <= sums(bench), moment
        for take in spoken:  # a number means what it meant
            now = bench.journal.take("a", take.take)
            assert now is not None
            assert now.request_hash == take.request_hash
    assert moment >= 5


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["edited made", "codes lost"])
def test_what_is_spoken_over_is_a_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    """As --verify-files does with files that are not what was written."""
    moment, is_done = 0, False
    while not is_done:
        moment += 1
        bench = Bench(tmp_path / str(moment))
        wanted = speech(bench, setting)
        file = bench.journal.file("a")
        assert file is not None
        value = 9 if setting == "codes lost" else file.take  # on a GPU it may differ
        with monkeypatch.context() as patch:
            cut_at(moment, patch)
            try:
                bench.speak(value, file.take)
                is_done = True
            except Cut:
                pass
        bench = Bench(bench.out)
        bench.takes.repair()
        bench.speak(value, file.take)
        speak_another_text(bench)
        assert wanted <= sums(bench), moment
        assert bench.value("a.wav") == 5
        for take in bench.journal.takes(has_extras=True):
            data = (bench.out / str(take.path)).read_bytes()
            assert hashlib.sha256(data).hexdigest() == take.sha256
    assert moment > 5


@pytest.mark.parametrize("is_edited", [False, True])
def test_what_another_format_was_made_of_is_kept(bench: Bench, is_edited: bool) -> None:
    """The next speech in the old format took its name."""
    bench.speak(1)
    if is_edited:
        edit(bench)
    wanted = sums(bench)
    remake(bench, "PCM_16", "flac")
    speak_another_text(bench)
    assert wanted <= sums(bench)
    take = bench.journal.take("a", 1)
    assert take is not None
    assert take.source is not None
    assert (take.path, take.source["path"]) == ("takes/a/1.flac", "takes/a/1.wav.original")
    assert find_kept(bench.out, take, RATE_HZ).path.is_file()
    assert bench.takes.repair() == 0
    assert bench.value("a.wav") == 5


def test_a_take_of_another_format_and_the_next_one(bench: Bench) -> None:
    speech(bench, "take")
    remake(bench, "PCM_16", "flac")
    wanted = sums(bench)
    speak_another_text(bench)
    assert bench.journal.top("a") == 3
    assert (bench.value("a.wav"), bench.value("takes/a/3.wav")) == (5, 5)
    assert wanted <= sums(bench)


def test_a_number_is_nobody_elses(bench: Bench) -> None:
    bench.speak(1)
    (bench.out / "a.wav").unlink()
    speak_another_text(bench)
    assert bench.journal.top("a") == 2
    # One that only ever failed is free, one that came out well once is not.
    bench.journal.append(Take("a", Status.FAILED, 3), Take("a", Status.FAILED, 2))
    speak_another_text(bench)
    assert bench.value("a.wav") == 5
    assert bench.journal.top("a") == 3
    assert bench.journal.file("a") == (3, False, False)
    assert bench.journal.was_spoken("a", 1)
    assert not bench.journal.was_spoken("a", 4)
    line = bench.journal.spoken_line("a", 2)
    assert line is not None
    assert line.take.request_hash == "5"
