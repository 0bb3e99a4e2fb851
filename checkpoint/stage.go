package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime"
	"sync"
	"sync/atomic"
)

// errClosed is what calls on a closed transport return.
var errClosed = errors.New("checkpoint: transport is closed")

// snapshot is one staged copy. It is never written after it was published.
type snapshot struct {
	version  Version
	token    []byte // of the quorum that it was staged in
	head     []byte // a safetensors file is head, then data
	manifest []byte
	data     []byte

	readers int           // guarded by stage.mu
	retired bool          // guarded by stage.mu: nobody new may read it
	idle    chan struct{} // closed once retired and without readers
	cut     chan struct{} // closed when readers shall stop
}

// stage holds the one staged copy, hands it to readers, and keeps memory for
// the next. Safe for concurrent use.
type stage struct {
	mu struct {
		sync.Mutex

		current *snapshot
		changed chan struct{} // closed and replaced when current changes
		free    []byte        // data of a snapshot that nobody reads any more
		closed  bool
	}
}

func newStage() *stage {
	s := &stage{}
	s.mu.changed = make(chan struct{})
	return s
}

// memory takes the pooled memory if it is large enough, or makes new.
func (s *stage) memory(n int64) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if free := s.mu.free; int64(cap(free)) >= n {
		s.mu.free = nil
		return free[:n]
	}
	return make([]byte, n)
}

// publish makes snap the current one, and wakes whoever waits.
func (s *stage) publish(snap *snapshot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return errClosed
	}
	s.replaceLocked(snap)
	return nil
}

// withdraw leaves nothing staged and returns what was, or nil.
func (s *stage) withdraw() *snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.mu.current
	s.replaceLocked(nil)
	return old
}

// close withdraws, cuts readers and refuses whatever comes later.
func (s *stage) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return
	}
	s.mu.closed = true
	if s.mu.current != nil {
		close(s.mu.current.cut)
	}
	s.replaceLocked(nil)
	s.mu.free = nil
}

func (s *stage) replaceLocked(snap *snapshot) {
	old := s.mu.current
	s.mu.current = snap
	close(s.mu.changed)
	s.mu.changed = make(chan struct{})
	if old == nil {
		return
	}
	old.retired = true
	s.settleLocked(old)
}

// settleLocked takes back the memory of a snapshot that nobody can read.
func (s *stage) settleLocked(snap *snapshot) {
	if !snap.retired || snap.readers > 0 {
		return
	}
	close(snap.idle)
	if cap(snap.data) > cap(s.mu.free) && !s.mu.closed {
		s.mu.free = snap.data
	}
	snap.data = nil
}

// look returns the current snapshot, held if it is v, and what is closed when
// that changes.
func (s *stage) look(v Version) (snap *snapshot, other Version, changed <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch cur := s.mu.current; {
	case s.mu.closed:
		return nil, "", nil, errClosed
	case cur == nil:
		return nil, "", s.mu.changed, nil
	case cur.version != v:
		return nil, cur.version, s.mu.changed, nil
	default:
		cur.readers++
		return cur, "", nil, nil
	}
}

// release ends what look began.
func (s *stage) release(snap *snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap.readers--
	s.settleLocked(snap)
}

// copyIn copies a view's memory into data and returns each chunk's CRC32C. It
// stops between chunks when ctx ends.
func copyIn(ctx context.Context, data []byte, v *view, chunkBytes int64) ([]uint32, error) {
	m := manifest{layout: v.layout, chunkBytes: chunkBytes}
	sums := make([]uint32, chunkCount(m.size(), chunkBytes))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(sums)) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(sums) {
					return
				}
				from, to := m.bounds(i)
				sums[i] = copyChunk(data[from:to], pieces(&m.layout, v.bytes, from, to))
			}
		})
	}
	wg.Wait()
	if err := ended(ctx); err != nil {
		return nil, fmt.Errorf("copy state: %w", err)
	}
	return sums, nil
}

func copyChunk(dst []byte, parts [][]byte) uint32 {
	var sum uint32
	for _, part := range parts {
		for len(part) > 0 {
			n := copy(dst, part[:min(len(part), copyStep)])
			sum = crc32.Update(sum, castagnoli, dst[:n])
			dst, part = dst[n:], part[n:]
		}
	}
	return sum
}
