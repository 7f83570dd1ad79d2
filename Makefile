# Every target makes what it needs first: see scripts/bootstrap.
N ?= 4
PYTHON = .venv/bin/python

.PHONY: help demo test lint sanity unit integration molecule bench fabric-up fabric-down changelog clean

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' Makefile

demo: ## Launch two ranks on this machine, look at them, stand them down
	@scripts/bootstrap run
	@scripts/demo

test: ## Run everything that is checked before a change lands
	@scripts/test

lint: ## Run the linters (one of them: scripts/lint NAME)
	@scripts/lint

sanity: ## Run ansible-test sanity
	@scripts/sanity

unit: ## Run the tests that need nothing but this checkout
	@scripts/test unit

integration: ## Run the tests on the fabric (root on Linux)
	@scripts/test integration

molecule: ## Run the molecule scenario on the fabric (root on Linux)
	@scripts/bootstrap dev
	@mkdir -p build && PATH="$(CURDIR)/.venv/bin:$$PATH" MOLECULE_EPHEMERAL_DIRECTORY="$(CURDIR)/build/molecule" molecule test

bench: ## Measure launch and teardown on the fabric (root on Linux)
	@scripts/bootstrap dev
	@$(PYTHON) tests/bench

fabric-up: ## Bring up N=4 hosts with ssh on this machine, to play with (root on Linux)
	@scripts/bootstrap dev
	@$(PYTHON) tests/fabric/fabric.py up -n $(N)

fabric-down: ## Take them down
	@scripts/bootstrap dev
	@$(PYTHON) tests/fabric/fabric.py down

changelog: ## Write CHANGELOG.rst: once per version (to do one again, delete it from changelogs/changelog.yaml)
	@scripts/bootstrap dev
	@HOME="$$PWD/build" PATH="$$PWD/.venv/bin:$$PATH" antsibull-changelog release --reload-plugins
	@rm -f changelogs/.plugin-cache.yaml

clean: ## Remove all that was made here, .venv included
	rm -rf .venv .venv-uv .ansible .hypothesis build playbooks/collections
