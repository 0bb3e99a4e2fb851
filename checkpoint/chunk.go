package checkpoint

import (
	"errors"
	"io"
	"runtime"
	"slices"

	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/tensor"
)

// chunk is one part of a mirror. It is in one place at a time, the plan, its
// queue or one stream, which owns all but index, from, to and state.
type chunk struct {
	index    int
	from, to int64
	memory   [][]byte // of the tensors, in order
	bools    []span   // parts of it that are bools
	direct   bool     // it is filled in the tensors' memory

	patch []byte // it lies here instead; nil: in the tensors
	undo  []byte // what the tensors held before; nil: they hold it still
	have  mark   // of what is there, if known
	known bool

	got int64   // bytes that have arrived, from one donor or several
	sum running // of those

	state chunkState // guarded by the plan that it is in
	want  mark       // what the first donor has; guarded by the plan
	blind int        // the turn in which it was taken before the first donor said so; 0: it was not
}

type chunkState byte

const (
	chunkUnknown chunkState = iota // the first donor has not said what it has
	chunkQueued                    // it is other than what is there, and waits to be fetched
	chunkFlying                    // a stream fetches it
	chunkDone                      // it is there
)

// copyStep is how much is copied or checksummed between looks at ctx, and
// fits into a core's cache, so that the checksum reads what the copy has
// just brought in. After each step other goroutines get a turn: the process that
// gives or takes a state has beats to send, and a time slice is 10 ms.
const copyStep = 256 << 10

// span is a part of a chunk's bytes.
type span struct{ from, to int64 }

// boolsIn are the parts of bytes [from, to) that bool tensors are, relative to
// from.
func boolsIn(l *safetensors.Layout, from, to int64) []span {
	var out []span
	for _, e := range l.Entries {
		if a, b := max(e.From, from), min(e.To, to); e.DType == tensor.Bool && a < b {
			out = append(out, span{a - from, b - from})
		}
	}
	return out
}

// rest is the memory that is not filled yet.
func (c *chunk) rest() [][]byte {
	if !c.direct {
		if c.patch == nil {
			c.patch = make([]byte, c.to-c.from)
		}
		return [][]byte{c.patch[c.got:]}
	}
	skip := c.got
	for i, b := range c.memory {
		if skip < int64(len(b)) {
			return append([][]byte{b[skip:]}, c.memory[i+1:]...)
		}
		skip -= int64(len(b))
	}
	return nil
}

// reset forgets what has arrived of it, if it is not all there.
func (c *chunk) reset() {
	if c.got > 0 && !c.direct {
		c.patch = nil
	}
	c.got, c.sum = 0, running{}
}

// begin prepares its memory to be written, and keeps what is there if it is to.
func (c *chunk) begin(keep bool) {
	c.known = false
	if !c.direct {
		return
	}
	c.patch = nil
	if c.undo != nil || !keep {
		return
	}
	c.undo = make([]byte, 0, c.to-c.from)
	for _, b := range c.memory {
		c.undo = append(c.undo, b...)
	}
}

// fill reads part from body, and sums each piece up while it is in the cache.
func (c *chunk) fill(body io.Reader, part []byte) error {
	for len(part) > 0 {
		n, err := body.Read(part[:min(len(part), copyStep)])
		c.sum.add(part[:n])
		c.got += int64(n)
		part = part[n:]
		runtime.Gosched() // see copyStep
		if err != nil && len(part) > 0 {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// filled notes that b has come, and sums it up.
func (c *chunk) filled(b []byte) {
	for step := range slices.Chunk(b, copyStep) {
		c.sum.add(step)
		runtime.Gosched() // see copyStep
	}
	c.got += int64(len(b))
}

// finish takes what has arrived for the chunk. Bytes in bool tensors that Go's
// bools cannot be are refused.
func (c *chunk) finish() error {
	have := c.sum.mark()
	c.got, c.sum = 0, running{}
	for _, s := range c.bools {
		if b, bad := c.badBool(s); bad {
			c.patch = nil
			return safetensors.Corrupt("a bool tensor in the chunk at %d holds %d", c.from, b)
		}
	}
	c.have, c.known = have, true
	return nil
}

func (c *chunk) badBool(s span) (byte, bool) {
	parts := [][]byte{c.patch}
	if c.patch == nil {
		parts = c.memory
	}
	var at int64
	for _, p := range parts {
		for i := max(s.from-at, 0); i < min(s.to-at, int64(len(p))); i++ {
			if p[i] > 1 {
				return p[i], true
			}
		}
		at += int64(len(p))
	}
	return 0, false
}
