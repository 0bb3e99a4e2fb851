package many

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Costs are what things cost: times of one core, unless it is said otherwise. docs/SCALE.md tells by
// which benchmark each default was measured.
type Costs struct {
	cores     int     // of each host
	bandwidth float64 // bytes a second of a host's interface, each way
	gradients int     // bytes that a step reduces

	// Latency is how long a message is under way between two hosts, at least; up to twice as much is drawn.
	Latency time.Duration
	// Detect is how long a peer takes to see that a socket has ended, at most; time that passes.
	Detect time.Duration
	// Write is what an entry takes in raft, Election what a change of leader takes at most, Heal what a
	// newcomer takes that has copied a state ahead, for what changed since: all times that pass.
	Write, Election, Heal time.Duration

	// Message is what the lighthouse takes for one message in or out, In for each KiB that it decodes and
	// acts on, Out for each that it sends; Beat for a beat; Decide for a decision, for each replica that it knows.
	Message, In, Out, Beat, Decide time.Duration
	// Take is what a replica takes for each KiB of an answer, Name for each member of a view, whom it gives a name.
	Take, Name time.Duration

	// Of the mesh, both ends together: Ballot is what a message of an exchange of ballots takes, Part one of an
	// exchange of gradients, and PartKiB each KiB of it; Abort one that says that a group broke. New is what an
	// edge takes that is made, Kept what one takes that is kept for another quorum.
	Ballot, Part, PartKiB, Abort, New, Kept time.Duration
	// Get is what a look-up of an address takes, and Meet a client that comes to the store, says its own, and
	// goes. Of both the store's host pays all: it is where they pile up.
	Get, Meet time.Duration
}

// DefaultCosts are measured ones, for hosts of two cores with interfaces of 10 Gbit/s.
func DefaultCosts() Costs {
	return Costs{
		cores: 2, bandwidth: 1.25e9, gradients: 25 << 20,
		Latency: 100 * time.Microsecond, Detect: 31 * time.Millisecond,
		Write: 800 * time.Microsecond, Election: 800 * time.Millisecond, Heal: 30 * time.Millisecond,
		Message: 44 * time.Microsecond, In: 13 * time.Microsecond, Out: time.Microsecond,
		Beat: 27 * time.Microsecond, Decide: 100 * time.Nanosecond, Take: 12 * time.Microsecond, Name: 330 * time.Nanosecond,
		Ballot: 16 * time.Microsecond, Part: 16 * time.Microsecond, PartKiB: 700 * time.Nanosecond, Abort: 33 * time.Microsecond,
		New: 361 * time.Microsecond, Kept: 127 * time.Microsecond, Get: 14 * time.Microsecond, Meet: 140 * time.Microsecond,
	}
}

// named are the times that Set sets.
func (c *Costs) named() map[string]*time.Duration {
	return map[string]*time.Duration{
		"latency": &c.Latency, "detect": &c.Detect, "write": &c.Write, "election": &c.Election, "heal": &c.Heal,
		"message": &c.Message, "in": &c.In, "out": &c.Out, "beat": &c.Beat, "decide": &c.Decide, "take": &c.Take, "name": &c.Name,
		"ballot": &c.Ballot, "part": &c.Part, "part-kib": &c.PartKiB, "abort": &c.Abort, "new": &c.New, "kept": &c.Kept, "get": &c.Get, "meet": &c.Meet,
	}
}

// String is all that Set sets.
func (c *Costs) String() string {
	named := c.named()
	var all []string
	for _, name := range slices.Sorted(maps.Keys(named)) {
		all = append(all, fmt.Sprintf("%s=%v", name, *named[name]))
	}
	return strings.Join(all, " ")
}

// Set sets one cost, by "name=duration", and bounds it.
func (c *Costs) Set(text string) error {
	name, value, _ := strings.Cut(text, "=")
	at := c.named()[name]
	if at == nil {
		return fmt.Errorf("cost = %s, want one of %s", strconv.Quote(text), c)
	}
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 || d > time.Minute {
		return fmt.Errorf("cost %s = %s, want a duration above 0, 1m at most, as in %s=%v", name, strconv.Quote(value), name, *at)
	}
	*at = d
	return nil
}

// kib is a cost for each KiB of so many bytes.
func kib(bytes int, each time.Duration) time.Duration {
	return time.Duration(float64(bytes) / 1024 * float64(each))
}

// wire is how long bytes take through an interface.
func (c *Costs) wire(bytes int) time.Duration {
	return time.Duration(float64(bytes) / c.bandwidth * float64(time.Second))
}

// reduce is how long an exchange of gradients between n members takes, from when the last is there.
func (c *Costs) reduce(n int) time.Duration {
	messages, part := 2*(n-1), c.gradients/n
	work := time.Duration(messages) * (c.Part + kib(part, c.PartKiB))
	return 2*c.Latency + max(work/time.Duration(c.cores), c.wire(messages*part))
}

// each is what n things cost a host that does them on all its cores.
func (c *Costs) each(n int, cost time.Duration) time.Duration {
	return time.Duration(n) * cost / time.Duration(c.cores)
}
