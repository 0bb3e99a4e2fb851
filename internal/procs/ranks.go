package procs

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// sameReplica are the variables by which launchers tell the ranks of one replica from those
// of others: all ranks of a replica have the same values.
var sameReplica = []string{"REPLICA_GROUP_ID", "SKERRY_JOB", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "WORLD_SIZE"}

// Ranks are the processes above rank 0 of the replica that a process belongs to, by rank: a
// launcher says in their environment which they are. A rank's own children, which inherit
// that, are none.
func Ranks(of int) map[int]int {
	mine := environ(of)
	if mine["MASTER_PORT"] == "" && mine["REPLICA_GROUP_ID"] == "" {
		return nil // it was not started by a launcher that says so
	}
	found := make(map[int]int)
	ranks := make(map[int]int) // rank by process
	for _, pid := range all() {
		env := environ(pid)
		rank, err := strconv.Atoi(env["RANK"])
		if err != nil || rank < 1 || pid == of {
			continue
		}
		same := true
		for _, name := range sameReplica {
			same = same && env[name] == mine[name]
		}
		if same {
			ranks[pid] = rank
		}
	}
	for pid, rank := range ranks {
		if r, inherited := ranks[parent(pid)]; !inherited || r != rank {
			found[rank] = pid
		}
	}
	return found
}

// environ is the environment that a process was started with; nil if it may not be read.
func environ(pid int) map[string]string {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ") // it may be another user's, or have ended
	env := make(map[string]string)
	for one := range bytes.SplitSeq(text, []byte{0}) {
		if name, value, ok := strings.Cut(string(one), "="); ok {
			env[name] = value
		}
	}
	return env
}

// parent is a process's parent, 0 if it is gone.
func parent(pid int) int {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat") // as above
	_, rest, _ := strings.Cut(string(text[bytes.LastIndexByte(text, ')')+1:]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return 0
	}
	p, _ := strconv.Atoi(fields[1]) // the kernel writes a number
	return p
}
