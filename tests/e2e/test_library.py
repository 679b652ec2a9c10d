"""Speech without a command line: what `synth` stands on gives what `synth` writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from workbench import Workbench

from models.base import SpeechRequest
from tts_cli.config import RunConfig
from tts_cli.manifest.seeds import row_seed
from tts_cli.run.consent import approved_info
from tts_cli.run.load import open_session, prepare
from tts_cli.run.needs import Needs
from tts_cli.run.retry import RetryPolicy
from tts_cli.run.threads import SpeechRun
from tts_cli.voices.speech_row import SpeechRow

TEXTS = ("Hello there.", "Good morning.", "Hm.", "The rain in the street.")


def test_samples_are_those_of_the_files(bench: Workbench, checkpoint: Path) -> None:
    config = RunConfig(model=str(checkpoint), device="cpu", accept_truncated=True)
    info = approved_info(config)
    session = open_session(config)
    needs, given = Needs(), []
    for number, text in enumerate(TEXTS):
        name = f"row{number}"
        request = SpeechRequest(
            text, info.voices[0], sampling=info.sampling, seed=row_seed(0, name), max_frames=60
        )
        needs.add(request, info)
        given.append(SpeechRow(name, request))
    prepare(session, needs)
    ended: list[SpeechRow] = []
    SpeechRun(session, ended.append, RetryPolicy.of(config)).run(given)
    assert {row.id for row in ended} == {row.id for row in given}

    rows = [{"id": row.id, "text": row.request.text, "max_frames": 60} for row in given]
    assert bench.synth(rows, "--accept-truncated", "--subtype", "FLOAT").code == 0
    for row in ended:
        assert row.error is None
        assert np.array_equal(row.samples, bench.out().samples(f"{row.id}.wav"))
        assert bench.out().records[row.id]["frames"] == row.frames
