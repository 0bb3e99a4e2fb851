package localdir

import (
	"context"
	"fmt"
	"io"
)

// exactly is a reader of as many bytes as were announced. A store that reads to the end
// learns of one that has more or fewer.
type exactly struct {
	ctx  context.Context
	r    io.Reader
	left int64
}

// Read implements io.Reader.
func (e *exactly) Read(p []byte) (int, error) {
	if err := e.ctx.Err(); err != nil {
		return 0, context.Cause(e.ctx)
	}
	n, err := e.r.Read(p[:min(len(p), readStep)])
	e.left -= int64(n)
	switch {
	case e.left < 0:
		return n, fmt.Errorf("%d bytes more than announced: %w", -e.left, io.ErrShortWrite)
	case err == io.EOF && e.left > 0:
		return n, fmt.Errorf("%d bytes fewer than announced: %w", e.left, io.ErrUnexpectedEOF)
	}
	return n, err
}

// readStep is how much is read between two looks at ctx.
const readStep = 1 << 20
