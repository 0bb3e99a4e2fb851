package tcp

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
)

const (
	// tlsHeadBytes and tlsRecordBytes are the head of a TLS record and the most
	// plaintext that one carries.
	tlsHeadBytes   = 5
	tlsRecordBytes = 16 << 10
	// sealBytes is how much is encrypted before it is written: enough that system
	// calls do not count, little enough to stay in the cache.
	sealBytes = 4 * tlsRecordBytes
	// maxUnsent bounds what lies encrypted and unsent; what is above sealBytes are the
	// answers to a peer's changes of keys, and a peer that asks for them without end
	// is cut.
	maxUnsent = 2 * sealBytes
	// handshakeBytes bounds what a peer may send in a handshake: a few certificates.
	handshakeBytes = 32 << 10
	// newcomerAheadBytes is read at a time until a Hello has proved the token.
	newcomerAheadBytes = 1 << 10
)

// sealed is TLS on a rawConn, in the shape that socks read and write: one goroutine
// reads and one writes, either may be interrupted at any byte and goes on later, and
// a write that may not wait does not.
//
// A tls.Conn cannot do that: a write that was interrupted has lost its place for
// good. So it only encrypts, into memory, a few records at a time; what is encrypted
// is written as the bytes of a plain connection are, and counts as sent when all of
// it is. Likewise it is given what was read no further than the record at hand goes,
// so that it is known here what is there and was not read.
type sealed struct {
	raw  *rawConn
	conn *tls.Conn

	// Owned by the reader.
	ahead  []byte // ciphertext that is there is ahead[r:w]
	r, w   int
	head   [tlsHeadBytes]byte
	have   int    // bytes of head
	left   int    // bytes of the record that are still to come
	plain  []byte // of a record larger than what was asked for
	opened []byte // the rest of it
	taken  int64  // bytes, ever

	unread atomic.Int64 // bytes that are there and nobody has; 0 while the reader waits

	// Owned by the writer.
	first   []byte // the first record of a frame: its header, and what fits
	pending int    // bytes of plaintext that are encrypted, and not all sent

	live atomic.Bool // the handshake is over

	mu struct {
		sync.Mutex

		out  []byte // ciphertext to be sent is out[sent:]
		sent int
	}
}

// errPlain and errTLS are why two ranks do not meet of which one has certificates.
var (
	errPlain = errors.New("the peer's data plane is in the clear and this rank takes TLS only: give that rank certificates too " +
		"(SKERRY_TLS_CA, SKERRY_TLS_CERT, SKERRY_TLS_KEY), or set SKERRY_TLS_DATA=false on all")
	errTLS = errors.New("the peer's data plane takes TLS only and this rank has none: give this rank certificates too " +
		"(SKERRY_TLS_CA, SKERRY_TLS_CERT, SKERRY_TLS_KEY), or set SKERRY_TLS_DATA=false on all")
)

// errHandshakeSize is a peer that sends more than a handshake takes.
var errHandshakeSize = fmt.Errorf("%w: TLS handshake of more than %d bytes", ErrCorrupt, handshakeBytes)

// errUnsent is a peer that has us answer without end and does not read.
var errUnsent = fmt.Errorf("%w: answers of TLS that the peer does not read, limit %d bytes", ErrCorrupt, maxUnsent)

// seal makes r a TLS connection: all that is read and written from now on. It blocks
// until the handshake is over, and ends with r's deadline or its close. said is what
// the peer has said already; shake makes the side that r is.
func (r *rawConn) seal(said []byte, shake func(net.Conn) *tls.Conn) (derived frame.Binding, err error) {
	s := &sealed{raw: r, ahead: make([]byte, newcomerAheadBytes)}
	s.w = copy(s.ahead, said)
	s.conn = shake(carrier{r.tcp, s})
	if err := s.conn.Handshake(); err != nil {
		return derived, err
	}
	state := s.conn.ConnectionState()
	if state.Version != tls.VersionTLS13 || len(state.PeerCertificates) == 0 {
		return derived, fmt.Errorf("TLS version %x with %d certificates of the peer's, want %x and at least 1",
			state.Version, len(state.PeerCertificates), tls.VersionTLS13)
	}
	keys, err := state.ExportKeyingMaterial(frame.BindingLabel, nil, len(derived))
	if err != nil {
		return derived, err
	}
	copy(derived[:], keys)
	s.live.Store(true)
	r.sealed.Store(s)
	return derived, nil
}

// carrier is what the tls.Conn has for a connection.
type carrier struct {
	*net.TCPConn

	s *sealed
}

func (c carrier) Read(p []byte) (int, error)  { return c.s.readRecord(p) }
func (c carrier) Write(p []byte) (int, error) { return c.s.writeRecord(p) }

// readRecord reads ciphertext, not beyond the record at hand.
func (s *sealed) readRecord(p []byte) (int, error) {
	want := s.left
	if want == 0 {
		want = tlsHeadBytes - s.have
	}
	p = p[:min(len(p), want)]
	n := copy(p, s.ahead[s.r:s.w])
	s.r += n
	if n == 0 && len(p) > 0 {
		s.unread.Store(0) // all was asked for, and the rest of the record has not come
		got, err := s.raw.receive(p, s.ahead)
		if err != nil {
			return 0, err
		}
		decrypting()
		s.unread.Store(int64(got))
		n = min(got, len(p))
		s.r, s.w = 0, got-n
	}
	if err := s.follow(p[:n]); err != nil {
		return 0, err
	}
	return n, nil
}

// follow keeps account of where records end.
func (s *sealed) follow(p []byte) error {
	if s.taken += int64(len(p)); !s.live.Load() && s.taken > handshakeBytes {
		return errHandshakeSize
	}
	if s.left > 0 {
		s.left -= len(p)
		return nil
	}
	s.have += copy(s.head[s.have:], p)
	if s.have < tlsHeadBytes {
		return nil
	}
	s.have, s.left = 0, int(binary.BigEndian.Uint16(s.head[3:]))
	if !s.live.Load() && string(s.head[:]) == frame.PreambleMagic[:tlsHeadBytes] {
		return errPlain
	}
	return nil
}

// writeRecord takes ciphertext: whoever writes plaintext sends it.
func (s *sealed) writeRecord(p []byte) (int, error) {
	encrypted()
	if !s.live.Load() {
		return s.raw.tcp.Write(p)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.out)-s.mu.sent+len(p) > maxUnsent {
		return 0, errUnsent
	}
	s.mu.out = append(s.mu.out, p...)
	return len(p), nil
}

// read is rawConn.read.
func (s *sealed) read(a, b []byte) (int, error) {
	if len(s.opened) == 0 {
		if len(a) >= tlsRecordBytes { // the whole of a record
			n, err := s.conn.Read(a)
			s.count()
			return n, s.readError(n, err)
		}
		if s.plain == nil {
			s.plain = make([]byte, tlsRecordBytes)
		}
		n, err := s.conn.Read(s.plain)
		if n == 0 {
			s.count()
			return 0, s.readError(0, err)
		}
		s.opened = s.plain[:n]
	}
	n := copy(a, s.opened)
	n += copy(b, s.opened[n:])
	s.opened = s.opened[n:]
	s.count()
	return n, nil
}

// readError is what a plain connection would say. An end between two frames is as
// good as one with a farewell of TLS's own: frames say what is missing.
func (s *sealed) readError(n int, err error) error {
	local, ours := errors.AsType[*net.OpError](err)
	_, head := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case n > 0:
		return nil // it comes again
	case errors.Is(err, io.ErrUnexpectedEOF):
		return io.EOF
	case head || ours && local.Op == "local error":
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}

// count tells others what is there.
func (s *sealed) count() { s.unread.Store(int64(s.w - s.r + len(s.opened))) }

// widen has more read at a time: a Hello has proved the token.
func (s *sealed) widen(n int) {
	more := make([]byte, n)
	s.w = copy(more, s.ahead[s.r:s.w])
	s.r, s.ahead = 0, more
}

// write is rawConn.write. After an error that can be got over the caller comes again
// with the same bytes: they are encrypted once.
func (s *sealed) write(a, b []byte, wait bool) (int, error) {
	if s.pending == 0 {
		n, err := s.encrypt(a, b)
		if err != nil {
			return 0, err
		}
		s.pending = n
	}
	for {
		s.mu.Lock()
		p := s.mu.out[s.mu.sent:]
		if len(p) == 0 {
			s.mu.out, s.mu.sent = s.mu.out[:0], 0
		}
		s.mu.Unlock()
		if len(p) == 0 {
			break
		}
		n, err := s.raw.send(p, nil, wait)
		if err != nil {
			return 0, err
		}
		s.mu.Lock()
		s.mu.sent += n
		s.mu.Unlock()
	}
	n := s.pending
	s.pending = 0
	return n, nil
}

// encrypt takes of a, then b, what is to be sent at a time. A frame's header and the
// begin of its payload make one record.
func (s *sealed) encrypt(a, b []byte) (int, error) {
	if len(a) == 0 {
		return s.conn.Write(b[:min(len(b), sealBytes)])
	}
	fits := min(len(b), tlsRecordBytes-len(a))
	s.first = append(append(s.first[:0], a...), b[:fits]...)
	n, err := s.conn.Write(s.first)
	if b = b[fits:]; err != nil || len(b) == 0 {
		return n, err
	}
	more, err := s.conn.Write(b[:min(len(b), sealBytes-tlsRecordBytes)])
	return n + more, err
}
