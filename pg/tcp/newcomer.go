package tcp

import (
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
)

// A newcomer is a socket that a peer opened, until a Hello on its edge has proved
// the token of a group. What it costs is little, whatever it says: a place, its
// descriptor, a reader and a buffer for a preamble; behind a right preamble a writer
// and a buffer for a Hello. It gets the buffer of an edge with the proof.
const (
	// maxNewcomers bounds all of them, maxNewcomersPerHost those of one host, and
	// scarceNewcomers the same while there are many: two edges with all their
	// sockets.
	maxNewcomers        = 4096
	maxNewcomersPerHost = 256
	scarceNewcomers     = 2 * MaxStreams

	// helloBytes is the receive buffer between preamble and proof: a header, or a
	// Hello, of which the longest has 1,432 bytes.
	helloBytes = 1536

	// helloPatience is how long a socket may stay open without a Hello, and
	// earlyPatience how long with one of an epoch that has not come: a peer that
	// still waits for it opens another.
	helloPatience = 10 * time.Second
	earlyPatience = time.Minute
)

// enlarge gives k a receive buffer of n bytes, with what is unread. The reader
// calls it.
func (k *sock) enlarge(n int) {
	in := &k.in
	more := make([]byte, n)
	in.w = copy(more, in.buf[in.r:in.w])
	in.r, in.buf = 0, more
	if s := k.conn.sealed.Load(); s != nil && n == receiveBytes {
		s.widen(n)
	}
}

// screen looks at the head of a frame. Behind a proof k has its whole buffer. Before
// it only a Hello is read; an abort is thrown away, which tells that the rest of
// the frame is over; data break the edge: a peer has no credit before the proof.
func (k *sock) screen(h *frame.Header) (over bool, err error) {
	if len(k.in.buf) == receiveBytes {
		return false, nil
	}
	l := k.l
	l.b.mu.Lock()
	proven := l.proven
	l.b.mu.Unlock()
	switch {
	case proven:
		k.enlarge(receiveBytes)
		return false, nil
	case h.Type == frame.TypeAbort:
		return true, k.discard(int(h.Length))
	case h.Type == frame.TypeData || int(h.Length) > len(k.in.buf):
		return true, fmt.Errorf("%w: %v frame of %d bytes before a Hello has proved anything", ErrCorrupt, h.Type, h.Length)
	}
	return false, nil
}

// overdueLocked tells whether a link that a peer opened has proved nothing for too
// long.
func (l *link) overdueLocked(now time.Time) bool {
	age := now.Sub(l.born)
	return l.hello == nil && age > helloPatience || !l.proven && age > earlyPatience
}

// leavePlacesLocked gives back the places of l's sockets: they are proven, or gone.
func (l *link) leavePlacesLocked() {
	for _, k := range l.socks {
		k.newcomer.Leave()
	}
}
