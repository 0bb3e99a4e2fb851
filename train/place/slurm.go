package place

import (
	"fmt"
	"strconv"
	"strings"
)

// The port of rank 0 under Slurm: firstSlurmPort and so on, for portRange ports.
const (
	firstSlurmPort = 15000
	portRange      = 10000
	stepStride     = 97 // between two steps of a job, so that they can run beside each other
)

// slurm is srun. A batch script has SLURM_PROCID too, but is no step.
func slurm() Launcher {
	return Launcher{
		Name:  "slurm",
		There: func(e Env) bool { return e.Var("SLURM_STEP_ID") != "" && e.Var("SLURM_PROCID") != "" },
		Read: func(e Env) (Place, error) {
			r, p := &reader{env: e}, Place{Job: e.Var("SLURM_JOB_ID")}
			r.rank(&p, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS")
			most := max(p.WorldSize, 1)
			p.LocalRank = r.number(0, most-1, "SLURM_LOCALID")
			p.Nodes = r.number(1, most, "SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES", "SLURM_NNODES")
			p.NodeRank = r.number(0, most-1, "SLURM_NODEID")
			p.Restart = r.optional(0, 0, MaxWorldSize, "SLURM_RESTART_COUNT")
			p.LocalSize = r.tasksHere(p.NodeRank)
			step := r.number(0, 1<<32-1, "SLURM_STEP_ID")
			port := firstSlurmPort + (lastDigits(p.Job)+step%portRange*stepStride)%portRange
			r.master(&p, r.firstHost(), port, "")
			return r.done(p)
		},
	}
}

// firstHost is that of the step's list, or "" where MASTER_ADDR is set.
func (r *reader) firstHost() string {
	if r.env.Var("MASTER_ADDR") != "" {
		return ""
	}
	name, list := r.first("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
	hosts, err := ExpandHosts(list)
	if err != nil {
		r.bad.Add(fmt.Errorf("%s = %q: %w", name, clip(list), err))
		return "unknown"
	}
	return hosts[0]
}

// tasksHere is how many tasks the node of an index has, of "2(x3),1": two on each of the
// first three, one on the fourth. It is 0 if no variable says.
func (r *reader) tasksHere(node int) int {
	name, list := r.first("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
	if list == "" || len(list) > MaxTextBytes {
		return 0
	}
	for part := range strings.SplitSeq(list, ",") {
		count, rest, repeated := strings.Cut(part, "(x")
		tasks, err := strconv.Atoi(count)
		times := 1
		if err == nil && repeated {
			times, err = strconv.Atoi(strings.TrimSuffix(rest, ")"))
		}
		if err != nil || tasks < 1 || times < 1 || tasks > MaxWorldSize || times > MaxWorldSize {
			r.bad.Want(false, name, clip(list), "counts like 2(x3),1")
			return 0
		}
		if node < times {
			return tasks
		}
		node -= times
	}
	r.bad.Want(false, name, clip(list), "a count for each node up to SLURM_NODEID")
	return 0
}
