// Package progress counts how many steps a launcher's replicas have committed, from what a
// lighthouse shows of them now and then. It is pure.
package progress

import (
	"strconv"
	"strings"
)

// Seen is one replica as a lighthouse shows it.
type Seen struct {
	ID     string // of the incarnation
	Step   int64
	Trains bool // it takes part, and does not heal
}

// Index finds the index that the name of a replica, before its incarnation, ends with:
// "7:…", "replica-7:…" and "train_ddp_7:…" are of index 7.
func Index(id string) (index int, ok bool) {
	name, _, _ := strings.Cut(id, ":")
	digits := name[len(strings.TrimRight(name, "0123456789")):]
	index, err := strconv.Atoi(digits)
	return index, err == nil
}

// Counter counts for one replica. Its zero value has seen nothing; it is owned by one
// goroutine.
type Counter struct{ last Seen }

// See takes a look, and returns how many steps were committed since the one before. What an
// incarnation got by a heal it has not committed: two looks at which it trains bound what
// counts.
func (c *Counter) See(now Seen) (steps int64) {
	if now.ID == c.last.ID && now.Trains && c.last.Trains {
		steps = max(now.Step-c.last.Step, 0)
	}
	c.last = now
	return steps
}
