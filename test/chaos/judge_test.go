package chaos

import (
	"maps"
	"slices"
	"strings"
	"syscall"

	"github.com/anishathalye/porcupine"
)

// judge waits until all mishaps are over and all replicas have committed a step since, and
// makes the closing checks.
func (w *world) judge() {
	w.t.Helper()
	w.awaitFor(settling+long, "all mishaps are over, every replica has committed a step since, and there were some steps to judge", func() bool {
		return len(w.undoing) == 0 && w.unsettled() == "" && w.before+w.step() >= worldSteps
	})
	w.checkHistory()
	w.shutDown()
	for _, s := range w.servers {
		w.end(s.proc, syscall.SIGTERM)
		if err := s.proc.Wait(w.t.Context()); err != nil && !diedOf(err, syscall.SIGTERM) {
			w.t.Errorf("server, after SIGTERM: %v", err)
		}
	}
	w.checkNothingLeft()
	w.mu.Lock()
	all := w.mu.reports
	w.mu.Unlock()
	for run := range w.run + 1 {
		var these []report
		for _, r := range withoutFlipped(all) {
			if r.run == run {
				these = append(these, r)
			}
		}
		w.mu.Lock()
		w.mu.reports = these
		w.mu.Unlock()
		w.o.steps = w.cluster.step()
		w.checkParity()
		w.checkSteps()
		w.replay()
	}
	w.mu.Lock()
	w.mu.reports = all
	w.mu.Unlock()
}

// withoutFlipped is the reports without the commits of replicas in whose state a bit had
// flipped, and which had not been found out yet.
func withoutFlipped(all []report) (some []report) {
	type who struct{ index, incarnation int }
	bad := map[who]bool{}
	for _, r := range all {
		at := who{r.index, r.incarnation}
		switch {
		case r.Kind == faulty && r.Text == flipped:
			bad[at] = true
		case r.Kind == healed && r.Text == noError:
			delete(bad, at)
		case r.Kind == committed && bad[at]:
			continue
		}
		some = append(some, r)
	}
	return some
}

// answer is what a replica was told of a quorum.
type answer struct {
	id      int64
	members string
}

// checkHistory: what the lighthouse told all replicas of quorums fits into one order, between
// when each was told the one before, or began, and when it was told: ids rise (Q1), an id has
// one list of members (Q2), and none is below min replicas (Q3).
func (w *world) checkHistory() {
	w.t.Helper()
	asked := maps.Clone(w.births)
	lists := map[int64]string{}
	var ops []porcupine.Operation
	w.each(func(r report) {
		if r.Kind != formed {
			return
		}
		a := answer{r.Quorum, strings.Join(r.Members, " ")}
		if len(r.Members) < worldMin {
			w.t.Errorf("quorum %d is of %d replicas, want %d at least", r.Quorum, len(r.Members), worldMin)
		}
		if list, seen := lists[a.id]; seen && list != a.members {
			w.t.Errorf("quorum %d is of %s, and of %s", a.id, list, a.members)
		}
		lists[a.id] = a.members
		at := [2]int{r.index, r.incarnation}
		ops = append(ops, porcupine.Operation{ClientId: r.index, Output: a, Call: asked[at], Return: r.Mono})
		asked[at] = r.Mono
	})
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return int(a.Return - b.Return) })
	switch porcupine.CheckOperationsTimeout(quorumModel, ops, patience) {
	case porcupine.Illegal:
		w.t.Error("what the lighthouse told of quorums fits into no order in which ids rise")
	case porcupine.Unknown:
		w.unchecked = true
		w.say("the history of %d answers was not checked to its end within %v", len(ops), patience)
	}
}

// quorumModel is a lighthouse that has a newest quorum and tells it.
var quorumModel = porcupine.Model{
	Init: func() any { return answer{} },
	Step: func(state, _, output any) (bool, any) {
		newest, told := state.(answer), output.(answer)
		return told.id > newest.id || told == newest, told
	},
}
