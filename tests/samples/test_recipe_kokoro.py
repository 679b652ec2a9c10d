"""Recipe: names and shapes of Kokoro's export, and what a padded batch counts as real."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
import torch
from safetensors.torch import save_file


@pytest.mark.parametrize(
    ("node", "module"),
    [
        ("/encoder/text_encoder/cnn.0/cnn.0.0/Conv_quant", "text_encoder.cnn.0.0"),
        ("/decoder/decoder/asr_res/asr_res.0/Conv_quant", "decoder.asr_res.0"),
        ("/decoder/decoder/encode/conv1/Conv_quant", "decoder.encode.conv1"),
        ("/encoder/F0.0/conv1/Conv_quant", "predictor.F0.0.conv1"),
        ("/encoder/bert_encoder/MatMul_quant", "bert_encoder"),
        ("/encoder/predictor/lstm/LSTM_quant", "predictor.lstm"),
        (
            "/encoder/bert/encoder/layer.0/attention/query_3/MatMul",
            "bert.encoder.layer.0.attention.query",
        ),
    ],
)
def test_nodes_name_their_modules(recipe, node, module):
    assert recipe("kokoro_weights").module_of(node) == module


def test_gates_are_put_into_the_order_of_pytorch(recipe):
    rows = np.array([["i"], ["o"], ["f"], ["c"]])
    assert recipe("kokoro_weights")._torch_gates(rows)[:, 0].tolist() == ["i", "f", "c", "o"]


def test_eight_bits_become_floats(recipe, tmp_path):
    stored = {
        "a.weight": torch.tensor([[10, 20], [30, 40]], dtype=torch.uint8),
        "a.weight|scale": torch.tensor([0.5, 2.0]),
        "a.weight|zero": torch.tensor([10, 30], dtype=torch.int16),
        "a.bias": torch.tensor([1.0, 2.0]),
    }
    save_file(stored, tmp_path / "k.safetensors")
    weights = recipe("kokoro_weights").float_weights(tmp_path / "k.safetensors")
    assert weights["a.weight"].tolist() == [[0, 5], [0, 20]]
    assert weights["a.bias"].tolist() == [1, 2]


def test_a_batch_counts_real_steps_at_every_rate(recipe):
    lengths = recipe("kokoro_teacher").Lengths()
    lengths.steps, lengths.longest = torch.tensor([2, 3]), 3
    for rate in (1, 2):
        mask = lengths.mask(torch.zeros(2, 4, 3 * rate))
        assert mask.sum(-1)[:, 0].tolist() == [2 * rate, 3 * rate]
    assert lengths.mask(torch.zeros(2, 4, 7)).sum(-1)[:, 0].tolist() == [5, 7]  # one step more


@pytest.mark.skipif(find_spec("kokoro") is None, reason="needs the package kokoro")
def test_styled_norms_count_real_steps_only(recipe):
    """What lies behind a row's end neither counts nor sounds; real steps are normalised by hand."""
    teacher = recipe("kokoro_teacher")
    istftnet, _ = teacher._modules()
    lengths = teacher.Lengths()
    lengths.steps, lengths.longest = torch.tensor([3, 5]), 5
    norm = istftnet.AdaIN1d(4, 6)
    hidden, style = torch.randn(2, 6, 5) * 3 + 2, torch.randn(2, 4)
    made = teacher._normalise(lengths)(norm, hidden, style)
    assert (made[0, :, 3:] == 0).all()
    for row, size in enumerate((3, 5)):
        real = hidden[row, :, :size]
        gamma, beta = norm.fc(style[row])[:, None].chunk(2)
        plain = (real - real.mean(1, keepdim=True)) * torch.rsqrt(
            real.var(1, correction=0, keepdim=True) + 1e-5
        )
        assert torch.allclose(made[row, :, :size], (1 + gamma) * plain + beta, atol=1e-4)
