"""Tensors of checkpoints: every one of them is accounted for."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_qwen3_tts import write_checkpoint
from torch import nn

from models.checkpoint.files import STORED_TYPES, CheckpointError, read_header
from models.checkpoint.table import Table
from models.checkpoint.weights import (
    META,
    READ_THREADS,
    Network,
    assemble,
    random_tensors,
    read_file,
    read_tensors,
)
from models.registry import load_model

CPU = torch.device("cpu")


def write_index(folder: Path, weight_map: object) -> None:
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": weight_map}))


class TestReadTensors:
    """Whole files to tensors."""

    def test_shards_are_joined(self, tmp_path: Path) -> None:
        save_file({"a": torch.zeros(2)}, tmp_path / "m-1.safetensors")
        save_file({"b": torch.ones(3)}, tmp_path / "m-2.safetensors")
        write_index(tmp_path, {"a": "m-1.safetensors", "b": "m-2.safetensors"})
        tensors = read_tensors(tmp_path, CPU)
        assert sorted(tensors) == ["a", "b"]
        assert tensors["b"].tolist() == [1, 1, 1]

    def test_the_meta_device_gets_shapes_and_types(self, tmp_path: Path) -> None:
        types = (torch.float16, torch.bfloat16, torch.float64)
        tensors = {str(dtype): torch.zeros(2, 3, dtype=dtype) for dtype in types}
        save_file({**tensors, "scalar": torch.zeros(())}, tmp_path / "model.safetensors")
        found = read_tensors(tmp_path, META)
        assert found["scalar"].shape == ()
        assert {tensor.device for tensor in found.values()} == {META}
        for dtype in types:
            assert (found[str(dtype)].dtype, found[str(dtype)].shape) == (dtype, (2, 3))

    def test_every_type_that_is_read_is_one_of_torch(self) -> None:
        assert all(isinstance(getattr(torch, name), torch.dtype) for name in STORED_TYPES.values())

    def test_a_tensor_in_two_shards(self, tmp_path: Path) -> None:
        for name in ("m-1.safetensors", "m-2.safetensors"):
            save_file({"a": torch.zeros(2)}, tmp_path / name)
        write_index(tmp_path, {"a": "m-1.safetensors", "b": "m-2.safetensors"})
        with pytest.raises(CheckpointError, match=r"m-2.safetensors: a occurs in two shards"):
            read_tensors(tmp_path, CPU)

    def test_a_header_that_promises_too_much(self, tmp_path: Path) -> None:
        (tmp_path / "model.safetensors").write_bytes(b"\xff" * 8 + b"{}")
        with pytest.raises(CheckpointError, match="not a readable safetensors file"):
            read_tensors(tmp_path, CPU)


@pytest.mark.parametrize("device", [CPU, pytest.param(torch.device("cuda"), marks=pytest.mark.gpu)])
def test_threads_read_what_one_reads(
    tmp_path: Path, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(READ_THREADS, device.type, 8)
    path = tmp_path / "model.safetensors"
    written = {f"t{size}": torch.randn(size, 3).to(torch.bfloat16) for size in range(1, 20)}
    save_file(written | {"one": torch.tensor(7.0)}, path)
    expected = load_file(path)
    tensors = read_file(path, read_header(path), expected, device)
    assert tensors.keys() == expected.keys()
    for name, tensor in expected.items():
        assert tensors[name].device.type == device.type
        assert torch.equal(tensors[name].cpu(), tensor)
        assert tensors[name].dtype == tensor.dtype


class Pair(Network):
    """Two linear maps."""

    def __init__(self, config: object) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 2), nn.Linear(2, 2, bias=False)
        self.steps = nn.Buffer(torch.empty(2))

    @staticmethod
    def table(config: object) -> Table:
        table = Table()
        table.affine("old.a", "a", 2, 3)
        table.keep("old.b.weight", "b.weight", 2, 2)
        return table

    def constants(self, device: torch.device, dtype: torch.dtype) -> dict[str, torch.Tensor]:
        return {"steps": torch.arange(2.0, device=device)}


class TestNetwork:
    """Every tensor is accounted for."""

    def test_fitting_tensors_are_cast_and_need_no_gradient(self) -> None:
        tensors = {
            "old.a.weight": torch.ones(2, 3),
            "old.a.bias": torch.ones(2),
            "old.b.weight": torch.ones(2, 2, dtype=torch.float64),
        }
        network = Pair.from_tensors(None, tensors, torch.bfloat16, "voice")
        assert not tensors
        for parameter in network.parameters():
            assert parameter.dtype == torch.bfloat16
            assert parameter.device == CPU
            assert not parameter.requires_grad
        assert network.steps.dtype == torch.float32

    def test_all_problems_are_listed_together(self) -> None:
        state = {"old.a.weight": torch.ones(3, 2), "old.a.bias": torch.ones(2), "c": torch.ones(1)}
        with pytest.raises(CheckpointError) as caught:
            Pair.from_tensors(None, state, torch.float32, "voice: model")
        assert str(caught.value).splitlines() == [
            "voice: model: 3 tensors do not match:",
            "  missing old.b.weight",
            "  unexpected 'c'",
            "  old.a.weight has shape (3, 2), but the config requires (2, 3)",
        ]

    def test_random_tensors_fit_and_depend_on_the_seed(self) -> None:
        drawn = [
            random_tensors(Pair.table(None), torch.Generator().manual_seed(seed), torch.float32)
            for seed in (1, 1, 2)
        ]
        assert torch.equal(drawn[0]["old.a.weight"], drawn[1]["old.a.weight"])
        assert not torch.equal(drawn[0]["old.a.weight"], drawn[2]["old.a.weight"])
        assert not drawn[0]["old.a.bias"].any()
        Pair.from_tensors(None, drawn[0], torch.float32, "random")


def test_ours_are_made_of_what_a_table_says_and_the_rest_is_let_go() -> None:
    table = Table()
    table.affine("old.a", "new.a", 2, 3)
    parts = [table.hold("q", 2, 3), table.hold("k", 1, 3)]
    table.make("qk", "rows", *parts)
    table.make("books", "stack", parts[1], parts[1])
    table.make("rotated", "halves", table.hold("pairs", 5), numbers=(1, 4))
    table.hold("unused", 1)
    tensors = {name: torch.arange(math.prod(s)).view(s) for name, s in table.shapes.items()}
    made = assemble(table, tensors)
    assert set(tensors) == {"unused"}
    assert set(made) == {"new.a.weight", "new.a.bias", "qk", "books", "rotated"}
    assert made["qk"].tolist() == [[0, 1, 2], [3, 4, 5], [0, 1, 2]]
    assert made["books"].tolist() == [[[0, 1, 2]]] * 2
    assert made["rotated"].tolist() == [0, 2, 1, 3, 4]


class TestWholeCheckpoint:
    """The real loader on tiny checkpoints it would meet in the wild."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        return write_checkpoint(tmp_path / "voice", "custom_voice_wide")

    def test_missing_unexpected_and_misshapen_keys_are_reported(self, folder: Path) -> None:
        path = folder / "model.safetensors"
        weights = load_file(path)
        del weights["talker.codec_head.weight"]
        del weights["talker.model.layers.1.self_attn.k_proj.weight"]
        del weights["talker.code_predictor.lm_head.1.weight"]
        weights["talker.model.norm.weight"] = torch.ones(3)
        weights["talker.surprise"] = torch.ones(3)
        save_file(weights, path)
        with pytest.raises(CheckpointError) as caught:
            load_model(str(folder))
        message = str(caught.value)
        for line in (
            "missing talker.codec_head.weight",
            "missing talker.model.layers.1.self_attn.k_proj.weight",
            "missing talker.code_predictor.lm_head.1.weight",
            "unexpected 'talker.surprise'",
            "talker.model.norm.weight has shape (3,), but the config requires (64,)",
        ):
            assert line in message, line

    @pytest.mark.parametrize("name", ["vocab.json", "merges.txt", "tokenizer_config.json"])
    def test_a_broken_tokenizer_is_a_checkpoint_error(self, folder: Path, name: str) -> None:
        (folder / name).write_text('{"a": ')
        with pytest.raises(CheckpointError):
            load_model(str(folder))
