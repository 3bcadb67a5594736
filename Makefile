PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
HISTORIES ?= 1
OPERATIONS ?= 400
IMAGES ?= 100000
SECONDS ?= 3600
SEED ?=
EACH ?= 0
SETS ?= 50
FOUND ?= fuzz-found
PACKAGE ?= parsers
SAMPLE ?= 120
WORKERS ?= 1
KERNELS ?=
RECIPES ?=
CONSTRAINTS ?=
PYTHONS ?=

.PHONY: help constraints demo check lint test test-all test-bare test-docker test-next test-pythons fuzz-kernel truth nist fuzz
.PHONY: fuzz-containers fuzz-coverage fuzz-cut-images fuzz-options fuzz-powercut fuzz-bad-sectors images-by-kernel names proof
.PHONY: mutation bench bench-growth bench-journal bench-memory bench-peers bench-scan bench-tasks screenshots man
.PHONY: reference docs clean saving wiped media workloads wheel sbom

help:
	@echo "make demo       show what a sample image holds and bring its deleted files back"
	@echo "make check      linters, types and the tests that mount nothing: for the edit loop"
	@echo "make test       linters, types and the tests, of the slow ones one of each kind"
	@echo "make test-all   the same with every slow test (full-size images, a Debian system)"
	@echo "make test-bare  the two commands of the README in bare Debian systems (as root)"
	@echo "make test-pythons   rootless tests and the demo on each Python, oldest and newest libraries"
	@echo "make test CONSTRAINTS=constraints.txt   with exactly the libraries of the last tested set"
	@echo "make constraints   write constraints.txt anew: the newest libraries, with their hashes"
	@echo "make test-next  the same with pre-releases of libraries, on the newest Python"
	@echo "make fuzz-kernel KERNELS=\"host 5.10\" HISTORIES=n OPERATIONS=n SEED=n"
	@echo "                random histories of each layout, judged, on each kernel"
	@echo "make images-by-kernel KERNELS=\"5.10 6.1\" RECIPES=names   into build/images/KERNEL"
	@echo "make truth HISTORIES=n JOBS=n   the same, JOBS at once; the counts go into docs/truth.md"
	@echo "make names      names of deleted files by kernel, of the images in build/images; docs/names.md"
	@echo "make saving     old contents of files that were saved over; docs/saved-over.md (as root)"
	@echo "make wiped      files of disks whose start is gone, beside e2fsck; docs/wiped-start.md (root)"
	@echo "make media      media, archives and databases without a map, beside PhotoRec; docs/media.md (root)"
	@echo "make workloads  what comes back of files of the classic benchmarks; docs/workloads.md (as root)"
	@echo "make nist       NIST's cases of deleted file recovery, judged; fills docs/nist.md"
	@echo "make proof SEED=n   every record of all recipes, judged by ext4check.py; fills docs/proof.md"
	@echo "make fuzz-powercut SECONDS=s SEED=n   power cuts between any two writes, judged"
	@echo "make fuzz-bad-sectors SECONDS=s SEED=n   disks with bad sectors, judged"
	@echo "make fuzz IMAGES=n SECONDS=s SEED=n EACH=n FOUND=folder   damaged images through all commands"
	@echo "make fuzz-containers IMAGES=n SEED=n   damaged containers and volume managers; needs their tools"
	@echo "make fuzz-cut-images IMAGES=n SEED=n   images as power cuts leave them through all commands"
	@echo "make fuzz-coverage SECONDS=s FOUND=folder   the same, guided by coverage (installs atheris)"
	@echo "make fuzz-options SETS=n SEED=n   file systems of random features, read and judged"
	@echo "make mutation PACKAGE=name SAMPLE=n SEED=n WORKERS=n   which small wrong changes tests notice"
	@echo "make screenshots  pictures of the report, for the documentation (needs chromium)"
	@echo "make test-docker  the steps of the Dockerfile in a minimal Debian (root, debootstrap)"
	@echo "make man        manual pages and completion scripts in share, from the program"
	@echo "make wheel      the wheel in build/wheel; the same bytes from the same commit"
	@echo "make sbom       the libraries of constraints.txt as CycloneDX, in build/sbom.json"
	@echo "make docs       the documentation as a site in build/site"
	@echo "make reference  docs/commands.md, records.md and reasons.md, from the code"
	@echo "make bench      compare the speed with the tools of today"
	@echo "make bench-growth   time and memory with 10,000 to 5,000,000 files; docs/growth.md"
	@echo "make bench-journal  audit a log of 1 GiB, beside a plain cat"
	@echo "make bench-memory   peak memory on 2 million files, 300,000 deleted ones and a log of 1 GiB"
	@echo "make bench-peers    what other tools bring back where the journal has nothing"
	@echo "make bench-tasks    everyday tasks on a disk of 10 GiB and a Debian server; docs/tasks.md"
	@echo "make bench-scan     read 4 GiB of freed space, beside a plain cat"

$(STAMP): pyproject.toml $(CONSTRAINTS)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
ifdef CONSTRAINTS
	$(BIN)/python -m pip install --quiet --require-hashes --requirement $(CONSTRAINTS)
	$(BIN)/python -m pip install --quiet --no-build-isolation --no-deps --editable .
else
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
endif
	touch $(STAMP)

constraints: $(STAMP)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
		--no-annotate --extra dev --custom-compile-command "make constraints" \
		--output-file constraints.txt pyproject.toml

# Times in the wheel are those of the last commit.
wheel: $(STAMP)
	rm -rf build/lib build/bdist.* build/wheel
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m pip wheel --quiet --no-deps \
		--no-build-isolation --wheel-dir build/wheel .

sbom:
	$(PYTHON) -m venv build/sbom-tools
	build/sbom-tools/bin/python -m pip install --quiet cyclonedx-bom
	build/sbom-tools/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible \
		--output-format JSON --output-file build/sbom.json constraints.txt

demo: $(STAMP)
	$(BIN)/python -m sample_images.demo

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m compileall -q ext4kit sample_images tests  # once, not at each start

check: lint
	$(BIN)/python -m pytest -m "not kernel and not slow" --quick

test: lint
	$(BIN)/python -m tests $(if $(SEED),--seed $(SEED))

test-all: lint
	$(BIN)/python -m tests --all --timeout 3600

test-bare: $(STAMP)
	$(BIN)/python -m tests.bare

fuzz-kernel: $(STAMP)
	$(BIN)/python -m sample_images.kernels.histories $(or $(KERNELS),host) \
		--histories $(HISTORIES) --operations $(OPERATIONS) --seed $(or $(SEED),1)

images-by-kernel: $(STAMP)
	$(BIN)/python -m sample_images.kernels.images $(KERNELS) --recipes $(RECIPES)

truth: $(STAMP)
	$(BIN)/python -m sample_images.recipes.random_history --histories $(HISTORIES) \
		--operations $(OPERATIONS) --seed $(or $(SEED),1) --jobs $(or $(JOBS),1) \
		--page docs/truth.md

nist: $(STAMP)
	$(BIN)/python -m sample_images.recipes.nist --page docs/nist.md

saving: $(STAMP)
	$(BIN)/python -m sample_images.recipes.saving --page docs/saved-over.md

wiped: $(STAMP)
	$(BIN)/python -m sample_images.recipes.wiped --page docs/wiped-start.md

workloads: $(STAMP)
	$(BIN)/python -m sample_images.recipes.workloads --page docs/workloads.md

media: $(STAMP)
	$(BIN)/python -m sample_images.recipes.media --page docs/media.md

proof: $(STAMP)
	$(BIN)/python -m sample_images.recipes.proof --seed $(or $(SEED),1) --page docs/proof.md

names: $(STAMP)
	$(BIN)/python -m sample_images.kernels.names $(wildcard build/images/*) --page docs/names.md

fuzz-powercut: $(STAMP)
	$(BIN)/python -m tests.powercut --seconds $(SECONDS) --seed $(or $(SEED),1)

fuzz-bad-sectors: $(STAMP)
	$(BIN)/python -m tests.recovery.bad_sectors --seconds $(SECONDS) --seed $(or $(SEED),1)

fuzz: $(STAMP)
	$(BIN)/python -m tests.fuzz --count $(IMAGES) --seconds $(SECONDS) --seed $(or $(SEED),0) \
		--each $(EACH) --found $(FOUND)

fuzz-containers: $(STAMP)
	$(BIN)/python -m tests.fuzz --containers --count $(IMAGES) --seconds $(SECONDS) \
		--seed $(or $(SEED),0) --found $(FOUND)

fuzz-cut-images: $(STAMP)
	$(BIN)/python -m tests.fuzz --powercut --lines --count $(IMAGES) --seconds $(SECONDS) \
		--seed $(or $(SEED),0) --found $(FOUND)

fuzz-options: $(STAMP)
	$(BIN)/python -m tests.filesystem.options --sets $(SETS) $(if $(SEED),--seed $(SEED))

fuzz-coverage: $(STAMP)
	$(BIN)/python -m pip install --quiet --editable '.[fuzz]'
	$(BIN)/python -m tests.fuzz.coverage --found $(FOUND) -max_total_time=$(SECONDS)

mutation: $(STAMP)
	$(BIN)/python -m pip install --quiet --editable '.[mutation]'
	$(BIN)/python -m tests.mutation $(PACKAGE) --sample $(SAMPLE) --workers $(WORKERS) \
		$(if $(SEED),--seed $(SEED))

screenshots: $(STAMP)
	$(BIN)/python -m sample_images.screenshots

test-pythons: $(STAMP)
	$(BIN)/python -m tests.pythons $(PYTHONS)

test-next: $(STAMP)
	$(BIN)/python -m tests.pythons --only newest --libraries next

test-docker: $(STAMP)
	$(BIN)/python -m tests.bare.dockerfile

man: $(STAMP)
	$(BIN)/python -m ext4kit.cli.manual share share

reference: $(STAMP)
	$(BIN)/python -m ext4kit.cli.manual markdown docs

docs: reference
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	$(BIN)/mkdocs build --strict --site-dir build/site

bench: $(STAMP)
	$(BIN)/python -m benchmarks.run

bench-growth: $(STAMP)
	$(BIN)/python -m benchmarks.growth --json benchmarks/growth.json --page docs/growth.md

bench-journal: $(STAMP)
	$(BIN)/python -m benchmarks.journal

bench-memory: $(STAMP)
	$(BIN)/python -m benchmarks.memory

bench-peers: $(STAMP)
	$(BIN)/python -m benchmarks.peers

bench-tasks: $(STAMP)
	mkdir -p build/tasks
	test -e build/tasks/disk.img || $(BIN)/python -m sample_images.kernels 7.2 -- \
		$(BIN)/python -m benchmarks.tasks_image build/tasks/disk.img
	test -e build/tasks/debian.img || $(BIN)/python -m sample_images.recipes build debian \
		-o build/tasks
	$(BIN)/python -m benchmarks.tasks --disk build/tasks/disk.img \
		--debian build/tasks/debian.img --page docs/tasks.md

bench-scan: $(STAMP)
	$(BIN)/python -m benchmarks.scan

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache
