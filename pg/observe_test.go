package pg_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// tally counts what an Observer is told.
type tally struct {
	mu struct {
		sync.Mutex

		begun, ended, failed int
		last                 pg.OpInfo
	}
}

func (o *tally) Begin(i pg.OpInfo) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.begun++
	o.mu.last = i
}

// ops is how many have begun and ended.
func (o *tally) ops() (begun, ended, failed int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.begun, o.mu.ended, o.mu.failed
}

func (o *tally) End(_ pg.OpInfo, _ time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.ended++
	if err != nil {
		o.mu.failed++
	}
}

func stubConfig1() pg.Config {
	return pg.Config{StoreAddress: "s/1", ReplicaIDs: []string{"a"}, Cluster: "c", QuorumID: 1}
}

// TestReportError: Swallow skips what comes after an error that its user found;
// a group without such a decorator is aborted.
func TestReportError(t *testing.T) {
	cause := errors.New("loss is not a number")
	for name, b := range map[string]pg.Backend{"swallow": pg.NewSwallow(pg.NewDummy()), "plain": pg.NewDummy()} {
		g := pg.NewGroup(b)
		if err := g.Configure(t.Context(), stubConfig1()); err != nil {
			t.Fatal(err)
		}
		g.ReportError(cause)
		if err := g.Err(); !errors.Is(err, cause) {
			t.Errorf("%s: Err is %v", name, err)
		}
		if err := g.Barrier(t.Context()); (err == nil) != (name == "swallow") {
			t.Errorf("%s: barrier after it: %v", name, err)
		}
	}
}

// TestObserve: every op begins and ends once, in step.
func TestObserve(t *testing.T) {
	o := &tally{}
	g := pg.NewGroup(pg.NewObserve(pg.NewDummy(), o))
	if err := g.Configure(t.Context(), stubConfig1()); err != nil {
		t.Fatal(err)
	}
	_ = g.AllReduce(t.Context(), tensor.New(tensor.Float32, 3), tensor.Max)
	if last := o.mu.last; last.Kind != pg.KindAllReduce || last.Reduce != tensor.Max || last.InBytes != 12 || last.DType != tensor.Float32 {
		t.Errorf("told of %+v", last)
	}
	g.Abort(errors.New("enough"))
	_ = g.Barrier(t.Context())
	if begun, ended, failed := o.ops(); begun != 2 || ended != 2 || failed != 1 {
		t.Errorf("%d begun, %d ended, %d failed; want 2, 2, 1", begun, ended, failed)
	}
}
