package quorum_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skerry-ft/skerry/quorum"
)

func formed(follows *quorum.Quorum, id, round int64, members ...quorum.ReplicaID) quorum.Formed {
	f := quorum.Formed{Client: quorum.KindSkerry, Quorum: quorum.Quorum{ID: id, Round: round}}
	if follows != nil {
		f.FollowsID, f.FollowsRound = follows.ID, follows.Round
	}
	for _, m := range members {
		f.Quorum.Members = append(f.Quorum.Members, quorum.Member{ReplicaID: m})
	}
	return f
}

func mustApply(t *testing.T, l *quorum.Ledger, f quorum.Formed) {
	t.Helper()
	if err := l.ApplyFormed(f); err != nil {
		t.Fatal(err)
	}
}

// Fencing: a command names what it follows, and the ledger refuses any other.
func TestLedgerFences(t *testing.T) {
	t.Parallel()
	l := quorum.NewLedger("x", "default", 1000)
	first := formed(nil, 1001, 1, "a", "b")
	mustApply(t, &l, first)
	for name, f := range map[string]quorum.Formed{
		"the same again":           first,
		"follows an unknown round": formed(&quorum.Quorum{ID: 1001, Round: 2}, 1002, 1, "a"),
		"follows nothing":          formed(nil, 1002, 1, "a"),
	} {
		before := l.Clone()
		if err := l.ApplyFormed(f); !errors.Is(err, quorum.ErrFenced) {
			t.Errorf("%s: %v, want ErrFenced", name, err)
		}
		if diff := cmp.Diff(before, l); diff != "" {
			t.Errorf("%s: changed the ledger:\n%s", name, diff)
		}
	}
	next := formed(l.Last, 1002, 1, "a", "b")
	next.Term = 5
	mustApply(t, &l, next)
	if err := l.ApplyFormed(formed(l.Last, 1003, 1, "a")); !errors.Is(err, quorum.ErrFenced) {
		t.Errorf("an older term: %v, want ErrFenced", err)
	}
}

// Q1, Q2, Q3: no command makes an id fall, changes an id's members, or forms
// nothing.
func TestLedgerRefusesWhatNoMachineMakes(t *testing.T) {
	t.Parallel()
	l := quorum.NewLedger("x", "default", 1000)
	mustApply(t, &l, formed(nil, 1001, 1, "a", "b"))
	for name, f := range map[string]quorum.Formed{
		"an id that was seen":       formed(l.Last, 1000, 9, "a", "b"),
		"the id with other members": formed(l.Last, 1001, 2, "a", "c"),
		"the id and round again":    formed(l.Last, 1001, 1, "a", "b"),
		"nobody":                    formed(l.Last, 1002, 1),
	} {
		if err := l.ApplyFormed(f); !errors.Is(err, quorum.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	mustApply(t, &l, formed(l.Last, 1001, 2, "a", "b"))
}

// C6: what was settled stays, though a later command says otherwise.
func TestLedgerSettlesOnce(t *testing.T) {
	t.Parallel()
	l := quorum.NewLedger("x", "default", 1000)
	discard := quorum.Settlement{Outcome: quorum.Discard, Step: 3, QuorumID: 900}
	f := formed(nil, 1001, 1, "a")
	f.Settled = []quorum.Settlement{discard}
	mustApply(t, &l, f)
	f = formed(l.Last, 1002, 1, "a")
	f.Settled = []quorum.Settlement{{Outcome: quorum.Forward, Step: 3, QuorumID: 900}}
	mustApply(t, &l, f)
	if diff := cmp.Diff([]quorum.Settlement{discard}, l.Settled); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Nothing grows for ever.
func TestLedgerIsBounded(t *testing.T) {
	t.Parallel()
	l := quorum.NewLedger("x", "default", 0)
	for i := range int64(3 * quorum.MaxHistory) {
		f := formed(l.Last, i+1, 1, "a")
		f.Settled = []quorum.Settlement{{Outcome: quorum.Discard, Step: i, QuorumID: i}}
		mustApply(t, &l, f)
	}
	for i := range 2 * quorum.MaxGone {
		id := quorum.ReplicaID(fmt.Sprint("r", i))
		if err := errors.Join(l.ApplyDrain(id), l.ApplyEvict(id), l.ApplyEvict(id)); err != nil {
			t.Fatal(err)
		}
	}
	if len(l.History) != quorum.MaxHistory || len(l.Settled) != quorum.MaxSettled ||
		len(l.Drained) != quorum.MaxGone || len(l.Evicted) != quorum.MaxGone {
		t.Errorf("history %d, settled %d, drained %d, evicted %d", len(l.History), len(l.Settled), len(l.Drained), len(l.Evicted))
	}
	if got, want := l.History[len(l.History)-1].QuorumID, l.Last.ID; got != want {
		t.Errorf("the newest entry is of quorum %d, want %d", got, want)
	}
}

// A clone shares nothing that either changes.
func TestLedgerClone(t *testing.T) {
	t.Parallel()
	l := quorum.NewLedger("x", "default", 0)
	mustApply(t, &l, formed(nil, 1, 1, "a"))
	c := l.Clone()
	text := fmt.Sprintf("%+v", c)
	mustApply(t, &l, formed(l.Last, 2, 1, "b"))
	if err := l.ApplyDrain("a"); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%+v", c); got != text {
		t.Errorf("the clone changed:\n%s\n%s", text, got)
	}
}

// The shell encodes it as JSON: nothing is lost.
func TestLedgerJSON(t *testing.T) {
	t.Parallel()
	l := quorum.NewLedger("x", "default", 1000)
	f := formed(nil, 1001, 1, "a", "b")
	f.Quorum.Token = quorum.Token{1, 2, 3}
	f.Quorum.Settlement = quorum.Settlement{Outcome: quorum.Forward, Digests: []quorum.Digest{{Valid: true, Sum: 7}}}
	f.Settled = []quorum.Settlement{f.Quorum.Settlement}
	f.Accusations = []quorum.Accusation{{By: "a", Against: "b", Evidence: "reset"}}
	mustApply(t, &l, f)
	if err := l.ApplyConfig(quorum.DefaultConfig()); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	var back quorum.Ledger
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(l, back); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestConfigValidateReturnsAllProblems(t *testing.T) {
	t.Parallel()
	if err := quorum.DefaultConfig().Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
	err := quorum.Config{MinReplicas: -1, MaxReplicas: -1, JoinTimeout: -1, EvictStuck: true}.Validate()
	want := `MinReplicas = -1, want 1 to 16384
MaxReplicas = -1, want 0 to 16384
JoinTimeout = -1ns, want at least 0
HeartbeatTimeout = 0s, want more than 0
SuspectAfter = 0s, want more than 0, at most HeartbeatTimeout (0s)
Grace = 0s, want more than 0
EvictStuck = true, want false when StuckAfter is 0`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}
