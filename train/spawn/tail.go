package spawn

import "sync"

// tailBytes is how much of a worker's standard error is kept.
const tailBytes = 4096

// tail keeps the last tailBytes written to it. Safe for concurrent use.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func newTail() *tail { return &tail{buf: make([]byte, 0, 2*tailBytes)} }

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if n > tailBytes {
		p = p[n-tailBytes:]
	}
	if len(t.buf)+len(p) > cap(t.buf) {
		keep := copy(t.buf, t.buf[len(t.buf)-min(len(t.buf), tailBytes):])
		t.buf = t.buf[:keep]
	}
	t.buf = append(t.buf, p...)
	return n, nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf[len(t.buf)-min(len(t.buf), tailBytes):])
}
