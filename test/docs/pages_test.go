package docs

// tables are the pages' entries; a command without one is run as it stands.
var tables = map[string][]rule{
	"README.md": readme,
	"CONTRIBUTING.md": {
		{is: "go test ./...", not: "this is one of those tests"},
		{is: "make test-all", not: "this is one of those tests"},
		{is: "go test ./internal/tidy", not: "it is run beside this test"},
	},
	"docs/API.md":             api,
	"docs/CHAOS.md":           chaos,
	"docs/DEPLOY.md":          deploy,
	"docs/LAUNCH.md":          launch,
	"docs/OPERATIONS.md":      operations,
	"docs/PYTHON.md":          python,
	"docs/TRAINING.md":        training,
	"docs/TROUBLESHOOTING.md": troubles,
	"python/README.md":        {{is: "pip install skerry", not: "it is not on PyPI yet"}},
}

const (
	// What programs write when they are ready.
	serves = "leadership gained"
	joined = "lighthouse started"
	trains = "members take part"
	both   = "2 of 2 members take part"

	// long has a trainer train until it is stopped.
	long = " -steps 1000000 -step-time 20ms -linger 1s"
)

var readme = []rule{
	{is: "go run ./cmd/skerry demo", as: "skerry demo --steps 120 --kill-every 40 --step-time 10ms", says: []string{"parity: true"}},
	{is: "go test ./...", not: "this is one of those tests"},
	{is: "go run ./cmd/lighthouse", as: "go run ./cmd/lighthouse --bind 127.0.0.1:29510", starts: serves, says: []string{"page=http://"}},
	{is: "go run ./examples/digits/trainer -index 0 -replicas 2", as: "go run ./examples/digits/trainer -index 0 -replicas 2" + long, starts: trains},
	{is: "go run ./examples/digits/trainer -index 1 -replicas 2", as: "go run ./examples/digits/trainer -index 1 -replicas 2 -lighthouse 127.0.0.1:29510" + long, starts: both},
	// Of the trainers of this machine only the one that is asked for; and not the shell that looks for it.
	{is: "kill -9 $(pgrep -f 'trainer -index 1')", as: "kill -9 $(pgrep -f 'trainer -[i]ndex 1 -replicas 2 -lighthouse 127.0.0.1:29510')", needs: "pgrep"},
	{is: "go run ./examples/digits/trainer -index 1 -replicas 2", as: "go run ./examples/digits/trainer -index 1 -replicas 2" + long, starts: "healed", then: []rule{
		{is: "go run ./cmd/skerry status --watch", until: "replica-1:"},
	}},
	{is: "go run ./cmd/skerry history", varies: true, says: []string{"replica-1 died: "}},
	{is: "go run ./cmd/skerry why", varies: true, says: []string{"stands; it was formed because", "replica-1 died: "}},
	{is: "go run ./cmd/skerry why replica-1", varies: true, says: []string{"is lost:"}},
	{is: "go build -o /tmp/trainer ./examples/digits/trainer", as: copied, fresh: true},
	{is: "go run ./cmd/skerry run --replicas 3 -- /tmp/trainer", as: launched, says: []string{"job default: replicas: 3 done"}},
	// On HOST and the other, which are this host.
	{is: "go run ./cmd/lighthouse --bind :29510 --open", fresh: true, starts: serves},
	{is: "SKERRY_OPEN=1 go run ./examples/digits/trainer -lighthouse HOST:29510 -index 0 -replicas 2", starts: trains},
	{is: "SKERRY_OPEN=1 go run ./examples/digits/trainer -lighthouse HOST:29510 -index 1 -replicas 2", starts: both},
	{is: "go run ./cmd/lighthouse --bind :29510 --token-file token", fresh: true, starts: serves},
	{is: "SKERRY_TOKEN_FILE=join.token go run ./examples/digits/trainer -lighthouse HOST:29510 -index 0 -replicas 2", starts: trains},
	{is: "go run ./cmd/lighthouse --bind 127.0.0.1:29510 --data-dir /tmp/l1 --bootstrap-expect 3 --join 127.0.0.1:29520,127.0.0.1:29530", fresh: true, starts: joined},
	{is: "go run ./cmd/lighthouse --bind 127.0.0.1:29520 --data-dir /tmp/l2 --bootstrap-expect 3 --join 127.0.0.1:29510,127.0.0.1:29530", starts: joined},
	{is: "go run ./cmd/lighthouse --bind 127.0.0.1:29530 --data-dir /tmp/l3 --bootstrap-expect 3 --join 127.0.0.1:29510,127.0.0.1:29520", starts: joined},
	{is: "go run ./cmd/lighthouse members --lighthouse 127.0.0.1:29520", as: membersOf("127.0.0.1:29520"), says: []string{"leader", "next: all voters are there"}},
	{is: "go run ./cmd/skerry torchft-proxy --lighthouse server1:29510,server2:29510,server3:29510", as: "go run ./cmd/skerry torchft-proxy --bind 127.0.0.1:29540 --lighthouse server1:29510,server2:29510,server3:29510", starts: "http://"},
	{is: "TORCHFT_LIGHTHOUSE=http://127.0.0.1:29510 python train.py", not: "it wants torchft: test/interop runs its clients through the proxy"},
}

// copied is the trainer that these tests have built.
const copied = `cp "$(command -v trainer)" /tmp/trainer`

// launched is a job of the launcher that ends soon.
const launched = "env -u SKERRY_LIGHTHOUSE go run ./cmd/skerry run --replicas 3 -- /tmp/trainer -steps 40 -step-time 5ms -linger 500ms"

var launch = []rule{
	{is: "skerry run --replicas 4 -- ./trainer", as: "env -u SKERRY_LIGHTHOUSE skerry run --replicas 4 -- trainer -steps 40 -step-time 5ms -linger 500ms", says: []string{"replicas: 4 done"}},
	{is: "skerry run --replicas 2 --nproc-per-replica 4 --cuda-devices 0,1,2,3,4,5,6,7 -- python train.py --lr 0.1", not: "it wants eight GPUs"},
	{
		is: "skerry run --replicas 4 --spares 1 -- python train.py",
		as: "env -u SKERRY_LIGHTHOUSE skerry run --replicas 4 --spares 1 -- trainer -steps 40 -step-time 5ms -linger 500ms", says: []string{"replicas: 4 done"},
	},
	{is: "go build -o /tmp/trainer ./examples/digits/trainer", as: copied},
	{is: "go run ./cmd/skerry run --replicas 3 -- /tmp/trainer", as: launched, says: []string{"replicas: 3 done"}},
	{is: "skerry scale vision 6", not: "TestScale of cmd/skerry/internal/runcmd scales a job"},
	{is: "skerry run --nnodes 3 --node-rank 0 --replicas 2 --lighthouse head:29510 --job vision -- ./trainer", not: "it is one of three hosts"},
}

const dry = "TestChaos of cmd/skerry runs it dry, and others like it for real"

var chaos = []rule{
	{is: "skerry chaos --job vision --every 30s --duration 1h --dry-run", not: dry},
	{is: "skerry chaos --job vision --every 30s --duration 1h", not: dry},
	{is: "skerry chaos --job vision --faults kill,stop,link,lighthouse --every 1m --duration 8h -o json > chaos.json", not: dry},
}

const (
	noDocker  = "there is no Docker in a test: test/deploy runs the images' go build, and looks at the compose file"
	noCluster = "there is no cluster in a test: test/deploy builds the manifests, and looks at their fields"
)

var deploy = []rule{
	{is: "docker build -f deploy/images/Dockerfile --target skerry -t skerry .", not: noDocker},
	{is: "docker build -f deploy/images/Dockerfile --target trainer -t skerry-trainer .", not: noDocker},
	{is: "make wheel && docker build -f deploy/images/Dockerfile.python -t skerry-python .", not: noDocker},
	{is: "docker compose -f deploy/compose/compose.yaml up --build", not: noDocker},
	{is: "docker compose -f deploy/compose/compose.yaml exec server1 skerry kill --job digits --reason drill replica-2", not: noDocker},
	{is: "docker compose -f deploy/compose/compose.yaml restart --timeout 0 server1", not: noDocker},
	{is: `sudo env "PATH=$PATH" deploy/compose/make-secrets`, not: "it gives files to other users: test/deploy runs it with one owner for all"},
	{is: "docker compose -f deploy/compose/compose.yaml -f deploy/compose/guarded.yaml up --build", not: noDocker},
	{is: "docker compose -f deploy/compose/compose.yaml -f deploy/compose/guarded.yaml exec server1 skerry status", not: noDocker},
	{is: "systemctl enable --now skerry-lighthouse", not: noSystemd},
	{is: "systemctl enable --now skerry-replica@0", not: noSystemd},
	{is: "systemctl stop skerry-replica@0", not: noSystemd},
	{is: "lighthouse ca --role replica --job digits certs digits skerry"},
	{is: "lighthouse ca --role operator certs operator"},
	{is: "(umask 077; skerry token --job digits --token-file certs/token > certs/digits.token)"},
	{is: "kubectl create secret generic skerry-digits --from-file=ca.pem=certs/ca.pem --from-file=replica.pem=certs/digits.pem --from-file=replica.key=certs/digits.key --from-file=token=certs/digits.token", not: noCluster},
	{is: "kubectl create secret generic skerry-operator --from-file=certs/ca.pem --from-file=certs/operator.pem --from-file=certs/operator.key", not: noCluster},
	{is: "kubectl apply -k deploy/kubernetes", not: noCluster},
	{is: "export SKERRY_LIGHTHOUSE=server1:29510,server2:29510,server3:29510 SKERRY_TLS_CA=… SKERRY_TOKEN_FILE=…", not: "its values are the reader's"},
	{is: "sbatch --array=0-3 --time=4:00:00 deploy/slurm/skerry.sbatch trainer --index '{index}' --replicas '{replicas}' --drained-status 75 --checkpoint-dir /shared/digits", not: "there is no Slurm in a test: TestSlurm of test/deploy runs the script with stand-ins"},
	{is: "nomad job run deploy/nomad/skerry.nomad.hcl", not: "there is no Nomad in a test: test/deploy looks at the file"},
}

// membersOf asks a server for the members until all three are there: they find each other after they
// have started.
func membersOf(server string) string {
	return "until lighthouse members --lighthouse " + server + " 2>&1 | grep -q 'all voters are there'; do sleep 0.1; done; lighthouse members --lighthouse " + server
}

// two has a lighthouse and two trainers, as most pages have before their first line.
var two = []rule{
	{is: "lighthouse --bind 127.0.0.1:29510", starts: serves},
	{is: "trainer -index 0 -replicas 2" + long, starts: trains},
	{is: "trainer -index 1 -replicas 2" + long, starts: both},
}

// idOf is bash for the whole id of a replica.
func idOf(name string) string {
	return "$(curl -s http://127.0.0.1:29510/api/v1/status | grep -o '" + name + ":[0-9a-f-]*' | head -n 1)"
}

var api = []rule{
	{is: "curl -s http://127.0.0.1:29510/api/v1/status", first: two, says: []string{`"jobs":`, "replica-1:"}},
	{is: "curl -s 'http://127.0.0.1:29510/api/v1/status?job=default'", says: []string{"replica-1:"}},
	{is: "curl -s http://127.0.0.1:29510/api/v1/servers", says: []string{`"leader":true`}},
	{is: `curl -s --compressed -H 'If-None-Match: W/"of-the-last-answer"' http://127.0.0.1:29510/api/v1/status`, says: []string{`"jobs":`}},
	{is: "curl -s 'http://127.0.0.1:29510/api/v1/events?job=default'", says: []string{`"seq":`, `"text":`}},
	{is: "curl -s 'http://127.0.0.1:29510/api/v1/events?job=default&since=0&limit=10'", says: []string{`"seq":`}},
	{is: "curl -sN 'http://127.0.0.1:29510/api/v1/events?job=default&follow=1'", until: `"seq":`},
	{is: "curl -sN -H 'Accept: text/event-stream' -H 'Last-Event-ID: 0' 'http://127.0.0.1:29510/api/v1/events?job=default'", until: "data: {"},
	{is: "curl -sN http://127.0.0.1:29510/api/v1/stream", until: "data: {"},
	// The page's replicas have ids without the part that a manager adds.
	{is: `curl -sf -d '{"reason":"rack 7 is switched off"}' http://127.0.0.1:29510/api/v1/jobs/default/replicas/replica-1/drain`, as: `curl -sf -d '{"reason":"rack 7 is switched off"}' http://127.0.0.1:29510/api/v1/jobs/default/replicas/` + idOf("replica-1") + `/drain`},
	{is: `curl -sf -d '{"reason":"it computes nonsense"}' http://127.0.0.1:29510/api/v1/jobs/default/replicas/replica-0/evict`, as: `curl -sf -d '{"reason":"it computes nonsense"}' http://127.0.0.1:29510/api/v1/jobs/default/replicas/` + idOf("replica-0") + `/evict`},
	{is: `curl -sf -H "Authorization: Bearer $(cat token)" -d '{"reason":"…"}' https://lighthouse-0:29510/api/v1/jobs/default/replicas/replica-1/drain`, not: "without certificates, which the page does not make, there is no https; OPERATIONS has calls of it"},
}

// What a server of three is started with, beside its data dir.
const (
	found = " --bootstrap-expect 3 --join server1:29510,server2:29510,server3:29510 --gossip-key-file /etc/skerry/gossip.key --tls-ca /etc/skerry/ca.pem --token-file /etc/skerry/token"
	tls1  = " --tls-cert /etc/skerry/server1.pem --tls-key /etc/skerry/server1.key"
	tls2  = " --tls-cert /etc/skerry/server2.pem --tls-key /etc/skerry/server2.key"
	tls3  = " --tls-cert /etc/skerry/server3.pem --tls-key /etc/skerry/server3.key"
)

const (
	noSystemd = "there is no systemd in a test: test/deploy checks the unit"
	adopts    = "a step of a rolling restart: TestAdopt of lighthouse/cluster takes them all"
	noJob     = "it wants torchft: test/interop runs it"
)

var operations = []rule{
	{is: "CGO_ENABLED=0 go build -o /usr/local/bin/ ./cmd/lighthouse ./cmd/skerry", not: "TestStatic of test/deploy builds so"},
	{is: "openssl s_client -connect server1:29510 -CAfile /etc/skerry/ca.pem </dev/null | openssl x509 -noout -dates", needs: "openssl", says: []string{"notAfter="}, first: []rule{
		{is: "lighthouse --bind server1:29510 --tls-ca /etc/skerry/ca.pem --token-file /etc/skerry/token" + tls1, in: "server1", starts: serves},
	}},
	{is: "lighthouse --data-dir /var/lib/skerry", fresh: true, in: "server1", as: "lighthouse --bind 127.0.0.1:29510 --data-dir /var/lib/alone", starts: serves},
	{is: "lighthouse --bind :29510 --token-file /etc/skerry/token --data-dir /var/lib/skerry", fresh: true, in: "server1", as: "lighthouse --bind :29510 --token-file /etc/skerry/token --data-dir /var/lib/alone", starts: serves},
	{
		is:    "lighthouse --bind :29510 --data-dir /var/lib/skerry --bootstrap-expect 3 --join server1:29510,server2:29510,server3:29510 --advertise server1:29510 --gossip-key-file /etc/skerry/gossip.key --tls-ca /etc/skerry/ca.pem --tls-cert /etc/skerry/server1.pem --tls-key /etc/skerry/server1.key --token-file /etc/skerry/token",
		fresh: true, in: "server1", starts: joined,
		then: []rule{
			{is: "lighthouse --bind server2:29510 --data-dir /var/lib/skerry2 --advertise server2:29510" + found + tls2, in: "server2", starts: joined},
			{is: "lighthouse --bind server3:29510 --data-dir /var/lib/skerry3 --advertise server3:29510" + found + tls3, in: "server3", starts: joined},
		},
	},
	{is: "lighthouse members --lighthouse server1:29510,server2:29510,server3:29510", as: membersOf("server1:29510,server2:29510,server3:29510")},
	{is: "export SKERRY_TLS_CA=/etc/skerry/ca.pem SKERRY_TLS_CERT=/etc/skerry/vision.pem SKERRY_TLS_KEY=/etc/skerry/vision.key", in: "replica"},
	{is: "export SKERRY_TLS_SERVER_NAME=skerry SKERRY_TOKEN_FILE=/etc/skerry/vision.token SKERRY_JOB=vision", in: "replica"},
	{is: "trainer -lighthouse server1:29510,server2:29510,server3:29510 -replicas 3 -index 0", in: "replica", as: "trainer -lighthouse server1:29510,server2:29510,server3:29510 -replicas 3 -index 0" + long, starts: trains, then: []rule{
		{is: "trainer -lighthouse server1:29510,server2:29510,server3:29510 -replicas 3 -index 1" + long, in: "replica", starts: both},
		{is: "trainer -lighthouse server1:29510,server2:29510,server3:29510 -replicas 3 -index 2" + long, in: "replica", starts: "3 of 3 members take part"},
	}},
	{is: "kubectl create secret generic skerry-lighthouse --from-file=certs/ca.pem --from-file=certs/server.pem --from-file=certs/server.key --from-file=certs/token --from-file=certs/gossip.key", not: "there is no cluster: test/deploy has kubectl read the manifests"},
	{is: "kubectl apply -k deploy/kubernetes", not: "there is no cluster: test/deploy has kubectl read the manifests"},
	{is: "skerry torchft-proxy --lighthouse server1:29510,server2:29510,server3:29510", as: "skerry torchft-proxy --bind 127.0.0.1:29540 --lighthouse server1:29510,server2:29510,server3:29510", starts: "http://"},
	{is: "TORCHFT_LIGHTHOUSE=http://127.0.0.1:29510 python train.py", not: noJob},
	{is: "SKERRY_LIGHTHOUSE=server1:29510,server2:29510,server3:29510 python -m skerry_torchft train.py", not: noJob},
	{is: `skerry completion zsh > "${fpath[1]}/_skerry"`, as: `fpath=(. .); skerry completion zsh > "${fpath[1]}/_skerry"; cat _skerry`, says: []string{"#compdef skerry"}},
	{is: "skerry completion fish > ~/.config/fish/completions/skerry.fish", first: []rule{{is: "mkdir -p ~/.config/fish/completions"}}},
	{is: "skerry status --lighthouse server1:29510", says: []string{"job vision: ", "replica-0:"}},
	{is: "skerry status --watch", until: "job vision"},
	{is: "curl -s --cacert $SKERRY_TLS_CA --cert $SKERRY_TLS_CERT --key $SKERRY_TLS_KEY https://server1:29510/metrics", needs: "curl", says: []string{"skerry_lighthouse_"}},
	{is: "curl -s --cacert $SKERRY_TLS_CA https://server1:29510/healthz", needs: "curl", says: []string{"ok"}},
	{is: "skerry why   --lighthouse server1:29510", says: []string{"stands; it was formed because"}},
	{is: "skerry history --job vision", says: []string{"MEMBERS", "replica-2 joined"}},
	{is: "skerry events --follow --job vision", until: "replica-1"},
	{is: "skerry events --replica replica-1 -n 0", says: []string{"replica-1"}},
	{is: `skerry drain --lighthouse server1:29510 --job vision --reason "fan is broken" replica-1`, says: []string{"replica-1"}},
	// It comes in time, or too late: trainers of 20 ms a step have gone on without it by then.
	{is: `skerry undo  --lighthouse server1:29510 --job vision --reason "the wrong host" replica-1`, as: `skerry undo  --lighthouse server1:29510 --job vision --reason "the wrong host" replica-1 || case $? in 1 | 4) ;; *) false ;; esac`},
	{is: `skerry scale --lighthouse server1:29510 --reason "two more hosts" vision 6`, not: "the job has no launcher there: TestScaleOverHosts of test/integration/launcher scales one"},
	{is: "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=0.01 go run ./examples/digits/trainer -index 0 -replicas 2", in: "replica", starts: "lighthouse found"},
	{is: "systemctl restart skerry-lighthouse", not: noSystemd},
	{is: "lighthouse … --token-file /etc/skerry/token --gossip-key-file /etc/skerry/gossip.key --adopt listen", not: adopts},
	{is: "lighthouse … --token-file /etc/skerry/token --gossip-key-file /etc/skerry/gossip.key --adopt speak", not: adopts},
	{is: "lighthouse … --token-file /etc/skerry/token --gossip-key-file /etc/skerry/gossip.key", not: adopts},
	{is: "systemctl stop skerry-lighthouse", not: noSystemd},
	{is: "tar -C /var/lib -czf skerry-backup.tgz skerry", fresh: true, as: "tar -C /var/lib/ -czf skerry-backup.tgz skerry"},
	{is: "systemctl start skerry-lighthouse", not: noSystemd},
	{is: "systemctl stop skerry-lighthouse", not: noSystemd},
	{is: "lighthouse recover --data-dir /var/lib/skerry --majority-is-lost", says: []string{"+1 goes on with server", "log to", "jobs: vision"}},
	{is: "lighthouse --bind :29510 --data-dir /var/lib/skerry --bootstrap-expect 1 --voters 3 …", in: "server1", as: "lighthouse --bind :29510 --data-dir /var/lib/skerry --bootstrap-expect 1 --voters 3 --gossip-key-file /etc/skerry/gossip.key --tls-ca /etc/skerry/ca.pem --token-file /etc/skerry/token" + tls1, starts: serves},
	{is: "lighthouse --bind :29510 --data-dir /var/lib/skerry-empty --join server1:29510 …", in: "server2", as: "lighthouse --bind server2:29510 --data-dir /var/lib/skerry-empty --join server1:29510 --gossip-key-file /etc/skerry/gossip.key --tls-ca /etc/skerry/ca.pem --token-file /etc/skerry/token" + tls2, starts: joined},
}

var python = []rule{
	{is: "skerry-lighthouse --bind 127.0.0.1:29510", as: "lighthouse --bind 127.0.0.1:29510", starts: serves},
	{is: "REPLICA_GROUP_ID=a python train.py", not: "it wants torch: TestPython runs it where that is"},
	{is: "REPLICA_GROUP_ID=b python train.py", not: "it wants torch: TestPython runs it where that is"},
	{is: "make libskerry", not: "it wants a C compiler: scripts/python-test builds so"},
	{is: "make wheel", not: "it fetches a compiler from PyPI"},
	{is: "make python-test", not: "it fetches torch from PyPI"},
	{is: "make python-suites", not: "it wants torch"},
}

var training = []rule{
	{is: "export SKERRY_LIGHTHOUSE=server1:29510,server2:29510,server3:29510 SKERRY_JOB=vision REPLICA_GROUP_ID=machine-1", in: "replica"},
	{is: "export SKERRY_TLS_CA=/etc/skerry/ca.pem SKERRY_TLS_CERT=/etc/skerry/vision.pem SKERRY_TLS_KEY=/etc/skerry/vision.key", in: "replica"},
	{is: "export SKERRY_TOKEN_FILE=/etc/skerry/vision.token SKERRY_TLS_SERVER_NAME=skerry", in: "replica"},
	// On this machine, and on another.
	{is: "own", in: "replica", as: "REPLICA_GROUP_ID=machine-2 own & own", starts: "step 50, 2 replicas", first: []rule{
		{is: "lighthouse --bind server1:29510 --min-replicas 2 --tls-ca /etc/skerry/ca.pem --token-file /etc/skerry/token" + tls1, in: "server1", starts: serves},
	}},
}

var troubles = []rule{
	{is: "skerry status", first: two, says: []string{"job default: "}},
	{is: "skerry why", says: []string{"stands; it was formed because"}},
	{is: "skerry why replica-1", says: []string{"of job default is"}},
	{is: "skerry history", says: []string{"replica-1 joined"}},
	{is: "sort lighthouse.log replica-*.log | grep 1795829435544", not: "logs of another day; TestOneIncident of test/integration/logs merges such"},
	{is: "jq -c 'select(.quorum_id == 1795829435544 or .after_quorum_id == 1795829435544)' *.json | jq -sc 'sort_by(.time)[]'", not: "logs of another day; TestOneIncident of test/integration/logs merges such"},
}
