// Package disk is what raft writes to where disks fail: a write that cannot be made is
// refused or waited for, as raft's safety asks, and a disk that hangs stops no server's
// end. Its goroutines are one for each write under way, and one for the end; they end with
// these, and are left behind by End when the disk hangs.
package disk

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"
)

// retryAfter is how long a write of raft's own promises waits before it is tried
// again.
const retryAfter = 250 * time.Millisecond

// Store is what raft writes to: its log, and its term and votes.
type Store interface {
	raft.LogStore
	raft.StableStore
	raft.MonotonicLogStore
}

// Disk is a store that may fail for a while: it is full, read-only, or hangs. Entries of
// the log that cannot be written are refused, and raft copes: a leader steps
// down, a follower does not acknowledge. A term or a vote that cannot be written
// is another matter: raft gives up the whole process then. Here it waits, says
// so, and takes no part until the disk is good again. It is safe for concurrent
// use.
type Disk struct {
	Store

	log     zerolog.Logger
	timeout time.Duration // of one write of the log

	once   sync.Once
	closed chan struct{}
	under  sync.WaitGroup // writes under way; nobody waits for those of a disk that hangs

	mu struct {
		sync.Mutex

		failed bool      // a write of raft's own promises has, and that was said
		hung   time.Time // since when the write has been under way that does not return; zero: none
	}
}

// New makes one of a store whose writes of the log may take so long.
func New(s Store, timeout time.Duration, log zerolog.Logger) *Disk {
	return &Disk{Store: s, log: log, timeout: timeout, closed: make(chan struct{})}
}

// SetUint64 keeps a number.
func (d *Disk) SetUint64(key []byte, value uint64) error {
	return d.persist(func() error { return d.Store.SetUint64(key, value) })
}

// Set keeps a value.
func (d *Disk) Set(key, value []byte) error {
	return d.persist(func() error { return d.Store.Set(key, value) })
}

// persist writes until it succeeds. When raft ends meanwhile, nothing that was
// to be promised can be told any more, because its connections are closed
// already: then it matters to nobody that it was not written.
func (d *Disk) persist(write func() error) error {
	done := make(chan struct{})
	d.under.Go(func() {
		defer close(done)
		d.retry(write)
	})
	select {
	case <-done:
	case <-d.closed:
	}
	return nil
}

// retry writes until it succeeds, and says whether it did before raft ended.
func (d *Disk) retry(write func() error) bool {
	for {
		err := write()
		d.tell(err)
		if err == nil {
			return true
		}
		select {
		case <-d.closed:
			return false
		case <-time.After(retryAfter):
		}
	}
}

// tell says once that the disk has failed, for all writes that wait for it, and once
// that it is good again.
func (d *Disk) tell(err error) {
	d.mu.Lock()
	was := d.mu.failed
	d.mu.failed = err != nil
	d.mu.Unlock()
	switch {
	case err != nil && !was:
		d.log.Error().Err(err).Msg("disk failed: this server takes no part until it can be written")
	case err == nil && was:
		d.log.Info().Msg("disk good again")
	}
}

// GiveUp ends waiting writes. raft's connections are closed.
func (d *Disk) GiveUp() { d.once.Do(func() { close(d.closed) }) }
