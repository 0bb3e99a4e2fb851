package object

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// TestObjectMemoryTogether: both ends count the memory of a whole value alike, and
// refuse what is over the limit, wherever in it.
func TestObjectMemoryTogether(t *testing.T) {
	values := map[string]any{
		"lists":   []any{make([][]int, 100), make([][]int, 100), [][]int{{1}, nil}},
		"strings": []string{strings.Repeat("x", 1000), "", "y"},
		"maps":    map[string]any{"a": map[int]int{1: 2, 3: 4}, "b": []map[int]bool{{}, {}, nil}},
		"boxes":   []any{1, 2.5, int8(3), "four", nil, true, []byte("five")},
	}
	for name, v := range values {
		b, err := Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		got, taken, err := decode(b, MaxMemory)
		if err != nil || !reflect.DeepEqual(got, v) {
			t.Fatalf("%s: %v came back: %v", name, got, err)
		}
		if taken < len(b)/2 {
			t.Errorf("%s: %d bytes decode to %d bytes of memory", name, len(b), taken)
		}
		for limit, fits := range map[int]bool{taken: true, taken - 1: false, taken / 2: false} {
			_, _, err := decode(b, limit)
			if fits != (err == nil) || !fits && !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: decode within %d of %d bytes: %v", name, limit, taken, err)
			}
			e := newEncoder(limit)
			e.any(reflect.ValueOf(v), &place{}, 0)
			err = e.err
			if fits != (err == nil) || !fits && !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: encode within %d of %d bytes: %v", name, limit, taken, err)
			}
		}
	}
}

// TestObjectsMemory: the objects of one call share a bound.
func TestObjectsMemory(t *testing.T) {
	b, err := Encode(make([]int64, 1000))
	if err != nil {
		t.Fatal(err)
	}
	all, sizes := append(b[:len(b):len(b)], b...), []int64{int64(len(b)), int64(len(b))}
	objects := make([]any, 2)
	if err := decodeWithin(values{}, all, sizes, objects, 17_000); err != nil || len(objects[1].([]int64)) != 1000 {
		t.Errorf("two objects of 8000 bytes within 17000: %v", err)
	}
	if err := decodeWithin(values{}, all, sizes, objects, 15_000); !errors.Is(err, ErrInvalid) {
		t.Errorf("two objects of 8000 bytes within 15000: %v, want ErrInvalid", err)
	}
}
