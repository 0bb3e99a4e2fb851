package cluster

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"
)

// diskRetry is how long a write of raft's own promises waits before it is tried
// again.
const diskRetry = 250 * time.Millisecond

// Disk is what raft writes to: its log, and its term and votes.
type Disk interface {
	raft.LogStore
	raft.StableStore
	raft.MonotonicLogStore
}

// disk is a Disk that may fail for a while: it is full, read-only, or hangs. Entries of
// the log that cannot be written are refused, and raft copes: a leader steps
// down, a follower does not acknowledge. A term or a vote that cannot be written
// is another matter: raft gives up the whole process then. Here it waits, says
// so, and takes no part until the disk is good again. It is safe for concurrent
// use.
type disk struct {
	Disk
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

func newDisk(d Disk, timeout time.Duration, log zerolog.Logger) *disk {
	return &disk{Disk: d, log: log, timeout: timeout, closed: make(chan struct{})}
}

// SetUint64 keeps a number.
func (d *disk) SetUint64(key []byte, value uint64) error {
	return d.persist(func() error { return d.Disk.SetUint64(key, value) })
}

// Set keeps a value.
func (d *disk) Set(key, value []byte) error {
	return d.persist(func() error { return d.Disk.Set(key, value) })
}

// persist writes until it succeeds. When raft ends meanwhile, nothing that was
// to be promised can be told any more, because its connections are closed
// already: then it matters to nobody that it was not written.
func (d *disk) persist(write func() error) error {
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
func (d *disk) retry(write func() error) bool {
	for {
		err := write()
		d.tell(err)
		if err == nil {
			return true
		}
		select {
		case <-d.closed:
			return false
		case <-time.After(diskRetry):
		}
	}
}

// tell says once that the disk has failed, for all writes that wait for it, and once
// that it is good again.
func (d *disk) tell(err error) {
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

// giveUp ends waiting writes. raft's connections are closed.
func (d *disk) giveUp() { d.once.Do(func() { close(d.closed) }) }

// hush closes what raft speaks through, so that nothing which it could not write
// is told to anybody, and lets writes that wait end.
func (l *Ledger) hush() error {
	var err error
	if t, ok := l.transport.(raft.WithClose); ok {
		err = t.Close()
	}
	if l.disk != nil {
		l.disk.giveUp()
	}
	return err
}

// unwritten makes an error of raft's, for a command that it had taken in, one of
// a lost leadership: the command may yet take effect, if part of it was written.
func unwritten(err error) error {
	if err == nil || errors.Is(err, ErrNotLeader) || errors.Is(err, raft.ErrEnqueueTimeout) {
		return err
	}
	return errors.Join(ErrNotLeader, err)
}
