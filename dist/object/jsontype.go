package object

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// anyBytes is the most that a value takes in an any: an entry of a map[string]any, which
// is new, of a map of its own.
const anyBytes = mapBytes + mapEntryBytes + 2*(16+16)

// jsonWalk looks at all types that JSON writes of a type.
type jsonWalk struct {
	seen   map[reflect.Type]bool
	widest int // bytes
}

// wide notes that one more value in the JSON can take so many bytes.
func (w *jsonWalk) wide(n int) { w.widest = max(w.widest, n) }

// walk refuses a type that JSON does not carry both ways. Where is its place.
func (w *jsonWalk) walk(t reflect.Type, where string) error {
	if w.seen[t] {
		return nil
	}
	w.seen[t] = true
	if writesItself(t) {
		return nil
	}
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return fmt.Errorf("%s is a %v, want a type that JSON has", where, t)
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return fmt.Errorf("%s is a %v, which JSON cannot read back; want any, or a concrete type", where, t)
		}
	case reflect.Pointer:
		w.wide(behind(t))
		return w.walk(t.Elem(), where)
	case reflect.Slice:
		w.wide(2*int(t.Elem().Size()) + behind(t.Elem())) // it grows ahead
		return w.walk(t.Elem(), where+"[]")
	case reflect.Array:
		return w.walk(t.Elem(), where+"[]")
	case reflect.Map:
		w.wide(mapBytes + mapEntryBytes + 2*int(t.Key().Size()+t.Elem().Size()) + behind(t.Elem()))
		return w.walk(t.Elem(), where+"[]")
	case reflect.Struct:
		return w.fields(t, where)
	}
	return nil
}

// behind is what stands behind a pointer, and behind that, and so on.
func behind(t reflect.Type) (bytes int) {
	for range MaxDepth { // type P *P has no end
		if t.Kind() != reflect.Pointer {
			break
		}
		t = t.Elem()
		bytes += int(t.Size())
	}
	return bytes
}

// fields walks the fields of a struct that JSON sees.
func (w *jsonWalk) fields(t reflect.Type, where string) error {
	some := t.NumField() == 0
	for i := range t.NumField() {
		f := t.Field(i)
		embedded := f.Anonymous && f.Type.Kind() == reflect.Struct && !writesItself(f.Type)
		if f.Tag.Get("json") == "-" || !f.IsExported() && !embedded {
			continue
		}
		if embedded && !anyExported(f.Type) {
			continue // such as a sync.Mutex: nothing of it is meant to be carried
		}
		if err := w.walk(f.Type, where+"."+f.Name); err != nil {
			return err
		}
		some = true
	}
	if !some {
		return fmt.Errorf("%s is a %v, of which JSON sees no field; want exported ones, or a MarshalJSON", where, t)
	}
	return nil
}

func anyExported(t reflect.Type) bool {
	return slices.ContainsFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return f.IsExported() })
}

// writesItself tells whether encoding/json leaves values of t to t.
func writesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	for _, i := range []reflect.Type{
		reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler](),
	} {
		if p.Implements(i) {
			return true
		}
	}
	return false
}
