package layout

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/skerry-ft/skerry/launch/internal/sweep"
	"github.com/skerry-ft/skerry/launch/spare"
)

// Plan is what is the same for all starts.
type Plan struct {
	Job         string
	Ranks       int // of a replica
	Nodes       int // launchers that share the job
	Node        int // which of them this one is
	MaxRestarts int
	Lighthouse  []string // host:port
	TLS         bool     // the lighthouse speaks it
	CUDADevices []string // of this host, for the ranks of its replicas in turn
}

// Start is one start of a replica, or of a spare.
type Start struct {
	Replica  int // among this launcher's; of a spare it has no meaning
	Slot     int // which share of the devices it has
	Replicas int // how many the job is to have at the moment, all launchers together
	Before   int // starts of this replica before
	Port     int // of its store, on loopback
}

// Index is the index in the job of a replica of this launcher: the job's replicas are dealt out to
// the nodes in turn.
func (p Plan) Index(replica int) int { return replica*p.Nodes + p.Node }

// Share is how many of the job's replicas this launcher starts, of so many that are wanted.
func (p Plan) Share(wanted int) int { return (wanted + p.Nodes - 1 - p.Node) / p.Nodes }

// Name is how a replica is called.
func (p Plan) Name(replica int) string { return "replica-" + strconv.Itoa(p.Index(replica)) }

// SpareName is how a spare is called, which no other launcher's is.
func (p Plan) SpareName(spare int) string { return "spare-" + strconv.Itoa(p.Index(spare)) }

// Place are the variables by which a start is a replica of the job. A spare is told them when it
// becomes one.
func (p Plan) Place(s Start) map[string]string {
	return map[string]string{
		"REPLICA_GROUP_ID":   strconv.Itoa(p.Index(s.Replica)),
		"NUM_REPLICA_GROUPS": strconv.Itoa(s.Replicas),
		restartCount:         strconv.Itoa(s.Before),
		"SKERRY_LIGHTHOUSE":  strings.Join(p.Lighthouse, ","),
		"TORCHFT_LIGHTHOUSE": p.url(),
	}
}

// Vars are the variables of one rank of a start; errorFile is where torch's @record writes. gate,
// if it is not empty, is the socket at which a rank of a spare is told its place: it has none here,
// nor what a shell around the launcher says of one.
func (p Plan) Vars(s Start, rank int, errorFile, gate string) []string {
	r, n := strconv.Itoa(rank), strconv.Itoa(p.Ranks)
	vars := []string{
		"RANK=" + r, "LOCAL_RANK=" + r, "ROLE_RANK=" + r,
		"WORLD_SIZE=" + n, "LOCAL_WORLD_SIZE=" + n, "ROLE_WORLD_SIZE=" + n,
		"GROUP_RANK=0", "GROUP_WORLD_SIZE=1", "ROLE_NAME=default",
		"MASTER_ADDR=" + Loopback, "MASTER_PORT=" + strconv.Itoa(s.Port),
		"TORCHELASTIC_RUN_ID=" + p.Job,
		"TORCHELASTIC_MAX_RESTARTS=" + strconv.Itoa(p.MaxRestarts),
		"TORCHELASTIC_USE_AGENT_STORE=True",
		"TORCHELASTIC_ERROR_FILE=" + errorFile,
		"SKERRY_JOB=" + p.Job,
		"SKERRY_PLAIN_GROUP_STORE=true",
		spare.Variable + "=" + gate,
	}
	for name, value := range p.Place(s) {
		if gate != "" && name != restartCount {
			value = ""
		}
		vars = append(vars, name+"="+value)
	}
	if share := p.devices(s.Slot); len(share) > 0 {
		vars = append(vars, "CUDA_VISIBLE_DEVICES="+strings.Join(share, ","))
	}
	return vars
}

// restartCount is also what keys of a store are named by, so that a spare has one, too.
const restartCount = "TORCHELASTIC_RESTART_COUNT"

// Loopback is where the replicas' stores are.
const Loopback = "127.0.0.1"

// url is the lighthouse as torchft wants it: one address, as a URL.
func (p Plan) url() string {
	if len(p.Lighthouse) == 0 {
		return ""
	}
	scheme := "http"
	if p.TLS {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s", scheme, p.Lighthouse[0])
}

// devices are those of a slot: as many as a replica has ranks, so that LOCAL_RANK names one.
func (p Plan) devices(slot int) []string {
	begin := min(slot*p.Ranks, len(p.CUDADevices))
	return p.CUDADevices[begin:min(begin+p.Ranks, len(p.CUDADevices))]
}

// Environ is base with vars on top, and the start's mark beside those of launchers around
// this one: a variable stands in it once, and the last one counts. What is a default only
// stays as base has it.
func (p Plan) Environ(base, vars []string, mark string) []string {
	if outer := lookup(base, sweep.Variable); outer != "" {
		mark = outer + "," + mark
	}
	defaults := []string{"PYTHONUNBUFFERED=1", "TORCH_NCCL_ASYNC_ERROR_HANDLING=1"}
	if p.Ranks > 1 {
		defaults = append(defaults, "OMP_NUM_THREADS=1")
	}
	var out []string
	set := make(map[string]int)
	for _, v := range slices.Concat(defaults, base, vars, []string{sweep.Variable + "=" + mark}) {
		name, _, _ := strings.Cut(v, "=")
		if i, found := set[name]; found {
			out[i] = v
			continue
		}
		set[name] = len(out)
		out = append(out, v)
	}
	return out
}

func lookup(env []string, name string) (value string) {
	for _, v := range env {
		if n, text, _ := strings.Cut(v, "="); n == name {
			value = text
		}
	}
	return value
}
