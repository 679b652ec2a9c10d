"""What the engine hands to its sink: batches for the vocoder, and 16-bit samples."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from engine_harness import MODES, Harness, assert_spoken, attempt_of, request, texts
from fakes import AUDIO_ROWS, FakeSpeechModel, fake_codes

from tts_cli.audio import file as audio_file
from tts_cli.engine import vocoder as vocoder_queue
from tts_cli.engine.pieces import Attempt


class TestVocoderBatches:
    """Finished rows wait for company on a GPU and not at all on a CPU."""

    def test_at_once_on_a_cpu(self) -> None:
        model = FakeSpeechModel(8)
        Harness(model, 8, [request("xx")] * 8).run()
        assert model.audio == [1] * 8

    def test_together_on_a_gpu(self) -> None:
        model = FakeSpeechModel(64)
        Harness(model, 64, [request("xx")] * 70, is_async=True, window=99).run()
        assert model.audio[0] == AUDIO_ROWS
        assert sum(model.audio) == 70
        assert len(model.audio) <= 4

    def test_rows_left_behind_are_decoded_later_and_none_is_lost(self) -> None:
        requests = [request(text, seed) for seed, text in enumerate(texts(150))]
        model = FakeSpeechModel(16)
        assert_spoken(Harness(model, 16, requests, is_async=True).run(), requests)
        assert model.audio[:4] == [AUDIO_ROWS] * 4
        assert sum(model.audio) == 150

    def test_a_row_gone_wrong_waits_for_no_company(self) -> None:
        model = FakeSpeechModel(4)
        requests = [request("nan"), *(request("x" * 90, row) for row in range(3))]
        harness = Harness(model, 4, requests, is_async=True)
        harness.run()
        assert next(iter(harness.ended)) == 0
        assert model.audio == [3]

    def test_no_more_than_so_many_rows_wait(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Picky(FakeSpeechModel):
            def choose_audio(self, frames: list[int], references: list[int]) -> list[int]:
                return []

        monkeypatch.setattr(vocoder_queue, "MAX_WAITING", 10)
        requests = [request(text, seed) for seed, text in enumerate(texts(60))]
        model = Picky(4)
        assert_spoken(Harness(model, 4, requests, is_async=True).run(), requests)
        assert max(model.audio) <= 10 + 4
        assert len(model.audio) < 7

    def test_nobody_waits_when_nothing_runs(self) -> None:
        model = FakeSpeechModel(4)
        harness = Harness(model, 4, [], is_async=True)
        harness.reopen()
        harness.jobs.put(attempt_of(0, model.prompt(request("xx"))))
        done = threading.Event()

        def sink(attempt: Attempt) -> None:
            harness.sink(attempt)
            done.set()

        harness.engine.vocoder.sink = sink
        worker = threading.Thread(target=harness.engine.run)
        worker.start()
        assert done.wait(5)  # although the queue is open and more rows may come
        harness.jobs.put(None)
        worker.join()


class TestInt16:
    """Samples as 16-bit numbers, where the files hold such."""

    @MODES
    def test_samples_are_those_the_encoder_would_make(self, is_async: bool) -> None:
        requests = [request(text, seed) for seed, text in enumerate(texts(9))]
        model = FakeSpeechModel(4)
        harness = Harness(model, 4, requests, is_async=is_async)
        harness.engine.vocoder.is_int16 = True
        for row, attempt in harness.run().items():
            codes = fake_codes(row, len(requests[row].text)).float().flatten()
            assert attempt.samples is not None
            assert np.array_equal(attempt.samples.numpy(), audio_file.to_int16(codes.numpy()))
            assert not attempt.is_noise

    def test_a_row_whose_samples_are_not_finite_is_marked(self) -> None:
        class Broken(FakeSpeechModel):
            def decode_audio(
                self, codes: list[torch.Tensor], references: object = None
            ) -> list[torch.Tensor]:
                waves = [row.float().flatten() for row in codes]
                waves[1][3] = float("nan")
                return waves

        harness = Harness(Broken(4), 4, [request("xxx")] * 3, is_async=True)
        harness.engine.vocoder.is_int16 = True
        harness.run()
        assert sorted(attempt.is_noise for attempt in harness.ended.values()) == [
            False,
            False,
            True,
        ]
