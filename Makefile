PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
HISTORIES ?= 1
OPERATIONS ?= 400
IMAGES ?= 100000
SECONDS ?= 3600
SEED ?= 0
EACH ?= 0
FOUND ?= fuzz-found
# The kernel decides when it commits and where it writes, so no two images are the same: what
# fails is run once more, on images made anew, and both outcomes stand in the output.
AGAIN = $(BIN)/python -m pytest --last-failed --last-failed-no-failures none

.PHONY: help demo test test-long fuzz-kernel fuzz fuzz-coverage bench bench-journal bench-peers
.PHONY: bench-scan screenshots man reference docs clean

help:
	@echo "make demo       show what a sample image holds and bring its deleted files back"
	@echo "make test       ruff, mypy, import-linter and the tests"
	@echo "make test-long  the tests that take long too (full-size images, a Debian system)"
	@echo "make fuzz-kernel HISTORIES=n OPERATIONS=n   random histories of each layout, judged"
	@echo "make fuzz IMAGES=n SECONDS=s SEED=n EACH=n FOUND=folder   damaged images through all commands"
	@echo "make fuzz-coverage SECONDS=s FOUND=folder   the same, guided by coverage (installs atheris)"
	@echo "make screenshots  pictures of the report, for the documentation (needs chromium)"
	@echo "make man        a manual page for each command in build/man"
	@echo "make docs       the documentation as a site in build/site"
	@echo "make reference  docs/commands.md and docs/records.md, from help and schemas"
	@echo "make bench      compare the speed with the tools of today"
	@echo "make bench-journal  audit a log of 1 GiB, beside a plain cat"
	@echo "make bench-peers    what other tools bring back where the journal has nothing"
	@echo "make bench-scan     read 4 GiB of freed space, beside a plain cat"

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/python -m sample_images.demo

test: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m compileall -q ext4kit sample_images  # once, and not at each start of a command
	$(BIN)/python -m pytest || $(AGAIN)

test-long: $(STAMP)
	EXT4KIT_SLOW=1 $(BIN)/python -m pytest --timeout 3600 || EXT4KIT_SLOW=1 $(AGAIN)

fuzz-kernel: $(STAMP)
	$(BIN)/python -m sample_images.recipes.random_history \
		--histories $(HISTORIES) --operations $(OPERATIONS)

fuzz: $(STAMP)
	$(BIN)/python -m tests.fuzz --count $(IMAGES) --seconds $(SECONDS) --seed $(SEED) \
		--each $(EACH) --found $(FOUND)

fuzz-coverage: $(STAMP)
	$(BIN)/python -m pip install --quiet --editable '.[fuzz]'
	$(BIN)/python -m tests.fuzz.coverage --found $(FOUND) -max_total_time=$(SECONDS)

screenshots: $(STAMP)
	$(BIN)/python -m sample_images.screenshots

man: $(STAMP)
	$(BIN)/python -m ext4kit.cli.manual man build/man

reference: $(STAMP)
	$(BIN)/python -m ext4kit.cli.manual markdown docs

docs: reference
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	$(BIN)/mkdocs build --strict --site-dir build/site

bench: $(STAMP)
	$(BIN)/python -m benchmarks.run

bench-journal: $(STAMP)
	$(BIN)/python -m benchmarks.journal

bench-peers: $(STAMP)
	$(BIN)/python -m benchmarks.peers

bench-scan: $(STAMP)
	$(BIN)/python -m benchmarks.scan

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache
