package procs

import (
	"net/netip"
	"strconv"
	"strings"
)

// sameReplica are the variables by which launchers tell the ranks of one replica from those
// of others: all ranks of a replica have the same values.
var sameReplica = []string{"REPLICA_GROUP_ID", "SKERRY_JOB", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "WORLD_SIZE"}

// Ranks are the processes above rank 0 of the replica whose manager is a process that listens
// at an address, by rank: a launcher says in their environment which they are, and they hold a
// connection to the manager, as a stranger with the same environment does not. A variable that
// only one of two has makes them different. A rank's own children, which inherit all that,
// are none. Where two processes are the same rank, neither is told.
func (t *Table) Ranks(of int, at netip.AddrPort) map[int]int {
	mine := environ(of)
	if mine["MASTER_PORT"] == "" && mine["REPLICA_GROUP_ID"] == "" {
		return nil // it was not started by a launcher that says so
	}
	ranks := make(map[int]int) // rank by process
	pids, _ := All()           // without it there are none
	for _, pid := range pids {
		env := environ(pid)
		rank, err := strconv.Atoi(env["RANK"])
		if err != nil || rank < 1 || pid == of || pid == 1 { // signals to the first of a namespace are lost
			continue
		}
		if sameIn(env, mine) && t.ConnectedTo(pid, []netip.AddrPort{at}) {
			ranks[pid] = rank
		}
	}
	return unique(ranks)
}

// sameIn tells whether two environments are those of one replica.
func sameIn(a, b map[string]string) bool {
	for _, name := range sameReplica {
		x, there := a[name]
		y, too := b[name]
		if x != y || there != too {
			return false
		}
	}
	return true
}

// unique are the processes by rank, without children of the same rank, and without ranks that
// more than one has.
func unique(ranks map[int]int) map[int]int {
	found, twice := make(map[int]int), make(map[int]bool)
	for pid, rank := range ranks {
		if r, inherited := ranks[parent(pid)]; inherited && r == rank {
			continue
		}
		twice[rank] = twice[rank] || found[rank] != 0
		found[rank] = pid
	}
	for rank, more := range twice {
		if more {
			delete(found, rank)
		}
	}
	return found
}

// environ is the environment that a process was started with; empty if it may not be read.
func environ(pid int) map[string]string {
	env := make(map[string]string)
	for _, one := range Environ(pid) {
		if name, value, ok := strings.Cut(string(one), "="); ok {
			env[name] = value
		}
	}
	return env
}

// parent is a process's parent, 0 if it is gone.
func parent(pid int) int {
	p, _ := Stat(pid)
	return p.Parent
}
