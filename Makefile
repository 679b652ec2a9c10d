# Two commands do all set-up: `make demo` speaks the sample manifest, `make test` runs the suite.
PYTHON ?= python3
TORCH ?= torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint clean

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
	$(BIN)/python -m pytest -q --durations=10

clean:
	rm -rf $(VENV) wavs build dist *.egg-info
