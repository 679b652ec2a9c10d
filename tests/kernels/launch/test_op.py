"""The choice between an operation's kernels and its reference, and what a failure is called."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module

import pytest
import torch
from torch import Tensor

import kernels
from kernels.launch import dispatch
from kernels.launch.op import op

X = torch.zeros(2)


def twice_ref(x: Tensor, by: int = 2) -> str:
    """The slow way."""
    return f"reference {by}"


@op(twice_ref, lambda x: bool(x.numel()) and dispatch.current().is_triton_on)
def twice_(x: Tensor, by: int = 2) -> str:
    """The fast way."""
    if by == 0:
        raise dispatch.KernelFailed("no C compiler")
    return f"kernel {by}"


@pytest.fixture(autouse=True)
def _with_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "HAS_TRITON", True)


def test_the_first_argument_chooses_and_all_are_passed_on() -> None:
    assert twice_(X) == "kernel 2"
    assert twice_(X, 3) == twice_(X, by=3) == "kernel 3"
    assert twice_(X[:0]) == "reference 2"
    assert twice_(X[:0], by=3) == "reference 3"
    with dispatch.override("reference"):
        assert twice_(X, 3) == "reference 3"


def test_it_looks_like_what_launches() -> None:
    assert (twice_.__name__, twice_.__doc__) == ("twice_", "The fast way.")
    assert list(inspect.signature(twice_).parameters) == ["x", "by"]


@pytest.mark.usefixtures("falls_back")
def test_a_failure_names_the_operation_and_the_reference_runs_once_it_is_given_up() -> None:
    with pytest.raises(dispatch.KernelFailed) as caught:
        twice_(X, 0)
    assert str(caught.value) == "twice: no C compiler"
    with dispatch.using(dispatch.AUTO.given_up(str(caught.value))):
        assert twice_(X, 0) == "reference 0"


def test_every_reference_takes_what_its_operation_takes() -> None:
    """Names and defaults, so that a call means the same either way."""
    count = 0
    for found in pkgutil.walk_packages(kernels.__path__, "kernels."):
        if found.name.endswith("__main__"):
            continue
        module = import_module(found.name)
        for name, value in vars(module).items():
            launch = getattr(value, "__wrapped__", None)
            if getattr(value, "__module__", "") != found.name or not inspect.isfunction(launch):
                continue
            ref = name.removesuffix("_") + "_ref" + "_" * name.endswith("_")
            if (reference := getattr(module, ref, None)) is not None:
                count += 1
                assert inspect.signature(value) == inspect.signature(reference), name
    assert count >= 19
