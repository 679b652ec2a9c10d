"""`codec.pth` to `codec.safetensors`, and everything that can be wrong with a pickle."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import tiny_fish_codec as tiny
import torch
from safetensors.torch import load_file
from torch import Tensor

from models.checkpoint.files import CheckpointError
from models.dual_ar import convert as module
from models.dual_ar.config import CONFIG_FILE, PICKLED_FILE, WEIGHTS_FILE, CodecConfig

pytestmark = pytest.mark.slow


def convert(folder: Path) -> Any:
    return module.convert(folder, CodecConfig.released())


CPU = torch.device("cpu")
STALE = {
    "quantizer.pre_module.freqs_cis": torch.zeros(4, 2, 2, dtype=torch.bfloat16),
    "quantizer.pre_module.causal_mask": torch.ones(4, 4, dtype=torch.bool),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny codec as it is released, but with its sizes in codec.json."""
    tiny.write_codec(tmp_path, as_pickle=True)
    return tmp_path


def tensors() -> dict[str, Tensor]:
    return tiny.random_tensors(tiny.SMALL)


def test_the_same_tensors_under_the_same_names(folder: Path) -> None:
    done = convert(folder)
    assert (done.source, done.target) == (folder / PICKLED_FILE, folder / WEIGHTS_FILE)
    assert done.is_new
    found, expected = load_file(folder / WEIGHTS_FILE), tensors()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in found)
    vocoder, _ = tiny.load_codec(folder, CPU, torch.float32)
    assert vocoder(tiny.random_codes(tiny.SMALL, 1, 3)).isfinite().all()
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [CONFIG_FILE, PICKLED_FILE, WEIGHTS_FILE]
    )


def test_a_second_time_nothing_is_done(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = convert(folder)
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("read again"))
    again = convert(folder)
    assert (again.is_new, again.sha256) == (False, first.sha256)
    (folder / PICKLED_FILE).unlink()  # it is not needed any more
    assert convert(folder).sha256 == first.sha256


def test_who_may_read_the_source_may_read_the_result(folder: Path) -> None:
    (folder / PICKLED_FILE).chmod(0o644)
    convert(folder)
    for name in (WEIGHTS_FILE, CONFIG_FILE):
        assert (folder / name).stat().st_mode & 0o777 == 0o644, name


@pytest.mark.parametrize("wrap", ["state_dict", "generator", "prefix", "parameters"])
def test_wrappings_the_official_loaders_know(folder: Path, wrap: str) -> None:
    content: dict[str, Any] = tensors() | STALE
    if wrap == "prefix":
        content = {f"generator.{name}": value for name, value in content.items()}
        content["discriminator.weight"] = torch.zeros(3)
    elif wrap == "parameters":
        content = {
            name: torch.nn.Parameter(value, requires_grad=value.is_floating_point())
            for name, value in content.items()
        }
    else:
        content = {wrap: content, "epoch": 3}
    torch.save(content, folder / PICKLED_FILE)
    convert(folder)
    assert load_file(folder / WEIGHTS_FILE).keys() == tensors().keys()


def test_without_codec_json_it_must_be_the_released_codec(folder: Path) -> None:
    (folder / CONFIG_FILE).unlink()
    with pytest.raises(CheckpointError, match=r"\d+ tensors do not match"):
        convert(folder)


def test_nothing_to_convert(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no codec\.pth; nothing to convert"):
        convert(tmp_path)


def test_a_folder_that_cannot_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(module, "save_file", refuse)
    with pytest.raises(CheckpointError, match=r"cannot be written: .*Permission denied"):
        convert(folder)
    assert not list(folder.glob("*.part"))
    assert not (folder / WEIGHTS_FILE).exists()


def test_an_interruption_leaves_no_half_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(content: Any, path: Path, notes: Any) -> None:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "save_file", stop)
    with pytest.raises(KeyboardInterrupt):
        convert(folder)
    assert not list(folder.glob("*.part"))
    assert not (folder / WEIGHTS_FILE).exists()


# Hostile files


class Command:
    """Runs a command when it is unpickled by a careless reader."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("form", ["inside", "whole", "bare"])
def test_code_is_not_run(folder: Path, form: str) -> None:
    trap, path = folder / "trapped", folder / PICKLED_FILE
    if form == "bare":  # a plain pickle, not PyTorch's archive
        path.write_bytes(pickle.dumps({"a": Command(trap)}))
    else:
        torch.save(tensors() | {"x": Command(trap)} if form == "inside" else Command(trap), path)
    with pytest.raises(CheckpointError) as caught:
        convert(folder)
    assert "refused" in str(caught.value)
    assert "weights_only" not in str(caught.value)  # nobody is told to read it unsafely
    if form != "bare":
        assert "system" in str(caught.value)
    assert not trap.exists()
    assert not (folder / WEIGHTS_FILE).exists()


def change(name: str, value: Any) -> dict[str, Any]:
    return {**tensors(), name: value}


ALPHA = "decoder.model.1.block.0.alpha"  # (1, 16, 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1, 2], "a table of the codec's tensors was expected"),
        ({}, "missing decoder.model"),
        ({"state_dict": 3}, "is not a tensor of weights"),
        ({str(index): 0 for index in range(10_001)}, "a table of the codec's tensors"),
        (lambda: change(ALPHA, 3.0), "is not a tensor of weights"),
        (lambda: change("more", torch.zeros(1)), "unexpected 'more'"),
        (lambda: {**tensors(), 7: torch.zeros(1)}, "7 is not a tensor of weights"),
        (lambda: change(ALPHA, torch.zeros(1, 16, 1, dtype=torch.int8)), "not a tensor of weights"),
        (lambda: change(ALPHA, torch.zeros(1, 16, 1).to_sparse()), "not a tensor of weights"),
        (lambda: change(ALPHA, torch.zeros(1, 17, 1)), r"has shape \(1, 17, 1\)"),
        (lambda: change(ALPHA, torch.zeros(1, 1, 1).expand(1, 2**40, 1)), "has shape"),
        (lambda: change(ALPHA, torch.full((1, 16, 1), float("nan"))), "NaN or inf"),
        (lambda: change("x" * 10_000, torch.zeros(1)), "unexpected 'xxx"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # older torch warns of sparse tensors
def test_anything_but_the_codec_is_refused(folder: Path, content: Any, message: str) -> None:
    torch.save(content() if callable(content) else content, folder / PICKLED_FILE)
    with pytest.raises(CheckpointError, match=message) as caught:
        convert(folder)
    assert len(str(caught.value)) < 4000
    assert not (folder / WEIGHTS_FILE).exists()


@pytest.mark.parametrize("form", ["torn", "empty", "text", "archive", "script"])
def test_broken_files_are_refused(folder: Path, form: str) -> None:
    path = folder / PICKLED_FILE
    if form == "torn":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    elif form == "archive":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("data.pkl", b"\x80\x02}.")
    elif form == "script":
        # What TorchScript saves is code; the marker is enough to be taken for one.
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a/constants.pkl", b"\x80\x02).")
            archive.writestr("a/data.pkl", b"\x80\x02}.")
    else:
        path.write_bytes(b"" if form == "empty" else b"version https://example\n" * 20)
    with pytest.raises(CheckpointError, match="refused"):
        convert(folder)


def test_views_of_one_memory_are_told_apart(folder: Path) -> None:
    """Views overlap and stride as their maker likes; what is written is their values."""
    memory = torch.randn(64)
    content = tensors()
    content[ALPHA] = memory[:32:2].view(1, 16, 1)
    other = "decoder.model.1.block.1.conv.bias"  # (8,)
    content[other] = memory[4:12]
    torch.save(content, folder / PICKLED_FILE)
    convert(folder)
    found = load_file(folder / WEIGHTS_FILE)
    assert torch.equal(found[ALPHA], content[ALPHA])
    assert torch.equal(found[other], content[other])
