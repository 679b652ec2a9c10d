# Two commands do all set-up: `make demo` speaks the sample manifest, `make test` runs the suite.
# TORCH=cpu takes the CPU build of PyTorch, 0.2 GB instead of some.
# CONSTRAINTS= installs the newest dependencies instead of the newest that were tested.
PYTHON ?= python3
VERSION := 2.13.0
TORCH ?= torch==$(VERSION)
CONSTRAINTS ?= samples/deploy/constraints.txt
VENV := .venv
BIN := $(VENV)/bin

# Only PyTorch's own index has CPU builds for Linux. pip finds them where it is told to look there
# (PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS, pip.conf); uv knows the place by itself.
ifeq ($(TORCH),cpu)
INSTALL_TORCH = $(BIN)/pip install --quiet "torch==$(VERSION)+cpu" 2>/dev/null || \
	{ $(BIN)/pip install --quiet uv && $(BIN)/uv pip install --quiet --python $(BIN)/python \
	--torch-backend cpu "torch==$(VERSION)"; }
else
INSTALL_TORCH = $(BIN)/pip install --quiet "$(TORCH)"
endif

INSTALL = $(BIN)/pip install --quiet $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS))

# On all cores, eight at most (a worker takes 1 GB); in one process where a GPU is (tests/conftest.py).
PYTEST := $(BIN)/python -m pytest -q -n auto --maxprocesses 8 --dist worksteal

# Our modules and the tests' checks are compiled once, not in every process that tests start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test quick long page clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# torch first and by itself: a later range is then already satisfied and fetches nothing more.
$(VENV)/.installed: pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(BIN)/python -c "import torch" 2>/dev/null || { $(INSTALL_TORCH); }
	$(INSTALL) --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(INSTALL) --editable ".[dev]"
	touch $@

demo: $(VENV)/.installed
	$(BIN)/tts-cli synth samples/manifest.jsonl --out wavs

# mypy in two processes where it can (2.4 does, older ones know nothing of it): half the time.
test: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	MYPY_NUM_WORKERS=2 $(BIN)/mypy
	$(PYTEST) -m "not long" --durations=10

# Within a minute, tests of every room (tests/test_quick.py): no whole commands, no recipe, nothing
# marked `slow`.
quick: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(PYTEST) -m "not slow and not long" --ignore tests/e2e --ignore tests/samples

# pytest answers 5 where nothing is marked `long`.
long: $(VENV)/.installed-dev
	$(PYTEST) -m long --durations=10 || test $$? = 5

# The script of the pages is formatted, its types are checked, and page.js is bundled. Needs Node 20.
page:
	cd tts_cli/checks/page/frontend && npm ci --silent && npm run --silent format && \
	npm run --silent check && npm run --silent build

clean:
	rm -rf $(VENV) wavs build dist *.egg-info
