package live

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/lighthouse/api"
)

const (
	// look is how often the state is looked at for a patch.
	look = 250 * time.Millisecond

	// pingEvery is how long a viewer may hear nothing.
	pingEvery = 15 * time.Second

	// queued bounds the chunks that wait for a viewer: some seconds' worth. One that falls
	// further behind is cut, and comes again to the whole state.
	queued = 64

	// batch bounds the events that are told in one chunk.
	batch = 256
)

// ErrStopped is returned by Watch after Stop.
var ErrStopped = errors.New("this server stops")

// Source is the lighthouse, as far as it is watched. It is safe for concurrent use.
type Source interface {
	// Document is the present state of one job, or of all if none is named.
	Document(ctx context.Context, job string) (api.Document, error)

	// Events returns up to limit events of a job with a seq above since, oldest first.
	Events(job string, since int64, limit int) ([]api.Event, error)

	// Newest is the seq of the newest event of each job that has any.
	Newest() (map[string]int64, error)

	// Told returns a channel that the next event of any job closes.
	Told() <-chan struct{}
}

// Hub has the boards. It is safe for concurrent use.
type Hub struct {
	source  Source
	running sync.WaitGroup // boards

	mu struct {
		sync.Mutex

		stopped bool
		boards  map[string]*board // by filter
	}
}

// NewHub makes a hub that nothing watches yet.
func NewHub(source Source) *Hub {
	h := &Hub{source: source}
	h.mu.boards = make(map[string]*board)
	return h
}

// Watch makes a viewer of one job, or of all if none is named. The first chunk that it is
// told is the whole state. It blocks while the first viewer of a filter waits for that.
func (h *Hub) Watch(ctx context.Context, job string) (*Viewer, error) {
	b, err := h.board(job)
	if err != nil {
		return nil, err
	}
	select {
	case <-b.begun:
	case <-ctx.Done():
		h.leave(b, nil)
		return nil, context.Cause(ctx)
	}
	v := &Viewer{hub: h, board: b, chunks: make(chan []byte, queued)}
	if err := b.admit(v); err != nil {
		h.leave(b, nil)
		return nil, err
	}
	return v, nil
}

// board returns the filter's board with one more viewer counted, and starts it for the
// first.
func (h *Hub) board(job string) (*board, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.stopped {
		return nil, ErrStopped
	}
	b := h.mu.boards[job]
	if b == nil {
		ctx, cancel := context.WithCancel(context.Background())
		b = &board{source: h.source, job: job, begun: make(chan struct{}), cancel: cancel}
		h.mu.boards[job] = b
		h.running.Go(func() {
			b.run(ctx)
			h.drop(b)
		})
	}
	b.watchers++
	return b, nil
}

// leave takes a viewer from its board, which ends with the last.
func (h *Hub) leave(b *board, v *Viewer) {
	b.dismiss(v)
	h.mu.Lock()
	defer h.mu.Unlock()
	b.watchers--
	if b.watchers == 0 {
		b.cancel()
		h.dropLocked(b)
	}
}

// drop forgets a board that has ended: the next viewer begins another.
func (h *Hub) drop(b *board) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b.cancel()
	h.dropLocked(b)
}

func (h *Hub) dropLocked(b *board) {
	if h.mu.boards[b.job] == b {
		delete(h.mu.boards, b.job)
	}
}

// Stop cuts all viewers, and lets no more in.
func (h *Hub) Stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.stopped = true
	for _, b := range h.mu.boards {
		b.cancel()
	}
}

// Wait returns when all boards have ended, after Stop.
func (h *Hub) Wait() { h.running.Wait() }

// Viewer is one who watches. Close ends it.
type Viewer struct {
	hub    *Hub
	board  *board
	chunks chan []byte
	once   sync.Once
}

// Chunks are what the viewer is told. The channel is closed when the viewer is cut,
// because it does not keep up, or because its source or the hub has ended. The chunks are
// shared: they are not to be changed.
func (v *Viewer) Chunks() <-chan []byte { return v.chunks }

// Close takes the viewer out.
func (v *Viewer) Close() { v.once.Do(func() { v.hub.leave(v.board, v) }) }
