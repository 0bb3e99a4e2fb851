package baby

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/skerry-ft/skerry/internal/memfd"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// Sizes of shared memory.
const (
	pageBytes    = 4 << 10 // the least block
	slabBytes    = 1 << 20 // smaller blocks share a segment of this size
	maxIdleBytes = 1 << 30 // staging memory kept for later ops
)

// A segment is memory that this process and the child map.
type segment struct {
	id     uint64
	mem    *memfd.Segment
	staged bool // the package's own; else Alloc's
}

func (s *segment) base() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(s.mem.Bytes()))) }

// A block is a part of a segment that one op at a time stages a tensor in.
type block struct {
	seg    *segment
	offset int
	bytes  []byte // all of it; a power of two
}

// memory is all shared memory of a Backend.
type memory struct {
	copied atomic.Int64 // bytes, in and out

	mu struct {
		sync.Mutex

		last     uint64     // segment id
		segments []*segment // by base address
		free     [64][]*block
		idle     int // bytes in free
		closed   bool
	}
}

// newSegmentLocked creates and enters a segment.
func (m *memory) newSegmentLocked(size int, staged bool) (*segment, error) {
	if m.mu.closed {
		return nil, pg.ErrClosed
	}
	size = (size + pageBytes - 1) &^ (pageBytes - 1)
	mem, err := memfd.Create("skerry-baby", size)
	if err != nil {
		return nil, fmt.Errorf("baby: shared memory of %d bytes: %w", size, err)
	}
	m.mu.last++
	s := &segment{id: m.mu.last, mem: mem, staged: staged}
	i, _ := m.searchLocked(s.base())
	m.mu.segments = slices.Insert(m.mu.segments, i, s)
	return s, nil
}

// searchLocked is the place of a segment with that base.
func (m *memory) searchLocked(base uintptr) (int, bool) {
	return slices.BinarySearchFunc(m.mu.segments, base, func(s *segment, at uintptr) int {
		return cmp.Compare(s.base(), at)
	})
}

// find tells which of our segments b lies in, if any.
func (m *memory) find(b []byte) (s *segment, offset int, ok bool) {
	if len(b) == 0 {
		return nil, 0, false
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	m.mu.Lock()
	defer m.mu.Unlock()
	i, exact := m.searchLocked(at)
	if !exact {
		i--
	}
	if i < 0 {
		return nil, 0, false
	}
	s = m.mu.segments[i]
	offset = int(at - s.base())
	return s, offset, offset+len(b) <= len(s.mem.Bytes())
}

// alloc makes a tensor in a segment of its own.
func (m *memory) alloc(dtype tensor.DType, shape []int) (tensor.Tensor, error) {
	count := 1
	for _, d := range shape {
		if d < 0 || (d > 0 && count > maxAllocBytes/d) {
			return tensor.Tensor{}, fmt.Errorf("baby: alloc %v %v: want dimensions of 0 or more, and at most %d bytes", dtype, shape, maxAllocBytes)
		}
		count *= d
	}
	size := count * dtype.Size()
	if !dtype.Valid() || size > maxAllocBytes {
		return tensor.Tensor{}, fmt.Errorf("baby: alloc %v %v: want a valid dtype and at most %d bytes", dtype, shape, maxAllocBytes)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.newSegmentLocked(max(size, 1), false)
	if err != nil {
		return tensor.Tensor{}, err
	}
	return tensor.FromBytes(dtype, s.mem.Bytes()[:size:size], shape...)
}

// maxAllocBytes bounds one tensor of Alloc.
const maxAllocBytes = 1 << 40

// take removes the segment that t was made in by alloc, which the caller unmaps.
func (m *memory) take(t tensor.Tensor) (*segment, error) {
	s, offset, ok := m.find(t.Bytes())
	if !ok || offset != 0 || s.staged {
		return nil, fmt.Errorf("baby: free of %v, which is no tensor of Alloc", t)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.removeLocked(s)
	return s, nil
}

func (m *memory) removeLocked(s *segment) {
	if i, ok := m.searchLocked(s.base()); ok && m.mu.segments[i] == s {
		m.mu.segments = slices.Delete(m.mu.segments, i, i+1)
	}
}

// classOf is the exponent of the block that n bytes need.
func classOf(n int) int { return bits.Len(uint(max(n, pageBytes) - 1)) }

// stage gives a block of at least n bytes.
func (m *memory) stage(n int) (*block, error) {
	class := classOf(n)
	size := 1 << class
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := len(m.mu.free[class]); k > 0 {
		b := m.mu.free[class][k-1]
		m.mu.free[class] = m.mu.free[class][:k-1]
		m.mu.idle -= size
		return b, nil
	}
	s, err := m.newSegmentLocked(max(size, slabBytes), true)
	if err != nil {
		return nil, err
	}
	all := s.mem.Bytes()
	for off := size; off+size <= len(all) && size < slabBytes; off += size {
		m.mu.free[class] = append(m.mu.free[class], &block{s, off, all[off : off+size : off+size]})
		m.mu.idle += size
	}
	return &block{s, 0, all[:size:size]}, nil
}

// unstage gives a block back that nothing touches any more. The segment it
// returns, if any, is one too many: the caller has the child drop it.
func (m *memory) unstage(b *block) *segment {
	class := classOf(len(b.bytes))
	m.mu.Lock()
	defer m.mu.Unlock()
	alone := len(b.bytes) >= slabBytes
	if alone && (m.mu.closed || m.mu.idle+len(b.bytes) > maxIdleBytes) {
		m.removeLocked(b.seg)
		return b.seg
	}
	m.mu.free[class] = append(m.mu.free[class], b)
	m.mu.idle += len(b.bytes)
	return nil
}

// close unmaps the staging memory and closes all descriptors. Tensors of Alloc
// stay readable.
func (m *memory) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.closed = true
	m.mu.free = [64][]*block{}
	for _, s := range m.mu.segments {
		if s.staged {
			s.mem.Close() // an error would be one of munmap with our own values
		} else {
			s.mem.File().Close()
		}
	}
	m.mu.segments = slices.DeleteFunc(m.mu.segments, func(s *segment) bool { return s.staged })
}
