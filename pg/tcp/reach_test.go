package tcp

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/store"
)

// blackHole is an address that answers no connection, as a host behind a link that
// is cut: a listener whose queue is full, whose system drops what comes.
func blackHole(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	for range 8 { // each takes a place in the queue before connect returns, or finds none
		c, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(c) })
		if err := unix.Connect(c, at); err != nil && !errors.Is(err, unix.EINPROGRESS) {
			t.Fatal(err)
		}
	}
	address := (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: at.(*unix.SockaddrInet4).Port}).String()
	if c, err := net.DialTimeout("tcp", address, 100*time.Millisecond); err == nil {
		c.Close()
		t.Skip("a full listener still answers here")
	}
	return address
}

// culprits are the peers that err accuses, sorted.
func culprits(err error) (ids []string) {
	var walk func(error)
	walk = func(err error) {
		if e, ok := err.(*pg.OpError); ok && e.First {
			ids = append(ids, e.PeerID)
			return
		}
		switch u := err.(type) {
		case interface{ Unwrap() error }:
			walk(u.Unwrap())
		case interface{ Unwrap() []error }:
			for _, e := range u.Unwrap() {
				walk(e)
			}
		}
	}
	walk(err)
	slices.Sort(ids)
	return slices.Compact(ids)
}

// TestOutOfReach: who has published its address and does not answer is out of
// reach after one ReachTimeout, not after the sum of several. It is named, with
// all others of whom the same is known by then (see TestGather), and nobody else.
func TestOutOfReach(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, []Options{{Transport: TransportTCP, ReachTimeout: 2 * time.Second, DialTimeout: testTimeout}})
	w.ids = append(w.ids, "replica1", "replica2")
	c := w.config(1, []int{0, 1, 2}, 0)
	st, err := c.OpenStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	hole := blackHole(t)
	for r := range 2 {
		if err := st.Set(t.Context(), addressKey(1+r), []byte(hole+" 00 nowhere")); err != nil {
			t.Fatal(err)
		}
	}
	err = w.backends[0].Configure(t.Context(), c)
	got := culprits(err)
	if len(got) == 0 || slices.ContainsFunc(got, func(id string) bool { return !slices.Contains(w.ids[1:], id) }) || !errors.Is(err, pg.ErrUnreachable) {
		t.Fatalf("%v accuses %q, want replica1, replica2 or both out of reach, and no other", err, got)
	}
	if err := pg.Probe(t.Context(), w.backends[0], got[0]); !errors.Is(err, pg.ErrUnreachable) {
		t.Errorf("probe: %v, want ErrUnreachable", err)
	}
	if err := pg.Probe(t.Context(), w.backends[0], "stranger"); err == nil || errors.Is(err, pg.ErrUnreachable) {
		t.Errorf("probe of a stranger: %v, want an error", err)
	}
}

// TestGather: dials that fail together but for a moment are told together, and no others
// are waited for.
func TestGather(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{ReachTimeout: 2 * time.Second})
		ids := []string{"replica0", "replica1", "replica2", "replica3"}
		d := &dialer{b: b, g: newGroup(pg.Config{ReplicaIDs: ids, QuorumID: 1}), failed: make(chan error)}
		ctx, cancel := context.WithCancel(t.Context())
		defer d.wg.Wait()
		defer cancel()
		patience := b.gatherFor()
		for r, after := range map[int]time.Duration{2: patience - time.Millisecond, 3: patience + time.Millisecond} {
			d.g.dialing[r] = true
			d.wg.Go(func() {
				<-time.After(after)
				select {
				case d.failed <- d.unreachable(r, errors.New("no answer")):
				case <-ctx.Done():
				}
			})
		}
		began := time.Now()
		err := d.gather(ctx, d.unreachable(1, errors.New("no answer")))
		if got := culprits(err); !slices.Equal(got, ids[1:3]) || time.Since(began) != patience {
			t.Errorf("%v accuses %q after %v, want replica1 and replica2 after %v", err, got, time.Since(began), patience)
		}
	})
}

// TestProbe: a peer that was out of reach is tried beside the group, and is told
// to be there once it is; a Configure then reaches it.
func TestProbe(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hidden := ln.Addr().String()
	ln.Close()
	w := newWorldOf(t, []Options{{Transport: TransportTCP}, {Transport: TransportTCP, Listen: hidden, Advertise: "127.0.0.1:1"}})
	for r, err := range w.tryConfigure(1, w.everybody(), func(int, *pg.Config) {}) {
		if err == nil || r == 0 && !errors.Is(err, pg.ErrUnreachable) {
			t.Fatalf("rank %d: %v, want ErrUnreachable", r, err)
		}
	}
	b := w.backends[0]
	if err := pg.Probe(t.Context(), b, "replica1"); err == nil {
		t.Error("a port where nobody listens is reached")
	}
	w.backends[1].opt.Advertise = hidden
	b.remember("replica1", []string{hidden})
	if err := pg.Probe(t.Context(), b, "replica1"); err != nil {
		t.Errorf("probe: %v", err)
	}
	w.configure(2)
	if err := pg.Probe(t.Context(), b, "replica1"); err == nil {
		t.Error("a peer that is there is still remembered as out of reach")
	}
}

// TestOutOfReachOfSome: in a world of which two cannot be reached, they alone are
// accused, by those who dial them, and the others hear of it at once.
func TestOutOfReachOfSome(t *testing.T) {
	t.Parallel()
	hole := blackHole(t)
	opts := make([]Options, 4)
	for i := range opts {
		// It holds for replica2 too, which answers.
		opts[i] = Options{Transport: TransportTCP, ReachTimeout: 2 * time.Second, DialTimeout: testTimeout}
	}
	opts[1].Advertise, opts[3].Advertise = hole, hole
	w := newWorldOf(t, opts)
	accused := 0
	for r, err := range w.tryConfigure(1, w.everybody(), func(int, *pg.Config) {}) {
		got := culprits(err)
		accused += len(got)
		wrong := slices.ContainsFunc(got, func(id string) bool { return id <= w.ids[r] || id == "replica2" })
		if err == nil || wrong || len(got) > 0 && !errors.Is(err, pg.ErrUnreachable) {
			t.Errorf("rank %d: %v accuses %q, want those of replica1 and replica3 that it dials", r, err, got)
		}
	}
	if accused == 0 {
		t.Error("nobody is accused")
	}
}

// TestBusyIsNotOutOfReach: a peer whose process says nothing for several
// ReachTimeouts, but whose host answers, is waited for.
func TestBusyIsNotOutOfReach(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	opts := []Options{
		{Transport: TransportTCP, ReachTimeout: time.Second, DialTimeout: testTimeout},
		{Transport: TransportTCP, Advertise: ln.Addr().String()},
	}
	w := newWorldOf(t, opts)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer ln.Close()
	wg.Go(func() { // answers late, and then passes on to the peer
		<-time.After(3 * opts[0].ReachTimeout)
		eventually(t, "the peer listens", func() bool { return w.backends[1].Addr() != nil })
		for { // who is slow to see the answer connects several times, and keeps one
			c, err := ln.Accept()
			if err != nil {
				return
			}
			d, err := net.Dial("tcp", w.backends[1].Addr().String())
			if err != nil {
				t.Error(err)
				c.Close()
				return
			}
			wg.Go(func() { pass(c, d) })
		}
	})
	w.configure(1)
	w.backends[0].Close() //nolint:errcheck // once more at the end
}

// pass carries bytes both ways until one way ends.
func pass(a, b net.Conn) {
	var wg sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		wg.Go(func() {
			defer a.Close()
			defer b.Close()
			buf := make([]byte, 64<<10)
			for {
				n, err := way[0].Read(buf)
				if err == nil {
					_, err = way[1].Write(buf[:n])
				}
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestNotMet: a member that does not come is given up after the MeetTimeout, and
// named; where the caller itself ends the wait, it is not accused.
func TestNotMet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, Options{Transport: TransportTCP})
	configure := func(ctx context.Context, q int64, meet time.Duration) []error {
		errs := make([]error, 2)
		var wg sync.WaitGroup
		for r, m := range []int{0, 2} {
			wg.Go(func() {
				c := w.config(q, w.everybody(), m)
				c.MeetTimeout = meet
				errs[r] = w.backends[m].Configure(ctx, c)
			})
		}
		wg.Wait()
		return errs
	}
	named := false
	// Long enough for the two who come, on a machine that is starved, too.
	for r, err := range configure(t.Context(), 1, 4*time.Second) {
		got := culprits(err)
		named = named || len(got) > 0
		if err == nil || len(got) > 0 && !slices.Equal(got, []string{"replica1"}) {
			t.Errorf("rank %d: %v accuses %q, want replica1", r, err, got)
		}
	}
	if !named {
		t.Error("replica1 is not accused")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(errors.New("called off")) })
	for r, err := range configure(ctx, 2, 0) {
		if got := culprits(err); err == nil || len(got) > 0 {
			t.Errorf("called off: rank %d: %v accuses %q, want nobody", r, err, got)
		}
	}
}

// TestCalledOffAtTheLast: a Configure that is called off when it has connected in
// vain for most of the ReachTimeout goes on to its end, and tells what it found.
func TestCalledOffAtTheLast(t *testing.T) {
	t.Parallel()
	hole := blackHole(t)
	const (
		limit = 4 * time.Second
		off   = limit * 31 / 32
		// Who is over later than what it gathers for has stood still, and doubts itself.
		late = off + limit/4 + limit/32
	)
	w := newWorldOf(t, []Options{{Transport: TransportTCP, ReachTimeout: limit}, {Transport: TransportTCP, Advertise: hole}})
	b := w.backends[0]
	// calledOff ends when most of the limit has passed since b, in quorum q, began to connect.
	calledOff := func(q int64, connects func(g *group) bool) context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			eventually(t, "the first connects", func() bool {
				b.mu.Lock()
				defer b.mu.Unlock()
				return b.mu.group != nil && b.mu.group.epoch.QuorumID == q && connects(b.mu.group)
			})
			time.AfterFunc(off, func() { cancel(errors.New("called off")) })
		}()
		return ctx
	}
	ctx := calledOff(1, func(g *group) bool { return g.tries[1] > 0 })
	errs := make([]error, 2)
	var wg sync.WaitGroup
	began := time.Now()
	for r, b := range w.backends {
		wg.Go(func() { errs[r] = b.Configure(ctx, w.config(1, w.everybody(), r)) })
	}
	wg.Wait()
	if got := culprits(errs[0]); len(got) == 0 && time.Since(began) > late {
		t.Logf("after %v: %v", time.Since(began), errs[0])
	} else if !slices.Equal(got, []string{"replica1"}) || !errors.Is(errs[0], pg.ErrUnreachable) {
		t.Errorf("%v accuses %q, want replica1 out of reach", errs[0], got)
	}
	c := w.config(2, []int{0}, 0)
	c.StoreAddress, c.ReachTimeout = hole+"/a", limit
	ctx = calledOff(2, func(g *group) bool { return g.opening })
	began = time.Now()
	if err := b.Configure(ctx, c); !errors.Is(err, pg.ErrNoStore) && time.Since(began) <= late {
		t.Errorf("%v, want ErrNoStore", err)
	}
}

// TestStoreOutOfReach: a store whose host does not answer is told from one that
// is slow, and one that goes away in the middle is told too.
func TestStoreOutOfReach(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, Options{Transport: TransportTCP})
	c := w.config(1, w.everybody(), 0)
	c.StoreAddress, c.ReachTimeout = blackHole(t)+"/a", 100*time.Millisecond
	err := w.backends[0].Configure(t.Context(), c)
	if !errors.Is(err, pg.ErrNoStore) || !errors.Is(err, pg.ErrUnreachable) {
		t.Errorf("%v, want ErrNoStore and ErrUnreachable", err)
	}
	s, err := store.NewServer(store.ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { s.Run(ctx) })
	b := New(Options{Transport: TransportTCP}.forTest())
	t.Cleanup(func() { b.Close() })
	c = pg.Config{
		StoreAddress: s.Addr() + "/a", ReplicaIDs: []string{"a", "b"}, Cluster: "test", QuorumID: 2, Timeout: testTimeout,
		ReachTimeout: time.Second,
	}
	time.AfterFunc(50*time.Millisecond, func() { // when it waits for the peer's address, or before
		cancel()
		s.Close()
	})
	err = b.Configure(t.Context(), c)
	if wg.Wait(); !errors.Is(err, pg.ErrNoStore) {
		t.Errorf("%v, want ErrNoStore", err)
	}
}
