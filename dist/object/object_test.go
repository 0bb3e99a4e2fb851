package object_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/dist/object"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
)

func objectSamples() []any {
	return []any{
		nil, true, false, 12, -1, int8(-128), int16(300), int32(-70000), int64(math.MinInt64),
		uint(7), uint8(255), uint16(65535), uint32(1 << 31), uint64(math.MaxUint64),
		float32(1.5), math.Inf(-1), math.Copysign(0, -1), "", "foo", "\x00ü", []byte{}, []byte("raw"), []byte(nil),
		[]any{}, []any(nil), []any{"foo", 12, map[int]int{1: 2}, nil, []any{[]any{true}}},
		[]int{1, 2, 3}, []float64{1, 2}, []bool{true, false}, []string{"a", ""}, [][]byte{[]byte("x"), nil},
		map[int]int{1: 2}, map[any]any{1: 2, "a": nil, int8(1): []any{}, 2.5: true, nil: 1},
		map[string][]float32{"w": {1, 2}, "": nil}, map[bool]string{true: "yes", false: "no"}, map[string]any(nil),
		map[float64]int{math.Inf(1): 1, 0: 2},
	}
}

// TestObjectRoundTrip: values come back equal and with their types, and equal
// values have equal bytes.
func TestObjectRoundTrip(t *testing.T) {
	for _, v := range objectSamples() {
		b, err := object.Encode(v)
		if err != nil {
			t.Errorf("encode %#v: %v", v, err)
			continue
		}
		got, err := object.Decode(b)
		if err != nil || !reflect.DeepEqual(got, v) {
			t.Errorf("%#v came back as %#v: %v", v, got, err)
		}
		for range 4 {
			if again, err := object.Encode(v); err != nil || !bytes.Equal(again, b) {
				t.Errorf("%#v: encoded as %x and %x: %v", v, b, again, err)
			}
		}
	}
}

// TestObjectRefused: what cannot be sent is refused by the name of its type and
// its place.
func TestObjectRefused(t *testing.T) {
	type point struct{ X int }
	type myInt int
	deep := any(nil)
	for range object.MaxDepth + 2 {
		deep = []any{deep}
	}
	cases := map[string]any{
		"object_test.point":  []any{1, point{}},
		"value[1]":           []any{1, point{}},
		"object_test.myInt":  map[string]any{"k": myInt(1)},
		"*int":               new(int),
		"func()":             func() {},
		"chan int":           make(chan int),
		"complex128":         1i,
		"error":              []error{errors.New("x")},
		"nested deeper":      deep,
		"2 types":            map[string]map[string][]int{},
		"NaN":                map[float64]int{math.NaN(): 1},
		"whose keys":         map[[2]int]int{},
		"want a scalar":      map[any]any{[1]int{2}: 1},
		"more than 67108864": string(make([]byte, object.MaxBytes+1)),
	}
	for says, v := range cases {
		_, err := object.Encode(v)
		if !errors.Is(err, object.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("encode %T: %v, want ErrInvalid that says %q", v, err, says)
		}
	}
}

// TestObjectMemory: what is small on the wire and large in memory is refused before
// the memory is made.
func TestObjectMemory(t *testing.T) {
	lists := append([]byte{16, 16, 3, 1}, binary.AppendUvarint(nil, 60<<20)...) // of nil lists of int
	lists = append(lists, make([]byte, 60<<20)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := object.Decode(lists)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, object.ErrInvalid) || !strings.Contains(err.Error(), "of memory") {
		t.Errorf("decode of %d nil lists: %v, want ErrInvalid", 60<<20, err)
	}
	if made := after.TotalAlloc - before.TotalAlloc; made > 32<<20 { // others run beside us
		t.Errorf("%d bytes of memory were made for what is refused", made)
	}
}

// FuzzDecode: no bytes make the decoder panic or give a value that does
// not encode to the very same bytes.
func FuzzDecode(f *testing.F) {
	for _, v := range objectSamples() {
		b, err := object.Encode(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{16, 18, 1, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add(bytes.Repeat([]byte{16, 18, 1, 1}, 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := object.Decode(b)
		if err != nil {
			if !errors.Is(err, object.ErrInvalid) {
				t.Errorf("%x: %v, want ErrInvalid", b, err)
			}
			return
		}
		again, err := object.Encode(v)
		if err != nil || !bytes.Equal(again, b) {
			t.Errorf("%x is %#v, which encodes to %x: %v", b, v, again, err)
		}
	})
}

// TestObjectVerbs: the examples of torch.distributed, at every rank as root.
func TestObjectVerbs(t *testing.T) {
	const world = 3
	w := pgtest.MemoryWorld(t, world, nil)
	objects := []any{"foo", 12, map[int]int{1: 2}}
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		for root := range world {
			list := []any{nil, nil, nil}
			if rank == root {
				copy(list, objects)
			}
			if err := object.Broadcast(ctx, g, list, root); err != nil || !reflect.DeepEqual(list, objects) {
				return fmt.Errorf("broadcast from %d gave %#v: %w", root, list, err)
			}
			got, err := object.Gather(ctx, g, objects[rank], root)
			if err != nil || (rank == root) != reflect.DeepEqual(got, objects) || rank != root && got != nil {
				return fmt.Errorf("gather at %d gave %#v: %w", root, got, err)
			}
			one, err := object.Scatter(ctx, g, list, root)
			if err != nil || !reflect.DeepEqual(one, objects[rank]) {
				return fmt.Errorf("scatter from %d gave %#v: %w", root, one, err)
			}
		}
		got, err := object.AllGather(ctx, g, objects[rank])
		if err != nil || !reflect.DeepEqual(got, objects) {
			return fmt.Errorf("all-gather gave %#v: %w", got, err)
		}
		return objectFailures(ctx, g)
	})
}

// objectFailures: a rank that cannot encode fails all ranks, and breaks nothing.
func objectFailures(ctx context.Context, g *pg.Group) error {
	bad := []any{1, func() {}, 3}
	var mine any = 1
	if g.Rank() == 1 {
		mine = bad[1]
	}
	_, gathered := object.AllGather(ctx, g, mine)
	_, scattered := object.Scatter(ctx, g, bad, 2)
	_, short := object.Scatter(ctx, g, bad[:2], 0)
	for what, err := range map[string]error{
		"all-gather": gathered, "scatter": scattered, "broadcast": object.Broadcast(ctx, g, bad, 0),
	} {
		if !errors.Is(err, object.ErrInvalid) {
			return fmt.Errorf("%s of a function: %w, want ErrInvalid", what, err)
		}
	}
	if !errors.Is(short, object.ErrInvalid) && !errors.Is(short, pg.ErrInvalidOp) {
		return fmt.Errorf("scatter of too few: %w", short)
	}
	return g.Barrier(ctx)
}
