"""What every family's model checks of the order it is used in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import tiny_fish_speech
import tiny_qwen3_tts
import torch

from kernels.launch.dispatch import AUTO, Kernels, current
from models.base import Prompt, SpeechRequest
from models.registry import load_model
from models.slots.model import SpeechModel

pytestmark = pytest.mark.slow

FRAMES = 4


@pytest.fixture(scope="module", params=["qwen3_tts", "fish_speech"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    if request.param == "qwen3_tts":
        return tiny_qwen3_tts.write_checkpoint(folder, "custom_voice_wide")
    return tiny_fish_speech.write_checkpoint(folder, "wide", 2)


def load(folder: Path) -> SpeechModel:
    model = load_model(str(folder))
    assert isinstance(model, SpeechModel)
    return model


@pytest.fixture
def model(folder: Path) -> SpeechModel:
    return load(folder)


@pytest.fixture(scope="module")
def fresh(folder: Path) -> SpeechModel:
    """Nobody allocates it."""
    return load(folder)


def prompt(model: SpeechModel) -> Prompt:
    voice = next(iter(model.info.voices), None)
    sampling = model.info.sampling
    return model.prompt(SpeechRequest("the thing", voice, sampling=sampling, max_frames=FRAMES))


CALLS: dict[str, Callable[[SpeechModel], object]] = {
    "capture": lambda model: model.capture(1, FRAMES),
    "prefill": lambda model: model.prefill([prompt(model)], [0]),
    "frames": lambda model: model.decode_frames(1, 1),
    "predict": lambda model: model.predict(1),
    "step": lambda model: model.step(1),
    "draw_first": lambda model: model.draw_first(1, torch.zeros(1, 1)),
    "poll": lambda model: model.poll(),
    "codes": lambda model: model.codes(0, 1),
    "move": lambda model: model.move([0], [1]),
    "release": lambda model: model.release([0]),
    "decoder": lambda model: model.talker.decoder.step(
        torch.zeros(1, model.config.talker.width), torch.tensor([0])
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_before_allocate_everything_names_it(fresh: SpeechModel, name: str) -> None:
    """An AttributeError of some buffer told nobody what was missing; a capture kept it to itself
    and left a model that ran eagerly.
    """
    with pytest.raises(RuntimeError, match=r"allocate\(\) comes first"):
        CALLS[name](fresh)


def test_no_more_rows_than_allocated(model: SpeechModel) -> None:
    # Slices of the buffers would be shorter without a word.
    model.allocate(2, max_positions=100, max_frames=FRAMES)
    with pytest.raises(AssertionError, match="4 slots, allocated for 2"):
        model.decode_frames(4, 1)
    with pytest.raises(AssertionError, match="4 rows, allocated for 2"):
        model.capture(4, FRAMES)
    model.prefill([prompt(model)], [1])
    model.decode_frames(2, FRAMES)
    assert model.status(model.poll(), [1])[0].is_finished


def test_a_frame_and_its_stages_take_as_many_threads(
    model: SpeechModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`profile` runs both without `decode_frames`: with two threads it said of the sample voice
    that it speaks at 0.6 times real time, which spoke at 1.4 with one.
    """
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    threads: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    model.allocate(2, max_positions=100, max_frames=FRAMES)
    model.prefill([prompt(model)], [0])
    model.decode_frames(2, FRAMES)
    assert threads == [1, 2] * FRAMES
    with torch.inference_mode():
        for run in (lambda: model.frames.run(2), *(s.run for s in model.stages(2))):
            threads.clear()
            run()
            assert threads == [1, 2]


@pytest.mark.parametrize(
    ("threads", "weights", "is_beside"),
    [(2, 4_700_000, True), (1, 4_700_000, False), (2, 114_000_000, False)],
)
def test_a_vocoder_that_leaves_threads_idle_decodes_beside_the_frames(
    model: SpeechModel, monkeypatch: pytest.MonkeyPatch, threads: int, weights: int, is_beside: bool
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(model, "_vocoder_weights", weights)
    assert model.decodes_beside is is_beside
    monkeypatch.setattr(model, "device", torch.device("cuda"))
    assert not model.decodes_beside


def test_a_frame_is_its_stages_in_their_order(
    model: SpeechModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.allocate(1, max_positions=100, max_frames=FRAMES)
    model.prefill([prompt(model)], [0])
    called = []

    def note(owner: object, name: str) -> None:
        function = getattr(owner, name)
        monkeypatch.setattr(
            owner, name, lambda *arguments: (called.append(name), function(*arguments))[1]
        )

    for name in ("predict", "step", "draw_first"):
        note(model, name)
    note(model.slots, "advance")
    model.decode_frames(1, 1)
    assert called == ["predict", "step", "draw_first", "advance"]


@pytest.mark.parametrize("zeros", [[0], [5, 6], [-1], [2, -3, -1], list(range(12))], ids=str)
@torch.inference_mode()
def test_no_frame_is_trimmed_for_a_first_code_of_0(model: SpeechModel, zeros: list[int]) -> None:
    """Another program counts a row's frames by the first codes that are not 0, and cuts off as many
    at its end as there are zeros. Here every frame has its samples, also alone, in company and
    behind a reference.
    """
    generator = torch.Generator().manual_seed(1)
    network, info = model.vocoder.network, model.info
    row = torch.randint(1, 10, (12, info.num_codebooks), generator=generator)
    other = torch.randint(1, 10, (5, info.num_codebooks), generator=generator)
    row[zeros, 0] = 0
    other[0, 0] = 0
    expected = [network(codes.t()[None])[0] for codes in (row, other)]
    (alone,) = model.decode_audio([row])
    company = model.decode_audio([row, other])
    for found, whole in zip([alone, *company], [expected[0], *expected], strict=True):
        assert len(found) == len(whole)
        assert (found - whole).abs().max() <= 3e-5
    assert len(alone) == 12 * info.samples_per_frame
    behind = model.decode_audio([row, other], [other, row])
    assert [len(samples) for samples in behind] == [len(whole) for whole in expected]
    changed = row.clone()
    changed[zeros[-1], 1] += 1  # what the other codebooks say there is heard
    start = (zeros[-1] % 12) * info.samples_per_frame
    (after,) = model.decode_audio([changed])
    assert torch.equal(after[:start], alone[:start])
    frame = slice(start, start + info.samples_per_frame)
    assert not torch.equal(after[frame], alone[frame])


def test_two_models_of_a_process_run_their_own_kernels(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One model that gave Triton up took it from all others."""
    seen: list[tuple[SpeechModel, Kernels]] = []

    def note(name: str) -> None:
        method = getattr(SpeechModel, name)

        def noted(model: SpeechModel, *given: object) -> object:
            seen.append((model, current()))
            return method(model, *given)

        monkeypatch.setattr(SpeechModel, name, noted)

    named = {name: Kernels.named(name) for name in ("auto", "portable", "reference")}
    models = {name: load_model(str(folder), kernels=kernels) for name, kernels in named.items()}
    for name in ("_prefill", "predict", "step"):
        note(name)
    for model in models.values():
        model.allocate(1, 96, FRAMES)
        model.prefill([prompt(model)], [0])
    models["portable"].leave_triton("swiglu: no C compiler")
    for model in models.values():
        model.decode_frames(1, 1)
    for name, model in models.items():
        found = [kernels for other, kernels in seen if other is model]
        after = named[name].given_up("swiglu: no C compiler") if name == "portable" else named[name]
        assert found == [named[name], after, after]
    assert current() == AUTO
