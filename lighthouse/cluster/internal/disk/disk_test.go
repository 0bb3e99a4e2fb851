package disk_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/lighthouse/cluster/internal/disk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const timeout = 5 * time.Second

// faulty is a store in memory that fails until a time, or whose next write takes so long.
type faulty struct {
	*raft.InmemStore
	failsUntil time.Time
	takes      time.Duration
}

func (f *faulty) IsMonotonic() bool { return true }

func (f *faulty) StoreLogs(all []*raft.Log) error {
	takes := f.takes
	f.takes = 0
	<-time.After(takes)
	return f.InmemStore.StoreLogs(all)
}

func (f *faulty) SetUint64(key []byte, v uint64) error {
	takes := f.takes
	f.takes = 0
	<-time.After(takes)
	if time.Now().Before(f.failsUntil) {
		return errors.New("no space left on device")
	}
	return f.InmemStore.SetUint64(key, v)
}

func entry(index uint64) *raft.Log { return &raft.Log{Index: index, Term: 1} }

// What raft promised waits for a disk that fails, and is written when it is good again.
func TestPromiseWaitsForTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faulty{InmemStore: raft.NewInmemStore(), failsUntil: time.Now().Add(time.Minute)}
		d := disk.New(store, timeout, zerolog.Nop())
		began := time.Now()
		if err := d.SetUint64([]byte("term"), 7); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("the promise returned after %v, want it a moment after the disk was good, at 1m0s", took)
		}
		if v, err := d.GetUint64([]byte("term")); err != nil || v != 7 {
			t.Errorf("term %d, %v; want 7", v, err)
		}
	})
}

// A promise on a disk that stays bad returns when raft has ended.
func TestPromiseEndsWithRaft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faulty{InmemStore: raft.NewInmemStore(), failsUntil: time.Now().Add(time.Hour)}
		d := disk.New(store, timeout, zerolog.Nop())
		done := make(chan error)
		go func() { done <- d.SetUint64([]byte("term"), 7) }()
		synctest.Wait()
		d.GiveUp()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if v, _ := store.GetUint64([]byte("term")); v != 0 {
			t.Errorf("term %d was written, want none", v)
		}
	})
}

// A promise on a disk that hangs returns when raft has ended, whatever becomes of the write.
func TestHungPromiseEndsWithRaft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faulty{InmemStore: raft.NewInmemStore(), takes: time.Hour}
		d := disk.New(store, timeout, zerolog.Nop())
		began := time.Now()
		done := make(chan error, 1)
		go func() { done <- d.SetUint64([]byte("term"), 7) }()
		synctest.Wait()
		if len(done) > 0 {
			t.Error("the promise returned while its write hung, and raft had not ended")
		}
		d.GiveUp()
		if err := <-done; err != nil || time.Since(began) != 0 {
			t.Errorf("%v, %v after raft had ended; want nil at once", err, time.Since(began))
		}
		<-time.After(time.Hour) // the write left behind returns at last
		synctest.Wait()
	})
}

// A write that hangs is an error after the timeout; the next ones are refused at once;
// and what it has written in the end is taken back before others may write.
func TestHungWriteIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &faulty{InmemStore: raft.NewInmemStore(), takes: time.Minute}
		d := disk.New(store, timeout, zerolog.Nop())
		began := time.Now()
		if err := d.StoreLog(entry(1)); err == nil || time.Since(began) != timeout {
			t.Errorf("%v after %v, want an error after %v", err, time.Since(began), timeout)
		}
		if err := d.StoreLog(entry(1)); err == nil || time.Since(began) != timeout {
			t.Errorf("%v after %v more, want an error at once", err, time.Since(began)-timeout)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if last, err := d.LastIndex(); last != 0 || err != nil {
			t.Errorf("the log goes up to %d, %v; want what was refused to be gone", last, err)
		}
		if err := d.StoreLog(entry(1)); err != nil {
			t.Errorf("%v on a disk that answers again", err)
		}
	})
}

// The end waits for writes under way; from a disk that hangs it turns away.
func TestEnd(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration
		hangs bool
	}{{time.Second, false}, {time.Hour, true}} {
		synctest.Test(t, func(t *testing.T) {
			store := &faulty{InmemStore: raft.NewInmemStore(), takes: c.takes}
			d := disk.New(store, timeout, zerolog.Nop())
			wrote := make(chan error, 1)
			go func() { wrote <- d.StoreLog(entry(1)) }()
			synctest.Wait()
			var released atomic.Bool
			err := d.End(func() error { return nil }, func() error { released.Store(true); return nil })
			if (err != nil) != c.hangs || released.Load() == c.hangs {
				t.Errorf("a write of %v: %v, files given back: %t", c.takes, err, released.Load())
			}
			<-wrote
			<-time.After(c.takes) // the write left behind returns at last
			synctest.Wait()
		})
	}
}
