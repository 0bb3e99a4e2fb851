package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/lighthouse/cluster/internal/datadir"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/quorum/story"
)

// apply runs a command through the state machine as raft does.
func apply(t *testing.T, s *state, c Command) error {
	t.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	err, _ = s.Apply(&raft.Log{Index: 1, Data: data}).(error)
	return err
}

// memorySink is a snapshot sink in memory.
type memorySink struct{ bytes.Buffer }

func (*memorySink) ID() string    { return "test" }
func (*memorySink) Cancel() error { return nil }
func (*memorySink) Close() error  { return nil }

func TestStateFencesAndSurvivesSnapshots(t *testing.T) {
	t.Parallel()
	s := newState()
	for _, id := range []string{"first", "second"} {
		if err := apply(t, s, Command{Kind: commandFound, Cluster: id}); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.cluster(); got != "first" {
		t.Errorf("cluster %q, want the first one's", got)
	}
	members := []quorum.Member{{ReplicaID: "a", GroupWorldSize: 1}}
	formed := func(follows, id int64) Command {
		return Command{Kind: CommandFormed, Job: "j", UnixMs: 100, Formed: &quorum.Formed{
			Term: 2, FollowsID: follows, FollowsRound: min(follows, 1), Client: quorum.KindSkerry,
			Quorum: quorum.Quorum{Cluster: "first", Job: "j", ID: id, Round: 1, Members: members}}}
	}
	if err := apply(t, s, formed(0, 101)); err != nil {
		t.Fatal(err)
	}
	if err := apply(t, s, formed(0, 102)); !errors.Is(err, quorum.ErrFenced) {
		t.Errorf("a command that follows an older quorum: %v, want quorum.ErrFenced", err)
	}
	rules := quorum.DefaultConfig()
	for _, c := range []Command{
		{Kind: CommandDrain, Job: "j", Replica: "a"},
		{Kind: CommandEvict, Job: "j", Replica: "b"},
		{Kind: CommandConfigure, Job: "j", Config: &rules},
	} {
		if err := apply(t, s, c); err != nil {
			t.Errorf("%s: %v", c.Kind, err)
		}
	}
	for _, c := range []Command{{Kind: "from the future", Job: "j"}, {Kind: CommandFormed, Job: "j"}} {
		if err := apply(t, s, c); err == nil {
			t.Errorf("command %+v was taken", c)
		}
	}
	if err, _ := s.Apply(&raft.Log{Data: []byte("{")}).(error); err == nil {
		t.Error("half a command was taken")
	}
	restored := newState()
	snap, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var sink memorySink
	if err := errors.Join(snap.Persist(&sink), restored.Restore(io.NopCloser(&sink))); err != nil {
		t.Fatal(err)
	}
	snap.Release()
	if d := cmp.Diff(s.data, restored.data); d != "" {
		t.Errorf("a snapshot changed the state (-before +after):\n%s", d)
	}
	if got := restored.job("j", 0); got.Last == nil || got.Last.ID != 101 || got.Config == nil {
		t.Errorf("restored ledger %+v", got)
	}
	if got := restored.job("new", 777); got.HighestID != 777 || got.Cluster != "first" {
		t.Errorf("ledger of a new job %+v, want ids above 777", got)
	}
}

// Quorums are counted where every leader counted, and the count is in a snapshot. Another round is
// none; where one was not counted there is no number for good.
func TestQuorumsAreCounted(t *testing.T) {
	t.Parallel()
	s := newState()
	members := []quorum.Member{{ReplicaID: "a", GroupWorldSize: 1}}
	form := func(job string, id, round int64, counted bool) int64 {
		t.Helper()
		f := quorum.Formed{Term: 2, Client: quorum.KindSkerry,
			Quorum: quorum.Quorum{Cluster: "c", Job: job, ID: id, Round: round, Members: members}}
		if last := s.job(job, 0).Last; last != nil {
			f.FollowsID, f.FollowsRound = last.ID, last.Round
		}
		if err := apply(t, s, Command{Kind: CommandFormed, Job: job, UnixMs: 100, Formed: &f, Counted: counted}); err != nil {
			t.Fatal(err)
		}
		return s.beside(job).Quorums
	}
	for i, step := range []struct {
		id, round int64
		counted   bool
		want      int64
	}{{101, 1, true, 1}, {101, 2, true, 1}, {102, 1, true, 2}, {109, 1, true, 3}} {
		if got := form("j", step.id, step.round, step.counted); got != step.want {
			t.Errorf("step %d: %d quorums are counted, want %d", i, got, step.want)
		}
	}
	if err := apply(t, s, Command{Kind: CommandDrain, Job: "j", Replica: "a"}); err != nil || s.beside("j").Quorums != 3 {
		t.Errorf("after a drain: %d, %v", s.beside("j").Quorums, err)
	}
	restored := newState()
	snap, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var sink memorySink
	if err := errors.Join(snap.Persist(&sink), restored.Restore(io.NopCloser(&sink))); err != nil || restored.beside("j").Quorums != 3 {
		t.Errorf("from a snapshot: %d quorums are counted, want 3; %v", restored.beside("j").Quorums, err)
	}
	if got := form("j", 110, 1, false); got != 0 {
		t.Errorf("behind one that was not counted: %d", got)
	}
	if got := form("j", 111, 1, true); got != 0 {
		t.Errorf("behind a gap the count goes on with %d", got)
	}
	if got := form("new", 200, 1, true); got != 1 {
		t.Errorf("another job's first is number %d", got)
	}
}

func TestRaftIDIsKept(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	open := func() *datadir.Dir {
		d, err := datadir.Open(path, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	d := open()
	first, err := d.RaftID()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open()
	if second, err := d.RaftID(); err != nil || second != first {
		t.Errorf("raft id %q after a restart, %v; want %q", second, err, first)
	}
	if err := os.WriteFile(filepath.Join(path, "raft-id"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if id, err := d.RaftID(); err == nil {
		t.Errorf("a broken file gave raft id %q", id)
	}
}

// What was told of a job comes with any of its commands, survives snapshots, and goes with the
// job; a command that is refused keeps none.
func TestWhatWasToldIsKept(t *testing.T) {
	t.Parallel()
	s := newState()
	told := func(seq int64) []story.Told {
		return []story.Told{{Seq: seq, AtMs: 5, Kind: story.Lost, Replica: "a", Cause: &quorum.Cause{Kind: quorum.CauseLink, Replica: "a"}}}
	}
	if err := apply(t, s, Command{Kind: CommandTell, Job: "j", Told: told(1)}); err != nil || s.has("j") {
		t.Errorf("told of a job that is not there: %v, and there is one: %v", err, s.has("j"))
	}
	for i, c := range []Command{{Kind: CommandDrain, Replica: "b"}, {Kind: CommandTell}, {Kind: CommandTell}} {
		c.Job, c.UnixMs, c.Told = "j", 100, told(int64(min(i, 1)+1)) // the third says again what the second said
		if err := apply(t, s, c); err != nil {
			t.Fatal(err)
		}
	}
	if err := apply(t, s, Command{Kind: CommandFormed, Job: "j", Told: told(9)}); err == nil {
		t.Error("a command without a quorum is taken")
	}
	snapshot, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var sink memorySink
	if err := snapshot.Persist(&sink); err != nil {
		t.Fatal(err)
	}
	again := newState()
	if err := again.Restore(io.NopCloser(&sink)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(append(told(1), told(2)...), again.beside("j").Told); d != "" {
		t.Errorf("kept, and read again:\n%s", d)
	}
	if again.beside("k").Told != nil {
		t.Error("a job that is not there has told something")
	}
	if err := apply(t, again, Command{Kind: CommandForget, Job: "j"}); err != nil || again.beside("j").Told != nil {
		t.Errorf("forgotten: %v, and %v is kept", err, again.beside("j").Told)
	}
}

// How many replicas are wanted is kept, in snapshots too, until the run has finished; one that no
// server writes is left out.
func TestWantedReplicas(t *testing.T) {
	t.Parallel()
	s := newState()
	want := func(w *api.Wanted, told ...story.Told) {
		t.Helper()
		if err := apply(t, s, Command{Kind: CommandScale, Job: "j", UnixMs: 100, Wanted: w, Told: told}); err != nil {
			t.Fatal(err)
		}
	}
	kept := func(s *state) api.Wanted {
		if w := s.beside("j").Wanted; w != nil {
			return *w
		}
		return api.Wanted{}
	}
	w := api.Wanted{Replicas: 12, AtMs: 1, By: "ada", From: "10.0.0.1", Reason: "more"}
	want(&w)
	snap, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	restored := newState()
	var sink memorySink
	if err := errors.Join(snap.Persist(&sink), restored.Restore(io.NopCloser(&sink))); err != nil || kept(restored) != w || kept(s) != w {
		t.Errorf("kept %+v, and of a snapshot %+v; %v", kept(s), kept(restored), err)
	}
	for _, bad := range []api.Wanted{{AtMs: 1}, {Replicas: 1}, {Replicas: -1, AtMs: 1}, {Replicas: 1, AtMs: -1}, {Replicas: quorum.MaxMembers + 1, AtMs: 1}, {Replicas: 1, AtMs: 1, By: strings.Repeat("x", 600)}} {
		if want(&bad); kept(s) != (api.Wanted{}) {
			t.Errorf("%.100v was kept", bad)
		}
	}
	finished := story.Told{Seq: 1, AtMs: 1, Kind: story.Finished}
	want(&w, finished) // of the run that begins
	if kept(s) != w {
		t.Errorf("a number that comes after the end of a run: %+v", kept(s))
	}
	finished.Seq++
	if err := apply(t, s, Command{Kind: CommandTell, Job: "j", Told: []story.Told{finished}}); err != nil || kept(s) != (api.Wanted{}) {
		t.Errorf("after the run: %+v, %v", kept(s), err)
	}
	if err := apply(t, s, Command{Kind: CommandScale, Job: "j"}); err == nil {
		t.Error("an order without a number was taken")
	}
}
