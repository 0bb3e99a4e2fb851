package manager

import (
	"time"

	"github.com/skerry-ft/skerry/manager/internal/replica"
)

// Timeouts is everything that a Manager waits for, derived from the two
// figures that a user gives. They are backstops: wherever a message can tell,
// the message comes first (C7).
type Timeouts struct {
	Step      time.Duration // one collective, or one exchange of ballots
	Heal      time.Duration // one state transfer; also a step during which a member heals
	Quorum    time.Duration // how long a step waits for an answer before it is discarded
	Settle    time.Duration // how long a prepared step waits for its settlement
	Vote      time.Duration // how long a rank waits for its siblings' votes
	Configure time.Duration // one rendezvous of the process group
	Connect   time.Duration // first contact with any lighthouse server
	Dial      time.Duration // one server: connection and welcome
	Call      time.Duration // one unary call to a peer's manager
	Drain     time.Duration // from a drain to the first quorum without us
	Linger    time.Duration // after it, for the others to configure
}

// Bounds of the derived timeouts.
const (
	maxConfigure = 30 * time.Second
	maxConnect   = 30 * time.Second
	maxDial      = 5 * time.Second
	maxCall      = 5 * time.Second
	minDerived   = 200 * time.Millisecond
	linger       = 2 * time.Second
)

// deriveTimeouts is the one table: no other place computes a timeout.
func deriveTimeouts(step, heal time.Duration) Timeouts {
	part := func(of int, most time.Duration) time.Duration {
		return max(min(step/time.Duration(of), most), minDerived)
	}
	return Timeouts{
		Step:      step,
		Heal:      heal, // a step at least: see validateRules
		Quorum:    step,
		Settle:    step,
		Vote:      step,
		Configure: part(2, maxConfigure),
		Connect:   part(1, maxConnect),
		Dial:      part(6, maxDial),
		Call:      part(6, maxCall),
		Drain:     step,
		Linger:    min(step, linger),
	}
}

// ofReplica are those that the replica's server needs.
func (t Timeouts) ofReplica() replica.Timeouts {
	return replica.Timeouts{Connect: t.Connect, Dial: t.Dial, Call: t.Call, Configure: t.Configure}
}
