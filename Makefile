# Every target sets up what it needs; all of them are safe to run again.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# thousands of processes import the same modules: let the first of them keep the bytecode
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo check test test-spark faults kernels classes jars browser flink lint bench docs pictures clean

help: ## show what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/'

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,plot,docs,real,kafka,delta,postgres,redis,peers]"
	@touch $(STAMP)

setup: $(STAMP) ## create .venv with everything

demo: setup ## watch Spark rank a lively stock market for a minute, here and on a page
	$(BIN)/skyband demo --serve 0

lint: setup ## style, types, import direction
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/mypy
	$(BIN)/lint-imports

kernels: setup ## compile the kernels that tests load; does nothing if they are there
	$(BIN)/python -m tests.compiling

classes: setup ## archive the classes of Spark, so that it starts sooner in tests
	$(BIN)/python -m tests.java

jars: setup ## fetch the jars that tests need: a broker of Kafka, and connectors of Spark
	$(BIN)/python -m tests.servers

browser: setup ## fetch what tests of the page need: Chromium, unless it is here, and axe-core
	$(BIN)/python -m tests.page.browser

FLINK := .venv-flink

$(FLINK)/.installed: benchmarks/peers/flink-requirements.txt
	$(PYTHON) -m venv $(FLINK)
	$(FLINK)/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/peers/flink-requirements.txt
	@touch $@

flink: setup $(FLINK)/.installed ## fetch Flink into .venv-flink, for skyband bench peers
	$(BIN)/python -m benchmarks.peers.flink

check: setup lint kernels browser ## for everyday work: lint, and all tests that need no Spark
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not spark"

faults: setup kernels classes jars ## kill drivers five times at each sink, damage checkpoints, lose workers, send signals
	SKYBAND_KILLS=5 $(BIN)/python -m pytest -q -n 2 --dist worksteal tests/faults tests/spark/test_signals.py

test: setup lint kernels classes jars browser ## everything: lint, the suite compiled, the kernels interpreted
	$(BIN)/python -m pytest -q -n 2 --dist worksteal
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not cli and not compiled and not spark" \
		--cov=src/skyband/kernels --cov=src/skyband/topk --cov=src/skyband/workload \
		--cov=src/skyband/dominating --cov=src/skyband/incomplete --cov=src/skyband/totals \
		--cov-report=term:skip-covered --cov-fail-under=95 \
		tests/test_engine.py tests/test_grid.py tests/test_papers.py tests/test_partitions.py tests/test_properties.py \
		tests/test_workload.py tests/test_workload_queries.py tests/test_point_window.py \
		tests/test_dominating.py tests/test_dominating_approximate.py \
		tests/test_dominating_paper.py tests/test_pane_counts.py tests/test_incomplete.py \
		tests/test_incomplete_paper.py tests/test_incomplete_sketch.py \
		tests/test_incomplete_approximate.py tests/test_totals.py tests/test_totals_exact.py \
		tests/test_totals_also.py tests/test_totals_order.py tests/test_rank_by.py \
		tests/test_dominating_ranks.py tests/test_incomplete_ranks.py tests/test_group_best.py \
		tests/spark/test_packed.py

SPARK ?= 4.3.0
OTHER := .venv-spark-$(SPARK)

$(OTHER)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(OTHER)
	sed 's/^pyspark==.*/pyspark==$(SPARK)/' constraints.txt > $(OTHER)/constraints.txt
	$(OTHER)/bin/python -m pip install --quiet --disable-pip-version-check \
		-c $(OTHER)/constraints.txt -e ".[dev,plot,kafka,delta,postgres,redis]"
	@touch $@

test-spark: $(OTHER)/.installed ## the Spark suite on another release: make test-spark SPARK=4.3.0
	$(OTHER)/bin/python -m tests.compiling
	$(OTHER)/bin/python -m tests.java
	$(OTHER)/bin/python -m tests.servers
	$(OTHER)/bin/python -m pytest -q -n 2 --dist worksteal tests/spark tests/faults

bench: setup ## the benchmarks, quick: published figures beside ours
	$(BIN)/skyband bench spark --quick
	$(BIN)/skyband bench scan --quick
	$(BIN)/skyband bench paper sap --quick
	$(BIN)/skyband bench paper mintopk --quick
	$(BIN)/skyband bench paper mtops --quick
	$(BIN)/skyband bench paper dominating --quick
	$(BIN)/skyband bench paper incomplete --quick

docs: setup ## build the documentation site into site/
	$(BIN)/mkdocs build --strict

pictures: setup browser ## take the pictures of page and terminal anew, into docs/images
	$(BIN)/python -m tests.page.pictures

clean: ## remove what was made
	rm -rf $(VENV) .venv-spark-* $(FLINK) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
