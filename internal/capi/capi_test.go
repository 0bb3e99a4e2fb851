package capi_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/capi"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp"
)

func TestMain(m *testing.M) {
	if err := tcp.Register(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

const (
	token    = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	patience = 30 * time.Second

	allReduce, barrier, send, recv = 1, 9, 10, 11
	quantizedAllReduce             = 12
	float32s                       = 12
)

// kept are the memories of operations, so that they are on the heap, where they stay.
var kept sync.Map

// memory is what C would give an operation.
func memory(values ...float32) []float32 {
	kept.Store(&values[0], values)
	return values
}

// op is an operation on float32 tensors, as C says it.
func op(kind int64, peer int64, in, out []float32) []int64 {
	words := []int64{kind, float32s, 0, 0, 0, peer, 0, 0, 0, 0, 0, 0, 0}
	for i, t := range [][]float32{in, out} {
		if t != nil {
			words[9+i] = 1
			words = append(words, int64(uintptr(unsafe.Pointer(unsafe.SliceData(t)))), int64(len(t)))
		}
	}
	return words
}

func quantized(format int64, x []float32) []int64 {
	words := op(quantizedAllReduce, 0, x, nil)
	words[4] = format
	return words
}

// pair is two groups of one library, configured.
func pair(t *testing.T) (*capi.Library, [2]int64) {
	t.Helper()
	l := capi.New()
	h, address, err := l.ServeStore("127.0.0.1", token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(h); err != nil {
			t.Error(err)
		}
	})
	var groups [2]int64
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for rank := range groups {
		if groups[rank], err = l.Open("tcp", `{"params": {"transport": "tcp"}}`); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close(groups[rank]) }) // a test may have
		wg.Go(func() {
			errs[rank] = l.Configure(groups[rank], fmt.Sprintf(
				`{"store": %q, "ids": ["a", "b"], "rank": %d, "cluster": "c", "quorum": 1, "token": %q}`, address+"/p", rank, token), patience)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return l, groups
}

func finish(t *testing.T, l *capi.Library, work int64) error {
	t.Helper()
	if l.Wait(work, patience) == capi.Pending {
		t.Fatalf("operation %d has not ended", work)
	}
	defer l.Close(work) //nolint:errcheck // an operation's has none
	return l.Result(work)
}

func TestOperationsOfTwo(t *testing.T) {
	t.Parallel()
	l, groups := pair(t)
	x, y := memory(1, 2, 3), memory(10, 20, 30)
	a, b := l.Submit(groups[0], op(allReduce, 0, x, x)), l.Submit(groups[1], op(allReduce, 0, y, y))
	if err := errors.Join(finish(t, l, a), finish(t, l, b)); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(x, y) != "[11 22 33] [11 22 33]" {
		t.Errorf("sums are %v and %v", x, y)
	}
	got := memory(0, 0, 0)
	from := l.Run(groups[1], op(recv, 0, nil, got), time.Millisecond) // it goes on: nobody has sent
	if from == 0 || l.Wait(from, 0) != capi.Pending {
		t.Fatalf("a receive of nothing is handle %d", from)
	}
	if w := l.Run(groups[0], op(send, 1, x, nil), patience); w != 0 {
		t.Fatalf("send: %v", l.Result(w))
	}
	if l.Wait(from, patience) != capi.Done || l.Source(from) != 0 || got[2] != 33 {
		t.Errorf("received %v from %d: %v", got, l.Source(from), l.Result(from))
	}
	_ = l.Close(from)
}

// Two reduce in eight bits each, with the same bytes on both.
func TestQuantizedAllReduceOfTwo(t *testing.T) {
	t.Parallel()
	l, groups := pair(t)
	for format := range int64(2) {
		x, y := memory(1, 2, 300), memory(10, 20, 30)
		a, b := l.Submit(groups[0], quantized(format, x)), l.Submit(groups[1], quantized(format, y))
		if err := errors.Join(finish(t, l, a), finish(t, l, b)); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(x) != fmt.Sprint(y) || x[2] < 300 || x[2] > 360 || x[1] < 15 || x[1] > 30 {
			t.Errorf("format %d: sums are %v and %v, want about 11, 22, 330", format, x, y)
		}
	}
	x := memory(1)
	for want, words := range map[string][]int64{
		"format = 2, want 0 (int8) or 1 (e4m3)": quantized(2, x),
		"0 tensors, want 1":                     quantized(0, nil),
		"numbers, want 13 at least":             {quantizedAllReduce},
	} {
		if f := capi.FailureOf(finish(t, l, l.Submit(groups[0], words))); f.Code != capi.CodeInvalid || !strings.Contains(f.Text, want) {
			t.Errorf("%v: %+v, want %s", words, f, want)
		}
	}
}

// What one side does wrong fails with a code, a text, and the culprit.
func TestFailures(t *testing.T) {
	t.Parallel()
	l, groups := pair(t)
	x := memory(0, 0, 0, 0)
	w := l.Submit(groups[0], op(allReduce, 0, x, x))
	if l.Wait(w, 10*time.Millisecond) != capi.Pending {
		t.Fatalf("an all-reduce of one has ended: %v", l.Result(w))
	}
	if err := l.Abort(groups[1], "enough"); err != nil {
		t.Fatal(err)
	}
	f := capi.FailureOf(finish(t, l, w))
	if f.Code != capi.CodeAborted || !strings.Contains(f.Text, "enough") {
		t.Errorf("after an abort: %+v", f)
	}
	if f := capi.FailureOf(l.Err(groups[0])); f.Code != capi.CodeAborted {
		t.Errorf("the group's error: %+v", f)
	}
	l, groups = pair(t)
	if err := l.Close(groups[1]); err != nil {
		t.Fatal(err)
	}
	f = capi.FailureOf(finish(t, l, l.Submit(groups[0], op(allReduce, 0, x, x))))
	if f.Code == capi.CodeNone || f.Rank != 1 || f.PeerID != "b" {
		t.Errorf("with a peer that left: %+v, want rank 1, b", f)
	}
	if f := capi.FailureOf(finish(t, l, l.Submit(groups[1], op(barrier, 0, nil, nil)))); f.Code != capi.CodeClosed {
		t.Errorf("an operation of a closed group: %+v", f)
	}
}

func TestCallsThatCannotBeRight(t *testing.T) {
	t.Parallel()
	l, groups := pair(t)
	x := memory(0, 0, 0, 0)
	good := op(allReduce, 0, x, x)
	with := func(at int, v int64) []int64 {
		words := append([]int64(nil), good...)
		words[at] = v
		return words
	}
	for name, words := range map[string][]int64{
		"nothing": nil, "too short": good[:5], "cut": good[:len(good)-1], "longer": append(with(0, 1), 0),
		"no kind": with(0, 0), "kind": with(0, 13), "kind below": with(0, -1), "no dtype": with(1, 0), "dtype": with(1, 18),
		"reduce": with(2, 8), "inputs": with(9, 1<<40), "fewer than none": with(9, -1), "root": func() []int64 { w := with(0, 3); w[4] = 7; return w }(),
		"no address": with(13, 0), "elements": with(14, -1), "endless": with(14, 1<<62), "not aligned": func() []int64 { w := with(13, good[13]+1); w[14] = 1; return w }(), "splits": with(11, 3),
	} {
		if f := capi.FailureOf(finish(t, l, l.Submit(groups[0], words))); f.Code != capi.CodeInvalid {
			t.Errorf("%s: %+v, want it to be invalid", name, f)
		}
	}
	for _, h := range []int64{0, -1, 1 << 60} {
		if f := capi.FailureOf(l.Result(l.Submit(h, good))); f.Code != capi.CodeClosed {
			t.Errorf("group %d: %+v", h, f)
		}
		if l.Wait(h, time.Second) != capi.Failed || l.Source(h) != -1 || l.Result(h) == nil || l.Abort(h, "") == nil || l.Close(h) != nil {
			t.Errorf("handle %d is taken for something", h)
		}
	}
	for _, settings := range []string{`{`, `{"ids": []}`, `{"ids": ["a"], "rank": 1}`, `{"ids": ["a"], "token": "x"}`} {
		if f := capi.FailureOf(l.Configure(groups[0], settings, time.Second)); f.Code != capi.CodeInvalid {
			t.Errorf("configure with %s: %+v", settings, f)
		}
	}
	if _, err := l.Open("nothing", ""); err == nil || !errors.Is(err, pg.ErrInvalidOp) {
		t.Errorf("open nothing: %v", err)
	}
	if _, _, err := l.ServeStore("127.0.0.1", "no token"); err == nil {
		t.Error("a store with a token that is none")
	}
	// None of it has broken the group.
	y := memory(0, 0, 0, 0)
	a, b := l.Submit(groups[0], good), l.Submit(groups[1], op(allReduce, 0, y, y))
	if err := errors.Join(finish(t, l, a), finish(t, l, b)); err != nil {
		t.Error(err)
	}
}
