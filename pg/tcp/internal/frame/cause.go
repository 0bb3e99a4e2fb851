package frame

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/skerry-ft/skerry/pg"
)

// Code says on the wire what kind of cause broke a group, so that errors.Is holds
// on every rank.
type Code uint8

// The codes of causes. The numbers go over the wire.
const (
	CodeUser     Code = iota + 1 // Abort was called
	CodeClosed                   // Close was called
	CodeMoved                    // a member is in a later epoch
	CodeLost                     // a link broke or fell silent
	CodeCorrupt                  // a checksum did not hold
	CodeMismatch                 // ranks called different collectives
	CodeDeadline                 // an op's deadline passed
	CodeRefused                  // a Hello was refused
	codeEnd
)

// sentinels are what an error with this code satisfies.
func (c Code) sentinels() []error {
	switch c {
	case CodeLost, CodeClosed:
		return []error{pg.ErrPeerLost}
	case CodeCorrupt:
		return []error{pg.ErrPeerLost, ErrCorrupt}
	case CodeMismatch:
		return []error{pg.ErrMismatch}
	case CodeDeadline:
		return []error{context.DeadlineExceeded}
	default:
		return nil
	}
}

// Cause is why a group broke. An abort frame carries it, but for First.
type Cause struct {
	Code   Code
	Peer   int // the culprit's rank, or -1
	PeerID string
	First  bool // this rank saw the culprit's link break itself
	Kind   pg.Kind
	Seq    uint64
	Err    error
}

// Leaves tells whether an encoded cause is that of a peer that has left in good
// order.
func Leaves(encoded []byte) bool {
	return len(encoded) > 0 && (Code(encoded[0]) == CodeClosed || Code(encoded[0]) == CodeMoved)
}

// maxText bounds the text of an abort frame.
const maxText = 1024

// Encode is c as the payload of a frame; texts that are too long are cut.
func (c *Cause) Encode() []byte {
	le := binary.LittleEndian
	b := []byte{byte(c.Code), byte(c.Kind)}
	b = le.AppendUint32(b, uint32(int32(c.Peer)))
	b = le.AppendUint64(b, c.Seq)
	b = appendString(b, c.PeerID, MaxReplicaIDBytes)
	return appendString(b, c.Err.Error(), maxText)
}

// DecodeCause reads what Encode wrote. reporter names who sent it; world bounds
// the culprit's rank.
func DecodeCause(b []byte, reporter string, world int) (Cause, error) {
	const fixed = 2 + 4 + 8
	if len(b) < fixed {
		return Cause{}, fmt.Errorf("%w: abort of %d bytes", ErrCorrupt, len(b))
	}
	le := binary.LittleEndian
	c := Cause{
		Code: Code(b[0]), Kind: pg.Kind(b[1]),
		Peer: int(int32(le.Uint32(b[2:]))), Seq: le.Uint64(b[6:]),
	}
	if c.Code == 0 || c.Code >= codeEnd || c.Peer < -1 || c.Peer >= world {
		return Cause{}, fmt.Errorf("%w: abort code %d, culprit rank %d of %d", ErrCorrupt, c.Code, c.Peer, world)
	}
	id, rest, err := cutString(b[fixed:], MaxReplicaIDBytes)
	if err != nil {
		return Cause{}, fmt.Errorf("%w: abort: culprit: %w", ErrCorrupt, err)
	}
	text, rest, err := cutString(rest, maxText)
	if err != nil || len(rest) > 0 {
		return Cause{}, fmt.Errorf("%w: abort: text", ErrCorrupt)
	}
	c.PeerID = strings.ToValidUTF8(id, "?")
	c.Err = pg.NewRemoteError(fmt.Sprintf("told by %s: %s", reporter, text), c.Code.sentinels()...)
	return c, nil
}
