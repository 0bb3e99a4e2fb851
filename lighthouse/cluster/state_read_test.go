package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/lighthouse/cluster/internal/datadir"
)

// snapshotText is what a server writes of the old log's state.
func snapshotText(t testing.TB) string {
	t.Helper()
	s := newState()
	for _, text := range oldEntries(t) {
		s.Apply(&raft.Log{Data: text})
	}
	s.data.Retired = []string{"one", "two"}
	text, err := json.Marshal(s.data)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A snapshot that is no ledger's is refused, the error names what is wrong with it,
// and the state stays as it was.
func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	good := snapshotText(t)
	for _, c := range []struct{ text, want string }{
		{"", "snapshot: unexpected EOF"},
		{"[]", `snapshot: "[", want {`},
		{good + "x", "something follows the text"},
		{good[:len(good)/2], "unexpected EOF"},
		{`{"jobs":{"a":null}}`, `job "a": ledger is null`},
		{`{"jobs":{"a":7}}`, `job "a": json: cannot unmarshal number`},
		{`{"jobs":{"a":{"Job":"b"}}}`, `job "a": Job = "b", want the name that it stands under`},
		{`{"jobs":{"a":{"Job":"a","HighestID":-5}}}`, `job "a": quorum: invalid: HighestID = -5`},
		{`{"jobs":{"a":{"Job":"a","HighestID":9,"Last":{"ID":3,"Members":[{}]}}}}`, "last quorum: its Members[0]: quorum: invalid: replica id is empty"},
		{`{"jobs":{"a":{"Job":"a","Last":{"ID":3,"Members":[` + strings.Repeat("{},", 1<<18) + `{}]}}}}`, "ledger has over 131072 objects"},
		{`{"jobs":{"a":{"Job":"a"},"a":{"Job":"a"}}}`, `jobs: field "a" stands twice`},
		{`{"cluster":"` + strings.Repeat("x", 300) + `"}`, "cluster has 300 bytes, want at most 256"},
		{`{"floor":-1}`, "floor = -1, want 0 to"},
		{`{"floor":1e300}`, "floor: json: cannot unmarshal"},
		{`{"retired":["` + strings.Repeat("x", 65) + `"]}`, "retired[0] has 65 bytes, want at most 64"},
		{`{"retired":[` + strings.Repeat(`"x",`, 1000) + `"x"]}`, "retired: over 1000"},
	} {
		s := newState()
		if err := s.Restore(io.NopCloser(strings.NewReader(good))); err != nil {
			t.Fatal(err)
		}
		before := s.data
		err := s.Restore(io.NopCloser(strings.NewReader(c.text)))
		if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 1000 {
			t.Errorf("%.80s: %v, want an error with %q", c.text, err, c.want)
		}
		if d := cmp.Diff(before, s.data); d != "" {
			t.Errorf("%.80s: refused, and the state is another:\n%s", c.text, d)
		}
	}
}

// A field that a later version adds is passed over.
func TestRestorePassesOverNewFields(t *testing.T) {
	t.Parallel()
	s := newState()
	if err := s.Restore(io.NopCloser(strings.NewReader(`{"new":[{}],` + snapshotText(t)[1:]))); err != nil || !s.has("j") {
		t.Errorf("%v; jobs %v", err, s.jobs())
	}
}

// A number for people is no reason to refuse a ledger.
func TestRestoreForgetsAWrongCount(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"7": 7, "-1": 0, "9007199254740993": 0} {
		s := newState()
		if err := s.Restore(io.NopCloser(strings.NewReader(`{"jobs":{"a":{"Job":"a","Quorums":` + text + `}}}`))); err != nil {
			t.Fatal(err)
		}
		if got := s.beside("a").Quorums; got != want {
			t.Errorf("of %s quorums %d are counted, want %d", text, got, want)
		}
	}
}

// What was told and is out of its bounds is left out: the feed is no reason to refuse a ledger.
func TestRestoreCutsWhatWasTold(t *testing.T) {
	t.Parallel()
	s := newState()
	told := `{"Seq":-1,"Kind":"lost"},` + strings.Repeat(`{"Seq":3,"Kind":"lost"},`, 1500) + `{"Seq":4,"Kind":"left"}`
	if err := s.Restore(io.NopCloser(strings.NewReader(`{"jobs":{"a":{"Job":"a","Told":[` + told + `]}}}`))); err != nil {
		t.Fatal(err)
	}
	if got := s.beside("a").Told; len(got) != 2 || got[0].Seq != 3 || got[1].Seq != 4 {
		t.Errorf("kept %+v, want entries 3 and 4", got)
	}
}

// A server whose newest snapshot was damaged ends with one line that names it.
func TestDamagedSnapshotEndsInOneLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() (*Ledger, error) {
		d, err := datadir.Open(dir, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() }) // locks nothing that is needed later
		l, err := openLedger(ledgerConfig{dir: d, log: zerolog.Nop(), RaftOptions: RaftOptions{
			Heartbeat: 50 * time.Millisecond, Election: 50 * time.Millisecond, Lease: 50 * time.Millisecond, DiskTimeout: time.Minute,
		}})
		if err != nil {
			_ = d.Close() // so that it can be opened again
		}
		return l, err
	}
	l, err := open()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	for l.raft.State() != raft.Leader {
		select {
		case <-ctx.Done():
			t.Fatal("it does not lead")
		case <-time.After(10 * time.Millisecond):
		}
	}
	if err := l.Apply(Command{Kind: commandFound, Cluster: "c"}); err != nil {
		t.Fatal(err)
	}
	if err := l.raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "snapshots", "*", "state.bin"))
	if err != nil || len(files) != 1 {
		t.Fatalf("snapshots %q, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], bytes.Replace(text, []byte(`"c"`), []byte(`"d"`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "lock")); err != nil { // the first one's is still open here
		t.Fatal(err)
	}
	l, err = open()
	if err == nil {
		t.Fatal(fmt.Errorf("a damaged snapshot was taken: %w", l.close()))
	}
	if name := filepath.Base(filepath.Dir(files[0])); !strings.Contains(err.Error(), name) || strings.ContainsRune(err.Error(), '\n') {
		t.Errorf("%q, want one line that names snapshot %s", err, name)
	}
}

// FuzzRestore restores anything: nothing panics, and what is taken can be written
// and taken again, and commands applied to it.
func FuzzRestore(f *testing.F) {
	f.Add([]byte(snapshotText(f)))
	for _, seed := range []string{`{"jobs":{"a":null}}`, `{"jobs":null,"floor":1}`, `{"cluster":"c","jobs":{"a":{"Job":"a"}}}`, `{`} {
		f.Add([]byte(seed))
	}
	old := oldEntries(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		s := newState()
		if err := s.Restore(io.NopCloser(bytes.NewReader(text))); err != nil {
			return
		}
		for _, job := range s.jobs() {
			l := s.job(job, 1)
			if err := l.Validate(); err != nil {
				t.Errorf("job %q: %v", job, err)
			}
		}
		again := throughSnapshot(t, s)
		if d := cmp.Diff(s.data, again.data); d != "" {
			t.Errorf("through a snapshot it is another:\n%s", d)
		}
		for _, entry := range old {
			s.Apply(&raft.Log{Data: entry})
		}
		s.riseLocked(1 << 50)
		throughSnapshot(t, s)
	})
}
