"""The modules of the sample voice's recipe, which are scripts in a folder rather than a package."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from workbench import described_once

RECIPE = Path(__file__).parents[2] / "samples" / "voice" / "recipe"


_described_once = pytest.fixture(autouse=True, scope="session")(described_once)


@pytest.fixture(scope="session")
def recipe() -> Callable[[str], ModuleType]:
    """Loads a module of the recipe by name, once.

    The names (`config`, `data`, ...) are common, so they are in sys.modules only while loading.
    """
    names = {path.stem for path in RECIPE.glob("*.py")}
    loaded: dict[str, ModuleType] = {}

    def load(name: str) -> ModuleType:
        if name in loaded:
            return loaded[name]
        hidden = {key: sys.modules.pop(key) for key in names if key in sys.modules}
        sys.modules.update(loaded)
        sys.path.insert(0, str(RECIPE))
        try:
            importlib.import_module(name)
        finally:
            sys.path.remove(str(RECIPE))
            for key in names & set(sys.modules):
                loaded[key] = sys.modules.pop(key)
            sys.modules.update(hidden)
        return loaded[name]

    return load


@pytest.fixture(scope="session")
def voice_folder() -> Path:
    """The sample voice: checkpoint, recipe, README."""
    return RECIPE.parent
