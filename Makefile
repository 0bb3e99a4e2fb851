# One line of help per target: make, or make help.

.DEFAULT_GOAL := help
.PHONY: help build demo test race check fuzz chaos soak explore bench generate fmt

help: ## show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'

build: ## build the programs into bin/
	go build -o bin/ ./cmd/...

demo: ## train on real data while replicas are being killed
	go run ./cmd/skerry demo

test: ## all tests, as README.md says
	go test ./...

race: ## all tests but the long ones, twice, under the race detector
	go test -race -short -count=2 -timeout 20m ./...

check: ## the gate: everything that CI runs
	.ci/run

fuzz: ## every fuzz target for a minute each (FUZZTIME=10m for longer)
	FUZZTIME=$${FUZZTIME:-60s} .ci/run fuzz

chaos: ## every chaos scenario, ten times
	go test ./test/chaos -count=10 -timeout 60m

soak: ## random faults on a real run, for about half an hour (FAULTS=5000 for longer)
	go test ./test/chaos -run Random -v -timeout 24h -chaos.faults $${FAULTS:-2000}

explore: ## the exhaustive explorer of small worlds, in full
	go test ./quorum -run Explorer -v -timeout 6h -full

bench: ## measure, with installed peers beside us
	go run ./cmd/skerry bench --peers

generate: ## regenerate the protocol code
	go generate ./internal/wire

fmt: ## format all Go files
	gofmt -w $$(git ls-files '*.go')
