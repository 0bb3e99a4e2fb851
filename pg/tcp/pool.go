package tcp

import (
	"math/bits"
	"sync"
	"unsafe"
)

const (
	minBufBits = 9  // 512 B
	maxBufBits = 18 // MaxPayload
	// retainBytes bounds what the pool keeps for reuse; what is over it goes to
	// the garbage collector.
	retainBytes = 128 << 20
)

// buf is a pooled buffer. b is aligned for every dtype.
type buf struct {
	b     []byte
	class int

	// Of a record in shared memory, instead of class.
	channel *channel
	end     uint64
	freed   bool
}

// bufPool keeps buffers of powers of two. Safe for concurrent use. Not a
// sync.Pool: a garbage collection in the middle of a step would empty it.
type bufPool struct {
	mu struct {
		sync.Mutex

		free [maxBufBits - minBufBits + 1][]*buf
		held int // bytes in free
		out  int // buffers handed out and not returned
	}
}

// get returns a buffer with len(b) == n ≤ MaxPayload.
func (p *bufPool) get(n int) *buf {
	class := max(bits.Len(uint(max(n, 1)-1)), minBufBits) - minBufBits
	p.mu.Lock()
	p.mu.out++
	list := p.mu.free[class]
	if len(list) > 0 {
		x := list[len(list)-1]
		p.mu.free[class] = list[:len(list)-1]
		p.mu.held -= cap(x.b)
		p.mu.Unlock()
		x.b = x.b[:n]
		return x
	}
	p.mu.Unlock()
	words := make([]uint64, 1<<(class+minBufBits)/8)
	b := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(words)*8)
	return &buf{b: b[:n], class: class}
}

// put gives x back; nil is allowed.
func (p *bufPool) put(x *buf) {
	if x == nil {
		return
	}
	if x.channel != nil {
		x.channel.release(x)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.out--
	if p.mu.held+cap(x.b) > retainBytes {
		return
	}
	p.mu.held += cap(x.b)
	p.mu.free[x.class] = append(p.mu.free[x.class], x)
}

// outstanding is how many buffers are out.
func (p *bufPool) outstanding() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.out
}
