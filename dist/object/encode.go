package object

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
)

// Bounds of an encoded object. They hold for what is sent and for what comes.
const (
	// MaxBytes bounds one object, encoded.
	MaxBytes = 64 << 20
	// MaxDepth bounds lists in lists, maps in lists and so on.
	MaxDepth = 64
	// maxTypeDepth bounds the nesting of element types that are not any, such
	// as map[string][]int (2): Go keeps every type that was ever named.
	maxTypeDepth = 2
)

// ErrInvalid is returned for a value that cannot be sent as an object, by the
// name of its type and its place, and for bytes that are no object.
var ErrInvalid = errors.New("object: not an object that can be sent")

// The tags of encoded values and types. They go over the wire: append only.
const (
	tagNil byte = iota
	tagFalse
	tagTrue
	tagInt
	tagInt8
	tagInt16
	tagInt32
	tagInt64
	tagUint
	tagUint8
	tagUint16
	tagUint32
	tagUint64
	tagFloat32
	tagFloat64
	tagString
	tagList // an element type, a count, elements
	tagMap  // a key type, a value type, a count, pairs with ascending keys
	tagAny  // as a type only: each element has a tag of its own
	tagBool // as a type only
)

// goTypes are the Go types of the tags that stand for one.
func goTypes() map[byte]reflect.Type {
	return map[byte]reflect.Type{
		tagInt: reflect.TypeFor[int](), tagInt8: reflect.TypeFor[int8](), tagInt16: reflect.TypeFor[int16](),
		tagInt32: reflect.TypeFor[int32](), tagInt64: reflect.TypeFor[int64](),
		tagUint: reflect.TypeFor[uint](), tagUint8: reflect.TypeFor[uint8](), tagUint16: reflect.TypeFor[uint16](),
		tagUint32: reflect.TypeFor[uint32](), tagUint64: reflect.TypeFor[uint64](),
		tagFloat32: reflect.TypeFor[float32](), tagFloat64: reflect.TypeFor[float64](),
		tagString: reflect.TypeFor[string](), tagAny: reflect.TypeFor[any](), tagBool: reflect.TypeFor[bool](),
	}
}

// Encode writes v in the encoding of the object collectives: nil, bool,
// the integers and floats, string, []byte, and slices and maps of these or of
// any, with their types; keys of maps are scalars. Everything else (structs,
// pointers, functions, named types) is refused by name: nothing that is decoded
// can run code, or be of a type that the receiver does not expect. Maps are
// written in the order of their keys, so that equal values have equal bytes.
//
// Errors wrap ErrInvalid and name the place of what cannot be encoded.
func Encode(v any) ([]byte, error) {
	e := newEncoder(MaxMemory)
	if err := e.any(reflect.ValueOf(v), &place{}, 0); err != nil {
		return nil, err
	}
	return e.out, nil
}

func newEncoder(memory int) *encoder {
	e := &encoder{tags: make(map[reflect.Type]byte), memory: budget{limit: memory}}
	for tag, t := range goTypes() {
		e.tags[t] = tag
	}
	return e
}

type encoder struct {
	tags   map[reflect.Type]byte
	out    []byte
	memory budget // of the decoded value
}

// fits is the error of a value that is too large.
func (e *encoder) fits(err error, where *place) error {
	if err != nil {
		return fmt.Errorf("%w: decoded, %s %w", ErrInvalid, where, err)
	}
	return nil
}

// place is where in a value something is; only errors spell it out.
type place struct {
	up    *place // nil: the value itself
	index int
	key   reflect.Value // instead of index, if valid
	note  string        // likewise
}

func (p *place) String() string {
	switch {
	case p.up == nil:
		return "value"
	case p.note != "":
		return p.up.String() + p.note
	case p.key.IsValid():
		return fmt.Sprintf("%v[%v]", p.up, p.key)
	}
	return fmt.Sprintf("%v[%d]", p.up, p.index)
}

func (e *encoder) check(where *place, depth int) error {
	if len(e.out) > MaxBytes {
		return fmt.Errorf("%w: %s: more than %d bytes", ErrInvalid, where, MaxBytes)
	}
	if depth > MaxDepth {
		return fmt.Errorf("%w: %s: nested deeper than %d", ErrInvalid, where, MaxDepth)
	}
	return nil
}

// any writes a value with its type.
func (e *encoder) any(v reflect.Value, where *place, depth int) error {
	for v.IsValid() && v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if !v.IsValid() {
		e.out = append(e.out, tagNil)
		return nil
	}
	t := v.Type()
	if t.Kind() == reflect.Bool && t == reflect.TypeFor[bool]() {
		e.out = append(e.out, tagFalse)
		if v.Bool() {
			e.out[len(e.out)-1] = tagTrue
		}
		return nil
	}
	if err := e.typ(t, where, 0); err != nil {
		return err
	}
	if err := e.fits(e.memory.box(t), where); err != nil {
		return err
	}
	return e.bare(v, where, depth)
}

// typ writes a type.
func (e *encoder) typ(t reflect.Type, where *place, depth int) error {
	if tag, ok := e.tags[t]; ok {
		e.out = append(e.out, tag)
		return nil
	}
	switch {
	case t.Name() != "" || t.Kind() != reflect.Slice && t.Kind() != reflect.Map:
		return fmt.Errorf("%w: %s is a %v; want nil, bool, a number, string, []byte, or slices and maps of these (instead of a struct, a map)",
			ErrInvalid, where, t)
	case depth >= maxTypeDepth:
		return fmt.Errorf("%w: %s is a %v, nested deeper than %d types; use any for the inner ones",
			ErrInvalid, where, t, maxTypeDepth)
	case t.Kind() == reflect.Slice:
		e.out = append(e.out, tagList)
		return e.typ(t.Elem(), &place{up: where, note: " (its elements)"}, depth+1)
	}
	if _, scalar := e.tags[t.Key()]; !scalar {
		return fmt.Errorf("%w: %s is a %v, whose keys are no scalars", ErrInvalid, where, t)
	}
	e.out = append(e.out, tagMap)
	if err := e.typ(t.Key(), &place{up: where, note: " (its keys)"}, depth+1); err != nil {
		return err
	}
	return e.typ(t.Elem(), &place{up: where, note: " (its values)"}, depth+1)
}

// bare writes a value whose type is known.
func (e *encoder) bare(v reflect.Value, where *place, depth int) error {
	if err := e.check(where, depth); err != nil {
		return err
	}
	switch v.Kind() {
	case reflect.Interface:
		return e.any(v, where, depth)
	case reflect.Bool:
		e.out = append(e.out, 0)
		if v.Bool() {
			e.out[len(e.out)-1] = 1
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		e.out = binary.AppendVarint(e.out, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		e.out = binary.AppendUvarint(e.out, v.Uint())
	case reflect.Float32:
		e.out = binary.LittleEndian.AppendUint32(e.out, math.Float32bits(v.Interface().(float32)))
	case reflect.Float64:
		e.out = binary.LittleEndian.AppendUint64(e.out, math.Float64bits(v.Float()))
	case reflect.String:
		if err := e.fits(e.memory.take(v.Len(), 1), where); err != nil {
			return err
		}
		e.out = binary.AppendUvarint(e.out, uint64(v.Len()))
		e.out = append(e.out, v.String()...)
	case reflect.Slice:
		return e.list(v, where, depth)
	case reflect.Map:
		return e.pairs(v, where, depth)
	}
	return e.check(where, depth)
}

func (e *encoder) list(v reflect.Value, where *place, depth int) error {
	e.out = append(e.out, presence(v.IsNil()))
	if v.IsNil() {
		return nil
	}
	if err := e.fits(e.memory.list(v.Type(), v.Len()), where); err != nil {
		return err
	}
	e.out = binary.AppendUvarint(e.out, uint64(v.Len()))
	if v.Type().Elem().Kind() == reflect.Uint8 {
		e.out = append(e.out, v.Bytes()...)
		return e.check(where, depth)
	}
	at := &place{up: where}
	for i := range v.Len() {
		at.index = i
		if err := e.bare(v.Index(i), at, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// presence is what stands before a list or map: nil is not the same as empty.
func presence(isNil bool) byte {
	if isNil {
		return 0
	}
	return 1
}

func (e *encoder) pairs(v reflect.Value, where *place, depth int) error {
	e.out = append(e.out, presence(v.IsNil()))
	if v.IsNil() {
		return nil
	}
	if err := e.fits(e.memory.pairs(v.Type(), v.Len()), where); err != nil {
		return err
	}
	type pair struct{ key, value []byte }
	var all []pair
	outer := e.out
	for entries := v.MapRange(); entries.Next(); {
		at := &place{up: where, key: entries.Key()}
		k := entries.Key()
		if k.Kind() == reflect.Interface {
			k = k.Elem()
		}
		if k.CanFloat() && math.IsNaN(k.Float()) {
			return fmt.Errorf("%w: %s has NaN as a key", ErrInvalid, where)
		}
		if k.IsValid() && e.tags[k.Type()] == 0 {
			return fmt.Errorf("%w: %s has a key that is a %v, want a scalar", ErrInvalid, where, k.Type())
		}
		var p pair
		e.out = nil
		if err := e.bare(entries.Key(), &place{up: at, note: " (key)"}, depth+1); err != nil {
			return err
		}
		p.key, e.out = e.out, nil
		if err := e.bare(entries.Value(), at, depth+1); err != nil {
			return err
		}
		p.value = e.out
		all = append(all, p)
	}
	e.out = outer
	slices.SortFunc(all, func(a, b pair) int { return bytes.Compare(a.key, b.key) })
	e.out = binary.AppendUvarint(e.out, uint64(len(all)))
	for _, p := range all {
		e.out = append(append(e.out, p.key...), p.value...)
		if err := e.check(where, depth); err != nil {
			return err
		}
	}
	return nil
}
