# Unrolled: `make` lists the targets, `make book` shows the book, `make test` checks everything.
# Each target is a verb of book/verbs, which `python -m book` runs without make as well. All that are
# asked for go to one run of it, with the values (PORT=8000) in its environment.
PYTHON ?= python3
GOALS := $(or $(MAKECMDGOALS),help)
FIRST := $(firstword $(GOALS))

.PHONY: $(GOALS)
$(FIRST):
	@$(PYTHON) -m book $(GOALS)
$(filter-out $(FIRST),$(GOALS)): $(FIRST) ; @:
