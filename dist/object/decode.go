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
	x, err := d.any(0)
	if err != nil {
		return nil, 0, err
	}
	if len(d.in) > 0 {
		return nil, 0, d.bad("%d bytes follow the value", len(d.in))
	}
	if !x.IsValid() {
		return nil, 0, nil
	}
	return x.Interface(), d.memory.taken, nil
}

type decoder struct {
	in     []byte
	size   int
	types  map[byte]reflect.Type
	memory budget
}

func (d *decoder) bad(format string, args ...any) error {
	return fmt.Errorf("%w: byte %d: %w", ErrInvalid, d.size-len(d.in), fmt.Errorf(format, args...))
}

// fits is the error of a value that is too large.
func (d *decoder) fits(err error) error {
	if err != nil {
		return d.bad("the value %w", err)
	}
	return nil
}

func (d *decoder) byte() (byte, error) {
	if len(d.in) == 0 {
		return 0, d.bad("the value is cut off")
	}
	b := d.in[0]
	d.in = d.in[1:]
	return b, nil
}

// any reads a value with its type; the zero Value is nil.
func (d *decoder) any(depth int) (reflect.Value, error) {
	if len(d.in) > 0 {
		switch d.in[0] {
		case tagNil, tagFalse, tagTrue:
			tag, _ := d.byte() // there is one
			if tag == tagNil {
				return reflect.Value{}, nil
			}
			return reflect.ValueOf(tag == tagTrue), nil
		case tagAny, tagBool:
			return reflect.Value{}, d.bad("tag %d is no value", d.in[0])
		}
	}
	t, err := d.typ(0)
	if err != nil {
		return reflect.Value{}, err
	}
	if err := d.fits(d.memory.box(t)); err != nil {
		return reflect.Value{}, err
	}
	v := reflect.New(t).Elem()
	return v, d.bare(v, depth)
}

func (d *decoder) typ(depth int) (reflect.Type, error) {
	tag, err := d.byte()
	if err != nil {
		return nil, err
	}
	if t, ok := d.types[tag]; ok {
		return t, nil
	}
	if tag != tagList && tag != tagMap {
		return nil, d.bad("unknown tag %d", tag)
	}
	if depth >= maxTypeDepth {
		return nil, d.bad("types nested deeper than %d", maxTypeDepth)
	}
	elem, err := d.typ(depth + 1)
	if err != nil || tag == tagList {
		return sliceType(elem), err
	}
	if k := elem.Kind(); k == reflect.Slice || k == reflect.Map {
		return nil, d.bad("keys of a map are %v", elem)
	}
	value, err := d.typ(depth + 1)
	if err != nil {
		return nil, err
	}
	return reflect.MapOf(elem, value), nil
}

func sliceType(elem reflect.Type) reflect.Type {
	if elem == nil {
		return nil
	}
	return reflect.SliceOf(elem)
}

// bare reads into v a value of v's type.
func (d *decoder) bare(v reflect.Value, depth int) error {
	if depth > MaxDepth {
		return d.bad("nested deeper than %d", MaxDepth)
	}
	switch v.Kind() {
	case reflect.Interface:
		x, err := d.any(depth)
		if err == nil && x.IsValid() {
			v.Set(x)
		}
		return err
	case reflect.Slice:
		return d.list(v, depth)
	case reflect.Map:
		return d.pairs(v, depth)
	case reflect.String:
		n, err := d.count(1)
		if err == nil {
			err = d.fits(d.memory.take(n, 1))
		}
		if err == nil {
			v.SetString(string(d.in[:n]))
			d.in = d.in[n:]
		}
		return err
	}
	return d.scalar(v)
}

func (d *decoder) scalar(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Bool:
		b, err := d.byte()
		if err == nil && b > 1 {
			err = d.bad("bool is %d", b)
		}
		v.SetBool(b == 1)
		return err
	case reflect.Float32, reflect.Float64:
		size := int(v.Type().Size())
		if len(d.in) < size {
			return d.bad("the value is cut off")
		}
		if size == 4 {
			v.Set(reflect.ValueOf(math.Float32frombits(binary.LittleEndian.Uint32(d.in)))) // not SetFloat: it changes NaNs
		} else {
			v.SetFloat(math.Float64frombits(binary.LittleEndian.Uint64(d.in)))
		}
		d.in = d.in[size:]
		return nil
	}
	if v.CanInt() {
		x, n := binary.Varint(d.in)
		if n <= 0 || v.OverflowInt(x) || n != len(binary.AppendVarint(nil, x)) {
			return d.bad("malformed %v", v.Type())
		}
		d.in = d.in[n:]
		v.SetInt(x)
		return nil
	}
	x, err := d.uvarint()
	if err != nil || v.OverflowUint(x) {
		return d.bad("malformed %v", v.Type())
	}
	v.SetUint(x)
	return nil
}

// uvarint reads a number in its shortest form.
func (d *decoder) uvarint() (uint64, error) {
	x, n := binary.Uvarint(d.in)
	if n <= 0 || n > 1 && d.in[n-1] == 0 {
		return 0, d.bad("malformed number")
	}
	d.in = d.in[n:]
	return x, nil
}

// count reads how many elements of at least least bytes follow.
func (d *decoder) count(least int) (int, error) {
	n, err := d.uvarint()
	if err != nil {
		return 0, err
	}
	if n > uint64(len(d.in)/least) {
		return 0, d.bad("%d elements in %d bytes", n, len(d.in))
	}
	return int(n), nil
}

// present reads whether a list or map is there or nil.
func (d *decoder) present() (bool, error) {
	b, err := d.byte()
	if err == nil && b > 1 {
		err = d.bad("presence is %d", b)
	}
	return b == 1, err
}

func (d *decoder) list(v reflect.Value, depth int) error {
	there, err := d.present()
	if err != nil || !there {
		return err
	}
	n, err := d.count(1)
	if err != nil {
		return err
	}
	if err := d.fits(d.memory.list(v.Type(), n)); err != nil {
		return err
	}
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	if v.Type().Elem().Kind() == reflect.Uint8 {
		reflect.Copy(v, reflect.ValueOf(d.in[:n]))
		d.in = d.in[n:]
		return nil
	}
	for i := range n {
		if err := d.bare(v.Index(i), depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) pairs(v reflect.Value, depth int) error {
	there, err := d.present()
	if err != nil || !there {
		return err
	}
	n, err := d.count(2)
	if err != nil {
		return err
	}
	if err := d.fits(d.memory.pairs(v.Type(), n)); err != nil {
		return err
	}
	v.Set(reflect.MakeMap(v.Type()))
	var last []byte
	for i := range n {
		start := d.in
		key := reflect.New(v.Type().Key()).Elem()
		if err := d.bare(key, depth+1); err != nil {
			return err
		}
		raw := start[:len(start)-len(d.in)]
		if i > 0 && bytes.Compare(last, raw) >= 0 {
			return d.bad("keys of a map do not ascend")
		}
		last = raw
		if err := d.checkKey(key); err != nil {
			return err
		}
		value := reflect.New(v.Type().Elem()).Elem()
		if err := d.bare(value, depth+1); err != nil {
			return err
		}
		v.SetMapIndex(key, value)
	}
	if v.Len() != n { // 0 and −0 are one key
		return d.bad("a map has a key twice")
	}
	return nil
}

// checkKey refuses keys that Go would panic on, and those that equal nothing.
func (d *decoder) checkKey(key reflect.Value) error {
	if key.Kind() == reflect.Interface {
		key = key.Elem()
	}
	if !key.IsValid() {
		return nil
	}
	if k := key.Kind(); k == reflect.Slice || k == reflect.Map {
		return d.bad("a key of a map is a %v", key.Type())
	}
	if key.CanFloat() && math.IsNaN(key.Float()) {
		return d.bad("a key of a map is NaN")
	}
	return nil
}
