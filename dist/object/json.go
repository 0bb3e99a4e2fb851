package object

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/skerry-ft/skerry/pg"
)

// JSON has the verbs of this package for values of one type, a struct say, which go over
// the wire as encoding/json writes them:
//
//	all, err := object.JSON[Metrics]{}.AllGather(ctx, g, mine)
//
// What JSON does not carry does not arrive: unexported fields are zero, an int in an any
// is a float64, and what a Marshaler of the type leaves out is left out. A T of which JSON
// carries nothing, or that it cannot read back, is refused by the name of its type and its
// place in T, before anything is sent. All ranks call with the same T.
//
// Bounds are those of this package: MaxBytes for a value, as JSON, and MaxMemory for what
// it can take decoded, reckoned from the number of values in the JSON and the largest
// that T has room for. What an Unmarshaler of T's allocates is its own affair.
type JSON[T any] struct{}

// AllGather gives the values of all ranks, by rank, on every rank; see AllGather.
func (JSON[T]) AllGather(ctx context.Context, g *pg.Group, value T) ([]T, error) {
	k, err := newJSONCodec[T]()
	if err != nil {
		return nil, err
	}
	return gather(ctx, g, k, value, pg.Op{Kind: pg.KindAllGather})
}

// Gather gives the values of all ranks, by rank, at root, and nil elsewhere.
func (JSON[T]) Gather(ctx context.Context, g *pg.Group, value T, root int) ([]T, error) {
	k, err := newJSONCodec[T]()
	if err != nil {
		return nil, err
	}
	return gather(ctx, g, k, value, pg.Op{Kind: pg.KindGather, Root: root})
}

// Broadcast makes the values of every rank those of root. All ranks give equal lengths;
// values of other ranks stay as they are on an error. A value of another rank than root
// is replaced, not merged into.
func (JSON[T]) Broadcast(ctx context.Context, g *pg.Group, values []T, root int) error {
	k, err := newJSONCodec[T]()
	if err != nil {
		return err
	}
	return broadcast(ctx, g, k, values, root)
}

// Scatter gives values[r] of root to rank r; see Scatter. Root's own has been through
// JSON too.
func (JSON[T]) Scatter(ctx context.Context, g *pg.Group, values []T, root int) (value T, err error) {
	k, err := newJSONCodec[T]()
	if err != nil {
		return value, err
	}
	return scatter(ctx, g, k, values, root)
}

// jsonCodec is the codec of JSON[T].
type jsonCodec[T any] struct {
	typ    reflect.Type
	widest int // bytes that one more value in the JSON can take
}

func newJSONCodec[T any]() (codec[T], error) {
	typ := reflect.TypeFor[T]()
	w := jsonWalk{seen: make(map[reflect.Type]bool), widest: anyBytes}
	if err := w.walk(typ, typ.String()); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return jsonCodec[T]{typ, w.widest}, nil
}

func (k jsonCodec[T]) encode(v T) ([]byte, error) {
	b, err := json.Marshal(v)
	if err == nil {
		_, err = k.memory(b, MaxMemory)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: a %v as JSON: %w", ErrInvalid, k.typ, err)
	}
	return b, nil
}

func (k jsonCodec[T]) decode(b []byte, left int) (v T, taken int, err error) {
	if taken, err = k.memory(b, left); err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		var none T
		return none, 0, fmt.Errorf("%w: %v from JSON: %w", ErrInvalid, k.typ, err)
	}
	return v, taken, nil
}

// memory is what decoding b takes at most: T itself, the text of its strings, of which a
// byte that is no UTF-8 becomes three, and every value in it as if it were the widest.
func (k jsonCodec[T]) memory(b []byte, left int) (int, error) {
	if len(b) > MaxBytes {
		return 0, fmt.Errorf("%d bytes, want at most %d", len(b), MaxBytes)
	}
	m := budget{limit: left}
	for _, part := range [...]struct{ n, size int }{{1, int(k.typ.Size())}, {len(b), 3}, {jsonValues(b), k.widest}} {
		if err := m.take(part.n, part.size); err != nil {
			return 0, err
		}
	}
	return m.taken, nil
}

// jsonValues is how many values there are in b at most: one, and one more behind every
// bracket, brace and comma that stands outside a string.
func jsonValues(b []byte) int {
	n, inString := 1, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			inString = !inString
		case inString && c == '\\':
			i++
		case !inString && (c == '[' || c == '{' || c == ','):
			n++
		}
	}
	return n
}
