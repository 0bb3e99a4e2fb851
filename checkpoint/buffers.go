package checkpoint

import "context"

// maxBuffers bounds how many responses lie in memory between the tensors and the
// network: a donor gives no more than this many chunks of memory to its readers, and
// maxSpareBuffers to those of Any. A buffer is held while it is sent, which a reader
// that takes nothing draws out until the timeout: four newcomers that did had all of
// them, and a heal for which a quorum waited got none.
const (
	maxBuffers      = 8
	maxSpareBuffers = 2
)

// buffers is a bounded pool. Safe for concurrent use.
type buffers struct {
	free chan []byte // one for each that is not in use; nil ones were never made
}

func newBuffers(n int) *buffers {
	p := &buffers{free: make(chan []byte, n)}
	for range n {
		p.free <- nil
	}
	return p
}

// take waits for a buffer and makes it n bytes long.
func (p *buffers) take(ctx context.Context, n int64) ([]byte, error) {
	var b []byte
	select {
	case b = <-p.free:
	default:
		select {
		case b = <-p.free:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if int64(cap(b)) < n {
		b = make([]byte, n)
	}
	return b[:n], nil
}

func (p *buffers) put(b []byte) { p.free <- b }
