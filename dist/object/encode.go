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
	e.any(reflect.ValueOf(v), &place{}, 0)
	if e.err != nil {
		return nil, e.err
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

// encoder writes one value after the other to out, until one cannot be sent.
type encoder struct {
	tags   map[reflect.Type]byte
	out    []byte
	err    error  // the first
	memory budget // of the decoded value
}

func (e *encoder) bad(format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
	}
}

// fits tells whether a value is not too large, and nothing was wrong so far.
func (e *encoder) fits(err error, where *place) bool {
	if err != nil {
		e.bad("decoded, %s %w", where, err)
	}
	return e.err == nil
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

// check is fits for the bounds of what is sent.
func (e *encoder) check(where *place, depth int) bool {
	if len(e.out) > MaxBytes {
		e.bad("%s: more than %d bytes", where, MaxBytes)
	}
	if depth > MaxDepth {
		e.bad("%s: nested deeper than %d", where, MaxDepth)
	}
	return e.err == nil
}

// any writes a value with its type.
func (e *encoder) any(v reflect.Value, where *place, depth int) {
	for v.IsValid() && v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if !v.IsValid() {
		e.out = append(e.out, tagNil)
		return
	}
	t := v.Type()
	if t == reflect.TypeFor[bool]() {
		e.out = append(e.out, tagFalse+flag(v.Bool())) // tagTrue is the next
		return
	}
	e.typ(t, where, 0)
	if e.fits(e.memory.box(t), where) {
		e.bare(v, where, depth)
	}
}

// flag is a bool, or stands before a list or map: nil is not the same as empty.
func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// typ writes a type.
func (e *encoder) typ(t reflect.Type, where *place, depth int) {
	if tag, ok := e.tags[t]; ok {
		e.out = append(e.out, tag)
		return
	}
	switch {
	case t.Name() != "" || t.Kind() != reflect.Slice && t.Kind() != reflect.Map:
		e.bad("%s is a %v; want nil, bool, a number, string, []byte, or slices and maps of these (instead of a struct, a map)", where, t)
		return
	case depth >= maxTypeDepth:
		e.bad("%s is a %v, nested deeper than %d types; use any for the inner ones", where, t, maxTypeDepth)
		return
	case t.Kind() == reflect.Slice:
		e.out = append(e.out, tagList)
		e.typ(t.Elem(), &place{up: where, note: " (its elements)"}, depth+1)
		return
	}
	if _, scalar := e.tags[t.Key()]; !scalar {
		e.bad("%s is a %v, whose keys are no scalars", where, t)
		return
	}
	e.out = append(e.out, tagMap)
	e.typ(t.Key(), &place{up: where, note: " (its keys)"}, depth+1)
	e.typ(t.Elem(), &place{up: where, note: " (its values)"}, depth+1)
}

// bare writes a value whose type is known.
func (e *encoder) bare(v reflect.Value, where *place, depth int) {
	if !e.check(where, depth) {
		return
	}
	switch v.Kind() {
	case reflect.Interface:
		e.any(v, where, depth)
	case reflect.Bool:
		e.out = append(e.out, flag(v.Bool()))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		e.out = binary.AppendVarint(e.out, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		e.out = binary.AppendUvarint(e.out, v.Uint())
	case reflect.Float32:
		e.out = binary.LittleEndian.AppendUint32(e.out, math.Float32bits(v.Interface().(float32)))
	case reflect.Float64:
		e.out = binary.LittleEndian.AppendUint64(e.out, math.Float64bits(v.Float()))
	case reflect.String:
		if e.fits(e.memory.take(v.Len(), 1), where) {
			e.out = binary.AppendUvarint(e.out, uint64(v.Len()))
			e.out = append(e.out, v.String()...)
		}
	case reflect.Slice:
		e.list(v, where, depth)
	case reflect.Map:
		e.pairs(v, where, depth)
	}
	e.check(where, depth)
}

func (e *encoder) list(v reflect.Value, where *place, depth int) {
	e.out = append(e.out, flag(!v.IsNil()))
	if v.IsNil() || !e.fits(e.memory.list(v.Type(), v.Len()), where) {
		return
	}
	e.out = binary.AppendUvarint(e.out, uint64(v.Len()))
	if v.Type().Elem().Kind() == reflect.Uint8 {
		e.out = append(e.out, v.Bytes()...)
		return
	}
	at := &place{up: where}
	for ; at.index < v.Len() && e.err == nil; at.index++ {
		e.bare(v.Index(at.index), at, depth+1)
	}
}

func (e *encoder) pairs(v reflect.Value, where *place, depth int) {
	e.out = append(e.out, flag(!v.IsNil()))
	if v.IsNil() || !e.fits(e.memory.pairs(v.Type(), v.Len()), where) {
		return
	}
	type pair struct{ key, value []byte }
	var all []pair
	outer := e.out
	for entries := v.MapRange(); entries.Next() && e.err == nil; {
		at := &place{up: where, key: entries.Key()}
		e.checkKey(entries.Key(), where)
		var p pair
		e.out = nil
		e.bare(entries.Key(), &place{up: at, note: " (key)"}, depth+1)
		p.key, e.out = e.out, nil
		e.bare(entries.Value(), at, depth+1)
		p.value = e.out
		all = append(all, p)
	}
	e.out = outer
	slices.SortFunc(all, func(a, b pair) int { return bytes.Compare(a.key, b.key) })
	e.out = binary.AppendUvarint(e.out, uint64(len(all)))
	for _, p := range all {
		e.out = append(append(e.out, p.key...), p.value...)
		if !e.check(where, depth) {
			return
		}
	}
}

func (e *encoder) checkKey(k reflect.Value, where *place) {
	if k.Kind() == reflect.Interface {
		k = k.Elem()
	}
	if k.CanFloat() && math.IsNaN(k.Float()) {
		e.bad("%s has NaN as a key", where)
	}
	if k.IsValid() && e.tags[k.Type()] == 0 {
		e.bad("%s has a key that is a %v, want a scalar", where, k.Type())
	}
}
