package quorum_test

import "testing"

// A member's ask goes unanswered, and the answer that it no longer takes has let a
// newcomer in. The newcomer waits for it in vain, and falls; the word of that is
// about a quorum in which the member never was, and must end its own: else it
// trains on alone, the newcomer never comes in, and nothing tells either.
func TestExplorerRefusedAnswer(t *testing.T) {
	t.Parallel()
	x, err := newExplorer(2, 1, realMechanics(), mangle{})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(2, 1, explorerConfig(1), budget{Quorums: 9, Crashes: 1, Restarts: 1, Withdraws: 1, Steps: 9})
	if err := x.start(w); err != nil {
		t.Fatal(err)
	}
	// until lets everybody do what it can until done.
	until := func(what string, done func() bool, kinds ...moveKind) {
		t.Helper()
		for range 99 {
			if done() {
				return
			}
			v := move{Kind: mvTime}
			for _, m := range x.moves(w) {
				for _, k := range kinds {
					if m.Kind == k {
						v = m
					}
				}
			}
			if err := x.try(w, v); err != nil {
				t.Fatalf("%v: %v", v, err)
			}
		}
		t.Fatalf("not reached: %s\n%s", what, w.describe())
	}
	do := func(v move) {
		t.Helper()
		if err := x.try(w, v); err != nil {
			t.Fatalf("%v: %v", v, err)
		}
	}
	a := func() *replica { return w.rep("a") }
	do(move{Kind: mvCrash, Who: "b"})
	until("a is alone", func() bool { return a().Stand() && len(a().In().Members) == 1 }, mvDeliver, mvJoin, mvBreak)
	do(move{Kind: mvRestart, Who: "b"})
	do(move{Kind: mvReconnect, Who: "b2"})
	do(move{Kind: mvJoin, Who: "b2"})
	until("a wants a change", func() bool { return a().Wants() }, mvDeliver)
	do(x.stepTo(w, 0, resCommit))
	do(move{Kind: mvAsk, Who: "a"})
	do(move{Kind: mvWithdraw, Who: "a"})
	until("b2 is in", func() bool { return w.rep("b2").Stand() }, mvDeliver)
	if a().In().ID >= w.rep("b2").In().ID || !a().Stand() {
		t.Fatalf("a has not refused the answer:\n%s", w.describe())
	}
	do(move{Kind: mvBeat, Who: "a"}) // it runs in an older quorum: that is no news from now on
	if err := x.fair(w); err != nil {
		t.Error(err)
	}
}
