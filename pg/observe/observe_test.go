package observe_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/dummy"
	"github.com/skerry-ft/skerry/pg/observe"
	"github.com/skerry-ft/skerry/tensor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tally counts what an Observer is told.
type tally struct {
	mu struct {
		sync.Mutex

		begun, ended, failed int
		last                 observe.Info
	}
}

func (o *tally) Begin(i observe.Info) {
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

func (o *tally) End(_ observe.Info, _ time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.ended++
	if err != nil {
		o.mu.failed++
	}
}

// TestObserve: every op begins and ends once, in step.
func TestObserve(t *testing.T) {
	o := &tally{}
	g := pg.NewGroup(observe.New(dummy.New(), o))
	if err := g.Configure(t.Context(), pg.Config{StoreAddress: "s/1", ReplicaIDs: []string{"a"}, Cluster: "c", QuorumID: 1}); err != nil {
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
