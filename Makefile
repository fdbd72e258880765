# `make test` sets up what the tests need and runs them all; `make unit` those that need nothing else.
PYTHON  ?= python3
TEST    := .test
VENV    := $(TEST)/venv
PYTEST  := LLMBX_TEST_ROOT=$(abspath $(TEST)) $(VENV)/bin/python -m pytest
# Many integration tests wait most of the time: one process more than there are cores.
CORES   := $(shell nproc 2>/dev/null || echo 2)
WORKERS ?= $(shell expr $(CORES) + 1)

.PHONY: test unit lint release clean

test: unit
	$(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS) tests/integration

unit: $(VENV)/.ready
	@rm -f $(TEST)/groups.json
	$(PYTEST) -n $(CORES) --ignore tests/integration $(PYTEST_ARGS)

lint: $(VENV)/.ready
	$(PYTEST) tests/test_house.py $(PYTEST_ARGS)

# sdist and wheel in dist/, the wheel installed in an empty environment, every entry point loaded.
release: $(VENV)/.ready
	rm -rf dist
	$(VENV)/bin/python -m build --outdir dist .
	tests/release.sh "$(VENV)/bin/python" dist/*.whl

# A real install of the package and of the tests' third-party plugin: what is tested is what a user gets.
$(VENV)/.ready: pyproject.toml $(shell find core plugins tests/fixtures/toy -type f -not -name '*.pyc' 2>/dev/null)
	tests/setup.sh "$(PYTHON)" "$(VENV)"
	touch $@

clean:
	rm -rf $(TEST)
