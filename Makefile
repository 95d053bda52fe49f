# fogctl: every target sets up what it needs and says what it installs.
#   make demo   the main job on its embedded default      make test      unit and integration tests
#   make lint   ruff, mypy, ansible-lint                  make test-vm   the same tests in a QEMU guest
#   make bench  speed and quality figures                 make test-kube real Kubernetes: control plane, kubelets
#   make lock   renew requirements.lock, images/python.lock

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ROOT := $(shell [ "$$(id -u)" = 0 ] && echo yes)
APT := $(shell command -v apt-get 2>/dev/null)
# The newest interpreter that is new enough.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$p && break; done)
# What the virtual testbed and its tests call on the host: command=Debian package.
HOST_TOOLS := ip=iproute2 iptables=iptables ping=iputils-ping mosquitto=mosquitto prometheus=prometheus
COLLECTION := playbooks/ansible_collections/fogctl/pi
# What the tests call besides.
TEST_TOOLS := chromium=chromium
# Debian packages start their services when they are installed; only the programs are wanted here.
QUIET_INSTALL = policy=/usr/sbin/policy-rc.d; if [ ! -e $$policy ]; then \
	printf '\#!/bin/sh\nexit 101\n' > $$policy; chmod +x $$policy; trap "rm -f $$policy" EXIT; fi; \
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends
# The Debian packages that a file lists, one a line; without root the tests say what they miss.
listed_packages = if [ -n "$(ROOT)" ] && [ -n "$(APT)" ]; then \
	missing=$$(for p in $$(grep -v '^\#' $(1)); do \
		dpkg-query -W -f '$${Status}\n' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done | tr '\n' ' '); \
	if [ -n "$$missing" ]; then echo "Installing Debian packages: $$missing"; $(QUIET_INSTALL) $$missing >/dev/null; fi; fi

.PHONY: help demo test test-unit test-integration test-vm test-kube lint format bench lock schema setup host-tools test-tools clean

help:
	@sed -n '2,6p' Makefile | sed 's/^# *//'

setup: host-tools $(STAMP)

host-tools test-tools:
	@missing=; for pair in $(if $(filter test-tools,$@),$(TEST_TOOLS),$(HOST_TOOLS)); do \
		PATH="$$PATH:/usr/sbin:/sbin" command -v $${pair%%=*} >/dev/null 2>&1 || missing="$$missing $${pair#*=}"; done; \
	if [ "$$(uname -s)" = Linux ] && [ -n "$$missing" ]; then \
		if [ -n "$(ROOT)" ] && [ -n "$(APT)" ]; then \
			echo "Installing Debian packages:$$missing"; \
			$(QUIET_INSTALL) $$missing >/dev/null; \
		else echo "Not installed (needs root):$$missing; the parts that need them are skipped."; fi; fi

# The virtual environment holds exactly requirements.lock, plus fogctl itself in editable form, plus a Java
# runtime where the machine has none of version 17 or later.
$(STAMP): requirements.lock pyproject.toml
	@[ -n "$(PYTHON)" ] || { echo "fogctl needs Python 3.11 or later; install it or set PYTHON=…"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		if [ -n "$(ROOT)" ] && [ -n "$(APT)" ]; then echo "Installing Debian packages: python3-venv"; \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv >/dev/null; \
		else echo "Python's venv module is missing: install python3-venv (Debian, Ubuntu)"; exit 1; fi; }
	@echo "Installing into $(VENV): $$(grep -c '==' requirements.lock) pinned packages from requirements.lock"
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/python -m fogctl.java >/dev/null 2>&1 || { \
		if [ -n "$(ROOT)" ] && [ -n "$(APT)" ]; then echo "Installing Debian packages: default-jre-headless"; \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends default-jre-headless >/dev/null; \
		else echo "No Java 17 or later on this machine: Spark and Kafka will not start (Debian: default-jre-headless)"; fi; }
	@touch $@

demo: setup
	@$(BIN)/fogctl demo

test: test-unit test-integration

test-unit: setup test-tools
	@echo "== unit tests"
	$(BIN)/pytest tests/unit -q -n auto

test-integration: setup test-tools
	@echo "== integration tests (real namespaces, cgroups and packets; they need root)"
	@status=0; \
	echo "   two at a time"; \
	$(BIN)/pytest tests/integration -q -m "not alone" -n 2 --dist loadfile --no-loadscope-reorder --durations=20 || { \
		echo "   those that failed, once more with nothing beside them (a second failure counts)"; \
		$(BIN)/pytest tests/integration -q -m "not alone" --last-failed --last-failed-no-failures none || status=1; }; \
	echo "   one by one: what measures time, or the host as a whole"; \
	$(BIN)/pytest tests/integration -q -m alone --durations=10 || status=1; \
	exit $$status

test-vm: setup
	@echo "== tests in a QEMU guest with Debian's kernel"
	@$(call listed_packages,tests/vm/packages.txt)
	@$(if $(ARM64),$(call listed_packages,tests/vm/packages-arm64.txt))
	@$(if $(BOARDS),export FOGCTL_VM_BOARDS=$(BOARDS); )$(BIN)/pytest tests/vm -q || { \
		echo "   those that failed, once more with nothing beside them (a second failure counts)"; \
		$(BIN)/pytest tests/vm -q --last-failed --last-failed-no-failures none; }

# Kubernetes itself is built from its Go modules the first time (about 20 CPU minutes), then found in the cache.
test-kube: setup
	@echo "== tests on a real Kubernetes control plane, and on real kubelets (those need root)"
	@$(call listed_packages,tests/kube/packages.txt)
	@status=0; again=; said=$$(mktemp); cache=.pytest_cache/kube; \
	echo "   played nodes, beside real kubelets and the image"; \
	$(BIN)/pytest tests/kube -q -o cache_dir=$$cache/played -m "not kubelet and not image" --durations=10 >$$said 2>&1 & beside=$$!; \
	trap 'kill $$beside 2>/dev/null' INT TERM; \
	$(BIN)/pytest tests/kube -q -o cache_dir=$$cache/kubelets -m "kubelet or image" --durations=10 || again=kubelets; \
	wait $$beside || again="played $$again"; \
	cat $$said; rm -f $$said; \
	for part in $$again; do \
		echo "   those that failed, once more with nothing beside them (a second failure counts)"; \
		$(BIN)/pytest tests/kube -q -o cache_dir=$$cache/$$part --last-failed --last-failed-no-failures none || status=1; \
	done; exit $$status

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --explicit-package-bases benchmarks
	$(BIN)/mypy --explicit-package-bases tests/vm
	$(BIN)/mypy --explicit-package-bases tests/kube
	cd $(COLLECTION) && PATH="$(CURDIR)/$(BIN):$$PATH" yamllint -s .
	cd $(COLLECTION) && PATH="$(CURDIR)/$(BIN):$$PATH" ANSIBLE_COLLECTIONS_PATH="$(CURDIR)/playbooks" ansible-lint --offline -q

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The peers that run beside ours are installed here only: nothing else needs them.
bench: setup
	@echo "Installing into $(VENV): the peers the benchmarks run beside ours"
	@$(BIN)/python -m pip install -q --disable-pip-version-check '.[bench]' || echo "some peers are missing; their rows are left out"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@status=0; \
	$(BIN)/python benchmarks/models.py --markdown docs/benchmarks.md || status=1; \
	$(BIN)/python benchmarks/testbed.py --markdown docs/benchmarks.md || status=1; \
	$(BIN)/python benchmarks/runtime.py --markdown docs/benchmarks.md || status=1; \
	$(BIN)/python benchmarks/sim.py --markdown docs/benchmarks.md || status=1; \
	exit $$status

lock: setup
	@$(BIN)/python -m pip install -q uv
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --upgrade \
		--generate-hashes --no-emit-index-url --no-header -q -o requirements.lock
	$(BIN)/uv pip compile images/python.txt -c requirements.lock --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header -q -o images/python.lock

schema: setup
	@for file in testbed board app experiment bench; do $(BIN)/fogctl schema $$file --to docs/schema/$$file.schema.json; done

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
