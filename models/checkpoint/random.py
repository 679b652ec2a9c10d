"""Stand-ins for a checkpoint of a released size: random weights, drawn on the device (the same
generator, the same weights), and a tokenizer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from models.checkpoint.files import Shapes

WEIGHT_STD = 0.02  # the usual initialisation of the released configurations

LOUDNESS = 0.005  # of a vocoder's last convolution: samples of about 0.1, none clipped
FIRST_TEXT_ID = 1000  # byte b of a text becomes id 1000 + b
# Of the chat template that both families' tokenizers have from Qwen.
MARKERS = {"<|im_start|>": 151644, "<|im_end|>": 151645, "assistant": 77091, "user": 872}


def randomise(
    networks: Mapping[str, nn.Module], eos: int, dtype: torch.dtype, generator: torch.Generator
) -> None:
    """Give meta-built networks normal weights, on the generator's device; vectors are norms and
    become 1, biases become 0.

    End of speech is made unlikely, so that rows run to their frame cap and lengths are known in
    advance.

    Args:
        eos: where that is among the talker's logits.
    """
    whole = nn.ModuleDict(networks)
    state = {}
    for name, tensor in whole.state_dict().items():
        value = torch.empty(tensor.shape, device=generator.device, dtype=dtype)
        if name.endswith("bias"):
            value.zero_()
        elif tensor.dim() == 1:
            value.fill_(1)
        else:
            value.normal_(0, WEIGHT_STD, generator=generator)
        state[name] = value
    state["talker.head.weight"][eos] = 0
    whole.load_state_dict(state, assign=True)
    whole.requires_grad_(False)


def by_fan_in(name: str, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """A random tensor of a convolutional network: by name and shape a bias, a scale or a weight."""
    value = torch.empty(shape, device=generator.device)
    if name.endswith(("bias", "alpha", "beta")):
        value.zero_()
    elif len(shape) == 1:
        value.fill_(0.01 if "scale" in name else 1)
    elif name.startswith("codebooks") or name.endswith("codebook.weight"):
        value.normal_(generator=generator)
    else:
        value.normal_(0, max(1, value[0].numel()) ** -0.5, generator=generator)
    return value


def random_tensors(shapes: Shapes, generator: torch.Generator) -> dict[str, Tensor]:
    """Tensors of a convolutional network, scaled by fan-in: signals neither vanish nor blow up."""
    return {name: by_fan_in(name, shape, generator) for name, shape in shapes.items()}


def byte_tokenizer(markers: Mapping[str, int]) -> Callable[[str], list[int]]:
    """A tokenizer of bytes; the template's markers count as one id each, as in a released one.

    Args:
        markers: text to id.
    """

    pieces = re.compile(f"({'|'.join(map(re.escape, markers))})")

    def tokenize(text: str) -> list[int]:
        ids: list[int] = []
        for piece in pieces.split(text):
            if piece in markers:
                ids.append(markers[piece])
            else:
                ids += [FIRST_TEXT_ID + byte for byte in piece.encode()]
        return ids

    return tokenize
