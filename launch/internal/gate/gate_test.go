package gate

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/launch/spare"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listen makes a gate, in a folder whose path is short.
func listen(t *testing.T, ranks int) *Gate {
	t.Helper()
	dir, err := os.MkdirTemp("", "gate-")
	if err != nil {
		t.Fatal(err)
	}
	g, err := Listen(dir, ranks)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(g.Close(), os.Remove(dir)); err != nil { // of a folder that is empty again
			t.Error(err)
		}
	})
	return g
}

// dial connects as a rank does.
func dial(t *testing.T, g *Gate, rank int) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", g.Path(rank))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // it may be closed already
	return conn
}

// A gate is ready while all its ranks wait, and not when one of them has gone.
func TestReady(t *testing.T) {
	t.Parallel()
	g := listen(t, 2)
	if info, err := os.Stat(g.Path(1)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v, want mode 0600", info, err)
	}
	ready := func(want bool) {
		t.Helper()
		for g.Ready() != want {
			select {
			case <-g.Changed():
			case <-t.Context().Done():
				t.Fatal("no change is told any more")
			}
		}
	}
	dial(t, g, 0)
	one := dial(t, g, 1)
	ready(true)
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	ready(false)
	dial(t, g, 1)
	ready(true)
}

// All ranks are told their place, which is taken when all have said so; who comes later is told
// the same.
func TestOrder(t *testing.T) {
	t.Parallel()
	g := listen(t, 2)
	first := dial(t, g, 0)
	testkit.Eventually(t, "rank 0 waits", func() bool { return g.doors[0].waits() })
	if _, err := first.Write([]byte("\n")); err != nil { // before there is an order: it means nothing
		t.Fatal(err)
	}
	conns := []net.Conn{dial(t, g, 0), dial(t, g, 1)}
	testkit.Eventually(t, "both ranks wait", g.Ready)
	if err := g.Order(spare.Order{Env: map[string]string{"A=": "b"}}); err == nil {
		t.Error("a name with '=' was taken")
	}
	if err := g.Order(spare.Order{Env: map[string]string{"A": "b"}}); err != nil || g.Ready() {
		t.Errorf("%v, ready %v", err, g.Ready())
	}
	ended, end := context.WithCancelCause(t.Context())
	end(errors.New("over"))
	for rank, conn := range append(conns, dial(t, g, 1)) {
		line, err := bufio.NewReader(conn).ReadString('\n')
		if want := `{"env":{"A":"b"}}` + "\n"; err != nil || line != want {
			t.Errorf("%q, %v, want %q", line, err, want)
		}
		if rank == 1 { // rank 0 alone has taken its place
			testkit.Eventually(t, "rank 1 is missing", func() bool {
				err := g.Taken(ended)
				return err != nil && strings.HasPrefix(err.Error(), "rank 1 has not taken its place: over")
			})
		}
		if _, err := conn.Write([]byte("\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Taken(t.Context()); err != nil {
		t.Error(err)
	}
}

// More connections than a rank can need are closed.
func TestTooMany(t *testing.T) {
	t.Parallel()
	g := listen(t, 1)
	refused := make(chan struct{}, 2*maxWaiting)
	for range maxWaiting + 1 {
		conn := dial(t, g, 0)
		go func() {
			if _, err := conn.Read(make([]byte, 1)); err != nil {
				refused <- struct{}{}
			}
		}()
	}
	<-refused
	if !g.Ready() {
		t.Error("those that are not too many do not wait")
	}
}

// A path that the kernel does not take is told with what to do.
func TestLongPath(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("x", 120))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(dir, 1); err == nil || !strings.Contains(err.Error(), "want a folder (TMPDIR) with a short path") {
		t.Error(err)
	}
}
