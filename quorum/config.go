package quorum

import (
	"errors"
	"fmt"
	"time"
)

// DefaultConfig has the values that suit our own clients; jobs of torchft's
// clients want a HeartbeatTimeout of 5 s. By them the others wait
//
//	not at all    for a member whose stream broke and whose link to a peer broke
//	1 s           for one that falls silent, or that only one kind of witness accuses
//	10 s          for one that is heard, and does not join after a fall
//	60 s          or ten steps, for one whose trainer hangs while they wait for its operations
func DefaultConfig() Config {
	return Config{
		MinReplicas:      1,
		JoinTimeout:      10 * time.Second,
		HeartbeatTimeout: time.Second,
		SuspectAfter:     500 * time.Millisecond,
		Grace:            time.Second,
		StuckAfter:       time.Minute,
	}
}

// Validate returns every problem at once, each as "Field = value, want bound": an operator who
// sets several fields mends them in one go. New panics at a config that does not pass it.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, field string, value any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s = %v, want %s", field, value, want))
		}
	}
	// Q3: no quorum is empty, and none has more than MaxMembers.
	check(c.MinReplicas >= 1 && c.MinReplicas <= MaxMembers, "MinReplicas", c.MinReplicas,
		fmt.Sprintf("1 to %d", MaxMembers))
	check(c.MaxReplicas >= 0 && c.MaxReplicas <= MaxMembers, "MaxReplicas", c.MaxReplicas,
		fmt.Sprintf("0 to %d", MaxMembers))
	// Otherwise no quorum could be formed (Q3).
	check(c.MaxReplicas == 0 || c.MaxReplicas >= c.MinReplicas, "MaxReplicas", c.MaxReplicas,
		fmt.Sprintf("0 or at least MinReplicas (%d)", c.MinReplicas))
	// 0 waits for no straggler: a quorum that fell is followed by those who have joined, as soon as
	// they are a majority of the live (Q5).
	check(c.JoinTimeout >= 0, "JoinTimeout", c.JoinTimeout, "at least 0")
	// At 0 each replica would be lost in the moment in which it is heard (lostBy).
	check(c.HeartbeatTimeout > 0, "HeartbeatTimeout", c.HeartbeatTimeout, "more than 0")
	// Above that a silent replica would be lost before its peers were asked (§6).
	check(c.SuspectAfter > 0 && c.SuspectAfter <= c.HeartbeatTimeout, "SuspectAfter", c.SuspectAfter,
		fmt.Sprintf("more than 0, at most HeartbeatTimeout (%v)", c.HeartbeatTimeout))
	// At 0 a suspect would be lost before it could answer the probe (§6).
	check(c.Grace > 0, "Grace", c.Grace, "more than 0")
	// Below that a replica that is merely silent would be stuck before it is lost.
	check(c.StuckAfter == 0 || c.StuckAfter >= c.HeartbeatTimeout, "StuckAfter", c.StuckAfter,
		fmt.Sprintf("0 or at least HeartbeatTimeout (%v)", c.HeartbeatTimeout))
	// Where none is ever stuck it would promise what never comes.
	check(!c.EvictStuck || c.StuckAfter > 0, "EvictStuck", c.EvictStuck, "false when StuckAfter is 0")
	check(c.ProbationAfter >= 0 && c.ProbationAfter <= MaxProbationAfter, "ProbationAfter", c.ProbationAfter,
		fmt.Sprintf("0 to %d", MaxProbationAfter))
	return errors.Join(errs...)
}

// maxReplicas is the bound in force.
func (c Config) maxReplicas() int {
	// A quorum cannot have more, whatever is configured.
	if c.MaxReplicas == 0 {
		return MaxMembers
	}
	return c.MaxReplicas
}
