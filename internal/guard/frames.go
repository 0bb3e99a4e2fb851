package guard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// What HTTP/2 (RFC 9113) calls its frames, as far as they matter here.
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	framePing         = 0x6
	frameWindowUpdate = 0x8

	flagEndStream = 0x1
	flagPadded    = 0x8

	frameHeaderBytes = 9
	prefaceBytes     = 24

	// messageHeaderBytes come before every gRPC message: a flag and a length.
	messageHeaderBytes = 5
)

// How much of what leads to nothing a connection may send: calls that are refused
// or reset, settings, priorities, empty frames. Who is known passes on calls of
// many others, which may all be cancelled at once. Pings and window updates come
// with every few messages; of who is not known they count a little.
const (
	wasteOne     = 16 // what most of it costs
	wasteLittle  = 1
	burstUnknown = 256 * wasteOne
	rateUnknown  = 32 * wasteOne // a second
	burstKnown   = 8_192 * wasteOne
	rateKnown    = 1_024 * wasteOne
)

// ErrFlood is why a connection is cut whose frames lead to nothing.
var ErrFlood = errors.New("too many frames that lead to nothing")

// errUnused is why a connection is cut that made no call in time.
var errUnused = errors.New("no call that may be made came in time")

// frames is a server's connection that speaks HTTP/2. It looks at the frames that
// its one reader takes from it: so it knows how long each message will be before
// anybody asks for it, and who sends frames for their own sake. The reader must ask
// for no more than a frame at a time: then the newest header is of the call that is
// being opened.
type frames struct {
	net.Conn
	in   chunk // what was read and not asked for yet
	told func(remote net.Addr, err error)

	known atomic.Bool // the peer proved who it is
	used  atomic.Bool // it made a call that may be made
	flood atomic.Bool // it is to be cut
	idle  *time.Timer // cuts it if it makes no call

	// The reader's own.
	preface int // bytes of it that are still to come
	header  [frameHeaderBytes]byte
	have    int // bytes of header
	left    int // bytes of the payload that are still to come
	kind    byte
	flags   byte
	stream  uint32
	pad     int // padding at the end of a data frame; -1: its length comes next
	budget  int // of waste
	refill  time.Time
	newest  uint32 // the stream of the newest header
	ended   bool   // its caller says nothing more
	unseen  bool   // no call came of it yet

	mu      sync.Mutex
	streams map[uint32]*incoming // those whose call has not ended, and a few that have
	sweep   int                  // size at which those are looked for
}

// readAhead is how much is read from a connection at a time.
const readAhead = 4 << 10

// chunk is what was read ahead.
type chunk struct {
	buf        []byte
	begin, end int
}

func newFrames(conn net.Conn, known bool, patience time.Duration, told func(net.Addr, error)) *frames {
	f := &frames{
		Conn: conn, told: told, preface: prefaceBytes, streams: make(map[uint32]*incoming), sweep: leastSweep,
		budget: burstUnknown, refill: time.Now(), in: chunk{buf: make([]byte, readAhead)},
	}
	if known {
		f.know()
		f.budget = burstKnown
	} else {
		f.idle = time.AfterFunc(patience, func() {
			if !f.used.Load() {
				f.cut(errUnused)
			}
		})
	}
	return f
}

// know notes that the peer has proved who it is.
func (f *frames) know() {
	if !f.known.Swap(true) {
		f.use()
	}
}

// use notes that the peer made a call that may be made.
func (f *frames) use() {
	if !f.used.Swap(true) && f.idle != nil {
		f.idle.Stop()
	}
}

// cut ends the connection.
func (f *frames) cut(why error) {
	if f.told != nil {
		f.told(f.RemoteAddr(), why)
	}
	_ = f.Conn.Close() // its reader sees it
}

// Close closes the connection.
func (f *frames) Close() error {
	if f.idle != nil {
		f.idle.Stop()
	}
	return f.Conn.Close()
}

// Read returns what was read ahead, or reads. It fails once the peer has sent too
// much that leads to nothing.
func (f *frames) Read(p []byte) (int, error) {
	n, err := f.in.read(f.Conn, p)
	f.walk(p[:n])
	if f.flood.Load() {
		f.cut(ErrFlood)
		return 0, ErrFlood
	}
	return n, err
}

func (c *chunk) read(from net.Conn, p []byte) (int, error) {
	if c.begin == c.end {
		if len(p) >= len(c.buf) {
			return from.Read(p)
		}
		n, err := from.Read(c.buf)
		c.begin, c.end = 0, n
		if n == 0 {
			return 0, err
		}
	}
	n := copy(p, c.buf[c.begin:c.end])
	c.begin += n
	return n, nil
}

// walk follows the frames in b.
func (f *frames) walk(b []byte) {
	skipped := min(f.preface, len(b))
	f.preface -= skipped
	for b = b[skipped:]; len(b) > 0; {
		if f.have < frameHeaderBytes {
			n := copy(f.header[f.have:], b)
			f.have, b = f.have+n, b[n:]
			if f.have == frameHeaderBytes {
				f.begin()
			}
		} else {
			n := min(f.left, len(b))
			f.payload(b[:n])
			f.left, b = f.left-n, b[n:]
		}
		if f.have == frameHeaderBytes && f.left == 0 {
			f.end()
		}
	}
}

// begin reads a frame's header.
func (f *frames) begin() {
	h := binary.BigEndian.Uint32(f.header[:])
	f.left, f.kind, f.flags = int(h>>8), byte(h), f.header[4]
	f.stream = binary.BigEndian.Uint32(f.header[5:]) &^ (1 << 31)
	f.pad = 0
	switch {
	case f.kind == frameHeaders:
		if f.unseen { // the one before was too long, or malformed
			f.waste(wasteOne)
		}
		f.newest, f.ended, f.unseen = f.stream, f.flags&flagEndStream != 0, true
	case f.kind == frameData:
		if f.flags&flagPadded != 0 {
			f.pad = -1
		}
		if f.left == 0 && f.flags&flagEndStream == 0 {
			f.waste(wasteOne)
		}
	case f.kind == framePing, f.kind == frameWindowUpdate:
		if !f.known.Load() {
			f.waste(wasteLittle)
		}
	default:
		f.waste(wasteOne)
	}
}

// payload passes on to its stream what a data frame carries.
func (f *frames) payload(b []byte) {
	if f.kind != frameData {
		return
	}
	left := f.left
	if f.pad < 0 {
		f.pad, b, left = int(b[0]), b[1:], left-1
	}
	if carried := left - f.pad; carried > 0 {
		if s := f.find(f.stream); s != nil {
			s.carried(b[:min(carried, len(b))])
		}
	}
}

func (f *frames) end() {
	f.have = 0
	if f.kind == frameData && f.flags&flagEndStream != 0 {
		if s := f.find(f.stream); s != nil {
			s.end()
		}
	}
}

// waste takes from the budget, which fills again with time.
func (f *frames) waste(cost int) {
	burst, rate := burstUnknown, rateUnknown
	if f.known.Load() {
		burst, rate = burstKnown, rateKnown
	}
	if f.budget < cost {
		now := time.Now()
		more := min(now.Sub(f.refill).Seconds()*float64(rate), float64(burst))
		f.budget, f.refill = min(f.budget+int(more), burst), now
	}
	if f.budget -= cost; f.budget < 0 {
		f.flood.Store(true)
	}
}

func (f *frames) find(stream uint32) *incoming {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.streams[stream]
}

// leastSweep is how many streams are kept before any is looked at.
const leastSweep = 64

// open notes the call whose header is the newest. Of a peer that is not known it
// refuses one more than most at a time.
func (f *frames) open(s *incoming, most int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.streams) >= f.sweep || most > 0 && len(f.streams) >= most {
		for id, old := range f.streams {
			if old.call.Err() != nil {
				delete(f.streams, id)
			}
		}
		f.sweep = max(leastSweep, 2*len(f.streams))
	}
	if most > 0 && len(f.streams) >= most {
		return fmt.Errorf("%w: %d calls on one connection, want at most %d", ErrTooMany, most+1, most)
	}
	if f.ended {
		s.end()
	}
	f.streams[f.newest] = s
	return nil
}
