package durable

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/tensor"
)

// snapshot is a copy of a rank's state, and what its manifest says.
type snapshot struct {
	title    title
	manifest manifest // without files
	tensors  map[string]tensor.Tensor
	copied   time.Duration
}

// snapshot copies the state. The tensors are the staging memory's.
func (c *Checkpointer) snapshot(p Progress) (*snapshot, error) {
	if h, ok := p.(interface{ HoldsState() bool }); ok && !h.HoldsState() {
		return nil, fmt.Errorf("the replica heals in place, and its tensors are of several states: %w", safetensors.ErrAbsent)
	}
	live, err := c.live()
	if err == nil {
		err = c.complete(live.Tensors)
	}
	if err != nil {
		return nil, err
	}
	id := p.ReplicaID()
	if id == "" {
		return nil, errors.New("ReplicaID is empty, want a name that no other replica has")
	}
	s := &snapshot{manifest: manifest{
		position: p.Position(), batches: p.BatchesCommitted(), participants: max(0, p.NumParticipants()),
		at: c.shard(), meta: live.Meta,
	}}
	s.title = titleOf(s.manifest.position, id)
	if err := s.manifest.check(); err != nil {
		return nil, err
	}
	if _, _, err := safetensors.NewReader(checkpoint.State{Tensors: live.Tensors}); err != nil {
		return nil, err
	}
	s.tensors = c.stage.take(live.Tensors)
	c.had = slices.Sorted(maps.Keys(s.tensors))
	return s, nil
}

// staging is memory for copies, as large as the state. The zero value has none.
type staging struct {
	tensors map[string]tensor.Tensor
}

// take copies tensors into the staging memory, and makes what is missing of it.
func (s *staging) take(live map[string]tensor.Tensor) map[string]tensor.Tensor {
	maps.DeleteFunc(s.tensors, func(name string, had tensor.Tensor) bool {
		t, ok := live[name]
		return !ok || t.DType() != had.DType() || !slices.Equal(t.Shape(), had.Shape())
	})
	if s.tensors == nil {
		s.tensors = make(map[string]tensor.Tensor, len(live))
	}
	var all []span
	for name, t := range live {
		to, ok := s.tensors[name]
		if !ok {
			to = tensor.New(t.DType(), t.Shape()...)
			s.tensors[name] = to
		}
		all = appendSpans(all, to.Bytes(), t.Bytes())
	}
	copySpans(all)
	return s.tensors
}

// span is a piece of what is copied.
type span struct{ to, from []byte }

// spanBytes is the size of a piece that one goroutine copies at a time, and maxCopiers
// how many goroutines copy: a few saturate the memory of a host.
const (
	spanBytes  = 8 << 20
	maxCopiers = 4
)

func appendSpans(all []span, to, from []byte) []span {
	for len(from) > spanBytes {
		all = append(all, span{to[:spanBytes], from[:spanBytes]})
		to, from = to[spanBytes:], from[spanBytes:]
	}
	return append(all, span{to, from})
}

// copySpans copies all, and returns when it is done.
func copySpans(all []span) {
	var next atomic.Int64
	work := func() {
		for i := next.Add(1) - 1; i < int64(len(all)); i = next.Add(1) - 1 {
			copy(all[i].to, all[i].from)
		}
	}
	var total int
	for _, s := range all {
		total += len(s.from)
	}
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), maxCopiers, total/spanBytes) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}

// split deals the tensors out to files of most bytes each, by name; one that is larger
// has a file of its own. Equal states are split in one way.
func (s *snapshot) split(most int64) []checkpoint.State {
	var files []checkpoint.State
	var size int64
	for _, name := range slices.Sorted(maps.Keys(s.tensors)) {
		t := s.tensors[name]
		n := int64(len(t.Bytes()))
		if len(files) == 0 || size > 0 && size+n > most {
			files = append(files, checkpoint.State{Tensors: make(map[string]tensor.Tensor)})
			size = 0
		}
		files[len(files)-1].Tensors[name] = t
		size += n
	}
	return files
}

// errTooManyFiles is what a save is refused with.
var errTooManyFiles = fmt.Errorf("more than %d files: want a larger MaxFileBytes", int(maxFiles))
