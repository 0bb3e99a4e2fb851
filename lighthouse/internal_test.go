package lighthouse

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/quorum"
)

// pipeListener accepts connections that a test makes.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// A connection goes to the half of its protocol, with all its bytes, however
// they arrive; one that says nothing holds up nobody, not even the end.
func TestSplitter(t *testing.T) {
	t.Parallel()
	listener := newPipeListener()
	s := newSplitter(listener, time.Minute, inTheClear, zerolog.Nop())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.run()
	}()
	connect := func() net.Conn {
		client, server := net.Pipe()
		t.Cleanup(func() { _ = client.Close() })
		listener.conns <- server
		return client
	}
	silent := connect()
	for _, tc := range []struct {
		name, text string
		half       *half
	}{
		{"HTTP/1", "GET / HTTP/1.1\r\n\r\n", s.http},
		{"HTTP/2", http2Preface + "\r\n\r\nSM\r\n\r\nframes", s.grpc},
		{"a method that begins alike", "PROPFIND / HTTP/1.1\r\n\r\n", s.http},
		{"preface that goes wrong at its end", "PRI * HTTP/2.1\r\n", s.http},
	} {
		client := connect()
		var writing sync.WaitGroup
		writing.Go(func() {
			for _, b := range []byte(tc.text) { // byte by byte
				if _, err := client.Write([]byte{b}); err != nil {
					return
				}
			}
			_ = client.Close()
		})
		conn, err := tc.half.Accept()
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		got, err := io.ReadAll(conn)
		if err != nil || string(got) != tc.text {
			t.Errorf("%s: read %q, %v; want %q", tc.name, got, err, tc.text)
		}
		_ = conn.Close()
		writing.Wait()
	}
	if err := errors.Join(s.grpc.Close(), s.http.Close()); err != nil {
		t.Error(err)
	}
	<-done
	if _, err := silent.Read(make([]byte, 1)); err == nil {
		t.Error("the silent connection was left open")
	}
	if _, err := s.http.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after the end: %v, want net.ErrClosed", err)
	}
}

// apply runs a command through the state machine as raft does.
func apply(t *testing.T, s *state, c command) error {
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
		if err := apply(t, s, command{Kind: commandFound, Cluster: id}); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.cluster(); got != "first" {
		t.Errorf("cluster %q, want the first one's", got)
	}
	members := []quorum.Member{{ReplicaID: "a", GroupWorldSize: 1}}
	formed := func(follows, id int64) command {
		return command{Kind: commandFormed, Job: "j", UnixMs: 100, Formed: &quorum.Formed{
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
	for _, c := range []command{
		{Kind: commandDrain, Job: "j", Replica: "a"},
		{Kind: commandEvict, Job: "j", Replica: "b"},
		{Kind: commandConfigure, Job: "j", Config: &rules},
	} {
		if err := apply(t, s, c); err != nil {
			t.Errorf("%s: %v", c.Kind, err)
		}
	}
	for _, c := range []command{{Kind: "from the future", Job: "j"}, {Kind: commandFormed, Job: "j"}} {
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

func TestBeatScale(t *testing.T) {
	t.Parallel()
	const interval = 100 * time.Millisecond
	for _, tc := range []struct{ scale, sessions, want int }{
		{1, 0, 1}, {1, 2000, 1}, {1, 2001, 2}, {1, 4000, 2}, {1, 10_000, 8},
		{2, 1999, 2}, {2, 1500, 1}, {8, 0, 1}, {8, 7999, 8}, {8, 5999, 4},
	} {
		got := beatScale(tc.scale, tc.sessions, interval)
		if got != tc.want {
			t.Errorf("%d sessions at scale %d: scale %d, want %d", tc.sessions, tc.scale, got, tc.want)
		}
		if rate := float64(tc.sessions) / (float64(got) * interval.Seconds()); rate > MaxBeatsPerSecond {
			t.Errorf("%d sessions at scale %d: %.0f beats a second", tc.sessions, got, rate)
		}
	}
	c := stretched(quorum.DefaultConfig(), 128)
	if err := c.Validate(); err != nil {
		t.Errorf("stretched rules: %v", err)
	}
}

func TestRaftIDIsKept(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	open := func() *dataDir {
		d, err := openDataDir(path, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.close() })
		return d
	}
	d := open()
	first, err := d.raftID()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	d = open()
	if second, err := d.raftID(); err != nil || second != first {
		t.Errorf("raft id %q after a restart, %v; want %q", second, err, first)
	}
	if err := os.WriteFile(filepath.Join(path, raftIDFile), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if id, err := d.raftID(); err == nil {
		t.Errorf("a broken file gave raft id %q", id)
	}
}

// inTheClear is what a splitter without certificates makes of a connection.
func inTheClear(conn net.Conn) (guard.Secured, error) {
	return new(guard.Guard).Secure(context.Background(), conn, time.Minute)
}
