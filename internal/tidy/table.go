package tidy

// mayImport is docs/ARCHITECTURE.md's table of packages: who may import what of
// ours. A package is judged by the longest key that it is at or below, and may
// import what stands under the same key. A value that ends in "/..." means
// everything at and below. A new edge is a reviewed line here; think first
// whether the thing does not belong on the other side.
//
// The packages of openToAll are open to all but quorum.
var mayImport = map[string][]string{
	"quorum":       {"quorum/internal/..."},
	"quorum/shell": {"quorum"},
	"quorum/story": {"quorum"},

	"quorum/internal/pace": {},

	"store":           {"internal/burst", "internal/perhost", "internal/proof"},
	"store/storetest": {"store"},
	"store/certs":     {"store", "internal/guard"},

	"tensor": {},

	"pg":        {"store", "tensor", "pg/netif", "pg/reach", "pg/internal/..."},
	"pg/netif":  {},
	"pg/reach":  {},
	"pg/tcp":    {"pg", "pg/netif", "pg/reach", "tensor", "store", "internal/burst", "internal/memfd", "internal/shmring", "internal/futex", "internal/otherproc", "internal/step", "internal/perhost", "pg/tcp/internal/..."},
	"pg/baby":   {"pg", "tensor", "store/...", "internal/memfd", "internal/shmring", "internal/futex", "internal/step", "train/spawn"},
	"pg/pgtest": {"pg", "tensor", "store", "dist", "dist/object"},
	"nccl":      {"pg", "tensor", "store", "internal/proof", "nccl/diagnose", "nccl/internal/..."},

	"nccl/diagnose":       {},
	"nccl/internal/pause": {},
	"nccl/gorgonia":       {"nccl"},
	"nccl/twin":           {"nccl", "tensor", "checkpoint"},

	"dist":        {"pg", "pg/debug", "pg/netif", "tensor", "store"},
	"dist/object": {"pg", "tensor"},
	"dist/quant":  {"pg", "tensor"},

	"pg/internal/inorder":     {},
	"pg/internal/stage":       {"tensor"},
	"pg/tcp/internal/sockopt": {},
	"pg/tcp/internal/frame":   {"pg", "tensor", "internal/proof", "internal/shmring"},

	"pg/managedtest": {"pg", "pg/pgtest"},

	"pg/observe":   {"pg", "tensor"},
	"pg/dummy":     {"pg", "tensor"},
	"pg/fault":     {"pg", "pg/internal/...", "tensor"},
	"pg/pgmetrics": {"pg", "pg/observe"},
	"pg/trace":     {"pg", "pg/observe", "tensor", "internal/boundjson", "internal/printable"},
	"pg/debug":     {"pg", "pg/trace", "pg/observe", "pg/internal/...", "tensor"},

	"checkpoint":             {"checkpoint/safetensors", "tensor", "internal/guard", "internal/proof"},
	"checkpoint/pgcarrier":   {"checkpoint", "pg", "store", "tensor"},
	"checkpoint/safetensors": {"tensor"},
	"checkpoint/ckpttest":    {"checkpoint", "checkpoint/safetensors", "tensor"},
	"checkpoint/durable":     {"checkpoint", "checkpoint/safetensors", "quorum", "tensor", "internal/boundjson"},

	"checkpoint/durable/durabletest": {"checkpoint/durable"},
	"checkpoint/durable/localdir":    {"checkpoint", "checkpoint/durable"},
	"checkpoint/durable/s3":          {"checkpoint", "checkpoint/durable"},

	"lighthouse":           {"quorum", "quorum/shell", "quorum/story", "lighthouse/api", "lighthouse/cluster", "lighthouse/internal/...", "internal/wire/...", "internal/guard", "internal/perhost", "internal/split"},
	"manager":              {"quorum", "store/...", "pg", "pg/debug", "checkpoint", "checkpoint/safetensors", "checkpoint/pgcarrier", "internal/wire/...", "internal/guard", "manager/internal/..."},
	"manager/internal/env": {"manager/internal/session", "launch/spare"}, // a spare waits before it reads its place

	"lighthouse/api":                 {},
	"lighthouse/internal/access":     {"internal/guard", "internal/wire/..."},
	"lighthouse/internal/answer":     {"quorum", "internal/wire/..."},
	"lighthouse/internal/beatqueue":  {"quorum"},
	"lighthouse/internal/health":     {},
	"lighthouse/internal/feed":       {"quorum", "quorum/story", "lighthouse/api", "lighthouse/internal/facts", "lighthouse/internal/web"},
	"lighthouse/internal/joblog":     {"quorum"},
	"lighthouse/internal/killer":     {"quorum", "lighthouse/internal/network", "internal/guard", "internal/wire/..."},
	"lighthouse/internal/link":       {"lighthouse/cluster", "lighthouse/internal/network", "internal/guard"},
	"lighthouse/internal/live":       {"lighthouse/api"},
	"lighthouse/internal/network":    {},
	"lighthouse/internal/page":       {},
	"lighthouse/internal/scaling":    {"quorum", "lighthouse/api", "internal/wire/..."},
	"lighthouse/internal/serverbeat": {"internal/wire/..."},
	"lighthouse/internal/steprate":   {},
	"lighthouse/internal/web":        {"quorum", "lighthouse/api", "lighthouse/internal/access", "lighthouse/internal/facts", "lighthouse/internal/live", "lighthouse/internal/page", "internal/wire/...", "internal/guard", "internal/perhost"},
	"lighthouse/internal/facts":      {"quorum", "quorum/story", "lighthouse/api", "lighthouse/internal/steprate", "internal/wire/..."},

	"lighthouse/lighthousetest": {"lighthouse", "lighthouse/cluster", "lighthouse/internal/network", "internal/wire/...", "internal/portlease"},

	"lighthouse/internal/metrics": {"quorum", "internal/wire/..."},

	"lighthouse/cluster":                  {"quorum", "quorum/story", "lighthouse/api", "internal/wire/...", "internal/guard", "internal/boundjson", "internal/perhost", "lighthouse/internal/network", "lighthouse/cluster/internal/..."},
	"lighthouse/cluster/internal/datadir": {"internal/wire"},
	"lighthouse/cluster/internal/disk":    {},
	"lighthouse/cluster/internal/repair":  {},

	"lighthouse/cluster/internal/gossiphead": {"internal/wire"},

	"manager/internal/final":    {},
	"manager/internal/tasks":    {},
	"manager/internal/blame":    {"pg"},
	"manager/internal/prober":   {"quorum", "pg", "manager/internal/tasks"},
	"manager/internal/events":   {},
	"manager/internal/incident": {"quorum"},
	"manager/internal/metrics":  {},
	"manager/internal/session":  {"quorum", "internal/wire/...", "manager/internal/final"},
	"manager/internal/replica":  {"quorum", "store", "internal/wire/...", "internal/guard", "internal/split", "manager/internal/final", "manager/internal/session"},
	"manager/internal/listen":   {"quorum", "store", "internal/guard", "manager/internal/session"},
	"manager/internal/state":    {"quorum", "checkpoint", "checkpoint/safetensors", "tensor"},

	"manager/torchft": {"quorum", "internal/wire/...", "internal/guard"},

	"manager/oteltrace": {"manager", "pg", "pg/observe"},

	"train":              {"pg", "tensor"},
	"train/ddp":          {"pg", "pg/debug", "checkpoint", "tensor"},
	"train/ddp/powersgd": {"checkpoint", "tensor", "train/ddp"},
	"train/optim":        {},
	"train/sampler":      {"checkpoint", "tensor"},
	"train/spawn":        {"internal/deathsig"},
	"train/place":        {},
	"train/paramserver":  {"pg", "store", "internal/guard", "internal/proof"},
	"train/localsgd":     {"pg", "dist/quant", "checkpoint", "tensor"},

	"launch":                    {"lighthouse", "store", "internal/guard", "internal/printable", "launch/internal/...", "launch/spare"},
	"launch/spare":              {}, // what ranks have of it: programs of users
	"launch/internal/budget":    {},
	"launch/internal/child":     {"internal/deathsig", "launch/internal/output"},
	"launch/internal/errorfile": {},
	"launch/internal/gate":      {"launch/spare"},
	"launch/internal/slots":     {},
	"launch/internal/signals":   {"launch/internal/child"},
	"launch/internal/keeper":    {"internal/spool", "launch/internal/sweep"},
	"launch/internal/layout":    {"launch/internal/sweep", "launch/spare"},
	"launch/internal/output":    {"internal/spool"},
	"launch/internal/progress":  {},
	"launch/internal/sweep":     {"internal/procs"},

	"internal/wire":      {"quorum", "internal/printable"},
	"internal/sim":       {"quorum", "quorum/shell", "internal/sim/..."},
	"internal/burst":     {},
	"internal/guard":     {"internal/burst", "internal/perhost", "internal/printable", "internal/proof"},
	"internal/perhost":   {},
	"internal/split":     {"internal/guard"},
	"internal/proof":     {},
	"internal/supply":    {},
	"internal/tidy":      {},
	"internal/invariant": {},
	"internal/memfd":     {},
	"internal/deathsig":  {},
	"internal/spool":     {},
	"internal/otherproc": {},
	"internal/shmring":   {"internal/step"},
	"internal/futex":     {"internal/step"},
	"internal/portlease": {},
	"internal/capi":      {"checkpoint", "checkpoint/safetensors", "dist/quant", "manager", "pg", "quorum", "store", "tensor"},
	"internal/testkit":   {},
	"internal/step":      {},
	"internal/backoff":   {},
	"internal/logkey":    {},
	"internal/monitor":   {},
	"internal/failpoint": {},
	"internal/netaddr":   {},
	"internal/nettest":   {},
	"internal/logline":   {"internal/printable"},
	"internal/printable": {},
	"internal/flagerror": {},
	"internal/procs":     {},
	"internal/problems":  {},
	"internal/boundjson": {},

	"internal/sim/checker":  {"quorum"}, // not the simulator, which it judges
	"internal/sim/many":     {"quorum", "quorum/shell", "internal/wire/...", "internal/sim/checker", "internal/sim/mix", "internal/sim/timeline"},
	"internal/sim/mix":      {},
	"internal/sim/raft":     {},
	"internal/sim/timeline": {},
	"internal/paralleltest": {},

	"cmd/internal":               {"internal/guard", "internal/printable", "internal/flagerror"},
	"cmd/internal/connect":       {"quorum", "lighthouse/...", "cmd/internal/...", "internal/guard", "internal/wire/..."},
	"cmd/internal/lighthousecmd": {"lighthouse/...", "cmd/internal/...", "internal/guard", "internal/printable"},
	"cmd/libskerry":              {"internal/capi", "pg/tcp"},
	"cmd/lighthouse":             {"cmd/internal/..."},
	"cmd/skerry": {
		"quorum", "store/...", "pg/...", "tensor", "checkpoint", "lighthouse/...", "manager/...",
		"train/...", "launch", "internal/wire/...", "internal/sim", "internal/sim/many", "internal/guard", "internal/portlease", "internal/printable", "internal/procs", "internal/deathsig", "internal/spool", "cmd/internal/...", "examples/...",
	},
	"examples/digits/trainer": {"launch/spare", "examples/...", "pg/...", "checkpoint/...", "dist/quant", "manager", "manager/oteltrace", "internal/printable", "internal/flagerror"},
	"examples/digits/gpu":     {"nccl", "pg/...", "tensor"},
	"examples/guide":          {"dist", "pg/...", "tensor", "train/..."},
	"scripts/images":          {}, // a module of its own
	"test/deploy/validate":    {}, // a module of its own

	"examples": {"pg/...", "dist/quant", "tensor", "checkpoint/...", "manager", "train/..."},
	"test": {
		"quorum", "store/...", "pg/...", "dist/...", "tensor", "nccl/...", "checkpoint/...", "lighthouse/...", "manager/...",
		"train/...", "internal/wire/...", "internal/sim", "internal/guard/...", "internal/portlease", "internal/procs", "examples/...",
	},
}

// testsMayImport is what the tests of a package may import on top; packages
// whose name ends in "test" are open to all tests.
var testsMayImport = map[string][]string{
	"store": {"store/certs", "internal/guard"},
	"nccl":  {"pg/baby", "pg/trace", "dist", "dist/object"},

	"nccl/gorgonia": {"pg", "tensor", "store"},
	"nccl/twin":     {"checkpoint/durable", "checkpoint/durable/localdir", "checkpoint/safetensors", "quorum"},

	"pg":      {"pg/trace", "pg/debug", "pg/fault"},
	"dist":    {"store/certs", "internal/guard"},
	"pg/tcp":  {"pg/trace", "pg/debug", "dist", "train/spawn", "internal/guard", "store/certs"},
	"pg/baby": {"pg/tcp", "internal/guard"},
	"manager": {"pg/tcp", "pg/trace", "tensor"},

	"checkpoint/pgcarrier":  {"pg/tcp"},
	"internal/capi":         {"pg/tcp"},
	"checkpoint/durable":    {"checkpoint/durable/localdir"},
	"checkpoint/durable/s3": {"quorum", "tensor"},

	"train/ddp":       {"train/ddp/powersgd"},
	"train/localsgd":  {"manager", "train/sampler"}, // an example has both
	"manager/torchft": {"lighthouse"},

	"manager/oteltrace": {"checkpoint", "tensor"},

	"train/place": {"dist", "tensor"},

	"launch/internal/layout": {"train/place"},

	"train/paramserver": {"pg/tcp", "tensor", "store/certs", "train/spawn"},
	"pg/pgmetrics":      {"pg/debug", "tensor"},
}

// openToTests are packages that any test may import.
var openToTests = []string{"internal/portlease", "internal/testkit", "pg/dummy"}

// openToAll are packages that hold nothing but names and switches, the pauses between
// two tries, a mutex to wait on, the words for a bad configuration, the rule of all
// listeners, the form of a log's lines, and the places in which a test may end a process.
var openToAll = []string{"internal/logkey", "internal/logline", "internal/invariant", "internal/netaddr", "internal/backoff", "internal/monitor", "internal/problems", "internal/failpoint"}

// Purity of quorum/.
const pureDir = "quorum"

// pureImports are all that quorum/, and what is below it, needs beside ours.
var pureImports = map[string]bool{
	"cmp": true, "errors": true, "fmt": true, "slices": true, "strings": true, "time": true,
}

// clockCalls are the names in package time that read or wait for a clock.
var clockCalls = []string{
	"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer",
}

// explained are packages of whose lines STYLE wants a third to be comments.
var explained = []string{pureDir}

// Limits of size, in lines.
const (
	maxFuncLines     = 70
	maxFileLines     = 800
	maxPackageLines  = 2000 // of production code
	maxTestFileLines = 1000
)
