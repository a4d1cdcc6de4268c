# `make` lists the targets. Go and Node.js are all that has to be there (without Python
# the programs in Python of the guides are not run, and a test says so); what the
# tests need beyond that they fetch themselves on the first run.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

GO      ?= go
ARGS    ?=
FUZZTIME ?= 10s
COUNT   ?= 1
BENCH   ?= .
LIMIT   ?= 14m
MUTANT  ?=
SOAK    ?= 30m

# The race detector needs a C compiler. Without one the tests run without it.
RACE := $(shell test "$$($(GO) env CGO_ENABLED)" = 1 && command -v $$($(GO) env CC) >/dev/null 2>&1 && echo -race)

# Tests run as one stream of events, so that the last line counts all of them. The
# official suite is client-bound and goes last, on a quiet machine.
PACKAGES = $$($(GO) list ./... | grep -v '/conformance$$')

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build ./ds
	$(GO) build -o ds ./cmd/ds

RELEASES = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
DIST     = dist

# From a clone of the last commit: nothing uncommitted gets in, and Go stamps what it
# does not stamp in a working tree of "git worktree".
.PHONY: release
release: ## static binaries of the last commit, with checksums, in dist/; the version is that of its git tag, or made of its time
	@commit=$$(git rev-parse HEAD) || { echo "make release builds a commit: this is no git checkout"; exit 1; }; \
	test -z "$$(git status --porcelain)" || echo "there are changes that are in no commit: they are left out"; \
	src=$$(mktemp -d); trap 'rm -rf "$$src"' EXIT; \
	git clone -q --no-checkout . "$$src"; git -C "$$src" checkout -q --detach "$$commit"; \
	rm -rf $(DIST) && mkdir -p $(DIST) && dist=$$(cd $(DIST) && pwd); \
	for target in $(RELEASES); do \
	  echo "$(DIST)/ds-$${target/\//-}"; \
	  ( cd "$$src"; CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/} $(GO) build -buildvcs=true -trimpath -ldflags "-s -w" -o "$$dist/ds-$${target/\//-}" ./cmd/ds ); \
	  $(GO) version -m "$$dist/ds-$${target/\//-}" | grep -q "vcs.revision=$$commit" || { echo "it bears no stamp of its commit"; exit 1; }; \
	done; \
	cd "$$dist" && sha256sum ds-* > SHA256SUMS

.PHONY: run
run: ## run the server; ARGS="--in-memory" adds flags
	$(GO) run ./cmd/ds serve $(ARGS)

.PHONY: test
test: tools lint ## everything: static checks, all tests with the race detector, the official suite
	@$(if $(RACE),,echo "no C compiler: running without the race detector")
	@( rc=0; \
	   $(GO) test -json $(RACE) -timeout $(LIMIT) $(PACKAGES) || rc=1; \
	   $(GO) test -json $(RACE) -timeout $(LIMIT) ./conformance || rc=1; \
	   exit $$rc ) | $(GO) run ./internal/lint/testsum

.PHONY: tools
tools:
	@command -v $(GO) >/dev/null 2>&1 || { echo "Go is missing: install Go 1.26 or newer"; exit 1; }
	@command -v node >/dev/null 2>&1 && command -v npm >/dev/null 2>&1 || { \
	   echo "node or npm is missing: the official protocol suite and the TypeScript client need Node.js 20 or newer."; \
	   echo "Install Node.js and run make test again; make test-go runs all the rest."; exit 1; }
	@node -e 'if (+process.versions.node.split(".")[0] < 20) { console.error("Node.js " + process.versions.node + " is too old: 20 or newer is needed"); process.exit(1) }'
	@conformance/get-nginx.sh

.PHONY: test-go
test-go: ## all tests but those that need Node.js
	@( rc=0; \
	   $(GO) test -json -timeout $(LIMIT) -skip "TestReferenceServer|TestBrowser" $(PACKAGES) || rc=1; \
	   $(GO) test -json -timeout $(LIMIT) -skip 'TestOfficial|TestTypeScriptClient|TestNodeHTTP2|TestSubscriptionsGuide|TestGuides|TestBrowserGuide|TestCompatibility' ./conformance || rc=1; \
	   exit $$rc ) | $(GO) run ./internal/lint/testsum

.PHONY: race
race: ## all Go tests again with the race detector, COUNT times, results not taken from the cache
	$(GO) test -race -count $(COUNT) -timeout 60m $(PACKAGES)

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (10s)
	@files=$$(grep -rl --include='*_test.go' --exclude-dir=node_modules '^func Fuzz' . || true); \
	test -n "$$files" || { echo "no fuzz targets found"; exit 1; }; \
	for dir in $$(dirname $$files | sort -u); do \
	  for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' $$dir/*_test.go); do \
	    echo "== $$dir $$target"; \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$dir; \
	  done; \
	done

.PHONY: stress
stress: ## random histories with new seeds, for a long time; DS_ROUNDS sets how many
	DS_ROUNDS=$${DS_ROUNDS:-2000} $(GO) test $(RACE) -count 1 -timeout 120m ./stream/... ./store/... ./internal/salvage/... ./subscription/... ./internal/metamorphic/...

.PHONY: crash
crash: ## the binary under kill -9, many more rounds than in the normal run
	DS_CRASH_ROUNDS=$${DS_CRASH_ROUNDS:-300} $(GO) test -count 1 -timeout 120m -run 'Crash|Kill' -v ./...

.PHONY: soak
soak: ## everything at once on one server, with kills and stops, for SOAK (30m); ledgers, memory, files, goroutines
	DS_SOAK=$(SOAK) DS_SOAK_PAUSE=$${DS_SOAK_PAUSE:-40ms} $(GO) test -count 1 -timeout 24h -run Soak -v ./internal/dstest/process

.PHONY: mutants
mutants: ## the tests of the tests: each change that breaks a promise has to be caught; MUTANT= selects by name
	DS_MUTANTS=1 $(GO) test ./internal/mutants -count 1 -parallel 2 -timeout 60m -run 'TestCaught/$(MUTANT)' -v

.PHONY: history
history: ## many histories of concurrent clients, simulated and on the binary, checked for linearizability
	DS_ROUNDS=$${DS_ROUNDS:-2000} DS_CRASH_ROUNDS=$${DS_CRASH_ROUNDS:-300} $(GO) test -count 1 -timeout 120m -run 'Simulated|KilledHistories' -v ./internal/history

.PHONY: conformance
conformance: tools ## the protocol: our suite, the official suite and the TypeScript client, over both engines and adapters
	$(GO) test -count 1 -v -timeout $(LIMIT) ./conformance

.PHONY: lint
lint: ## gofmt, go.mod, vet (this system and macOS), staticcheck, the repository's own rules
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not formatted (run make fmt):"; echo "$$unformatted"; exit 1; }
	$(GO) mod tidy -diff
	$(GO) vet ./...
	GOOS=darwin CGO_ENABLED=0 $(GO) vet ./...
	$(GO) tool staticcheck ./...
	$(GO) test ./internal/lint/...

.PHONY: settings
settings: ## write docs/settings.md and deploy/ds.toml anew from the flags of ds serve
	$(GO) test ./internal/cli -count 1 -run TestSettingsAreDocumented -rewrite

# A finding fails, and so does a database that cannot be reached, unless VULN_OFFLINE=ok.
.PHONY: vulncheck
vulncheck: ## known vulnerabilities of what the server uses; asks the Go project's database online, or VULNDB=file:///…
	@set +e; said=$$($(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0 $(if $(VULNDB),-db $(VULNDB)) ./... 2>&1); rc=$$?; \
	echo "$$said"; \
	if test $$rc != 0 && grep -qE 'fetching vulnerabilities|dial tcp|i/o timeout|no such host|module lookup disabled|reading https?://' <<<"$$said"; then \
	  echo "vulncheck: the database cannot be reached: NOTHING WAS CHECKED"; test "$(VULN_OFFLINE)" = ok; rc=$$?; \
	fi; exit $$rc

.PHONY: fmt
fmt: ## format all Go files
	gofmt -w .

.PHONY: bench
bench: ## all benchmarks; BENCH= selects, COUNT= repeats for benchstat
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) $$($(GO) list ./... | grep -v '/conformance$$')

.PHONY: bench-compare
bench-compare: ## ds bench on two commits: BASE=main [HEAD=commit, else the working tree] ARGS="append -c 64"
	@internal/bench/compare-commits.sh $(or $(BASE),HEAD) $(HEAD) -- $(ARGS)
