package disk

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// errHangs says that a write has been under way for too long.
var errHangs = errors.New("the disk hangs")

// flight is one write of the log; guarded by Disk.mu.
type flight struct {
	landed    bool // it has returned
	abandoned bool // nobody waits for it any more
}

// StoreLog writes an entry of the log.
func (d *Disk) StoreLog(l *raft.Log) error { return d.StoreLogs([]*raft.Log{l}) }

// StoreLogs writes entries of the log. A write that takes longer than the disk's
// timeout is an error, as if it had failed: a leader that waited for it would go
// on sending heartbeats, so that nobody took its place, and answer nothing. Until
// the write has returned, all others are refused at once; what it wrote in the end
// is taken back, because raft was told that it was not written.
func (d *Disk) StoreLogs(all []*raft.Log) error {
	d.mu.Lock()
	hung := d.mu.hung
	d.mu.Unlock()
	if !hung.IsZero() {
		return fmt.Errorf("%w: a write of the log has been under way for %v", errHangs, time.Since(hung).Round(time.Millisecond))
	}
	f, done := new(flight), make(chan error, 1)
	began := time.Now()
	d.under.Go(func() {
		err := d.Store.StoreLogs(all)
		d.mu.Lock()
		f.landed = true
		abandoned := f.abandoned
		d.mu.Unlock()
		if done <- err; abandoned {
			d.takeBack(all, err)
		}
	})
	late := time.NewTimer(d.timeout)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
	}
	d.mu.Lock()
	if f.abandoned = !f.landed; f.abandoned {
		d.mu.hung = began
	}
	d.mu.Unlock()
	if !f.abandoned {
		return <-done
	}
	d.log.Error().Dur("after", d.timeout).Msg("disk hangs: this server takes no part until it can be written")
	return fmt.Errorf("%w: a write of the log has not returned in %v", errHangs, d.timeout)
}

// takeBack cuts off the log what an abandoned write has written after all, and
// lets others write again.
func (d *Disk) takeBack(all []*raft.Log, err error) {
	if err == nil && len(all) > 0 && !d.retry(func() error { return d.DeleteRange(all[0].Index, all[len(all)-1].Index) }) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.hung = time.Time{}
	d.log.Info().Msg("disk answers again")
}

// End ends raft, waits for the writes under way, and gives back the files. From a
// disk that hangs it turns away after a while: the process is to end, and can do
// no more about it.
func (d *Disk) End(shutdown, release func() error) error {
	ended := make(chan error, 1)
	go func() {
		err := shutdown()
		d.under.Wait()
		ended <- errors.Join(err, release())
	}()
	select {
	case err := <-ended:
		return err
	case <-time.After(d.timeout + retryAfter):
		return fmt.Errorf("close the ledger: %w: its files are left open", errHangs)
	}
}
