"""Loading: what a folder holds is used or named, and both heads keep what can be drawn."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny_fish_speech as tiny
import torch
from safetensors.torch import load_file, save_file

from models.checkpoint.files import CheckpointError
from models.checkpoint.weights import halves
from models.dual_ar.model import DualAR
from models.registry import describe, load_model

pytestmark = pytest.mark.slow

SPEC = tiny.SPECS["small"]
Write = Callable[..., Path]


def test_a_model_is_what_its_folder_describes(checkpoint: Write) -> None:
    folder = checkpoint()
    model = load_model(str(folder), "cpu", torch.bfloat16, use_graphs=True)
    assert isinstance(model, DualAR)
    assert model.info == describe(str(folder))
    assert model.dtype == torch.bfloat16
    assert model.frames.capturer is None


def test_heads_keep_the_rows_that_can_be_drawn(checkpoint: Write) -> None:
    model = load_model(str(checkpoint()), "cpu", torch.bfloat16)
    assert isinstance(model, DualAR)
    weights = tiny.random_weights(SPEC, 0)
    text = weights["text_model.model.embeddings.weight"]
    first = tiny.SEMANTIC_START
    assert torch.equal(model.talker.head.weight[:-1], text[first : first + SPEC.codebook_size])
    assert torch.equal(model.talker.head.weight[-1], text[tiny.END])
    assert torch.equal(model.talker.text_embedding.weight, text)
    rest = weights["audio_decoder.output.weight"]
    assert torch.equal(model.predictor.heads.weight[0], rest[: SPEC.num_rest_codes])
    tables = weights["audio_decoder.codebook_embeddings.weight"]
    assert torch.equal(model.talker.code_embedding.weight[2, 5], tables[2 * 64 + 5])


def test_rotations_of_neighbours_become_rotations_of_halves() -> None:
    weight = torch.arange(10.0)[:, None].expand(-1, 2)
    found = halves(weight, 2, 4)[:, 0].tolist()
    assert found == [0, 2, 1, 3, 4, 6, 5, 7, 8, 9]
    assert halves(torch.arange(6.0), 1, 6).tolist() == [0, 2, 4, 1, 3, 5]


def test_rope_tables_are_rounded_whatever_the_dtype(checkpoint: Write) -> None:
    model = load_model(str(checkpoint()), "cpu", torch.float32)
    assert isinstance(model, DualAR)
    model.allocate(1, 100, 20)
    for decoder in (model.talker.decoder, model.predictor.decoder):
        assert decoder.cos.dtype == torch.float32
        assert torch.equal(decoder.cos, decoder.cos.bfloat16().float())


def edit(folder: Path, name: str, value: torch.Tensor | None) -> None:
    """Replace or drop a tensor of an unsharded checkpoint."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    if value is None:
        del tensors[name]
    else:
        tensors[name] = value
    save_file(tensors, path)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("text_model.model.embeddings.weight", None, "missing text_model.model.embeddings"),
        ("text_model.model.embeddings.weight", torch.zeros(9, 64), "has shape"),
        ("audio_decoder.codebook_embeddings.weight", torch.zeros(9, 64), "has shape"),
        ("audio_decoder.output.weight", torch.zeros(9, 64), "output.weight has shape"),
        ("audio_decoder.output.weight", None, "missing audio_decoder.output.weight"),
        ("audio_decoder.layers.0.attention.q_norm.weight", torch.ones(16), "unexpected"),
        ("audio_decoder.layers.1.feed_forward.w3.weight", None, r"missing .*layers\.1\..*w3"),
        ("text_model.model.layers.0.attention.wqkv.weight", torch.zeros(8, 64), "has shape"),
        ("text_model.model.layers.0.attention.q_norm.weight", None, r"missing .*q_norm"),
        ("audio_decoder.fast_project_in.weight", torch.zeros(64, 64), "unexpected"),
    ],
)
def test_tensors_that_do_not_fit_are_named(
    checkpoint: Write, name: str, value: torch.Tensor | None, message: str
) -> None:
    folder = checkpoint(num_shards=1)
    edit(folder, name, value)
    with pytest.raises(CheckpointError, match=message):
        load_model(str(folder))


def test_a_codec_still_pickled_says_how_to_convert_it(checkpoint: Write) -> None:
    with pytest.raises(CheckpointError, match="tts-cli models convert"):
        describe(str(checkpoint(as_pickle=True)))
    with pytest.raises(CheckpointError, match=r"no codec\.safetensors"):
        describe(str(checkpoint(has_codec=False)))


def test_another_codec_is_refused(checkpoint: Write) -> None:
    folder = checkpoint()
    other = checkpoint("wide")
    for name in ("codec.safetensors", "codec.json"):
        (folder / name).write_bytes((other / name).read_bytes())
    with pytest.raises(CheckpointError, match="the talker has 4 codebooks, the codec 10"):
        describe(str(folder))


def test_another_tokenizer_is_refused(checkpoint: Write) -> None:
    folder = checkpoint()
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    path.write_text("{}")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json: cannot be read"):
        load_model(str(folder))
    path.unlink()
    with pytest.raises(CheckpointError, match="its tokenizer is missing"):
        load_model(str(folder))
    tokenizer["added_tokens"][-1]["content"] = "<|semantic:99|>"
    path.write_text(json.dumps(tokenizer))
    with pytest.raises(CheckpointError, match=r"<\|semantic:63\|> is"):
        load_model(str(folder))
