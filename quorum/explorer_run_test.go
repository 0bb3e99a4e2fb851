package quorum_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
)

// start brings a fresh world to its first quorum, with nothing spent: all
// replicas join, and hear the answer. Every search begins there.
func (x *explorer) start(w *world) error {
	left := w.Left
	w.Left.Quorums = 1
	for range 50 {
		moved, err := x.fairRound(w)
		if err != nil {
			return err
		}
		if w.up() > 0 && w.Reps[0].In() != nil && w.stands(w.Reps[0].In()) {
			w.Left = left
			return nil
		}
		if !moved {
			if err := x.pass(w); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("Q6: no first quorum: %v", w.LH.Decide(w.Now).Reason)
}

// smallWorld is one search.
type smallWorld struct {
	name  string
	reps  int
	ranks int
	min   int
	b     budget
}

// A world's size is a matter of its budget: one more fault makes it about ten
// times as large.

// boundedWorlds fit into a plain test run together.
func boundedWorlds() []smallWorld {
	return []smallWorld{
		{"no fault", 3, 1, 1, budget{Quorums: 2, Steps: 4}},
		{"two replicas, one lost ballot", 2, 1, 1, budget{Quorums: 2, Breaks: 1, GiveUps: 1, Steps: 2}},
		{"lost ballots and give-ups", 3, 1, 1, budget{Quorums: 2, Breaks: 1, GiveUps: 2, Steps: 2}},
		{"a crash and its successor", 3, 1, 1, budget{Quorums: 3, Crashes: 1, Restarts: 1, Breaks: 1, Steps: 3}},
		{"a cut session", 3, 1, 1, budget{Quorums: 2, Cuts: 1, Breaks: 1, GiveUps: 1, Steps: 2}},
		{"a new leader", 3, 1, 1, budget{Quorums: 2, Leaders: 1, Breaks: 1, Steps: 2}},
		{"withdrawn asks", 2, 1, 1, budget{Quorums: 3, Crashes: 1, Restarts: 1, Withdraws: 2, Cuts: 1, Steps: 3}},
		{"odd digests", 3, 1, 1, budget{Quorums: 2, Breaks: 2, Odds: 2, Steps: 2}},
		{"two ranks", 2, 2, 1, budget{Quorums: 2, Crashes: 1, Breaks: 1, GiveUps: 1, Steps: 2}},
		{"heals that fail", 3, 1, 1, budget{Quorums: 3, Crashes: 1, Restarts: 1, Breaks: 1, Unhealed: 1, Steps: 3}},
		{"two of three needed", 3, 1, 2, budget{Quorums: 2, Crashes: 1, Cuts: 1, Breaks: 1, Steps: 2}},
	}
}

// fullWorlds take minutes each.
func fullWorlds() []smallWorld {
	return []smallWorld{
		{"two replicas, every fault", 2, 1, 1, budget{Quorums: 3, Crashes: 1, Restarts: 1, Cuts: 1, Breaks: 1, GiveUps: 1, Steps: 2}},
		{"two replicas of two ranks", 2, 2, 1, budget{Quorums: 3, Crashes: 1, Cuts: 1, Breaks: 2, GiveUps: 1, Steps: 3}},
		{"one lost ballot", 3, 1, 1, budget{Quorums: 1, Breaks: 1, Steps: 1}},
		{"give-ups", 3, 1, 1, budget{Quorums: 2, Breaks: 1, GiveUps: 2, Steps: 1}},
		{"a crash", 3, 1, 1, budget{Quorums: 2, Crashes: 1, Breaks: 1, Steps: 1}},
		{"a crash and its successor", 3, 1, 1, budget{Quorums: 3, Crashes: 1, Restarts: 1, Breaks: 1, GiveUps: 1, Steps: 3}},
		{"cut sessions", 3, 1, 1, budget{Quorums: 3, Cuts: 2, Breaks: 1, GiveUps: 1, Steps: 2}},
		{"new leaders", 3, 1, 1, budget{Quorums: 3, Leaders: 2, Breaks: 1, GiveUps: 1, Steps: 2}},
		{"withdrawn asks", 2, 1, 1, budget{Quorums: 4, Crashes: 1, Restarts: 1, Withdraws: 3, Cuts: 1, Breaks: 1, Steps: 4}},
		{"odd digests", 3, 1, 1, budget{Quorums: 3, Breaks: 2, Odds: 2, GiveUps: 1, Steps: 2}},
		{"two ranks", 3, 2, 1, budget{Quorums: 2, Crashes: 1, Breaks: 1, GiveUps: 1, Steps: 2}},
		{"heals that fail", 3, 1, 1, budget{Quorums: 4, Crashes: 2, Restarts: 1, Breaks: 1, Unhealed: 1, Steps: 3}},
		{"two of three needed", 3, 1, 2, budget{Quorums: 3, Crashes: 1, Restarts: 1, Cuts: 1, Breaks: 1, Steps: 2}},
		{"five quorums", 3, 1, 1, budget{Quorums: 5, Crashes: 1, Restarts: 1, Cuts: 1, Breaks: 2, GiveUps: 2, Leaders: 1, Steps: 5}},
	}
}

// TestExplorer searches small worlds for a violation of Q1 to Q7, Q10, C1,
// C2, C4, C5 and C6, and for a state from which the replicas do not come
// together again (Q6). With -full it takes larger worlds, two million states of
// each at most: go test ./quorum -run 'TestExplorer$' -v -timeout 3h -full.
func TestExplorer(t *testing.T) {
	worlds, lim := boundedWorlds(), limits{States: 20_000, Time: 1500 * time.Millisecond, Fair: 9}
	if *full {
		worlds, lim = fullWorlds(), limits{States: 2_000_000, Time: 15 * time.Minute, Fair: 40}
	} else if testing.Short() || !testkit.All() {
		lim.States, lim.Time = 4_000, 400*time.Millisecond
	}
	for _, sw := range worlds {
		t.Run(sw.name, func(t *testing.T) {
			t.Parallel()
			sw.run(t, lim)
		})
	}
}

func (sw smallWorld) run(t *testing.T, lim limits) {
	x, err := newExplorer(sw.reps, sw.ranks, realMechanics(), mangle{})
	if err != nil {
		t.Fatal(err)
	}
	fresh := func() *world {
		w := newWorld(sw.reps, sw.ranks, explorerConfig(sw.min), sw.b)
		if err := x.start(w); err != nil {
			t.Fatal(err)
		}
		return w
	}
	begun := time.Now()
	if v := x.search(fresh(), lim); v != nil {
		x.report(t, fresh, v)
		return
	}
	end := "searched to its end"
	if x.Stopped {
		end = "stopped at its limit"
	}
	t.Logf("%d states, %d moves, %d fair runs, %v: %s", x.States, x.Moves, x.Fair,
		time.Since(begun).Round(time.Millisecond), end)
}

// TestExplorerOutcomes pins what a step can come to: beside a commit nobody
// refuses (C2, C5), for one and two ranks and any member that cannot heal.
func TestExplorerOutcomes(t *testing.T) {
	for _, c := range []struct{ members, ranks, want int }{{1, 1, 0}, {2, 1, 0}, {3, 1, 0}, {2, 2, 0}, {3, 2, 0}} {
		for mask := range uint8(1<<c.members - 1) {
			o, err := outcomes(realMechanics(), c.members, c.ranks, mask)
			if err != nil {
				t.Fatal(err)
			}
			if !hasOutcome(o, resCommit) || !hasOutcome(o, resRefused) {
				t.Errorf("%d members of %d ranks: outcomes lack a commit or a refusal: %v", c.members, c.ranks, o)
			}
		}
	}
}

func hasOutcome(os []outcome, want result) bool {
	for _, o := range os {
		for _, m := range o {
			if m.Res == want {
				return true
			}
		}
	}
	return false
}
