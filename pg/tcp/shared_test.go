package tcp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/internal/memfd"
	"github.com/skerry-ft/skerry/internal/shmring"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
	"github.com/skerry-ft/skerry/tensor"
)

// sharedWaiting tells whether a record lies in shared memory that no op of b
// has taken.
func (b *Backend) sharedWaiting() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for l := range b.mu.links {
		if n := l.lane; n != nil && n.channels[0].recv.Peer.Head.Load() > n.channels[0].recv.Mine.Tail.Load() {
			return true
		}
	}
	return false
}

// noise is a rank's input whose sum depends on the order of additions.
func noise(rank, n int) []float32 {
	r := rand.New(rand.NewPCG(uint64(rank), uint64(n)))
	s := make([]float32, n)
	for i := range s {
		s[i] = float32(r.NormFloat64()) * float32(uint64(1)<<r.IntN(40))
	}
	return s
}

// TestTransportsAgree: the result is the left fold in rank order, byte for byte,
// whatever the edges are made of.
func TestTransportsAgree(t *testing.T) {
	t.Parallel()
	const world = 4
	for name, transports := range map[string][]Transport{
		"tcp":    {TransportTCP, TransportTCP, TransportTCP, TransportTCP},
		"shared": {TransportShared, TransportShared, TransportShared, TransportShared},
		"mixed":  {TransportAuto, TransportTCP, TransportAuto, TransportAuto},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := make([]Options, world)
			for r := range opts {
				opts[r].Transport = transports[r]
			}
			w := newWorldOf(t, opts)
			w.configure(1)
			wantLanes := map[string][]int{"tcp": {0, 0, 0, 0}, "shared": {3, 3, 3, 3}, "mixed": {2, 0, 2, 2}}[name]
			for r, b := range w.backends {
				if got := b.Stats().Lanes; got != wantLanes[r] {
					t.Errorf("rank %d has %d lanes, want %d", r, got, wantLanes[r])
				}
			}
			for _, n := range []int{1, 8192, 8193, 100_003} {
				for _, reduce := range []tensor.ReduceOp{tensor.Sum, tensor.Avg} {
					foldAgrees(t, w, n, reduce)
				}
				for root := range world {
					castAgrees(t, w, n, root)
				}
			}
		})
	}
}

func foldAgrees(t *testing.T, w *world, n int, reduce tensor.ReduceOp) {
	t.Helper()
	world := len(w.backends)
	inputs, data := make([][]byte, world), make([]tensor.Tensor, world)
	for r := range data {
		data[r] = tensor.Of(noise(r, n))
		inputs[r] = bytes.Clone(data[r].Bytes())
	}
	want := make([]byte, 4*n)
	if err := tensor.Reduce(want, inputs, tensor.Float32, reduce, world, 0); err != nil {
		t.Fatal(err)
	}
	noError(t, w.all(w.everybody(), func(r int) *pg.Op {
		x := []tensor.Tensor{data[r]}
		return &pg.Op{Kind: pg.KindAllReduce, In: x, Out: x, Reduce: reduce}
	}))
	for r := range data {
		if !bytes.Equal(data[r].Bytes(), want) {
			t.Errorf("%v of %d elements: rank %d differs from the fold in rank order", reduce, n, r)
		}
	}
}

// castAgrees: a broadcast, relayed or not, gives everybody the root's bytes, and
// everybody the digest that pg.Digest defines.
func castAgrees(t *testing.T, w *world, n, root int) {
	t.Helper()
	want := tensor.Of(noise(100+root, n))
	data := make([]tensor.Tensor, len(w.backends))
	for r := range data {
		data[r] = tensor.Of(make([]float32, n))
	}
	copy(data[root].Bytes(), want.Bytes())
	ops := make([]*pg.Op, len(data))
	ballots := func(r int) *pg.Op {
		ops[r] = &pg.Op{Kind: pg.KindBallot}
		return ops[r]
	}
	noError(t, w.all(w.everybody(), ballots)) // what came before is over
	noError(t, w.all(w.everybody(), func(r int) *pg.Op {
		x := []tensor.Tensor{data[r]}
		return &pg.Op{Kind: pg.KindBroadcast, In: x, Out: x, Root: root}
	}))
	noError(t, w.all(w.everybody(), ballots))
	digest := pg.Digest{Valid: true}
	digest.Add(want.Bytes())
	for r := range data {
		if !bytes.Equal(data[r].Bytes(), want.Bytes()) {
			t.Errorf("broadcast of %d elements from %d: rank %d differs", n, root, r)
		}
		if got := ops[0].Ballots[r].Digest; got != digest {
			t.Errorf("broadcast of %d elements from %d: digest of rank %d is %+v, want %+v", n, root, r, got, digest)
		}
	}
}

// TestSharedOrNothing: a rank that takes shared memory only says so when a peer
// has none, and both learn it at once.
func TestSharedOrNothing(t *testing.T) {
	t.Parallel()
	for _, forced := range []int{0, 1} { // who dials, who answers
		opts := []Options{{Transport: TransportTCP}, {Transport: TransportTCP}}
		opts[forced].Transport = TransportShared
		w := newWorldOf(t, opts)
		errs := w.tryConfigure(1, w.everybody(), func(int, *pg.Config) {})
		if !strings.Contains(errs[forced].Error(), errNoSharing.Error()) {
			t.Errorf("rank %d: %v, want %v", forced, errs[forced], errNoSharing)
		}
		if errs[1-forced] == nil {
			t.Errorf("rank %d: configured", 1-forced)
		}
	}
}

// TestLanesDelta: edges that stay keep their shared memory, those that go let go
// of it, and frames left over from an aborted epoch are skipped.
func TestLanesDelta(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4, Options{Transport: TransportShared})
	lanes := map[*lane]bool{}
	for q, members := range [][]int{{0, 1, 2, 3}, {3, 1, 0, 2}, {0, 1, 2}, {2, 3, 0, 1}, {1, 2}} {
		w.configure(int64(q+1), members...)
		w.reduceOK(members, 300_000)
		now := map[*lane]bool{}
		for _, m := range members {
			b := w.backends[m]
			eventually(t, "only lanes to members", func() bool { return b.Stats().Lanes == len(members)-1 })
			b.mu.Lock()
			for l := range b.mu.links {
				now[l.lane] = true
			}
			b.mu.Unlock()
		}
		fresh := 0
		for n := range now {
			if !lanes[n] {
				fresh++
			}
		}
		if want := []int{12, 0, 0, 6, 0}[q]; fresh != want {
			t.Errorf("quorum %d: %d new ends of lanes, want %d", q+1, fresh, want)
		}
		lanes = now
		// An op that one rank never joins leaves records behind.
		x := tensors(pattern(0, 1<<20))
		work := w.backends[members[0]].Submit(&pg.Op{Kind: pg.KindAllReduce, In: x, Out: x})
		last := w.backends[members[len(members)-1]]
		eventually(t, "a record lies there", last.sharedWaiting)
		last.Abort(pg.Epoch{Cluster: "test", QuorumID: int64(q + 1)}, errors.New("no"))
		if wait(t, work) == nil {
			t.Error("all-reduce without a rank succeeded")
		}
	}
}

// openFiles is how many descriptors this process has.
func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// TestSharingStrangers: whatever is said and passed on the Unix socket, the group
// works on, and no descriptor stays. Not parallel: it counts descriptors.
func TestSharingStrangers(t *testing.T) {
	w := newWorld(t, 2, Options{})
	w.configure(1)
	place := w.backends[1].place()
	_, name, _ := strings.Cut(place, "/")
	before := openFiles(t)
	segment, err := memfd.Create("stranger", controlBytes+frame.Classes*minRingBytes)
	if err != nil {
		t.Fatal(err)
	}
	short, err := memfd.Create("short", 4096)
	if err != nil {
		t.Fatal(err)
	}
	e, err := newBell()
	if err != nil {
		t.Fatal(err)
	}
	r, wr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	blocks := os.NewFile(uintptr(event), "eventfd")
	hello := append([]byte(shareMagic), make([]byte, frame.NonceBytes)...)
	b := w.backends[1]
	for i, c := range []struct {
		message []byte
		files   []*os.File
	}{
		{nil, nil},
		{[]byte("GET / HTTP/1.1\r\n\r\n"), nil},
		{hello, nil},
		{hello[:10], []*os.File{segment.File(), e.pass}},
		{append(slices.Clone(hello), 0), []*os.File{segment.File(), e.pass}},
		{hello, []*os.File{segment.File()}},
		{hello, []*os.File{segment.File(), e.pass, e.pass, e.pass}},
		{hello, []*os.File{r, e.pass}},              // no memory
		{hello, []*os.File{segment.File(), blocks}}, // a bell that may block
		{hello, []*os.File{short.File(), e.pass}},   // no room for a frame
		{hello, []*os.File{segment.File(), e.pass}}, // a nonce that no edge has
		{bytes.Repeat(hello, 100), []*os.File{e.pass, segment.File()}},
	} {
		stranger(t, name, c.message, c.files)
		w.reduceOK(w.everybody(), 10_000+i)
	}
	eventually(t, "the strangers are gone", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.mu.sharing) == 0
	})
	err = errors.Join(segment.Close(), short.Close(), e.close(), r.Close(), wr.Close(), blocks.Close())
	if err != nil {
		t.Error(err)
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

// stranger says one thing and waits for the end of the connection.
func stranger(t *testing.T, name string, message []byte, files []*os.File) {
	t.Helper()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: "@" + name, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var fds []int
	for _, f := range files {
		raw, err := f.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.Control(func(fd uintptr) { fds = append(fds, int(fd)) }); err != nil {
			t.Fatal(err)
		}
	}
	if len(message) > 0 {
		var rights []byte
		if len(fds) > 0 {
			rights = unix.UnixRights(fds...)
		}
		if _, _, err := c.WriteMsgUnix(message, rights, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); n > 0 {
		t.Errorf("%d descriptors with %q were answered (%v)", len(files), message, err)
	}
}

// FuzzRing: whatever a peer writes into its segment, reading it ends, stays
// within the ring, and does not panic.
func FuzzRing(f *testing.F) {
	h := sampleHeader()
	h.Length, h.Offset = 100, 0
	record := make([]byte, shmring.Bytes(recordHead, 100))
	h.Encode(record)
	f.Add(record, uint64(len(record)))
	f.Add(append(slices.Clone(record), record...), uint64(2*len(record)))
	f.Add([]byte{0x53, 0x6b, 0, 0}, uint64(minRingBytes))
	f.Add([]byte{}, ^uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, head uint64) {
		mine := asBytes(make([]uint64, (controlBytes+minRingBytes)/8))
		peer := asBytes(make([]uint64, (controlBytes+minRingBytes)/8))
		copy(peer[controlBytes:], b)
		for at := controlBytes; at+frame.HeaderBytes <= controlBytes+len(b) && at+frame.HeaderBytes <= len(peer); at += shmring.Align {
			// A fuzzer seldom guesses a checksum.
			binary.LittleEndian.PutUint32(peer[at+92:], frame.Checksum(peer[at:at+92]))
		}
		var c consumer
		c.Data, c.Mine, c.Peer, c.HeadBytes = peer[controlBytes:], wordsOf(mine, 0, nil), wordsOf(peer, 0, nil), recordHead
		c.Peer.Head.Store(head)
		for range 2 * minRingBytes / recordHead {
			var h frame.Header
			ok, err := c.peek(&h)
			if err != nil || !ok {
				return
			}
			p, end := c.Take(int(h.Length))
			if len(p) != int(h.Length) || end > head {
				t.Fatalf("record of %d bytes gave %d, up to %d of %d", h.Length, len(p), end, head)
			}
		}
		t.Fatal("reading does not end")
	})
}

// asBytes is memory that is aligned as a mapping is.
func asBytes(words []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 8*len(words))
}

func TestOpenTransport(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]Transport{"auto": TransportAuto, "tcp": TransportTCP, "shared": TransportShared} {
		b, err := Open(pg.Options{Params: map[string]string{ParamTransport: value}})
		if err != nil {
			t.Fatal(err)
		}
		if got := b.(*Backend).opt.Transport; got != want || got.String() != value {
			t.Errorf("%s gives %v", value, got)
		}
	}
	for name, value := range map[string]string{ParamTransport: "pigeon", "transports": "tcp"} {
		_, err := Open(pg.Options{Params: map[string]string{name: value}})
		if err == nil || !strings.Contains(err.Error(), value) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: %v, want an error that names both", name, value, err)
		}
	}
}
