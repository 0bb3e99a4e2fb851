package object

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
)

// Decode reads what Encode wrote: values come back with their types.
// It takes at most MaxMemory, and only what Encode could have written,
// byte for byte. Errors wrap ErrInvalid.
func Decode(b []byte) (any, error) {
	v, _, err := decode(b, MaxMemory)
	return v, err
}

// decode is Decode within a limit of memory; it says what it took.
func decode(b []byte, limit int) (v any, taken int, err error) {
	if len(b) > MaxBytes {
		return nil, 0, fmt.Errorf("%w: %d bytes, want at most %d", ErrInvalid, len(b), MaxBytes)
	}
	d := &decoder{in: b, size: len(b), types: goTypes(), memory: budget{limit: limit}}
	x := d.any(0)
	if len(d.in) > 0 {
		d.bad("%d bytes follow the value", len(d.in))
	}
	if d.err != nil || !x.IsValid() {
		return nil, 0, d.err
	}
	return x.Interface(), d.memory.taken, nil
}

// decoder takes one value after the other from in. The first that is wrong becomes err,
// and the end of in: what is read after it is zero.
type decoder struct {
	in     []byte
	size   int
	err    error
	types  map[byte]reflect.Type
	memory budget
}

func (d *decoder) bad(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: byte %d: %w", ErrInvalid, d.size-len(d.in), fmt.Errorf(format, args...))
	}
	d.in = nil
}

// fits tells whether a value is not too large, and nothing was wrong so far.
func (d *decoder) fits(err error) bool {
	if err != nil {
		d.bad("the value %w", err)
	}
	return d.err == nil
}

// bytes reads n bytes; of fewer there are none.
func (d *decoder) bytes(n int) []byte {
	if len(d.in) < n {
		d.bad("the value is cut off")
		return make([]byte, n)
	}
	head := d.in[:n]
	d.in = d.in[n:]
	return head
}

// any reads a value with its type; the zero Value is nil.
func (d *decoder) any(depth int) reflect.Value {
	if len(d.in) > 0 {
		switch tag := d.in[0]; tag {
		case tagNil:
			d.in = d.in[1:]
			return reflect.Value{}
		case tagFalse, tagTrue:
			d.in = d.in[1:]
			return reflect.ValueOf(tag == tagTrue)
		case tagAny, tagBool:
			d.bad("tag %d is no value", tag)
		}
	}
	t := d.typ(0)
	if d.err != nil || !d.fits(d.memory.box(t)) {
		return reflect.Value{}
	}
	v := reflect.New(t).Elem()
	d.bare(v, depth)
	return v
}

// typ reads a type; nil if it is none.
func (d *decoder) typ(depth int) reflect.Type {
	tag := d.bytes(1)[0]
	if t, ok := d.types[tag]; ok {
		return t
	}
	switch {
	case tag != tagList && tag != tagMap:
		d.bad("unknown tag %d", tag)
		return nil
	case depth >= maxTypeDepth:
		d.bad("types nested deeper than %d", maxTypeDepth)
		return nil
	}
	elem := d.typ(depth + 1)
	switch {
	case d.err != nil:
		return nil
	case tag == tagList:
		return reflect.SliceOf(elem)
	case elem.Kind() == reflect.Slice || elem.Kind() == reflect.Map:
		d.bad("keys of a map are %v", elem)
		return nil
	}
	value := d.typ(depth + 1)
	if d.err != nil {
		return nil
	}
	return reflect.MapOf(elem, value)
}

// bare reads into v a value of v's type.
func (d *decoder) bare(v reflect.Value, depth int) {
	if depth > MaxDepth {
		d.bad("nested deeper than %d", MaxDepth)
		return
	}
	switch v.Kind() {
	case reflect.Interface:
		if x := d.any(depth); x.IsValid() {
			v.Set(x)
		}
	case reflect.Slice:
		d.list(v, depth)
	case reflect.Map:
		d.pairs(v, depth)
	case reflect.String:
		if n := d.count(1); d.fits(d.memory.take(n, 1)) {
			v.SetString(string(d.bytes(n)))
		}
	case reflect.Bool:
		v.SetBool(d.flag("bool"))
	case reflect.Float32:
		v.Set(reflect.ValueOf(math.Float32frombits(binary.LittleEndian.Uint32(d.bytes(4))))) // not SetFloat: it changes NaNs
	case reflect.Float64:
		v.SetFloat(math.Float64frombits(binary.LittleEndian.Uint64(d.bytes(8))))
	default:
		d.integer(v)
	}
}

func (d *decoder) integer(v reflect.Value) {
	if v.CanInt() {
		x, n := binary.Varint(d.in)
		if n <= 0 || v.OverflowInt(x) || n != len(binary.AppendVarint(nil, x)) {
			d.bad("malformed %v", v.Type())
			return
		}
		d.in = d.in[n:]
		v.SetInt(x)
		return
	}
	x := d.uvarint(v.Type())
	if v.OverflowUint(x) {
		d.bad("malformed %v", v.Type())
		return
	}
	v.SetUint(x)
}

// uvarint reads a number, which is a what, in its shortest form.
func (d *decoder) uvarint(what any) uint64 {
	x, n := binary.Uvarint(d.in)
	if n <= 0 || n > 1 && d.in[n-1] == 0 {
		d.bad("malformed %v", what)
		return 0
	}
	d.in = d.in[n:]
	return x
}

// count reads how many elements of at least least bytes follow.
func (d *decoder) count(least int) int {
	n := d.uvarint("number")
	if n > uint64(len(d.in)/least) {
		d.bad("%d elements in %d bytes", n, len(d.in))
		return 0
	}
	return int(n)
}

// flag reads 0 or 1: a bool, or whether a list or map is there or nil.
func (d *decoder) flag(what string) bool {
	b := d.bytes(1)[0]
	if b > 1 {
		d.bad("%s is %d", what, b)
	}
	return b == 1
}

func (d *decoder) list(v reflect.Value, depth int) {
	if !d.flag("presence") {
		return
	}
	n := d.count(1)
	if !d.fits(d.memory.list(v.Type(), n)) {
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	if v.Type().Elem().Kind() == reflect.Uint8 {
		reflect.Copy(v, reflect.ValueOf(d.bytes(n)))
		return
	}
	for i := 0; i < n && d.err == nil; i++ {
		d.bare(v.Index(i), depth+1)
	}
}

func (d *decoder) pairs(v reflect.Value, depth int) {
	if !d.flag("presence") {
		return
	}
	n := d.count(2)
	if !d.fits(d.memory.pairs(v.Type(), n)) {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	var last []byte
	for i := range n {
		start := d.in
		key := reflect.New(v.Type().Key()).Elem()
		d.bare(key, depth+1)
		raw := start[:len(start)-len(d.in)]
		if i > 0 && bytes.Compare(last, raw) >= 0 {
			d.bad("keys of a map do not ascend")
		}
		last = raw
		d.checkKey(key)
		value := reflect.New(v.Type().Elem()).Elem()
		d.bare(value, depth+1)
		if d.err != nil {
			return
		}
		v.SetMapIndex(key, value)
	}
	if v.Len() != n { // 0 and −0 are one key
		d.bad("a map has a key twice")
	}
}

// checkKey refuses keys that Go would panic on, and those that equal nothing.
func (d *decoder) checkKey(key reflect.Value) {
	if key.Kind() == reflect.Interface {
		key = key.Elem()
	}
	if k := key.Kind(); k == reflect.Slice || k == reflect.Map {
		d.bad("a key of a map is a %v", key.Type())
	}
	if key.CanFloat() && math.IsNaN(key.Float()) {
		d.bad("a key of a map is NaN")
	}
}
