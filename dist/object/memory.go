package object

import (
	"fmt"
	"reflect"
)

// Bounds of what objects take in memory once they are decoded. A nil list in a
// list is one byte on the wire and 24 in memory, so bounds of bytes alone would
// let a peer fill it. Both ends count alike: who encodes is told first.
const (
	// MaxMemory bounds one object: eight times MaxBytes, so that a
	// list of numbers always fits.
	MaxMemory = 8 * MaxBytes
	// MaxTotalMemory bounds what one rank decodes in one call.
	MaxTotalMemory = 2 << 30
)

// What Go needs besides elements, at most.
const (
	mapBytes      = 64 // an empty one
	mapEntryBytes = 8  // besides key and value, which are counted twice: tables have room to spare
	boxBytes      = 8  // the least that a value in an interface takes
)

// budget counts.
type budget struct{ taken, limit int }

func (m *budget) take(n, size int) error {
	if size > 0 && n > (m.limit-m.taken)/size {
		return fmt.Errorf("takes more than %d bytes of memory", m.limit)
	}
	m.taken += n * size
	return nil
}

// box is a value of a type in an interface.
func (m *budget) box(t reflect.Type) error { return m.take(1, max(int(t.Size()), boxBytes)) }

func (m *budget) list(t reflect.Type, n int) error { return m.take(n, int(t.Elem().Size())) }

func (m *budget) pairs(t reflect.Type, n int) error {
	if err := m.take(1, mapBytes); err != nil {
		return err
	}
	return m.take(n, 2*int(t.Key().Size()+t.Elem().Size())+mapEntryBytes)
}
