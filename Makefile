# Everything a developer runs. Each target sets up what it needs; a second run finds it there.
#
#   make            make .venv with vmafx, its extras and the tools of the gates; as root on Debian it
#                   also installs the system packages that are missing
#   make help       show this
#   make demo       score a real pair of clips: with a controller and a node, and directly
#   make test       all tests but the soak tests, side by side on all processors, with branch coverage
#   make check      all gates: format, lint, types, layers, dependencies
#   make bench      what starting up, idling and serving cost, as ratios of one run
#   make soak       the long proofs
#   make proto      generate code from proto/
#   make clean      remove what builds and tests leave; distclean removes .venv too
#
# PYTHON=python3.12 chooses the interpreter and VENV=.venv-3.12 another place for it; JOBS=1 has tests and
# gates run one after the other.

VENV ?= .venv
PYTHON ?=
COVERAGE_MIN ?= 94
JOBS ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)

BIN := $(VENV)/bin
READY := $(VENV)/.ready
SYNC := $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
GATES := gate-format gate-lint gate-mypy gate-pyright gate-public gate-layers gate-dependencies gate-proto

.DELETE_ON_ERROR:
.PHONY: setup help demo test check bench soak proto clean distclean $(GATES)

setup: $(READY)

$(READY): pyproject.toml tools/setup.sh
	@sh tools/setup.sh "$(VENV)" "$(PYTHON)"
	@touch "$@"

help:
	@sed -n 's/^#   //p' Makefile

demo: $(READY)
	@"$(BIN)/python" tools/demo.py

test: $(READY)
	"$(BIN)/python" -m pytest --numprocesses=$(JOBS) --dist=worksteal --cov --cov-report=term --cov-fail-under=$(COVERAGE_MIN)

soak: $(READY)
	"$(BIN)/python" -m pytest -m soak --timeout=3600

bench: $(READY)
	@"$(BIN)/python" tools/bench.py

# pyright twice and mypy are most of the time: they share the processors.
check: $(READY)
	@$(MAKE) --no-print-directory --keep-going --jobs=$(JOBS) $(SYNC) $(GATES)

# pyright looks for its packages with the first python on PATH
gate-pyright:
	PATH="$$(cd "$(BIN)" && pwd):$$PATH" pyright
gate-public:
	@echo "pyright --verifytypes vmafx"
	@PATH="$$(cd "$(BIN)" && pwd):$$PATH"; told=$$(pyright --verifytypes vmafx --ignoreexternal) \
		|| { printf '%s\n' "$$told" | sed '1,/^Symbols used in public interface/d'; exit 1; }
gate-mypy:
	"$(BIN)/mypy"
gate-layers:
	"$(BIN)/lint-imports"
gate-lint:
	"$(BIN)/ruff" check src tests tools
gate-format:
	"$(BIN)/ruff" format --check src tests tools
gate-dependencies:
	"$(BIN)/deptry" src
gate-proto:
	"$(BIN)/python" tools/proto.py check

proto: $(READY)
	"$(BIN)/python" tools/proto.py generate

clean:
	rm -rf build dist .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	rm -rf "$(VENV)"
