"""Draws of the sampler that a module is about: its `SAMPLER`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from drawing import drawer
from torch import Tensor

Draw = Callable[..., Tensor]


@pytest.fixture
def draw_kernel(request, with_kernel) -> Draw:
    return drawer(request.module.SAMPLER, with_kernel)


@pytest.fixture
def draw_reference(request, with_reference) -> Draw:
    return drawer(request.module.SAMPLER, with_reference)


@pytest.fixture(params=["kernel", "reference"])
def draw(request, draw_kernel, draw_reference) -> Draw:
    """By kernel and by reference."""
    return draw_kernel if request.param == "kernel" else draw_reference


@pytest.fixture(params=[pytest.param("kernel", marks=pytest.mark.gpu), "reference"])
def draw_many(request, draw_kernel, draw_reference) -> Draw:
    """The same for thousands of rows: interpreted, the kernel only equals the reference."""
    return draw_kernel if request.param == "kernel" else draw_reference
