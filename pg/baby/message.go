package baby

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// kind says what a message is.
type kind uint8

// The messages. Those with a body name its layout; numbers are little-endian.
const (
	// To the child.
	msgConfigure kind = iota + 1 // JSON of pg.Config
	msgOp                        // see op.go
	msgAbort                     // JSON of fault
	msgSegment                   // uint64 id, uint64 bytes; a descriptor comes with it
	msgDrop                      // uint64 id of a segment that no op uses any more
	msgUnshare                   // handle of device memory that no op uses any more
	msgPing
	msgClose

	// To the parent.
	msgReady      // the backend is open, Configure can come
	msgConfigured // JSON of fault, or nothing
	msgDone       // see op.go
	msgBroken     // JSON of fault
	msgPong
)

// newMessage begins a message in b's memory; seal ends it.
func newMessage(b []byte, k kind) []byte {
	return append(b[:0], 0, 0, 0, 0, byte(k))
}

func message(k kind, body ...byte) []byte {
	return seal(append(newMessage(nil, k), body...))
}

func jsonMessage(k kind, v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("baby: encode %T: %v", v, err)) // our own plain structs
	}
	return message(k, body...)
}

func appendBytes(b, v []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(v)))
	return append(b, v...)
}

// A cursor reads a message. After the first value that is not there, all are
// zero, and err tells.
type cursor struct {
	b   []byte
	err error
}

var errShort = errors.New("message is cut short")

func (c *cursor) take(n int) []byte {
	if c.err == nil && (n < 0 || n > len(c.b)) {
		c.err = errShort
	}
	if c.err != nil {
		return nil
	}
	v := c.b[:n]
	c.b = c.b[n:]
	return v
}

func (c *cursor) u8() uint8 {
	if v := c.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if v := c.take(4); v != nil {
		return binary.LittleEndian.Uint32(v)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if v := c.take(8); v != nil {
		return binary.LittleEndian.Uint64(v)
	}
	return 0
}

func (c *cursor) float() float64 { return math.Float64frombits(c.u64()) }

func (c *cursor) bytes() []byte { return c.take(int(c.u32())) }

// count reads how many of something follow; more than most are refused.
func (c *cursor) count(most int, of string) int {
	n := c.u32()
	if c.err == nil && n > uint32(most) {
		c.err = fmt.Errorf("%d %s, want at most %d", n, of, most)
	}
	if c.err != nil {
		return 0
	}
	return int(n)
}

// end checks that nothing is left.
func (c *cursor) end() error {
	if c.err == nil && len(c.b) > 0 {
		c.err = fmt.Errorf("%d bytes too many in a message", len(c.b))
	}
	return c.err
}
