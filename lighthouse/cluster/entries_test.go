package cluster

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"
)

// oldEntries are the log of a lighthouse of 22 November 2026: a cluster is founded,
// three replicas meet, one leaves and the others' step is settled, one drains.
func oldEntries(t testing.TB) [][]byte {
	t.Helper()
	text, err := os.ReadFile("testdata/entries-2026-11-22.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(bytes.TrimSpace(text), []byte("\n"))
}

// A log of whole entries, from before there were deltas, makes the ledger that it
// made then; and the same entries written as deltas make the same.
func TestOldEntriesApply(t *testing.T) {
	t.Parallel()
	old, short := newState(), newState()
	deltas := 0
	for i, text := range oldEntries(t) {
		if err, _ := old.Apply(&raft.Log{Index: uint64(i + 1), Data: text}).(error); err != nil {
			t.Fatalf("entry %d: %v", i, err)
		}
		var c Command
		if err := json.Unmarshal(text, &c); err != nil {
			t.Fatal(err)
		}
		if c.Formed != nil {
			c.Formed = new(c.Formed.Against(short.job(c.Job, 0).Last))
			if c.Formed.Delta != nil {
				deltas++
			}
		}
		if err := apply(t, short, c); err != nil {
			t.Fatalf("entry %d as a delta: %v", i, err)
		}
		short = throughSnapshot(t, short)
	}
	if d := cmp.Diff(old.data, short.data); d != "" || deltas != 1 {
		t.Errorf("%d deltas; whole and delta entries differ:\n%s", deltas, d)
	}
	l := old.job("j", 0)
	if l.Last == nil || l.Last.ID != 1_764_000_000_002 || len(l.Last.Members) != 2 || len(l.Settled) != 2 ||
		len(l.History) != 2 || len(l.Drained) != 1 {
		t.Errorf("ledger %+v", l)
	}
}

// throughSnapshot is a state that was begun from a snapshot of s.
func throughSnapshot(t *testing.T, s *state) *state {
	t.Helper()
	snap, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var sink memorySink
	restored := newState()
	if err := snap.Persist(&sink); err != nil {
		t.Fatal(err)
	}
	if err := restored.Restore(io.NopCloser(&sink)); err != nil {
		t.Fatal(err)
	}
	return restored
}

// A server of an older build refuses deltas: entries are whole while one is there,
// or one of which nothing is known.
func TestEntriesAreWholeDuringAnUpgrade(t *testing.T) {
	t.Parallel()
	reads := map[raft.ServerID]bool{}
	l, err := openLedger(ledgerConfig{log: zerolog.Nop(), RaftOptions: RaftOptions{
		Heartbeat: 20 * time.Millisecond, Election: 20 * time.Millisecond, Lease: 20 * time.Millisecond,
	}, readsDeltas: func(id raft.ServerID) bool { return reads[id] }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.close(); err != nil {
			t.Error(err)
		}
	}()
	if l.ReadsDeltas() {
		t.Error("deltas are written for a server of which nothing is known")
	}
	for _, s := range l.raft.GetConfiguration().Configuration().Servers {
		reads[s.ID] = true
	}
	if !l.ReadsDeltas() {
		t.Error("no deltas are written though all servers read them")
	}
	l.cfg.readsDeltas = nil
	if !l.ReadsDeltas() {
		t.Error("no deltas are written by a server alone")
	}
}

// FuzzApply applies any two entries after an old log: nothing panics, what is
// refused changes nothing of the last quorum, and a quorum's members are sorted.
func FuzzApply(f *testing.F) {
	old := oldEntries(f)
	for _, text := range old {
		f.Add(text, text)
	}
	var c Command
	if err := json.Unmarshal(old[2], &c); err != nil {
		f.Fatal(err)
	}
	last := c.Formed.Quorum
	c.Formed.FollowsID, c.Formed.FollowsRound, c.Formed.Quorum.ID = last.ID, last.Round, last.ID+1
	c.Formed = new(c.Formed.Against(&last))
	text, err := json.Marshal(c)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, text)
	f.Fuzz(func(t *testing.T, first, second []byte) {
		s := newState()
		for _, text := range old {
			s.Apply(&raft.Log{Data: text})
		}
		for _, text := range [][]byte{first, second} {
			before, members := s.job("j", 0).Last, 0
			if before != nil {
				members = len(before.Members)
			}
			err, _ := s.Apply(&raft.Log{Data: text}).(error)
			l := s.job("j", 0)
			if err != nil && l.Last != before {
				t.Fatalf("refused (%v), and the last quorum is another", err)
			}
			if l.Last == nil {
				continue
			}
			throughSnapshot(t, s) // what is applied can be restored
			if len(l.Last.Members) == 0 || len(l.Last.Members) > len(text)+members {
				t.Fatalf("%d members after %d bytes", len(l.Last.Members), len(text))
			}
		}
	})
}
