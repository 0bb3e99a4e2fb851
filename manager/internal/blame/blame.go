// Package blame reads from an error, wherever in it that stands, whose fault it was.
package blame

import (
	"errors"

	"github.com/skerry-ft/skerry/pg"
)

// First are the errors within err that accuse a peer.
func First(err error) (all []*pg.OpError) {
	switch op, ok := err.(*pg.OpError); {
	case ok && op.First:
		return []*pg.OpError{op}
	case ok:
		return nil // another rank's word
	}
	for _, e := range unwrapped(err) {
		all = append(all, First(e)...)
	}
	return all
}

// NoStore is the part of err that says that there is no store; nil: none does.
func NoStore(err error) error {
	if !errors.Is(err, pg.ErrNoStore) {
		return nil
	}
	for _, e := range unwrapped(err) {
		if e != pg.ErrNoStore && errors.Is(e, pg.ErrNoStore) {
			return NoStore(e)
		}
	}
	return err
}

func unwrapped(err error) []error {
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return []error{inner}
		}
	case interface{ Unwrap() []error }:
		return e.Unwrap()
	}
	return nil
}
