"""S2 Pro at full size: what is on record of the released files is read as it is.

No weight is there: files are sparse, and loads go to the meta device, through the same code.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import released_fish_speech as released
import torch
from released_checkpoint import num_bytes, write_sparse

from models.checkpoint.files import CheckpointError
from models.checkpoint.weights import META
from models.dual_ar.config import WEIGHTS_FILE, CodecConfig
from models.dual_ar.family import load_tokenizer
from models.dual_ar.model import DualAR
from models.dual_ar.tensors import official_shapes
from models.fish_speech.family import read_config
from models.registry import describe, load_model

pytestmark = pytest.mark.slow

HEAD_ROWS_ADDED = 4097  # the talker's head: rows of the text embedding that can be drawn
HEAD_ROWS_CUT = 4096 - 1024  # of the code predictor's, which the codec has no code for


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint after `tts-cli models convert`."""
    return released.write_checkpoint(tmp_path_factory.mktemp("fish"))


def test_names_and_shapes_are_those_on_record() -> None:
    tensors = released.tensor_list()
    assert released.fingerprint(tensors) == released.FINGERPRINT
    assert sum(num_bytes(*tensor) for tensor in tensors.values()) == released.DATA_BYTES
    shapes = official_shapes(CodecConfig.released())
    assert len(shapes) == released.NUM_CODEC_TENSORS
    assert sum(num_bytes("F32", s) for s in shapes.values()) == 4 * released.NUM_CODEC_WEIGHTS


def test_every_tensor_finds_its_place(folder: Path) -> None:
    model = load_model(str(folder), META, torch.bfloat16)
    assert isinstance(model, DualAR)
    assert model.voices is not None
    networks = model.talker, model.predictor
    found = sum(weight.numel() for part in networks for weight in part.parameters())
    rows = HEAD_ROWS_ADDED - HEAD_ROWS_CUT
    assert 2 * (found - rows * released.SPEC.width) == released.DATA_BYTES


def test_the_markers_have_their_ids_on_record(folder: Path) -> None:
    tokenize = load_tokenizer(folder, read_config(folder))
    assert tokenize("<|im_start|><|voice|><|im_end|>") == [151644, 151673, 151645]
    assert tokenize("<|audio_pad|><|semantic:4095|>") == [151677, 155773]


@pytest.mark.parametrize("defect", ["missing", "unexpected", "has shape"])
def test_one_wrong_tensor_of_the_codec_is_seen_without_reading(tmp_path: Path, defect: str) -> None:
    folder = released.write_checkpoint(tmp_path)
    tensors = released.codec_list()
    name = "quantizer.downsample.1.0.conv.weight"
    kind, shape = tensors[name]
    if defect == "missing":
        del tensors[name]
    elif defect == "unexpected":
        tensors[f"{name}.more"] = kind, shape
    else:
        tensors[name] = kind, (shape[0] + 1, *shape[1:])
    write_sparse(folder / WEIGHTS_FILE, tensors)
    with pytest.raises(CheckpointError, match=rf"1 tensors do not match:\s+.*{defect}"):
        describe(str(folder))


@pytest.mark.parametrize("part", ["model-00002-of-00002.safetensors", WEIGHTS_FILE])
def test_a_download_cut_short_is_seen_without_reading_it(tmp_path: Path, part: str) -> None:
    path = released.write_checkpoint(tmp_path) / part
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 1)
    with pytest.raises(CheckpointError, match=rf"{part}: not a readable safetensors file"):
        describe(str(tmp_path))
