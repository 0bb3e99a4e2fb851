package capi_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/skerry-ft/skerry/internal/capi"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// replica is what a program around the library has: a manager, parameters, and an
// optimizer whose moments are there from the first update on.
type replica struct {
	t       *testing.T
	l       *capi.Library
	m       int64
	weights []float32
	moments []float32
	taken   int64 // the last load of "optim"
	tree    string
}

type said struct {
	Commit bool
	Rank   int
	Count  int
	Loaded map[string]struct {
		Tree    string
		Load    int64
		Tensors []struct {
			Name    string
			Shape   []int
			Address int64
		}
	}
}

func newReplica(t *testing.T, name, lighthouse string, first float32) *replica {
	t.Helper()
	r := &replica{t: t, l: capi.New(), weights: memory(first, first), tree: name}
	settings := fmt.Sprintf(`{"ReplicaID":%q,"Lighthouse":[%q],"StepTimeoutUs":20000000,
		"Parts":[{"Name":"model"},{"Name":"optim","Room":1024}]}`, name, lighthouse)
	m, err := r.l.OpenManager(settings)
	if err != nil {
		t.Fatal(err)
	}
	r.m = m
	t.Cleanup(func() {
		if err := r.l.Close(m); err != nil {
			t.Error(err)
		}
	})
	return r
}

func address(x []float32) int64 { return int64(uintptr(unsafe.Pointer(unsafe.SliceData(x)))) }

func tensorJSON(name string, x []float32) string {
	return fmt.Sprintf(`{"name":%q,"dtype":%d,"shape":[%d],"address":%d}`, name, float32s, len(x), address(x))
}

// call makes a verb's call, and takes what a heal brought. The only failure is to be drained.
func (r *replica) call(v capi.Verb) (s said, drained bool) {
	r.t.Helper()
	h := r.l.Call(r.m, v, 0, patience)
	defer r.l.Close(h) // of a call that has ended
	if state := r.l.Wait(h, 2*patience); state != capi.Done {
		err := r.l.Result(h)
		if capi.FailureOf(err).Code != capi.CodeDrained {
			r.t.Errorf("verb %d: state %d: %v", v, state, err)
		}
		return s, true
	}
	text, err := r.l.Text(h)
	if err == nil && text != "" {
		err = json.Unmarshal([]byte(text), &s)
	}
	if err != nil {
		r.t.Errorf("verb %d: %q: %v", v, text, err)
	}
	if news, ok := s.Loaded["optim"]; ok && news.Load != r.taken {
		r.taken, r.tree = news.Load, news.Tree
		for _, x := range news.Tensors {
			from := unsafe.Slice((*float32)(pointer(x.Address)), x.Shape[0])
			r.moments = memory(slices.Clone(from)...)
		}
	}
	return s, false
}

// pointer is an address as a pointer, as C has it.
func pointer(address int64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// step is one of the loop, whose optimizer works while update is set.
func (r *replica) step(update bool) (committed, drained bool) {
	r.t.Helper()
	optim := ""
	if r.moments != nil {
		optim = tensorJSON("moments", r.moments)
	}
	for name, tensors := range map[string]string{"model": tensorJSON("weights", r.weights), "optim": optim} {
		if err := r.l.TellState(r.m, name, fmt.Sprintf(`{"tensors":[%s],"tree":%q}`, tensors, r.tree)); err != nil {
			r.t.Error(err)
		}
	}
	if _, drained := r.call(capi.VerbStart); drained {
		return false, true
	}
	group, err := r.l.ManagedGroup(r.m)
	if err != nil {
		r.t.Error(err)
	}
	grads := memory(1, 2)
	words := op(allReduce, 0, grads, grads)
	words[2] = 1 // the average
	w := r.l.Submit(group, words)
	if state := r.l.Wait(w, patience); state != capi.Done {
		r.t.Errorf("all-reduce: state %d, %v", state, r.l.Result(w))
	}
	if err := r.l.Close(w); err != nil {
		r.t.Error(err)
	}
	end, drained := r.call(capi.VerbCommit)
	if !end.Commit || !update {
		return end.Commit, drained
	}
	if r.moments == nil {
		r.moments = memory(0, 0)
	}
	for i, g := range grads {
		r.moments[i] += g
		r.weights[i] += r.moments[i]
	}
	return true, false
}

// finish makes steps until the others can do without this replica.
func (r *replica) finish() {
	r.t.Helper()
	h := r.l.Call(r.m, capi.VerbFinish, 0, patience)
	for r.l.Wait(h, 0) == capi.Pending {
		wanted, err := r.l.Turn(r.m, time.Second)
		if err != nil {
			r.t.Fatal(err)
		}
		if wanted {
			_, drained := r.step(true)
			if err := r.l.Stepped(r.m, drained); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	if err := r.l.Result(h); err != nil {
		r.t.Errorf("finish: %v", err)
	}
}

func (r *replica) numbers() (n struct {
	Step       int64
	Replica_ID string
}) {
	r.t.Helper()
	text, err := r.l.Text(r.m)
	if err == nil {
		err = json.Unmarshal([]byte(text), &n)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// A replica that comes late has the others' state, with what it had no memory for.
func TestManagerHealsWhatIsNotThereYet(t *testing.T) {
	t.Parallel()
	light := lighthousetest.Start(t, nil)
	first := newReplica(t, "first", light.Addr, 1)
	for first.numbers().Step < 3 {
		first.step(true)
	}
	late := newReplica(t, "late", light.Addr, -7)
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for range time.Tick(10 * time.Millisecond) {
			select {
			case <-over:
				return
			default:
				first.step(true)
			}
		}
	}()
	for commits := 0; commits < 3; {
		committed, drained := late.step(true)
		if drained {
			t.Fatal("drained by nobody")
		}
		if committed {
			commits++
		}
	}
	late.finish()
	close(over)
	<-done
	// All gradients are (1, 2): weights after n updates are 1 and n(n+1)/2 of them.
	for name, r := range map[string]*replica{"first": first, "late": late} {
		n := r.moments[0]
		if r.weights[0] != 1+n*(n+1)/2 || r.weights[1] != 1+n*(n+1) || r.moments[1] != 2*n {
			t.Errorf("%s: weights %v, moments %v", name, r.weights, r.moments)
		}
	}
	if late.tree != "first" || late.moments[0] < 6 {
		t.Errorf("tree %q, moments %v; want those of the first, from step 3 on", late.tree, late.moments)
	}
	if !strings.HasPrefix(late.numbers().Replica_ID, "late:") {
		t.Errorf("replica id %q", late.numbers().Replica_ID)
	}
	kinds := ""
	for {
		e, err := late.l.NextEvent(late.m, 1<<20)
		if err != nil || e == "" {
			break
		}
		kinds += e
	}
	if !strings.Contains(kinds, `"HealDone"`) {
		t.Errorf("events %s, want a HealDone", kinds)
	}
}

// A call that its caller gives up ends, and so does a Manager whose calls are under way.
func TestManagerCallsEnd(t *testing.T) {
	t.Parallel()
	light := lighthousetest.Start(t, nil)
	r := newReplica(t, "a", light.Addr, 1)
	if err := r.l.TellState(r.m, "model", fmt.Sprintf(`{"tensors":[%s],"tree":""}`, tensorJSON("weights", r.weights))); err != nil {
		t.Fatal(err)
	}
	h := r.l.Call(r.m, capi.VerbFinish, 0, 0) // waits for a step that nobody makes
	if state := r.l.Wait(h, 10*time.Millisecond); state != capi.Pending {
		t.Errorf("finish without steps: state %d, want pending", state)
	}
	if err := r.l.Close(h); err != nil {
		t.Error(err)
	}
	if code := capi.FailureOf(r.l.Result(h)).Code; code != capi.CodeClosed {
		t.Errorf("a closed call: code %d, want closed", code)
	}
}

// What a caller says of a state is checked before anything touches memory.
func TestTellStateIsChecked(t *testing.T) {
	t.Parallel()
	light := lighthousetest.Start(t, nil)
	r := newReplica(t, "a", light.Addr, 1)
	for text, want := range map[string]string{
		`{`: "settings",
		`{"tensors":[{"name":"w","dtype":99,"shape":[1],"address":8}]}`:                           "dtype = 99",
		`{"tensors":[{"name":"w","dtype":12,"shape":[-1],"address":8}]}`:                          "shape [-1]",
		`{"tensors":[{"name":"w","dtype":12,"shape":[4611686018427387904,8],"address":8}]}`:       "shape",
		`{"tensors":[{"name":"w","dtype":12,"shape":[1],"address":0}]}`:                           "address 0x0",
		`{"tensors":[` + tensorJSON("w", r.weights) + `,` + tensorJSON("w", r.weights) + `]}`:     `tensor "w" twice`,
		`{"tensors":[{"name":"w","dtype":12,"shape":[1],"address":` + fmt.Sprint(1<<20+2) + `}]}`: "",
	} {
		err := r.l.TellState(r.m, "model", text)
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if err := r.l.TellState(r.m, "other", "{}"); err == nil || !strings.Contains(err.Error(), `want one of ["model" "optim"]`) {
		t.Errorf("a part that is not registered: %v", err)
	}
	for settings, want := range map[string]string{
		`{"ReplicaID":"a","Lighthouse":["127.0.0.1:1"],"Backend":"none"}`:                    `"none"`,
		`{"ReplicaID":"a","Lighthouse":["127.0.0.1:1"],"Log":"loud"}`:                        `Log = "loud"`,
		`{"ReplicaID":"a","Lighthouse":["127.0.0.1:1"],"MinReplicas":-1}`:                    "MinReplicas = -1",
		`{"ReplicaID":"a","Lighthouse":["127.0.0.1:1"],"Parts":[{"Name":"x/y"}]}`:            "x/y",
		`{"ReplicaID":"a","Lighthouse":["127.0.0.1:1"],"Parts":[{"Name":"x"},{"Name":"x"}]}`: "already",
	} {
		if h, err := r.l.OpenManager(settings); err == nil || !strings.Contains(err.Error(), want) || capi.FailureOf(err).Code != capi.CodeInvalid {
			t.Errorf("%s: %d, %v, want %q", settings, h, err, want)
		}
	}
}
