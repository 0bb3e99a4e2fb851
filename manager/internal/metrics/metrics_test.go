package metrics

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// at is a time in a test.
func at(ms int) time.Time { return time.UnixMilli(1_000_000).Add(time.Duration(ms) * time.Millisecond) }

// spells are what a trainer does, and what its milliseconds were for.
var spells = []struct {
	name string
	run  func(c *clock)
	want [kinds]int // milliseconds
}{
	{"a step without collectives", func(c *clock) {
		c.enter(at(0))
		c.leave(at(10))
		c.enter(at(30))
		c.end(at(35), Useful)
		c.leave(at(36))
	}, [kinds]int{Useful: 20, Waiting: 16}},
	{"what is computed between steps is of the next", func(c *clock) {
		for i := range 2 {
			c.enter(at(100 * i))
			c.leave(at(100*i + 10))
			c.enter(at(100*i + 30))
			c.end(at(100*i+30), Useful)
			c.leave(at(100*i + 30))
		}
	}, [kinds]int{Useful: 20 + 70 + 20, Waiting: 20}},
	{"an attempt is done anew", func(c *clock) {
		c.enter(at(0))
		c.leave(at(0))
		c.enter(at(20))
		c.end(at(20), Redone)
		c.leave(at(25))
		c.enter(at(45))
		c.end(at(45), Useful)
		c.leave(at(45))
	}, [kinds]int{Redone: 20, Waiting: 5, Useful: 20}},
	{"a heal in StartQuorum", func(c *clock) {
		c.enter(at(0))
		c.heals(at(5), true)
		c.heals(at(25), false)
		c.leave(at(27))
	}, [kinds]int{Waiting: 7, Healing: 20}},
	{"a heal beside the forward pass", func(c *clock) {
		c.enter(at(0))
		c.leave(at(1))
		c.heals(at(5), true)
		c.enter(at(20))
		c.heals(at(25), false)
		c.end(at(26), Unused)
		c.leave(at(26))
	}, [kinds]int{Waiting: 2, Healing: 5, Unused: 19}},
	{"a copy before the first join", func(c *clock) {
		c.enter(at(0))
		c.healed(at(30), 20*time.Millisecond)
		c.leave(at(32))
	}, [kinds]int{Waiting: 12, Healing: 20}},
	{"a collective that is waited for", func(c *clock) {
		c.enter(at(0))
		c.leave(at(0))
		c.issue(at(10))
		c.finish(at(17))
		c.enter(at(20))
		c.end(at(20), Useful)
		c.leave(at(20))
	}, [kinds]int{Useful: 13, Waiting: 7}},
	{"buckets beside the backward pass", func(c *clock) {
		c.enter(at(0))
		c.leave(at(0))
		c.issue(at(10))
		c.issue(at(20))
		c.finish(at(25))
		c.finish(at(28))
		c.enter(at(30))
		c.end(at(30), Useful)
		c.leave(at(30))
	}, [kinds]int{Useful: 22, Waiting: 8}},
	{"collectives that ShouldCommit waits for count once", func(c *clock) {
		c.enter(at(0))
		c.leave(at(0))
		c.issue(at(10))
		c.enter(at(12))
		c.finish(at(20))
		c.end(at(21), Useful)
		c.leave(at(21))
	}, [kinds]int{Useful: 12, Waiting: 9}},
	{"nothing before the first call", func(c *clock) {
		c.heals(at(0), true)
		c.healed(at(1), time.Second)
		c.issue(at(2))
		c.finish(at(5))
		c.enter(at(10))
		c.leave(at(11))
	}, [kinds]int{Waiting: 1}},
}

// Each millisecond is of one kind, and all are accounted for.
func TestClock(t *testing.T) {
	t.Parallel()
	for _, tc := range spells {

		var c clock
		tc.run(&c)
		for kind, want := range tc.want {
			if got := c.seconds()[kind]; got != time.Duration(want)*time.Millisecond {
				t.Errorf("%s: %v of kind %v, want %d ms", tc.name, got, Kind(kind), want)
			}
		}
	}
}

func TestStepsAndWaits(t *testing.T) {
	t.Parallel()
	var c clock
	c.enter(at(0))
	c.leave(at(1))
	c.issue(at(10))
	c.issue(at(20))
	if wait, last := c.finish(at(30)); last {
		t.Errorf("the first of two ends the wait, %v", wait)
	}
	if wait, last := c.finish(at(40)); !last || wait != 20*time.Millisecond {
		t.Errorf("waited %v (%t), want 20 ms", wait, last)
	}
	if took := c.end(at(50), Useful); took != 50*time.Millisecond {
		t.Errorf("the first step took %v, want 50 ms", took)
	}
	if took := c.end(at(75), Redone); took != 25*time.Millisecond {
		t.Errorf("the next took %v, want 25 ms", took)
	}
}

func source(replica string) Source {
	no := func() bool { return false }
	return Source{
		Job: "j", Replica: replica, Counts: func() Counts { return Counts{Commits: 4, HealBytes: 9} }, Step: func() int64 { return 4 },
		Participants: func() int { return 2 }, Participating: no, Healing: no,
		LogLeftOut: func() uint64 { return 0 }, CertificateUntil: func() float64 { return 0 },
	}
}

// Several replicas share a registry, for their names are labels; one replica is in it once.
func TestRegistry(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	a, errA := New(source("a"), registry)
	b, errB := New(source("b"), registry)
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	again, err := New(source("a"), registry)
	if err == nil || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("a replica twice: %v, want an error that names it", err)
	}
	again.Close() // takes out nothing
	a.QuorumFell()
	a.Configured(time.Second)
	a.Configured(time.Second)
	a.HealDone(time.Second, nil)
	a.HealDone(time.Second, errors.New("cut"))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]uint64)
	for _, f := range families {
		if len(f.GetMetric())%2 != 0 {
			t.Errorf("%s has %d series of two replicas", f.GetName(), len(f.GetMetric()))
		}
		m := f.GetMetric()[0]
		got[strings.TrimPrefix(f.GetName(), prefix)] = uint64(m.GetCounter().GetValue()) + m.GetHistogram().GetSampleCount()
	}
	for name, want := range map[string]uint64{"commits_total": 4, "heal_bytes_total": 9, "heal_seconds": 1, "heals_broken_off_total": 1,
		"reform_seconds": 1, "configure_seconds": 2, "quorums_fallen_total": 1} {
		if got[name] != want {
			t.Errorf("%s = %d, want %d", name, got[name], want)
		}
	}
	a.Close()
	b.Close()
	if families, _ := registry.Gather(); len(families) != 0 {
		t.Errorf("%d metrics left", len(families))
	}
}
