"""How many rows a run speaks at once: by default, by its rows, by memory."""

from __future__ import annotations

import json
import logging
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from kernels.launch.dispatch import AUTO, KernelFailed, Kernels
from tts_cli.cli import profile
from tts_cli.config import RunConfig
from tts_cli.engine import load as module
from tts_cli.engine.load import Loaded, read_tf32, write_tf32
from tts_cli.engine.scheduler import BatchSize
from tts_cli.errors import SetupError, StoppedEarly
from tts_cli.plan.room import Needs

MIB = 2**20


@dataclass
class FakeModel:
    """Slots of one MiB a position; `room` of them can be allocated."""

    room: int = 10**6
    allocated: list[int] = field(default_factory=list)
    captured: list[int] = field(default_factory=list)
    is_fixed: bool = False
    work_mib: int = 0  # of each unit of a choice
    choice: int | None = None
    is_settled: bool = False
    kernels: Kernels = AUTO

    def leave_triton(self, failure: str) -> None:
        self.settle()
        self.kernels = self.kernels.given_up(failure)

    def fix_shapes(self) -> None:
        assert not self.allocated
        self.is_fixed = True

    def slot_bytes(self, max_positions: int, *sizes: int) -> int:
        return max_positions * MIB

    @property
    def work_choices(self) -> list[int]:
        return [1] if self.is_fixed else [4, 2, 1]

    def work_bytes(self, choice: int, max_batch: int, max_positions: int) -> int:
        return choice * self.work_mib * MIB

    def choose_work(self, choice: int) -> None:
        self.choice = choice

    def allocate(self, max_batch: int, *sizes: int) -> None:
        self.allocated.append(max_batch)
        if max_batch > self.room:
            raise torch.OutOfMemoryError("no room")

    def capture(self, max_batch: int, *sizes: int) -> None:
        self.captured.append(max_batch)

    def graph_runners(self) -> list[Any]:
        return []

    def settle(self) -> None:
        self.is_settled = True


def make(
    model: FakeModel, device: str, max_batch: int, is_chosen: bool = False, is_fixed: bool = False
) -> Loaded:
    return Loaded(
        model,  # type: ignore[arg-type]
        torch.device(device),
        torch.float32,
        BatchSize(max_batch, is_fixed),
        0.0,
        is_chosen,
    )


class FakeProbe:
    """Where Triton's probe is begun, and what it tells."""

    failure: str | None = None

    def begin(self, device: torch.device) -> Future[str | None]:
        found: Future[str | None] = Future()
        found.set_result(self.failure)
        return found


@pytest.fixture(autouse=True)
def probe(monkeypatch: pytest.MonkeyPatch) -> FakeProbe:
    fake = FakeProbe()
    monkeypatch.setattr("tts_cli.engine.kernels.begin_probe", fake.begin)
    return fake


@pytest.fixture
def free_mib(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Free device memory; tests set its only entry."""
    free = [10**6]
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free[0] * MIB, 10**9))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(module, "on_device", lambda device: nullcontext())
    return free


@pytest.mark.parametrize(
    ("device", "asked", "expected"), [("cuda", None, 256), ("cpu", None, 16), ("cuda", 32, 32)]
)
def test_default_batch(
    device: str, asked: int | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "choose_device", lambda config: torch.device(device))
    monkeypatch.setattr(module, "load_model", lambda *given: FakeModel())
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    before = read_tf32()
    opened = module.open_checkpoint(RunConfig(max_batch=asked))
    assert opened.batch.rows == expected
    assert opened.is_batch_chosen == (asked is not None)
    if device == "cuda":
        assert read_tf32() == (False, False)
    opened.close()
    opened.at_end()  # for the second time
    assert read_tf32() == before


def test_a_forgotten_session_puts_settings_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "choose_device", lambda config: torch.device("cuda"))
    monkeypatch.setattr(module, "load_model", lambda *given: FakeModel())
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    before = read_tf32()
    write_tf32((True, True))
    try:
        session = module.open_checkpoint(RunConfig())
        assert read_tf32() == (False, False)
        del session
        assert read_tf32() == (True, True)
    finally:
        write_tf32(before)


@pytest.mark.parametrize(
    ("rows", "expected"), [(1, 1), (3, 4), (200, 256), (1023, 256), (1024, 512), (10_000, 512)]
)
def test_slots_by_rows(rows: int, expected: int, free_mib: list[int]) -> None:
    session = make(FakeModel(), "cuda", 256)
    session.prepare(Needs(rows, 100, 50))
    assert session.batch.rows == expected


@pytest.mark.parametrize(
    ("slots", "work_mib", "expected"), [(1100, 0, 512), (900, 0, 256), (1100, 20_000, 256)]
)
def test_twice_as_many_only_where_nothing_else_is_given_up(
    slots: int, work_mib: int, expected: int, free_mib: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    free_mib[0] = int((600 + 128 * slots) / 0.92)  # 128 MiB a slot
    model = FakeModel(work_mib=work_mib)
    session = make(model, "cuda", 256)
    with caplog.at_level(logging.INFO):
        session.prepare(Needs(1024, 100, 50))
    assert (session.batch.rows, model.choice) == (expected, 4)
    assert "instead of" not in caplog.text


@pytest.mark.parametrize("is_chosen", [False, True])
def test_slots_fit_into_memory(
    is_chosen: bool, free_mib: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    free_mib[0] = 600 + 128 * 60  # 128 MiB a slot, not quite 55 of them
    session = make(FakeModel(), "cuda", 256, is_chosen)
    with caplog.at_level(logging.INFO):
        session.prepare(Needs(1000, 100, 50))
    assert session.batch.rows == 32
    said = [record for record in caplog.records if "instead of 256" in record.getMessage()]
    assert [record.levelno for record in said] == [logging.WARNING if is_chosen else logging.INFO]


def test_less_is_decoded_at_once_where_that_makes_room_for_rows(free_mib: list[int]) -> None:
    """A card of 24 GB with a large model: 13 GiB are free, four lanes take 8 of them."""
    free_mib[0] = 13 * 1024
    for work_mib, rows, choice in ((2048, 64, 1), (512, 64, 4), (0, 64, 4), (4096, 32, 1)):
        model = FakeModel(work_mib=work_mib)
        session = make(model, "cuda", 256)
        session.prepare(Needs(1000, 100, 50))  # 128 MiB a slot
        assert (session.batch.rows, model.choice) == (rows, choice), work_mib


def test_slots_that_are_there_are_not_counted_against_new_ones(free_mib: list[int]) -> None:
    model = FakeModel()
    session = make(model, "cuda", 256)
    session.prepare(Needs(1000, 100, 50))
    free_mib[0] = 1024

    def allocate(max_batch: int, *sizes: int) -> None:
        if max_batch == 1:
            free_mib[0] = 10**6

    model.allocate = allocate  # type: ignore[method-assign]
    session.prepare(Needs(1000, 100, 50))
    assert session.batch.rows == 256


class TestReproducible:
    """Shapes are fixed before a row is spoken, or nothing is."""

    @staticmethod
    def open(
        device: str, monkeypatch: pytest.MonkeyPatch, **settings: Any
    ) -> tuple[FakeModel, Loaded]:
        model = FakeModel()
        monkeypatch.setattr(module, "choose_device", lambda config: torch.device(device))
        monkeypatch.setattr(module, "load_model", lambda *given: model)
        monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
        monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", torch.backends.cudnn.allow_tf32)
        return model, module.open_checkpoint(RunConfig(reproducible=True, **settings))

    @pytest.mark.parametrize("dtype", ["auto", "float32", "bfloat16"])
    def test_on_a_gpu_every_session_has_as_many_slots_as_asked_for(
        self, dtype: str, free_mib: list[int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model, session = self.open("cuda", monkeypatch, dtype=dtype, max_batch=64)
        assert model.is_fixed
        session.prepare(Needs(3, 100, 50))
        assert (model.allocated, model.captured) == ([64], [64])
        assert session.batch == BatchSize(64, is_fixed=True)

    def test_bfloat16_on_a_cpu_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(SetupError, match="bfloat16 on a CPU") as caught:
            self.open("cpu", monkeypatch, dtype="bfloat16")
        assert caught.value.remedy == "use --dtype float32"

    def test_rows_too_long_for_so_many_slots(self, free_mib: list[int]) -> None:
        """Fewer slots would be another sound, which nobody asked for."""
        free_mib[0] = 600 + 128 * 60  # 128 MiB a slot, not quite 55 of them
        model = FakeModel()
        session = make(model, "cuda", 256, is_fixed=True)
        with pytest.raises(SetupError, match="256 rows do not fit") as caught:
            session.prepare(Needs(1000, 100, 50))
        assert "--max-batch 32" in str(caught.value.remedy)
        assert model.allocated == []

    def test_no_room_for_the_graphs(self, free_mib: list[int]) -> None:
        session = make(FakeModel(room=50), "cuda", 64, is_fixed=True)
        with pytest.raises(SetupError, match="of 64 rows") as caught:
            session.prepare(Needs(1000, 100, 50))
        assert "smaller --max-batch" in str(caught.value.remedy)


@pytest.mark.usefixtures("falls_back")
class TestKernels:
    """Triton that fails before the first row is spoken."""

    FAILURE = "probe: Failed to find C compiler"

    def open(
        self, monkeypatch: pytest.MonkeyPatch, device: str = "cuda", **settings: Any
    ) -> Loaded:
        monkeypatch.setattr(module, "choose_device", lambda config: torch.device(device))
        monkeypatch.setattr(module, "load_model", lambda *given: FakeModel(kernels=given[-1]))
        monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
        return module.open_checkpoint(RunConfig(**settings))

    @pytest.mark.parametrize("reproducible", [False, True])
    def test_auto_goes_on_with_the_reference(
        self,
        reproducible: bool,
        probe: FakeProbe,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        probe.failure = self.FAILURE
        kernels = self.open(monkeypatch, reproducible=reproducible).model.kernels
        assert kernels.describe("cuda") == f"PyTorch reference ({self.FAILURE})"
        said = [record.getMessage() for record in caplog.records if record.levelno > 20]
        assert len(said) == 1
        assert said[0].startswith(f"Triton does not work ({self.FAILURE}); install gcc")

    def test_named_kernels_that_cannot_be_had(
        self, probe: FakeProbe, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        probe.failure = self.FAILURE
        before = read_tf32()
        with pytest.raises(SetupError, match=f"portable: Triton does not work .{self.FAILURE}"):
            self.open(monkeypatch, kernels="portable")
        assert read_tf32() == before

    def test_the_reference_needs_no_probe(
        self, probe: FakeProbe, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        probe.failure = self.FAILURE
        assert not self.open(monkeypatch, kernels="reference").model.kernels.is_triton_on
        assert not [record for record in caplog.records if record.levelno > 20]

    @pytest.mark.parametrize("name", ["auto", "portable", "reference"])
    def test_on_a_cpu_there_is_no_choice(
        self, name: str, probe: FakeProbe, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        probe.failure = self.FAILURE
        kernels = self.open(monkeypatch, "cpu", kernels=name).model.kernels
        assert kernels.describe("cpu") == "PyTorch reference (not a CUDA device)"

    def failing(self, monkeypatch: pytest.MonkeyPatch) -> FakeModel:
        """A model one of whose kernels fails once, while its graphs are recorded."""
        model, real = FakeModel(), FakeModel.capture

        def capture(self: FakeModel, *sizes: int) -> None:
            real(self, *sizes)
            if len(self.captured) == 1:
                raise KernelFailed("row linear: out of resource: shared memory")

        monkeypatch.setattr(FakeModel, "capture", capture)
        return model

    def test_slots_are_made_again(
        self, free_mib: list[int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        model = self.failing(monkeypatch)
        make(model, "cuda", 64).prepare(Needs(64, 100, 50))
        assert model.allocated == [64, 1, 64]  # the first ones are gone before the second come
        assert model.is_settled
        assert model.kernels.failure is not None
        assert len([record for record in caplog.records if record.levelno > 20]) == 1

    def test_unless_rows_must_not_change(
        self, free_mib: list[int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        session = make(self.failing(monkeypatch), "cuda", 64, is_fixed=True)
        with pytest.raises(StoppedEarly, match="a Triton kernel failed"):
            session.prepare(Needs(64, 100, 50))
        model = self.failing(monkeypatch)
        model.kernels = Kernels.named("portable")
        session = make(model, "cuda", 64)
        with pytest.raises(SetupError, match=r"--kernels portable: Triton does not work \("):
            session.prepare(Needs(64, 100, 50))


@pytest.mark.slow
def test_profile_leaves_out_what_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    def fit_one(session: Loaded, needs: Needs, max_positions: int) -> None:
        session.batch.rows = 1

    monkeypatch.setattr(module, "_fit_rows", fit_one)
    arguments = ["--batches", "1,4", "--frames", "4", "--repeats", "1", "--device", "cpu", "--json"]
    result = CliRunner().invoke(profile.command, arguments)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert [entry["batch"] for entry in report["results"]] == [1]
