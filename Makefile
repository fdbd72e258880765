# `make test` sets up what the tests need and runs them all; `make unit` those that need nothing else and are quick.
PYTHON  ?= python3
TEST    := .test
VENV    := $(TEST)/venv
PYTEST  := LLMBX_TEST_ROOT=$(abspath $(TEST)) $(VENV)/bin/python -m pytest
# Many tests wait most of the time: one process more than there are cores.
CORES   := $(shell nproc 2>/dev/null || echo 2)
WORKERS ?= $(shell expr $(CORES) + 1)
# mypy takes a processor for a quarter of a minute: `make lint` and `make test` run it, `make unit` does not.
TYPES   := tests/test_house.py::test_types

.PHONY: test unit lint mutants fuzz predict-calibration predict-errors explain-faults upstream-rows docs docs-release pictures images release clean

test: unit
	$(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS) $(TYPES) tests/integration tests/thorough

unit: $(VENV)/.ready
	@rm -f $(TEST)/groups.json
	$(PYTEST) -n $(WORKERS) --dist worksteal --ignore tests/integration --ignore tests/thorough --deselect $(TYPES) $(PYTEST_ARGS)

lint: $(VENV)/.ready
	$(PYTEST) tests/test_house.py $(PYTEST_ARGS)

# Mistakes made in the source, one at a time: do the nearest unit tests catch them? MUTANTS="3 4" or "--only run": some.
mutants: $(VENV)/.ready
	$(VENV)/bin/python -m tests.mutants $(MUTANTS)

# Valid files with single values changed, 10,000 of each kind, given to a verb or two that read them: about an hour.
fuzz: $(VENV)/.ready
	$(VENV)/bin/python -m tests.fuzz_values $(KINDS)

# The factors of predictions' intervals, from the table; PREDICT_DATA: the folder that docs/prediction.md describes.
predict-calibration: $(VENV)/.ready
	OPENBLAS_NUM_THREADS=1 $(VENV)/bin/python benchmarks/predict/calibrate.py 0 $(PREDICT_DATA)

# The errors of predictions with whole groups left out, into docs/prediction.md: about six minutes.
predict-errors: $(VENV)/.ready
	OPENBLAS_NUM_THREADS=1 $(VENV)/bin/python benchmarks/predict/by_group.py --write
	OPENBLAS_NUM_THREADS=1 $(VENV)/bin/python benchmarks/predict/errors.py $(PREDICT_DATA) --write

# Faults injected into small trainings, and what `llmbx explain` says of them: 62 faults and 80 healthy runs, about
# half an hour, as root on a machine with two cores and more. Ended and started again, it continues.
# FAULTS="--only disk,threads --healthy 1": some. FAULT_LISTS=unseen: others of the same kinds.
FAULTS ?= --healthy 20
FAULT_LISTS ?= tuning held_out
explain-faults: $(VENV)/.ready
	for list in $(FAULT_LISTS); do \
	  $(VENV)/bin/python benchmarks/explain/record.py benchmarks/explain/$$list.toml $(TEST)/explain $(FAULTS) && \
	  $(VENV)/bin/python benchmarks/explain $(TEST)/explain/$$list.json --markdown $(TEST)/explain/$$list.md || exit 1; \
	done

# The documentation as a site in build/site; dead links are errors.
docs: $(TEST)/docs/.ready
	NO_MKDOCS_2_WARNING=1 $(TEST)/docs/bin/mkdocs build --strict

# Upstream's final configurations of all rows of the catalog and of exemplar-performance, by its executed program:
# BRIDGE is a checkout of Megatron-Bridge v0.6.0, MLPERF one of f21e0c891ec0, BRIDGE_PYTHON that of megatron-bridge-0.6-cpu.
upstream-rows: $(VENV)/.ready
	$(VENV)/bin/python benchmarks/upstream_rows.py $(BRIDGE) $(BRIDGE_PYTHON) $(MLPERF)
	$(VENV)/bin/python benchmarks/compare_exemplar.py $(BRIDGE) $(BRIDGE_PYTHON) $(MLPERF) > $(TEST)/compared.csv
	mv $(TEST)/compared.csv tests/plugins/nemo/exemplar_compared.csv

# The pictures of the README, recorded from a real run; needs Chromium.
pictures: $(VENV)/.ready
	LLMBX_TEST_ROOT=$(abspath $(TEST)) $(VENV)/bin/python docs/pictures.py

# The images of the CPU environments, built by Apptainer and trained in; containers/built.txt keeps the last results.
images: $(VENV)/.ready
	CI=true LLMBX_RECORD_IMAGES=$(abspath containers/built.txt) $(PYTEST) -k apptainer \
	  tests/integration/containers/test_built_images.py $(PYTEST_ARGS)

# Add this version to the sites of all versions, as a commit on the local branch gh-pages.
docs-release: docs
	PATH="$(abspath $(TEST)/docs/bin):$$PATH" NO_MKDOCS_2_WARNING=1 mike deploy --update-aliases \
	  "$$(sed -n 's/^__version__ = "\(.*\)"/\1/p' core/llmbx/__init__.py)" latest
	PATH="$(abspath $(TEST)/docs/bin):$$PATH" mike set-default latest

# sdist and wheel in dist/; the wheel is tried alone, in an empty environment of each Python.
release: $(VENV)/.ready
	rm -rf dist
	$(VENV)/bin/python -m build --outdir dist .
	LLMBX_WHEEL="$$(echo dist/*.whl)" $(PYTEST) tests/integration/test_wheel.py

$(TEST)/docs/.ready: docs/requirements.txt
	$(PYTHON) -m venv $(TEST)/docs
	$(TEST)/docs/bin/python -m pip install --quiet --disable-pip-version-check -r docs/requirements.txt
	touch $@

# A real install of the package and of the tests' third-party plugin: what is tested is what a user gets.
$(VENV)/.ready: pyproject.toml $(shell find core plugins tests/fixtures/toy -type f -not -name '*.pyc' 2>/dev/null)
	tests/setup.sh "$(PYTHON)" "$(VENV)"
	touch $@

clean:
	rm -rf $(TEST)
