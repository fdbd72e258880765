# `make test` sets up what the tests need and runs them all.
PYTHON ?= python3
TEST   := .test
VENV   := $(TEST)/venv

.PHONY: test lint clean

test: $(VENV)/.ready
	LLMBX_TEST_ROOT=$(abspath $(TEST)) $(VENV)/bin/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.ready
	LLMBX_TEST_ROOT=$(abspath $(TEST)) $(VENV)/bin/python -m pytest tests/test_house.py $(PYTEST_ARGS)

# A real install of the package and of the tests' third-party plugin: what is tested is what a user gets.
$(VENV)/.ready: pyproject.toml $(shell find core plugins tests/fixtures/toy -type f -not -name '*.pyc' 2>/dev/null)
	tests/setup.sh "$(PYTHON)" "$(VENV)"
	touch $@

clean:
	rm -rf $(TEST)
