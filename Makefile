PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
PYTEST := $(BIN)/python -m pytest
PARALLEL := -n auto --dist worksteal
FUZZ_SECONDS ?= 60
SOAK_SECONDS ?= 900
# Each process of pytest would compile all tests and plugins again: 12 s in each worker, 1.6 s in others.
export PYTHONDONTWRITEBYTECODE =

.PHONY: install run test test-all test-clients test-go-suites docs tables ui screenshots lint fmt bench soak fuzz fuzz-server generate dist clean

install: $(VENV)/.installed

run: install
	@$(BIN)/kapiserver serve $(ARGS)

test: $(VENV)/.tests-installed
	$(PYTEST) $(PARALLEL) -m "not slow" $(ARGS)

test-all: $(VENV)/.tests-installed
	$(PYTEST) $(PARALLEL) $(ARGS)

test-clients: $(VENV)/.tests-installed
	$(BIN)/python -m pytest tests/clients $(ARGS)

test-go-suites: $(VENV)/.tests-installed
	$(BIN)/python -m tests.clients.go_suites $(ARGS)

docs: tables
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict $(ARGS)
	@echo "The site is in .data/site."

tables: $(VENV)/.tests-installed
	$(BIN)/python -m docs.generator

ui:
	cd ui && npm ci && npm run build

screenshots: $(VENV)/.tests-installed
	KAPISERVER_SCREENSHOTS=docs/images/ui $(PYTEST) -n 0 tests/ui/test_screenshots.py tests/ui/test_recording.py

lint: $(VENV)/.tests-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/sizes.py

fmt: $(VENV)/.tests-installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.tests-installed
	$(BIN)/python -m tests.bench $(if $(PEER),--peer $(PEER)) $(ARGS)

fuzz: $(VENV)/.tests-installed
	$(BIN)/pip install -q --disable-pip-version-check "atheris>=2.3"
	PYTHONPATH=. $(BIN)/python tests/fuzz/fuzz_decoders.py .data/fuzz/decoders \
		-artifact_prefix=.data/fuzz/ -max_total_time=$(FUZZ_SECONDS) $(ARGS)
	PYTHONPATH=. $(BIN)/python tests/fuzz/fuzz_leaves.py .data/fuzz/leaves -timeout=10 \
		-artifact_prefix=.data/fuzz/ -max_total_time=$(FUZZ_SECONDS) $(ARGS)
	$(BIN)/python -m tests.fuzz.growth

fuzz-server: $(VENV)/.tests-installed
	$(BIN)/python -m tests.fuzz.fuzz_server --seconds $(FUZZ_SECONDS) $(ARGS)

soak: $(VENV)/.tests-installed
	$(BIN)/python -m tests.soak --seconds $(SOAK_SECONDS) $(ARGS)

generate: install
	$(BIN)/python -m kapiserver.api.generate

dist: $(VENV)/.tests-installed
	rm -rf dist .data/dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build --no-isolation --outdir dist
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv .data/dist
	.data/dist/bin/pip install -q --disable-pip-version-check --only-binary=:all: dist/*.whl
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible -o dist/sbom.cdx.json .data/dist/bin/python
	cd dist && sha256sum *.whl *.tar.gz sbom.cdx.json > SHA256SUMS

clean:
	rm -rf $(VENV) .data .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/pip pyproject.toml
	@echo "Installing kapiserver into $(VENV) ..."
	@$(BIN)/pip install -q --disable-pip-version-check --no-warn-script-location -e .
	@$(BIN)/python -m compileall -q kapiserver
	@touch $@

$(VENV)/.tests-installed: $(VENV)/.installed tests/e2e/binaries.py tests/clients/toolchains.py
	@echo "Installing the test and lint tools into $(VENV) ..."
	@$(BIN)/pip install -q --disable-pip-version-check --no-warn-script-location -e ".[test,lint]"
	@$(BIN)/python tests/e2e/binaries.py $(VENV)/tools
	@$(BIN)/python -m tests.clients.toolchains
	-@$(PYTEST) --collect-only -qq > /dev/null # compiles the tests once, instead of in each worker
	@touch $@
