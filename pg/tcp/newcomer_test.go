package tcp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
)

// TestSilentSocketsCostLittle: as many sockets as are taken that say nothing, and
// one more, cost a few KiB each, and a group forms beside them.
func TestSilentSocketsCostLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("it opens some thousand sockets")
	}
	if testkit.RaceEnabled {
		t.Skip("it measures memory")
	}
	w := newWorld(t, 2, Options{Transport: TransportTCP})
	w.configure(1)
	b := w.backends[0]
	var strangers []net.Conn
	defer func() {
		for _, c := range strangers {
			c.Close()
		}
	}()
	before := memory()
	for _, say := range []string{"", frame.PreambleMagic[:3], frame.PreambleMagic + strings.Repeat("n", frame.NonceBytes)} {
		for range (maxNewcomers + 3) / 3 {
			c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).Dial("tcp", b.Addr().String())
			if errors.Is(err, os.ErrDeadlineExceeded) || err != nil && strings.Contains(err.Error(), "too many open files") {
				t.Skipf("%d sockets: %v", len(strangers), err)
			}
			if err != nil {
				continue // turned away so soon
			}
			_, _ = io.WriteString(c, say) // it may be cut already
			strangers = append(strangers, c)
		}
	}
	eventually(t, "no more are taken than may be", func() bool {
		return b.newcomers.Taken() <= maxNewcomers && b.Stats().Links > scarceNewcomers
	})
	cost := memory() - before
	t.Logf("%d sockets, %d of them held: %d KiB", len(strangers), b.newcomers.Taken(), cost>>10)
	if cost > 32<<20 {
		t.Errorf("%d silent sockets cost %d MiB, want less than 32", len(strangers), cost>>20)
	}
	for _, b := range w.backends { // sockets of the next epoch are new ones
		b.mu.Lock()
		for _, l := range b.mu.edges {
			l.conn.tcp.Close()
		}
		b.mu.Unlock()
	}
	eventually(t, "the edges are gone", func() bool { return w.backends[1].Stats().Links == 0 })
	w.configure(2)
	w.reduceOK(w.everybody(), 100)
}

// memory is what the process has of the system, less what it does not use.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// TestNewcomerSendsNoData: data before a Hello has proved anything end the socket,
// and no buffer is made for them; an abort says nothing.
func TestNewcomerSendsNoData(t *testing.T) {
	w := newWorld(t, 2, Options{Transport: TransportTCP})
	w.configure(1)
	b := w.backends[1]
	links := b.Stats().Links
	for _, typ := range []frame.Type{frame.TypeAbort, frame.TypeData} {
		c, err := net.Dial("tcp", b.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		payload := make([]byte, 4<<10) // the most that an abort may have
		h := frame.Header{Type: typ, Length: uint32(len(payload)), Total: uint64(len(payload)), CRC: frame.Checksum(payload)}
		head := make([]byte, frame.HeaderBytes)
		h.Encode(head)
		if _, err := c.Write(slices.Concat(frame.Preamble(frame.Nonce{}), head, payload)); err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(helloPatience / 3)); err != nil {
			t.Fatal(err)
		}
		if typ == frame.TypeAbort {
			eventually(t, "the abort is read", func() bool { return b.Stats().Links == links+1 && b.Stats().Buffers == 0 })
			c.Close()
		} else if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("a stranger that sends data is still listened to")
		}
		eventually(t, fmt.Sprintf("the stranger is forgotten that sent %v", typ), func() bool {
			return b.Stats().Links == links && b.newcomers.Taken() == 0
		})
	}
	w.reduceOK(w.everybody(), 100)
}

// TestPlacesAreGivenBack: what is proven holds no newcomer's place, further sockets
// of an edge neither.
func TestPlacesAreGivenBack(t *testing.T) {
	w := newWorld(t, 3, Options{Transport: TransportTCP, Streams: 4})
	for q := range int64(3) {
		w.configure(q + 1)
		for i, b := range w.backends {
			if n := b.newcomers.Taken(); n != 0 {
				t.Errorf("backend %d, quorum %d: %d places held, want none", i, q+1, n)
			}
		}
	}
}
