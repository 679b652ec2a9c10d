"""References to voices: once each, in batches, bounded, and failing alone."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hostile_audio import RATE_HZ, encoded, tone
from tasks import task_of
from torch import Tensor

from kernels.launch.dispatch import KernelFailed
from models.base import ModelInfo, RequestError, SpeechRequest
from tts_cli.config import RunConfig
from tts_cli.core import Task
from tts_cli.errors import RowError
from tts_cli.voices import encoding as encode_queue
from tts_cli.voices.encoding import MAX_PENDING, VoiceCache, encode_references
from tts_cli.voices.needs import Cloning
from tts_cli.voices.recording import Reference
from tts_cli.voices.voice_loader import TaskWithVoice, VoiceLoader

MakeInfo = Callable[..., ModelInfo]
CPU = torch.device("cpu")
WIDTH = 3


class FakeEncoder:
    """Encodes a wave to its first sample and its length; what it does is steered by the sample."""

    def __init__(self, info: ModelInfo) -> None:
        self.info = info
        self.batches: list[list[str]] = []
        self.threads: set[int] = set()
        self.memory = 10**9  # waves a batch may have
        self.broken: set[int] = set()  # which batches meet a kernel that fails

    def encode_voices(
        self, waves: list[Tensor], modes: list[str]
    ) -> list[tuple[Tensor, Tensor | None]]:
        self.batches.append(modes)
        self.threads.add(threading.get_ident())
        if len(waves) > self.memory:
            raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate")
        if len(self.batches) - 1 in self.broken:
            raise KernelFailed("swiglu: no C compiler")
        marks = [float(wave[0]) for wave in waves]
        if -1.0 in marks:
            raise RequestError("the reference is bad\nsecond line")
        if -2.0 in marks:
            raise RuntimeError("CUDA error: device-side assert triggered")
        found: list[tuple[Tensor, Tensor | None]] = []
        for mark, wave, mode in zip(marks, waves, modes, strict=True):
            value = float("nan") if mark == -3.0 else mark
            codes = torch.full((len(wave) // 10, 2), len(wave)) if mode == "icl" else None
            found.append((torch.full((WIDTH,), value) + len(wave), codes))
        return found


@pytest.fixture
def info(make_info: MakeInfo) -> ModelInfo:
    return make_info(
        type="base", needs_reference=True, can_clone=True, voices=(), samples_per_frame=1920
    )


@pytest.fixture
def model(info: ModelInfo) -> Any:
    return FakeEncoder(info)


def make_reference(mark: float, mode: str = "icl", num_silence: int = 0) -> Reference:
    samples = np.full(100, mark, np.float32)
    return Reference(
        samples, mode, "said" if mode == "icl" else None, num_silence, f"d{mark}{mode}"
    )


class TestVoiceCache:
    def test_a_batch_of_both_modes(self, model: Any) -> None:
        cache = VoiceCache(model, CPU)
        tickets = [cache.submit(make_reference(1.0)), cache.submit(make_reference(2.0, "xvec"))]
        assert cache.encode_ms == 0
        cache.encode_pending()
        assert model.batches == [["icl", "xvec"]]
        first, second = (ticket.voice.result(0) for ticket in tickets)
        assert first.embedding.tolist() == [101.0] * WIDTH
        assert (first.mode, first.text, first.digest) == ("icl", "said", "d1.0icl")
        assert first.codes is not None
        assert first.codes.dtype == torch.int64
        assert (second.mode, second.text, second.codes) == ("xvec", None, None)
        assert first.identity == model.info.identity
        assert cache.num_encoded == 2
        assert sum(ticket.milliseconds for ticket in tickets) == pytest.approx(cache.encode_ms)
        cache.encode_pending()
        assert len(model.batches) == 1, "nothing waits, nothing is encoded"

    def test_times_of_many_batches(self, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """Those of a speaker that never ends are added up, not kept."""
        monkeypatch.setattr("tts_cli.voices.encoding.MAX_SPANS", 2)
        cache = VoiceCache(model, CPU)
        tickets = []
        for mark in range(5):
            tickets.append(cache.submit(make_reference(float(mark + 1))))
            cache.encode_pending()
        assert sum(ticket.milliseconds for ticket in tickets) == pytest.approx(cache.encode_ms)
        assert len(cache._spans) == 2

    def test_silence_is_for_the_codes_only(self, model: Any) -> None:
        found = encode_references(
            model, [make_reference(1.0, num_silence=50), make_reference(2.0, "xvec")]
        )
        assert model.batches == [["icl", "xvec", "xvec"]]
        embedding, codes = found[0]
        assert embedding.tolist() == [101.0] * WIDTH
        assert codes is not None
        assert codes[0].tolist() == [150, 150]
        assert found[1][0].tolist() == [102.0] * WIDTH

    def test_the_oldest_voices_are_dropped(
        self, model: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(encode_queue, "MAX_VOICES", 3)
        cache = VoiceCache(model, CPU)
        tickets = [cache.submit(make_reference(float(mark))) for mark in range(1, 4)]
        assert cache.find("d1.0icl") is tickets[0]  # used, so it is not the oldest any more
        cache.submit(make_reference(4.0))
        assert cache.find("d2.0icl") is None
        assert cache.find("d1.0icl") is tickets[0]
        cache.encode_pending()
        assert tickets[1].voice.result(0).digest == "d2.0icl", "a dropped ticket still comes true"

    def test_waiting_recordings_are_bounded(self, model: Any) -> None:
        cache = VoiceCache(model, CPU)
        for mark in range(MAX_PENDING):
            assert cache.has_room
            cache.submit(make_reference(float(mark)))
        assert not cache.has_room
        cache.encode_pending()
        assert cache.has_room
        assert [len(batch) for batch in model.batches] == [encode_queue.ENCODE_ROWS]

    @pytest.mark.parametrize(
        ("mark", "words"),
        [(-1.0, "cannot be encoded: the reference is bad"), (-3.0, "NaN or infinite values")],
    )
    def test_a_bad_one_fails_alone(self, model: Any, mark: float, words: str) -> None:
        cache = VoiceCache(model, CPU)
        marks = [1.0, 2.0, mark, 4.0, 5.0]
        tickets = [cache.submit(make_reference(value)) for value in marks]
        cache.encode_pending()
        for value, ticket in zip(marks, tickets, strict=True):
            if value == mark:
                error = ticket.voice.exception(0)
                assert isinstance(error, RowError)
                assert words in str(error)
                assert "\n" not in str(error)
            else:
                assert ticket.voice.result(0).digest == f"d{value}icl"

    def test_what_a_kernel_failed_at_is_encoded_again(self, model: Any) -> None:
        """A voice is given to whoever waits for it once."""
        cache = VoiceCache(model, CPU)
        model.memory, model.broken = 2, {2}
        tickets = [cache.submit(make_reference(float(mark))) for mark in range(1, 5)]
        with pytest.raises(KernelFailed):
            cache.encode_pending()
        assert [ticket.voice.done() for ticket in tickets] == [True, True, False, False]
        cache.encode_pending()
        marks = [ticket.voice.result(0).embedding[0].item() for ticket in tickets]
        assert marks == [101.0, 102.0, 103.0, 104.0]

    def test_a_lack_of_memory_makes_smaller_batches(self, model: Any) -> None:
        model.memory = 2
        cache = VoiceCache(model, CPU)
        tickets = [cache.submit(make_reference(float(mark))) for mark in range(1, 8)]
        cache.encode_pending()
        assert all(ticket.voice.result(0) for ticket in tickets)
        model.memory = 0
        ticket = cache.submit(make_reference(9.0))
        cache.encode_pending()
        assert "there is not enough memory to encode its reference: CUDA out" in str(
            ticket.voice.exception(0)
        )

    def test_what_a_batch_held_is_free_before_its_halves(
        self, model: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Each error's traceback kept its batch's memory alive while the halves were tried.
        held: list[weakref.ref[Tensor]] = []
        left: list[bool] = []
        encode = model.encode_voices

        def holding(waves: list[Tensor], modes: list[str]) -> list[tuple[Tensor, Tensor | None]]:
            left.append(any(ref() is not None for ref in held))
            activations = torch.zeros(3)
            held.append(weakref.ref(activations))
            return encode(waves, modes)

        monkeypatch.setattr(model, "encode_voices", holding)
        model.memory = 1
        cache = VoiceCache(model, CPU)
        tickets = [cache.submit(make_reference(float(mark))) for mark in range(1, 5)]
        cache.encode_pending()
        assert all(ticket.voice.result(0) for ticket in tickets)
        assert left == [False] * 7

    def test_a_lost_device_ends_the_run(self, model: Any) -> None:
        cache = VoiceCache(model, CPU)
        cache.submit(make_reference(-2.0))
        with pytest.raises(RuntimeError, match="CUDA error"):
            cache.encode_pending()


class TestVoiceStage:
    """Rows through the side that makes prompts, with a thread that plays the engine."""

    @pytest.fixture
    def cloning(self, info: ModelInfo, tmp_path: Path) -> Cloning:
        return Cloning(RunConfig(voice_dir=tmp_path / "voices"), info)

    def rows(self, cloning: Cloning, paths: list[Path], mode: str = "icl") -> list[Task]:
        found = []
        for index, path in enumerate(paths):
            text = "said" if mode == "icl" else None
            request = SpeechRequest("hi", ref_audio=str(path), ref_text=text, clone_mode=mode)
            found.append(task_of(str(index), request, need=cloning.need(request)))
        return found

    def run(
        self, model: Any, cloning: Cloning, tasks: list[Task]
    ) -> tuple[dict[str, TaskWithVoice], VoiceCache]:
        cache, stop, is_over = VoiceCache(model, CPU), threading.Event(), threading.Event()
        stage = VoiceLoader(cloning, cache)

        def engine() -> None:
            while not is_over.wait(0.01):
                cache.encode_pending()

        thread = threading.Thread(target=engine)
        thread.start()
        try:
            found = list(stage.attach(iter(tasks), stop))
            assert len(found) == len({one.task.id for one in found})
            return {one.task.id: one for one in found}, cache
        finally:
            is_over.set()
            thread.join()

    def write(self, folder: Path, count: int) -> list[Path]:
        paths = [folder / f"{index}.wav" for index in range(count)]
        for index, path in enumerate(paths):
            path.write_bytes(encoded(tone(1.0, hz=100.0 + 10 * index)))
        return paths

    def test_the_same_content_under_two_paths_is_encoded_once(
        self, model: Any, cloning: Cloning, tmp_path: Path
    ) -> None:
        first, second = self.write(tmp_path, 2)
        second.write_bytes(first.read_bytes())
        rows = self.rows(cloning, [first, second, first, second])
        found, cache = self.run(model, cloning, rows)
        assert set(found) == {"0", "1", "2", "3"}
        assert len({one.voice for one in found.values()}) == 1
        assert cache.num_encoded == 1
        assert [one for one in "0123" if found[one].ticket is not None] == ["0"]
        assert sum(len(batch) for batch in model.batches) == 2, "with silence, and without"

    def test_more_rows_and_voices_than_anything_holds(
        self, model: Any, cloning: Cloning, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tts_cli.voices.voice_loader.MAX_WAITING", 3)
        monkeypatch.setattr("tts_cli.voices.encoding.MAX_PENDING", 2)
        paths = self.write(tmp_path, 7)
        rows = self.rows(cloning, paths * 5, "xvec")
        found, cache = self.run(model, cloning, rows)
        assert sorted(map(int, found)) == list(range(35))
        assert cache.num_encoded == 7
        for one in found.values():
            assert one.error is None
            assert one.voice.digest == one.task.need.digest

    def test_bad_recordings_fail_their_rows_alone(
        self, model: Any, cloning: Cloning, tmp_path: Path
    ) -> None:
        good, silent, changed = self.write(tmp_path, 3)
        silent.write_bytes(encoded(0 * tone()))
        rows = self.rows(cloning, [silent, good, changed, silent])
        changed.write_bytes(encoded(tone(hz=999)))
        plain = task_of("plain", SpeechRequest("hi"))
        found, cache = self.run(model, cloning, [*rows, plain])
        assert set(found) == {"0", "1", "2", "3", "plain"}
        assert "is silent" in found["0"].error
        assert found["3"].error == found["0"].error
        assert "was changed during the run" in found["2"].error
        assert found["1"].error is None
        assert cache.num_encoded == 1

    def test_it_ends_when_it_is_stopped(self, model: Any, cloning: Cloning, tmp_path: Path) -> None:
        """Nobody encodes, and still the thread must come back."""
        stop = threading.Event()
        rows = self.rows(cloning, self.write(tmp_path, 2))
        threading.Timer(0.3, stop.set).start()
        stage = VoiceLoader(cloning, VoiceCache(model, CPU))
        assert list(stage.attach(iter(rows), stop)) == []

    def test_rows_that_wait_are_looked_after_where_no_other_comes(
        self, model: Any, cloning: Cloning, tmp_path: Path
    ) -> None:
        """A row's voice once came through with the next row only."""
        cache, stop = VoiceCache(model, CPU), threading.Event()
        (row,) = self.rows(cloning, self.write(tmp_path, 1))
        came: list[Task] = []

        def rows() -> Iterator[Task | None]:
            yield row
            cache.encode_pending()
            yield None
            assert came == [row]

        for found in VoiceLoader(cloning, cache).attach(rows(), stop):
            came.append(found.task)
        assert came == [row]

    def test_what_a_row_needs(self, cloning: Cloning, info: ModelInfo, tmp_path: Path) -> None:
        path = self.write(tmp_path, 1)[0]
        icl, xvec = self.rows(cloning, [path])[0], self.rows(cloning, [path], "xvec")[0]
        assert icl.need is not None
        assert xvec.need is not None
        frames = -(-(RATE_HZ + RATE_HZ // 2) // info.samples_per_frame)
        assert frames <= icl.need.num_frames <= frames + 1
        assert icl.need.num_bytes == len("said")
        assert (xvec.need.num_frames, xvec.need.num_bytes) == (0, 0)
        assert icl.need.digest != xvec.need.digest
        assert cloning.need(SpeechRequest("hi")) is None
        with pytest.raises(RowError, match="voice 'anna' is not in"):
            cloning.need(SpeechRequest("hi", voice="anna"))
