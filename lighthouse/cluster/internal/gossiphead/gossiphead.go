// Package gossiphead looks at what a stream of gossip begins with, before memberlist, which makes
// room for what is announced there, reads it.
package gossiphead

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/internal/wire"
)

// The first bytes of what memberlist sends (its net.go).
const (
	pushPull   = 6
	user       = 8
	compressed = 9
	label      = 244
)

// Check reads what a stream begins with, and takes none of it. An error says why it is not
// read on. from has room for 512 bytes; Check blocks until as many have come as it looks at.
func Check(from *bufio.Reader) error {
	h := head{from: from}
	kind, err := h.one()
	if err == nil && kind == label {
		var size byte
		if size, err = h.one(); err == nil {
			_, err = h.next(int(size))
		}
		if err == nil {
			kind, err = h.one()
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("read what gossip begins with: %w", err)
	case kind == user, kind == compressed:
		return fmt.Errorf("a stream of gossip of kind %d, which this server does not read without a key", kind)
	case kind == pushPull:
		return h.pool()
	}
	return nil
}

// head reads on in a stream's beginning, and takes none of it.
type head struct {
	from *bufio.Reader
	at   int
}

func (h *head) next(n int) ([]byte, error) {
	b, err := h.from.Peek(h.at + n)
	if err != nil {
		return nil, err
	}
	b = b[h.at:]
	h.at += n
	return b, nil
}

func (h *head) one() (byte, error) {
	b, err := h.next(1)
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

var errMalformed = errors.New("the head of a pool of gossip is malformed")

// pool reads the head of a pool: a msgpack map of how many nodes and bytes follow, and
// a flag, each once.
func (h *head) pool() error {
	most := map[string]uint64{"Nodes": wire.MaxServers, "UserStateLen": 0, "Join": 1}
	if b, err := h.one(); err != nil || b != 0x80|byte(len(most)) {
		return errors.Join(errMalformed, err)
	}
	for len(most) > 0 {
		name, err := h.text()
		if err != nil {
			return err
		}
		value, err := h.number()
		if err != nil {
			return err
		}
		bound, ok := most[name]
		if !ok {
			return errMalformed
		}
		if value > bound {
			return fmt.Errorf("a pool of gossip with %s = %d, want at most %d", name, value, bound)
		}
		delete(most, name)
	}
	return nil
}

// text reads a string of up to 31 bytes.
func (h *head) text() (string, error) {
	b, err := h.one()
	if err != nil || b&0xe0 != 0xa0 {
		return "", errors.Join(errMalformed, err)
	}
	text, err := h.next(int(b & 0x1f))
	return string(text), err
}

// number reads a whole number that is not negative, or a flag.
func (h *head) number() (uint64, error) {
	b, err := h.one()
	switch {
	case err != nil:
		return 0, err
	case b < 0x80:
		return uint64(b), nil
	case b == 0xc2, b == 0xc3:
		return uint64(b & 1), nil
	case b < 0xcc, b > 0xd3:
		return 0, errMalformed
	}
	size := 1 << (b & 3) // 0xcc to 0xcf are unsigned, 0xd0 to 0xd3 signed; of 1 to 8 bytes
	raw, err := h.next(size)
	if err != nil {
		return 0, err
	}
	var wide [8]byte
	if b >= 0xd0 && raw[0]&0x80 != 0 {
		return 0, errMalformed
	}
	copy(wide[8-size:], raw)
	return binary.BigEndian.Uint64(wide[:]), nil
}
