# Two commands do all set-up: `make demo` speaks the sample manifest, `make test` runs the suite.
PYTHON ?= python3
TORCH ?= torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin

# On all cores, eight at most (a worker takes 1 GB); in one process where a GPU is (tests/conftest.py).
PYTEST := $(BIN)/python -m pytest -q -n auto --maxprocesses 8 --dist worksteal

.PHONY: demo test quick long clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# torch first and by itself: a later range is then already satisfied and fetches nothing more.
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -c "import torch" 2>/dev/null || $(BIN)/pip install --quiet "$(TORCH)"
	$(BIN)/pip install --quiet --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/pip install --quiet --editable ".[dev]"
	touch $@

demo: $(VENV)/.installed
	$(BIN)/tts-cli synth samples/manifest.jsonl --out wavs

test: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(PYTEST) -m "not long" --durations=10

# Within a minute: no whole commands, no recipe, no file marked `slow`.
quick: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(PYTEST) -m "not slow and not long" --ignore tests/e2e --ignore tests/samples

# pytest answers 5 where nothing is marked `long`.
long: $(VENV)/.installed-dev
	$(PYTEST) -m long --durations=10 || test $$? = 5

clean:
	rm -rf $(VENV) wavs build dist *.egg-info
