package object_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/dist/object"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/managedtest"
	"github.com/skerry-ft/skerry/pg/pgtest"
)

// metrics is what users send: named types, pointers, times, structs in structs.
type metrics struct {
	Name   string
	Losses []float64 `json:"losses,omitempty"`
	Took   time.Duration
	At     time.Time
	Best   *metrics
	ByName map[string][2]int
	Extra  any
	sync.Mutex
}

func metricsOf(rank int) *metrics {
	return &metrics{
		Name: strings.Repeat("r,[{\"", rank), Losses: make([]float64, rank), Took: time.Duration(rank),
		At: time.Unix(int64(rank), 0).UTC(), Best: &metrics{Name: "best"}, Extra: "x",
		ByName: map[string][2]int{"a": {rank, 1}},
	}
}

func allMetrics(size int) (all []*metrics) {
	for r := range size {
		m := metricsOf(r)
		if r == 0 {
			m.Losses = nil // left out, as its tag says
		}
		all = append(all, m)
	}
	return all
}

var asJSON object.JSON[*metrics]

// jsonVerbs are those of JSON, each with a check of what it gives.
var jsonVerbs = map[string]managedtest.Verb{
	"AllGather": func(ctx context.Context, g *pg.Group, rank, size int) error {
		got, err := asJSON.AllGather(ctx, g, metricsOf(max(rank, 0)))
		return errors.Join(err, equal(got, allMetrics(size)))
	},
	"Gather": func(ctx context.Context, g *pg.Group, rank, size int) error {
		got, err := asJSON.Gather(ctx, g, metricsOf(max(rank, 0)), 1)
		switch {
		case rank < 0:
			return refused(err)
		case rank == 1:
			return errors.Join(err, equal(got, allMetrics(size)))
		}
		return errors.Join(err, equal(got, []*metrics(nil)))
	},
	"Broadcast": func(ctx context.Context, g *pg.Group, rank, _ int) error {
		list := []*metrics{nil, {Name: "mine", Best: &metrics{Name: "kept out"}}}
		if rank == 1 {
			list = []*metrics{metricsOf(3), nil}
		}
		return errors.Join(asJSON.Broadcast(ctx, g, list, 1), equal(list, []*metrics{metricsOf(3), nil}))
	},
	"Scatter": func(ctx context.Context, g *pg.Group, rank, size int) error {
		var list []*metrics
		if rank == 1 {
			list = allMetrics(size)
		}
		got, err := asJSON.Scatter(ctx, g, list, 1)
		if rank < 0 {
			return refused(err)
		}
		return errors.Join(err, equal(got, allMetrics(size)[rank]))
	},
}

// Structs arrive as they were, at every rank, and under a manager among those that take
// part when the verb runs.
func TestJSONVerbs(t *testing.T) {
	t.Parallel()
	managedtest.BeforeQuorum(t, jsonVerbs)
}

// jsonOf is whether a T is refused, by what says.
func jsonOf[T any](says string) func(t *testing.T, g *pg.Group) {
	return func(t *testing.T, g *pg.Group) {
		var none T
		_, err := object.JSON[T]{}.AllGather(t.Context(), g, none)
		_, err2 := object.JSON[T]{}.Gather(t.Context(), g, none, 0)
		_, err3 := object.JSON[T]{}.Scatter(t.Context(), g, []T{none}, 0)
		for _, err := range []error{err, err2, err3, object.JSON[T]{}.Broadcast(t.Context(), g, []T{none}, 0)} {
			if !errors.Is(err, object.ErrInvalid) || !strings.Contains(err.Error(), says) {
				t.Errorf("%T: %v, want ErrInvalid that says %q", none, err, says)
			}
		}
	}
}

type lost struct{ x int }

type endless *endless

// A type of which JSON loses all, or that it cannot read back, is refused by its name and
// place.
func TestJSONRefusesTypes(t *testing.T) {
	t.Parallel()
	g := pgtest.MemoryWorld(t, 1, nil).Groups[0]
	for _, check := range []func(*testing.T, *pg.Group){
		jsonOf[lost]("object_test.lost is a object_test.lost, of which JSON sees no field"),
		jsonOf[map[string][]struct{ In *lost }]("In is a object_test.lost"),
		jsonOf[struct{ C []chan int }](".C[] is a chan int"),
		jsonOf[struct{ R io.Reader }](".R is a io.Reader, which JSON cannot read back"),
		jsonOf[func()]("func()"),
	} {
		check(t, g)
	}
	var e endless
	if got, err := (object.JSON[endless]{}).AllGather(t.Context(), g, e); err != nil || len(got) != 1 || got[0] != nil {
		t.Errorf("an endless type: %v, %v", got, err)
	}
	if _, err := (object.JSON[struct{}]{}).AllGather(t.Context(), g, struct{}{}); err != nil {
		t.Errorf("an empty struct: %v", err)
	}
	_ = lost{}.x
}

// wide has a kilobyte for two bytes of JSON.
type wide struct{ A [1024]byte }

// loud cannot be written.
type loud struct{}

func (loud) MarshalJSON() ([]byte, error) { return nil, errors.New("too loud") }

// What one rank cannot write, and what is too large, fails on all ranks by the name of its
// type and the bound, and breaks nothing.
func TestJSONFailsOnAllRanks(t *testing.T) {
	t.Parallel()
	pgtest.MemoryWorld(t, 2, nil).Each(func(ctx context.Context, rank int, g *pg.Group) error {
		var mine any = "fine"
		if rank == 1 {
			mine = loud{}
		}
		_, err := object.JSON[any]{}.AllGather(ctx, g, mine)
		if !errors.Is(err, object.ErrInvalid) || rank == 1 && !strings.Contains(err.Error(), "too loud") {
			return fmt.Errorf("all-gather: %w, want ErrInvalid, that says why at rank 1", err)
		}
		many := make([]*wide, 1<<19*rank) // nulls, which could be a gigabyte at the other end
		_, err = object.JSON[[]*wide]{}.AllGather(ctx, g, many)
		if !errors.Is(err, object.ErrInvalid) || rank == 1 && !strings.Contains(err.Error(), fmt.Sprint(object.MaxMemory)) {
			return fmt.Errorf("all-gather of what can be a gigabyte: %w, want ErrInvalid with the bound", err)
		}
		long := strings.Repeat("x", object.MaxBytes*rank)
		_, err = object.JSON[string]{}.AllGather(ctx, g, long)
		if !errors.Is(err, object.ErrInvalid) || rank == 1 && !strings.Contains(err.Error(), fmt.Sprint(object.MaxBytes)) {
			return fmt.Errorf("all-gather of a long text: %w, want ErrInvalid with the bound", err)
		}
		return g.Barrier(ctx)
	})
}

// Bytes that are not of the type are an error that names it, on the rank that reads them.
func TestJSONOfAnotherType(t *testing.T) {
	t.Parallel()
	err := pgtest.MemoryWorld(t, 2, nil).Try(func(ctx context.Context, rank int, g *pg.Group) error {
		var err error
		if rank == 0 {
			_, err = object.JSON[string]{}.AllGather(ctx, g, "a text")
		} else {
			_, err = object.JSON[int]{}.AllGather(ctx, g, 7)
		}
		if typ := [2]string{"string", "int"}[rank]; !errors.Is(err, object.ErrInvalid) || !strings.Contains(err.Error(), typ+" from JSON") {
			return fmt.Errorf("got %w, want ErrInvalid that names %s", err, typ)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// FuzzJSON: no bytes make the decoder panic or take more memory than it reckons.
func FuzzJSON(f *testing.F) {
	for _, m := range allMetrics(3) {
		b, err := json.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"Extra":[[],{},[[{"a":null}]]]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, taken, err := object.DecodeJSON[*metrics](b)
		if err != nil {
			if !errors.Is(err, object.ErrInvalid) {
				t.Errorf("%q: %v, want ErrInvalid", b, err)
			}
			return
		}
		if size := sizeOf(reflect.ValueOf(v)); size > taken {
			t.Errorf("%q: takes %d bytes, reckoned %d", b, size, taken)
		}
	})
}

// sizeOf is the least that a value takes.
func sizeOf(v reflect.Value) int {
	n := 0
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			n = int(v.Elem().Type().Size()) + sizeOf(v.Elem())
		}
	case reflect.String:
		n = v.Len()
	case reflect.Slice:
		n = v.Cap() * int(v.Type().Elem().Size())
		for i := range v.Len() {
			n += sizeOf(v.Index(i))
		}
	case reflect.Map:
		for i := v.MapRange(); i.Next(); {
			n += int(v.Type().Key().Size()+v.Type().Elem().Size()) + sizeOf(i.Key()) + sizeOf(i.Value())
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() { // an Unmarshaler
			return 0
		}
		for i := range v.NumField() {
			n += sizeOf(v.Field(i))
		}
	}
	return n
}
