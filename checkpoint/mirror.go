package checkpoint

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/tensor"
)

// MirrorOptions say how a [Mirror] is filled.
type MirrorOptions struct {
	// Progress is told of every part of a state that a fetch has received, and,
	// with 0 bytes, of every part that it has compared, from the fetch's
	// goroutines; nil: it is not called.
	Progress func(bytes int64)
	// Make returns memory for a tensor that the donors have and the owner has not, or
	// false; it bounds what a donor can make this process allocate. nil: there is none.
	Make func(safetensors.TensorInfo) (tensor.Tensor, bool)
	// Optional says that the donors need not have a tensor of the owner's, which a
	// fetch leaves as it is then; nil: they must have all.
	Optional func(name string) bool
	// Overwrite keeps nothing of what a fetch into the tensors overwrites, and so takes
	// no memory for it. Restore cannot give that back then, and the tensors are Mixed until
	// Install.
	Overwrite bool
}

// Mirror is a target's side of a state: the owner's tensors, what has been
// fetched to replace their bytes, and the mark of every chunk, so that no byte is
// fetched that is there already. It outlives fetches: what one has brought, the
// next has, whatever became of the first and of its donors.
//
// By default fetched chunks lie beside the tensors until Install, and the owner
// may read its tensors meanwhile. A fetch into a mirror that is Direct writes into
// the tensors, and keeps what it overwrites until Install or Restore, unless the options
// say otherwise.
//
// The tensors must not change by other hands while the mirror lives: it would
// take a chunk for what it was. Safe for concurrent use; one fetch at a time.
type Mirror struct {
	own      map[string]tensor.Tensor
	into     *safetensors.View // of own
	options  MirrorOptions
	progress func(int64)
	received atomic.Int64
	mixed    atomic.Bool
	fetching chan struct{} // holds one token

	// live guards the tensors' bytes: reading them for marks is shared.
	live sync.RWMutex

	mu struct {
		sync.Mutex

		direct bool
		made   map[string]tensor.Tensor // by Make
		cut    *manifest                // the donors' layout; nil before the first
		chunks []*chunk
		holds  Version // what the last fetch brought; empty: it did not succeed
	}
}

// NewMirror makes a mirror of s, whose tensors are views of the owner's memory.
func NewMirror(s State, o MirrorOptions) (*Mirror, error) {
	v, err := safetensors.ViewOf(s)
	if err != nil {
		return nil, fmt.Errorf("mirror state: %w", err)
	}
	m := &Mirror{own: s.Tensors, into: v, options: o, progress: o.Progress, fetching: make(chan struct{}, 1)}
	m.mu.made = make(map[string]tensor.Tensor)
	if m.progress == nil {
		m.progress = func(int64) {}
	}
	return m, nil
}

// SetDirect says where fetches from now on write to. What lies beside the tensors
// moves into them when it becomes true.
func (m *Mirror) SetDirect(direct bool) {
	m.fetching <- struct{}{}
	defer m.unlock()
	m.mu.Lock()
	m.mu.direct = direct
	chunks := m.mu.chunks
	m.mu.Unlock()
	if !direct {
		return
	}
	m.live.Lock()
	defer m.live.Unlock()
	eachChunk(chunks, func(c *chunk) {
		c.reset()
		if c.patch == nil {
			return
		}
		m.mixed.Store(true)
		if c.undo != nil || m.options.Overwrite {
			scatter(c.memory, c.patch)
			c.patch = nil
			return
		}
		swap(c.memory, c.patch)
		c.patch, c.undo = nil, c.patch
	})
}

// Received is how many bytes of data fetches have brought.
func (m *Mirror) Received() int64 { return m.received.Load() }

// Bytes is the size of the owner's tensors.
func (m *Mirror) Bytes() int64 { return m.into.Size() }

// Mixed says whether the tensors hold parts of other states than the owner's.
func (m *Mirror) Mixed() bool { return m.mixed.Load() }

// Install makes the tensors v, which the last fetch must have brought. It costs a
// copy of what lies beside them.
func (m *Mirror) Install(v Version) error {
	m.fetching <- struct{}{}
	defer m.unlock()
	m.mu.Lock()
	holds, chunks := m.mu.holds, m.mu.chunks
	m.mu.Unlock()
	if holds != v || v == Any {
		return fmt.Errorf("install state %s: the last fetch brought %q", v, string(holds))
	}
	m.live.Lock()
	defer m.live.Unlock()
	eachChunk(chunks, func(c *chunk) {
		if c.patch != nil {
			scatter(c.memory, c.patch)
		}
		c.patch, c.undo = nil, nil
	})
	m.mixed.Store(false)
	return nil
}

// Take fetches v from memory, for transports that have it there.
func (m *Mirror) Take(v Version, from State) error {
	view, err := safetensors.ViewOf(from)
	if err != nil {
		return fmt.Errorf("take state %s: %w", v, err)
	}
	if !m.lock(context.Background()) {
		return nil // that ctx does not end
	}
	defer m.unlock()
	chunks, err := m.begin(&manifest{Layout: view.Layout, chunkBytes: DefaultChunkBytes})
	if err != nil {
		return err
	}
	for _, c := range chunks {
		parts := safetensors.Pieces(&view.Layout, view.Bytes, c.from, c.to)
		if m.mark(c) == markOf(parts) {
			continue
		}
		m.overwrite(c)
		for _, into := range c.rest() {
			for len(into) > 0 {
				n := copy(into, parts[0])
				c.sum.add(into[:n])
				if into, parts[0] = into[n:], parts[0][n:]; len(parts[0]) == 0 {
					parts = parts[1:]
				}
			}
		}
		m.received.Add(c.to - c.from)
		m.progress(c.to - c.from)
		if err := c.finish(); err != nil {
			return err
		}
	}
	m.brought(v)
	return nil
}

// Restore gives the tensors back the bytes that they had before anything was
// fetched into them, as far as they were kept. What was lies beside them from now on.
// The owner may then change its tensors until the next fetch. It waits for a fetch under
// way: end that first.
func (m *Mirror) Restore() {
	m.fetching <- struct{}{}
	defer m.unlock()
	m.live.Lock()
	defer m.live.Unlock()
	eachChunk(m.list(), func(c *chunk) {
		c.reset()
		switch {
		case c.undo == nil:
		case c.patch == nil:
			swap(c.memory, c.undo)
			c.patch, c.undo = c.undo, nil
		default:
			scatter(c.memory, c.undo)
			c.undo = nil
		}
		c.known = c.known && c.patch != nil
	})
	m.mixed.CompareAndSwap(true, m.options.Overwrite)
	m.brought("")
}

// lock begins a fetch, or returns false when ctx ends.
func (m *Mirror) lock(ctx context.Context) bool {
	select {
	case m.fetching <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	m.brought("")
	return true
}

func (m *Mirror) unlock() { <-m.fetching }

// brought notes what is there.
func (m *Mirror) brought(v Version) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.holds = v
}

// overwrite prepares c's memory to be written.
func (m *Mirror) overwrite(c *chunk) {
	m.mixed.CompareAndSwap(false, c.direct)
	c.begin(!m.options.Overwrite)
}

func (m *Mirror) list() []*chunk {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.chunks
}

// eachChunk calls f for all chunks, on all cores.
func eachChunk(chunks []*chunk, f func(*chunk)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(chunks)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(chunks)); i = next.Add(1) - 1 {
				f(chunks[i])
				runtime.Gosched()
			}
		})
	}
	wg.Wait()
}

// begin lays the chunks out as d says, and keeps those that are there. It
// returns a *MismatchError if d is not like the owner's tensors.
func (m *Mirror) begin(d *manifest) ([]*chunk, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.cut != nil && m.mu.cut.sameCut(d) {
		for _, c := range m.mu.chunks {
			if c.direct != m.mu.direct {
				c.reset() // the half that has come lies elsewhere
				c.direct = m.mu.direct
			}
		}
		return m.mu.chunks, nil
	}
	memory, err := m.arrangeLocked(&d.Layout)
	if err != nil {
		return nil, err
	}
	if m.Mixed() {
		return nil, ErrOtherCut
	}
	m.mu.cut, m.mu.chunks = d, make([]*chunk, d.chunks())
	for i := range m.mu.chunks {
		from, to := d.bounds(i)
		m.mu.chunks[i] = &chunk{
			index: i, from: from, to: to, direct: m.mu.direct,
			memory: safetensors.Pieces(&d.Layout, memory, from, to), bools: boolsIn(&d.Layout, from, to),
		}
	}
	return m.mu.chunks, nil
}

// arrangeLocked gives the memory of the mirror's tensors in the order of the donors'
// layout, or a *MismatchError. What only one side has, or has in another shape or dtype, is
// made, or left, if the options say so.
func (m *Mirror) arrangeLocked(l *safetensors.Layout) ([][]byte, error) {
	s := State{Tensors: make(map[string]tensor.Tensor, len(l.Entries))}
	for _, e := range l.Entries {
		if t, ok := m.own[e.Name]; ok && fits(t, e.TensorInfo) {
			s.Tensors[e.Name] = t
		} else if t, ok := m.makeLocked(e.TensorInfo); ok {
			s.Tensors[e.Name] = t
		}
	}
	for name, t := range m.own {
		if _, there := s.Tensors[name]; !there && (m.options.Optional == nil || !m.options.Optional(name)) {
			s.Tensors[name] = t
		}
	}
	v, err := safetensors.ViewOf(s)
	if err != nil {
		return nil, err
	}
	return v.Arrange(l)
}

// fits says whether t may hold what as describes.
func fits(t tensor.Tensor, as safetensors.TensorInfo) bool {
	return safetensors.InfoOf(as.Name, t).Equal(as)
}

// makeLocked returns memory for a tensor that only the donors have.
func (m *Mirror) makeLocked(t safetensors.TensorInfo) (tensor.Tensor, bool) {
	if made, ok := m.mu.made[t.Name]; ok && fits(made, t) {
		return made, true
	}
	if m.options.Make == nil {
		return tensor.Tensor{}, false
	}
	made, ok := m.options.Make(t)
	if ok {
		m.mu.made[t.Name] = made
	}
	return made, ok
}

// Tensors are those of the state that the last fetch began to bring, by name: the
// owner's, and those that were made. It is empty before the first.
func (m *Mirror) Tensors() map[string]tensor.Tensor {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[string]tensor.Tensor)
	if m.mu.cut == nil {
		return all
	}
	for _, e := range m.mu.cut.Entries {
		t, ok := m.own[e.Name]
		if !ok || !fits(t, e.TensorInfo) {
			t = m.mu.made[e.Name]
		}
		all[e.Name] = t
	}
	return all
}

// mark is the mark of what the mirror holds as c. The caller owns c.
func (m *Mirror) mark(c *chunk) mark {
	if c.known {
		return c.have
	}
	c.reset() // half of a chunk is none
	if c.patch == nil {
		m.live.RLock()
		c.have = markOf(c.memory)
		m.live.RUnlock()
	} else {
		c.have = markOf([][]byte{c.patch})
	}
	c.known = true
	return c.have
}

// scatter copies from into the pieces of dst.
func scatter(dst [][]byte, from []byte) {
	for _, b := range dst {
		from = from[copy(b, from):]
	}
}

// swap exchanges the bytes of dst's pieces and of with.
func swap(dst [][]byte, with []byte) {
	var spare [4 << 10]byte
	for _, b := range dst {
		for len(b) > 0 {
			n := copy(spare[:], b)
			copy(b, with[:n])
			copy(with, spare[:n])
			b, with = b[n:], with[n:]
		}
	}
}
