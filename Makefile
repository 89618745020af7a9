# Everything a reader or a contributor runs. `make demo` and `make test` work alone on a fresh clone: they make .venv first.
# Needs Python 3.11 or newer; Go only for what compares with the real kube-scheduler.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c

VENV := .venv
BIN := $(VENV)/bin

# The interpreter for .venv; by default the newest one found that can make a virtual environment.
PYTHON ?=
# What the demo runs.
DEMO ?= compare -f examples/bookshop/simulation.yaml --duration 12h --seeds 2 --results build/bookshop
# Further arguments of pytest, such as PYTEST_ARGS="tests/scheduler -x".
PYTEST_ARGS ?=
# Further arguments of the benchmark, conformance and differential drivers.
ARGS ?=
# Further arguments of the benchmark of the virtual cluster, such as CLUSTER_ARGS="--nodes 200 --no-memory".
CLUSTER_ARGS ?=

SHIPPED := scheduler autoscaling operator

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# ---- environment --------------------------------------------------------------------------------------------------------------

# The pinned packages, checked by hash. A new set of pins means a new environment.
$(VENV)/.pins: constraints.txt
	@python=; \
	for name in $(or $(PYTHON),python3.14 python3.13 python3.12 python3.11 python3 python); do \
	  if "$$name" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then python=$$name; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "make: $(if $(PYTHON),$(PYTHON) is not,nothing on PATH is) Python 3.11 or newer with the venv module; set PYTHON=/path/to/python3" >&2; exit 1; \
	fi; \
	echo "setting up $(VENV) with $$("$$python" --version)" >&2; \
	"$$python" -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r constraints.txt
	@touch $@

# Stowplan itself, editable: only its metadata and entry point are installed, nothing is fetched.
$(VENV)/.installed: $(VENV)/.pins pyproject.toml
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: venv
venv: $(VENV)/.installed ## the virtual environment .venv with pinned versions

IMAGE_LOCK := --constraint constraints.txt --universal --python-version 3.11 --fork-strategy fewest --generate-hashes \
  --no-header --no-annotate --no-emit-index-url --quiet
.PHONY: lock
lock: ## write constraints.txt anew from pyproject.toml (needs uv)
	uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --fork-strategy fewest --generate-hashes \
	  --no-header --no-annotate --no-emit-index-url --quiet --output-file constraints.txt $(ARGS)
	sed -i.old '1i # Written by "make lock" from pyproject.toml; used with pip install --require-hashes.' constraints.txt && rm constraints.txt.old
	@# The image's own lists: what Stowplan needs, and what builds it, in the versions of constraints.txt.
	uv pip compile pyproject.toml $(IMAGE_LOCK) --output-file deploy/image/requirements.txt
	echo hatchling | uv pip compile - $(IMAGE_LOCK) --output-file deploy/image/build-requirements.txt

# ---- the main job -------------------------------------------------------------------------------------------------------------

.PHONY: demo
demo: venv ## half a day of the bookshop with two candidates, and the report: build/bookshop/report.html
	@$(BIN)/stowplan $(DEMO)

.PHONY: demo-cluster
demo-cluster: venv ## the bookshop's profile on a real control plane, beside kube-scheduler; about a minute (needs Go; the first build takes minutes)
	@tests/conformance/build.sh rig kwok >/dev/null
	@$(BIN)/python tests/integration/demo_cluster.py $(ARGS)

# ---- checks -------------------------------------------------------------------------------------------------------------------

.PHONY: test
test: venv ## all tests, with coverage
	@$(BIN)/python -m pytest --cov --cov-report=term $(PYTEST_ARGS)

# How many seeds `make soak` runs.
SEEDS ?= 1000

.PHONY: soak
soak: venv ## the fault simulation of workers (SEEDS=1000, crash points, pairs of them), then 58 tests of deaths and outages on a real control plane; half an hour
	@PYTHONPATH=tests $(BIN)/python -m worker_simulation --seeds $(SEEDS) --keep-going $(ARGS)
	@PYTHONPATH=tests $(BIN)/python -m worker_simulation.crash_points
	@STOWPLAN_FAULT_SEEDS=10 $(BIN)/python -m pytest -q --no-cov tests/integration/test_worker_faults.py tests/integration/test_operator_faults.py

.PHONY: lint
lint: venv ## ruff, mypy and the layer contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

.PHONY: format
format: venv ## let ruff format and fix what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# ---- what is generated ----------------------------------------------------------------------------------------------------------

.PHONY: crds
crds: venv ## write crds/ anew from the models in operator/ and autoscaling/
	@$(BIN)/python -m stowplan_operator.resources crds crds

# ---- the real kube-scheduler, controllers and control plane ----------------------------------------------------------------------

.PHONY: oracle
oracle: ## build the real kube-scheduler, controllers, control plane and kwok that tests ask (needs Go)
	@tests/conformance/build.sh

.PHONY: study
study: venv ## the study on recorded demand and real prices, about ten minutes: docs/study.md (needs the shared data)
	@docs/study/run.sh $(BIN)/stowplan $(ARGS)

.PHONY: conformance
conformance: venv ## compare with the recorded answers: tag, scenarios, identical, different, unsupported
	@$(BIN)/python tests/conformance/run.py $(ARGS)

.PHONY: differential
differential: venv ## compare with the real kube-scheduler and controllers on fresh random scenarios (needs Go)
	@tests/conformance/build.sh oracle controllers >/dev/null
	@$(BIN)/python tests/conformance/differential.py $(ARGS)

.PHONY: bench
bench: venv ## the tables of speeds, beside the real kube-scheduler and controllers where Go is present
	@tests/conformance/build.sh bench controllers >/dev/null || [ $$? -eq 3 ]
	@$(BIN)/python tests/benchmarks/run.py $(ARGS)
	@$(BIN)/python tests/benchmarks/cluster_rate.py $(CLUSTER_ARGS)
	@$(BIN)/python tests/benchmarks/supply_rate.py karpenter
	@$(BIN)/python tests/benchmarks/supply_rate.py cluster-autoscaler

.PHONY: bench-worker
bench-worker: venv ## pods per second of kube-scheduler and a worker in turn, on a real control plane: five to ten minutes (needs Go)
	@tests/conformance/build.sh rig >/dev/null
	@$(BIN)/python tests/benchmarks/worker_rate.py $(ARGS)

.PHONY: live-check
live-check: venv ## predict, then observe a real HPA, scheduler and Karpenter: docs/live-check.md (needs Go, openssl; 15 minutes)
	@tests/conformance/build.sh rig >/dev/null
	@tests/live/build.sh --missing >/dev/null
	@$(BIN)/python tests/live/run.py $(ARGS)

# Another base than the one that is made of Debian's packages: make image-check BASE=python:3.13-slim.
BASE ?=

.PHONY: image-check
image-check: venv ## build the image and run its pods on a real control plane (Linux, root, podman; needs Go; 10 minutes)
	@tests/conformance/build.sh rig >/dev/null
	@tests/image/build.sh $(BASE)
	@STOWPLAN_CONTAINERS=podman tests/image/run.sh $(BIN)/python -m pytest --no-cov -q tests/image/checks.py \
	  tests/integration/test_worker_deployments.py \
	  tests/integration/test_given_cluster.py::test_all_that_runs_on_any_cluster_passes_on_one_with_stowplan_in_it $(ARGS)

.PHONY: clean
clean: ## remove the environment, caches and results
	rm -rf $(VENV) build dist .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find $(SHIPPED) tests -name __pycache__ -type d -prune -exec rm -rf {} +
