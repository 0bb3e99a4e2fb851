# Every target is one line here and one word of help. .ci/run is the gate.
.DEFAULT_GOAL := help
.PHONY: help check test test-all race clocks fuzz fuzz-ports kills interfaces conformance mpi failpoints failover partitions chaos churn causes soak explore sim scale-sim sim-causes worlds mutants history docs readme generate release sbom vulns validate tidy demo bench viewers interop baby-faults steady wakeups accuracy gpu nccl nccl-real libskerry wheel python-test python-suites

# Tests do all that they can, but for make test.
export SKERRY_TEST = all

FUZZ_TIME ?= 30s
FUZZ_PORTS ?= 10m
FAULTS    ?= 200
DURATION  ?= 0
REPORT    ?= tmp/soak
REPLICAS  ?= 1000
FAULTS_EACH ?= 1000
KILLS     ?= 50
STEPS     ?= 200000
TIMING    ?= default
SEED      ?= 0
SEEDS     ?= 20000
SEEDS_EACH ?= 2000
DIGITS    ?= 12
FROM      ?= 1
TORCH     ?= python3
PYTHON    ?= python3
MINUTES   ?= 3
CAUSE     ?= all

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

check: ## everything that CI runs (43 minutes at most)
	bash .ci/run

test: ## the tests, a few rows of each large table
	SKERRY_TEST= go test ./...

test-all: ## the tests, every row, and those that take long
	go test -timeout 20m ./...

race: ## all tests but the slow ones, under the race detector
	go test -race -count=2 -short ./...

fuzz: ## every fuzz target for FUZZ_TIME (30s)
	bash scripts/fuzz $(FUZZ_TIME)

kills: ## SIGKILL of one of eight ranks in the middle of an all-reduce, 200 times
	go test -count=1 -v -timeout 60m -run 'TestKill$$' ./pg/tcp -tcp.kills 200

steady: ## STEPS (200000) small steps of 2, 3 and 4 ranks of one host, no fault: none takes over a second; with delays at every atomic a tenth as many
	go test -count=1 -v -timeout 0 -run 'TestSteady$$' ./pg/tcp -tcp.steady $(STEPS)

wakeups: ## every interleaving of the wake-ups, a preemption more than in the tests, and all mutants
	go test -count=1 -v -timeout 0 -run 'TestPollerModel$$' ./pg/tcp -tcp.models -tcp.model 1
	go test -count=1 -v -timeout 0 -run 'TestPollerMutants$$' ./pg/tcp -tcp.mutants
	go test -count=1 -v -timeout 0 -run 'TestRingModel$$|TestRingMutants$$' ./pg/baby -baby.mutants

baby-faults: ## SIGKILL, SIGSEGV, SIGSTOP of a Baby's child at a random moment, FAULTS_EACH (1000) of each; SEED repeats
	go test -count=1 -v -timeout 0 -run 'TestFaults$$' ./pg/baby -baby.faults $(FAULTS_EACH) -baby.seed $(SEED)

interfaces: ## one and two network interfaces between two hosts, and cables pulled, 10 rounds (root, ip, tc)
	go test -count=1 -v -timeout 30m -run 'TestInterfacesOfHosts$$' ./pg/tcp -tcp.interfaces 10

stops: ## SIGSTOP of one of three ranks in a storm, 100 times over each transport, and SIGCONT later
	go test -count=1 -v -timeout 60m -run 'TestStopped$$' ./pg/tcp -tcp.stops 100

clocks: ## wall clocks that jump, and certificates that end in mid-run: builds the programs and the standard library with a clock of their own
	go test -count=1 -v -timeout 5m -run 'Clock|Jump|Certificates' ./test/integration/baddays -baddays.clocks

mesh: ## SIGKILL of a rank of a sharded, replicated training, 100 times
	go test -count=1 -v -timeout 60m -run 'TestKillsOfSingleRanks$$' ./test/integration/mesh -mesh.kills 100

conformance: ## every verb, dtype, op, size and world size over every backend and decorator (half an hour); FROM goes on
	go test -count=1 -v -timeout 0 -run 'TestGrid$$' ./test/conformance -conformance.all -conformance.from $(FROM)
	go test -count=1 -timeout 0 -run 'Conform|LeaveStorm' ./pg/tcp -tcp.whole
	go test -count=1 -timeout 0 -run 'Conform' ./pg/baby -baby.whole

fuzz-ports: ## bytes on every port of three running servers for FUZZ_PORTS (10m), and the attacks of strangers at their full length
	go test -count=1 -v -timeout 0 -run 'FuzzPorts|ClusterPorts|Strangers' ./test/hostile -hostile.for $(FUZZ_PORTS) -hostile.throng 2s -hostile.strangers 900ms

mpi: ## the example backend over MPI, under mpirun (Debian: libopenmpi-dev openmpi-bin)
	go test -tags mpi -count=1 -v ./examples/mpi

chaos: ## the scenarios with real processes, signals and faults
	go test -count=1 -v ./test/chaos

failpoints: ## a trainer killed before, during and after each thing that others wait for, in real processes and in virtual time
	go test -count=1 -v -run 'TestDiesAtEachPoint$$' ./test/chaos -chaos.points
	go test -count=1 -v -run 'TestWorldDiesAtEachPoint$$' ./test/worlds

failover: ## KILLS (50) kills of the leading lighthouse while two jobs train; TIMING fast, default or slow
	go test -count=1 -v -timeout 0 -run 'TestKillTheLeader$$' ./test/failover -failover.kills $(KILLS) -failover.timing $(TIMING)

partitions: ## lighthouse servers cut off from each other in network namespaces (root)
	go test -count=1 -v -run 'TestPartition$$' ./test/failover -failover.netns

churn: SEEDS = 10
churn: SEED = 1
churn: ## SEEDS (10) times MINUTES (3) of replicas that start and are killed, from seed SEED (1): gaps and recoveries judged, contributors replayed
	go test -count=1 -v -timeout 0 -run 'TestChurn$$' ./test/chaos -chaos.for $(MINUTES)m -chaos.seeds $(SEEDS) -chaos.seed $(SEED)

causes: ## what may be wrong with one replica for ever, MINUTES (3) each, CAUSE a part of a name: the others' gaps judged (links and the blip: root, ip)
	go test -count=1 -v -timeout 0 -run 'TestCauses$$' ./test/chaos -chaos.for $(MINUTES)m -chaos.cause '$(CAUSE)'
	[ '$(CAUSE)' != all ] || go test -count=1 -v -timeout 0 -run 'TestOneLinkCut$$|TestLighthouseBlip$$' ./test/integration/links -links.full

soak: ## FAULTS (200) random faults (10000 take some hours), or with DURATION (8h) as many as fit; the report goes to REPORT (tmp/soak); SEED repeats one; root
	CGO_ENABLED=0 go test -count=1 -v -timeout 0 -run 'TestRandom$$' ./test/chaos -chaos.faults $(FAULTS) -chaos.duration $(DURATION) -chaos.seed $(SEED) \
	  -chaos.clocks -chaos.earlier -chaos.report $(abspath $(REPORT))
	go test -count=1 -v -timeout 0 -run 'TestStorm$$' ./manager -storm.faults $(FAULTS) -storm.seed $(SEED)

accuracy: ## DIGITS (12) seeds of digits learned by LocalSGD, DiLoCo, streaming DiLoCo, each in float32, int8 and fp8, and with each hook, beside plain training; replicas die
	go test -count=1 -v -timeout 0 -run 'Accuracy$$' ./test/worlds -worlds.digits $(DIGITS)
	go test -count=1 -v -timeout 0 -run 'HooksAccuracy$$' ./examples/digits -digits.seeds $(DIGITS)

explore: ## the exhaustive explorer of small worlds, to the end (half an hour)
	go test -count=1 -v -timeout 0 -run 'Explorer|Duel' ./quorum -full

sim: ## SEEDS (20,000) simulated worlds of the rules, from seed FROM (1)
	go run ./cmd/skerry sim --seeds $(SEEDS) --from $(FROM)

scale-sim: ## one job of REPLICAS (1,000) in virtual time, by the rules and by what things cost (docs/SCALE.md)
	go run ./cmd/skerry sim --replicas $(REPLICAS) --from $(FROM)

sim-causes: ## SEEDS_EACH (2000) simulated worlds of each thing that one replica, link or server can suffer: the others go on
	go run ./cmd/skerry sim --cause all --seeds $(SEEDS_EACH) --from $(FROM)

worlds: ## SEEDS (20,000) worlds of real managers and a real lighthouse in virtual time, an eighth as many of three servers, from seed FROM (1)
	go test -count=1 -timeout 0 -run 'TestSeeds$$|TestSeedsOfServers$$' ./test/worlds -worlds.seeds $(SEEDS) -worlds.from $(FROM)

mutants: ## the simulator with one rule taken out at a time: each must be found
	go run ./cmd/skerry sim --mutant all --seeds 400

history: ## minutes of histories of real servers, checked with Porcupine; and a build without the fence
	go test -count=1 -v -timeout 20m -run 'TestHistory$$' ./test/history -history.time 5m -history.seed $(FROM)
	go test -count=1 -v -tags skerry_nofence -run 'TestStaleLeader$$|TestTwoQuorumsAfterOne$$' ./test/history ./lighthouse

docs: ## every command and snippet of README and docs, run (TestCommands/NAME is one page)
	go test -count=1 -v ./test/docs

readme: ## README's demo and picture, made anew by a demo of five kills and by the browser's test (chromium)
	go test -count=1 -v -run 'TestStoryOfFiveKills$$' ./test/docs -docs.readme
	shots=$$(mktemp -d) && trap 'rm -rf "$$shots"' EXIT && mkdir -p docs/img && \
	  SKERRY_SCREENSHOTS=$$shots scripts/axe go test -count=1 -run 'TestStory$$' ./test/browser -browser.look && mv $$shots/TestStory-readme.png docs/img/dashboard.png

generate: ## regenerate what is generated
	go generate ./...

release: ## what a release has, in release/: programs for Linux and Darwin, an SBOM, sums
	scripts/release

sbom: ## what the binaries are made of, as CycloneDX, in sbom.cdx.json (NOTICE has the licences; make generate renews it)
	go run ./internal/supply sbom > sbom.cdx.json

vulns: ## the linked modules looked up in Go's database of vulnerabilities
	bash scripts/govulncheck

validate: ## each file of deploy/ by the types and the rules of what reads it, and mistakes that are refused (its modules: 200 MB, minutes the first time)
	CGO_ENABLED=0 go -C test/deploy/validate run .
	CGO_ENABLED=0 go -C test/deploy/validate test -vet=off -count=1 .
	go test -count=1 -run 'TestGuardedComposeRuns$$' ./test/deploy -deploy.release

tidy: ## the house style and the linters
	gofmt -l . && go vet ./... && go tool staticcheck ./... && go test -count=1 ./internal/tidy

demo: ## train through kills, and watch
	go run ./cmd/skerry demo

bench: ## what the benchmarks measure, in a table
	go run ./cmd/skerry bench allreduce quorum recover

viewers: ## what 100 viewers of the page cost a leader with 1,000 replicas, and those who train
	go run ./cmd/skerry bench viewers

interop: ## against torchft's real client and manager (from PyPI), and PyTorch's store (TORCH=python with torch 2.4)
	TORCH=$(TORCH) bash scripts/interop

libskerry: ## the shared library for other languages, into bin/ (needs a C compiler)
	CGO_ENABLED=1 go build -buildmode=c-shared -o bin/libskerry.so ./cmd/libskerry

wheel: ## the Python wheels for both CPU types, into dist/ (Zig's compiler, from PyPI)
	bash scripts/wheel amd64 arm64

python-test: ## the Python package against torch, in an environment of its own (PyPI, 6 GB)
	bash scripts/python-test

python-suites: ## PyTorch's own tests with Skerry's backend and with Gloo, of the torch that PYTHON (python3) has; SKERRY_LIBRARY
	PYTHONPATH=python $(PYTHON) python/suites.py --peer

nccl: ## the NCCL group over the fake library, in this process and with every rank in a child, all of the suite
	go test -count=1 -v -timeout 10m ./nccl -nccl.all

gpu: ## NCCL on a machine with a GPU: HOST=user@host or CARRY='command' (see scripts/gpu), else this one
	bash scripts/gpu

nccl-real: ## what package nccl calls, against headers and libraries of four versions of NCCL (PyPI, 1.5 GB; no GPU needed)
	for v in cu11==2.14.3 cu12==2.18.1 cu12==2.27.5 cu12==2.32.3; do \
	  NCCL=nvidia-nccl-$$v scripts/cuda-headers go test -count=1 -v -run 'Header$$|RealLibrary$$' ./nccl || exit; done
