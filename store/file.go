package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/internal/backoff"
)

const (
	// lockFirst and lockMost are the pauses between two tries for the lock.
	lockFirst = 50 * time.Microsecond
	lockMost  = 2 * time.Millisecond
	// pollFirst and pollMost are the pauses between two looks at the file of a
	// call that waits: other processes cannot wake it.
	pollFirst = 500 * time.Microsecond
	pollMost  = 20 * time.Millisecond
	// joinTimeout bounds NewFile and Close, should the holder of the lock have
	// been stopped.
	joinTimeout = 30 * time.Second
)

// File is a store in a file that processes of one machine share (or of
// several, on a file system whose fcntl locks work), as PyTorch's FileStore.
// It is safe for concurrent use, also several in one process.
//
// Calls that wait look at the file up to every 20 ms. A process that dies,
// even while it writes, harms no one else.
type File struct {
	verbs
	patience

	path  string
	world int
	turn  chan struct{} // capacity 1: who has put something in owns log
	stop  chan struct{} // closed by Close
	log   *fileLog

	closing sync.Once
	err     error // of Close
}

// NewFile opens the store at path, and makes the file if there is none.
// worldSize is the number of processes that will open it, once each; the last
// of them to close it removes the file. With 0 or less it is not known: the
// file then stays, and whoever opens it finds what was in it.
//
// Errors: ErrUsedFile if worldSize processes have opened the file already, or
// if those who did are all dead; a file that is not a store's.
func NewFile(path string, worldSize int, opts ...Option) (*File, error) {
	ctx, cancel := context.WithTimeout(context.Background(), joinTimeout)
	defer cancel()
	for {
		s, err := tryFile(ctx, path, worldSize, opts)
		switch {
		case err == nil:
			return s, nil
		case !errors.Is(err, errRemoved):
			return nil, fmt.Errorf("open store file %s: %w", path, err)
		}
	}
}

// tryFile opens the file; errRemoved means that it was removed meanwhile.
func tryFile(ctx context.Context, path string, worldSize int, opts []Option) (*File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	s := &File{
		path:  path,
		world: worldSize,
		turn:  make(chan struct{}, 1),
		stop:  make(chan struct{}),
		log:   &fileLog{f: f, view: newTable(math.MaxInt64, opts...)},
	}
	s.verbs = verbs{raw: s}
	err = s.locked(ctx, true, func() error {
		if err := s.checkUnused(); err != nil {
			return err
		}
		if ok, err := tryLock(f, lockPresence, false); err != nil || !ok {
			return errors.Join(err, fmt.Errorf("mark presence: lock taken = %t", ok))
		}
		return s.log.commit(record{kind: recOpened})
	})
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

// checkUnused refuses a file that another run has left behind.
func (s *File) checkUnused() error {
	l := s.log
	if s.world <= 0 {
		return nil
	}
	if l.opened >= s.world {
		return fmt.Errorf("%w: %d processes have opened it, want at most %d", ErrUsedFile, l.opened, s.world)
	}
	if l.opened == l.left {
		return nil
	}
	alive, err := lockedByOthers(l.f, lockPresence)
	if err == nil && !alive {
		err = fmt.Errorf("%w: %d processes have opened it and not closed it, and none is alive",
			ErrUsedFile, l.opened-l.left)
	}
	return err
}

// errRemoved is what a file is that the last user has removed.
var errRemoved = fmt.Errorf("%w: file was removed", ErrClosed)

// locked runs do while no other store has the file, with all that others have
// written in view.
func (s *File) locked(ctx context.Context, write bool, do func() error) (err error) {
	select {
	case <-s.stop: // a turn may be free too
		return ErrClosed
	default:
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.stop:
		return ErrClosed
	}
	defer func() { <-s.turn }()
	return s.hold(ctx, write, s.stop, do)
}

// hold is locked for who has the turn; stop ends it with ErrClosed.
func (s *File) hold(ctx context.Context, write bool, stop <-chan struct{}, do func() error) (err error) {
	if err := s.lockFile(ctx, write, stop); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock(s.log.f, lockAccess)) }()
	if err := s.stillThere(); err != nil {
		return err
	}
	if err := s.log.refresh(); err != nil {
		return err
	}
	return do()
}

// lockFile tries again until it has the lock: a call that sleeps in the kernel
// could not be cancelled.
func (s *File) lockFile(ctx context.Context, write bool, stop <-chan struct{}) error {
	pauses := backoff.Backoff{First: lockFirst, Most: lockMost}
	for {
		if err := ended(ctx); err != nil {
			return err
		}
		if ok, err := tryLock(s.log.f, lockAccess, write); ok || err != nil {
			return err
		}
		select {
		case <-time.After(pauses.Next()):
		case <-ctx.Done():
		case <-stop:
			return ErrClosed
		}
	}
}

// stillThere checks that the path still leads to our file.
func (s *File) stillThere() error {
	mine, err := s.log.f.Stat()
	if err != nil {
		return err
	}
	now, err := os.Stat(s.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return errRemoved
	case err != nil:
		return err
	case !os.SameFile(mine, now):
		return errRemoved
	}
	return nil
}

// Close ends all calls under way with ErrClosed. The last of worldSize users
// removes the file. Safe to call twice.
func (s *File) Close() error {
	s.closing.Do(func() {
		close(s.stop)
		s.turn <- struct{}{} // whoever has it sees stop and hands it back
		defer func() { <-s.turn }()
		err := s.leave()
		s.log.view.close()
		if err = errors.Join(err, s.log.f.Close()); err != nil {
			s.err = fmt.Errorf("close store file %s: %w", s.path, err)
		}
	})
	return s.err
}

// leave says in the file that this user is gone, or removes it.
func (s *File) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), joinTimeout)
	defer cancel()
	err := s.hold(ctx, true, nil, func() error {
		l := s.log
		if s.world > 0 && l.opened >= s.world && l.left+1 >= l.opened {
			return os.Remove(s.path)
		}
		return l.commit(record{kind: recLeft})
	})
	if errors.Is(err, errRemoved) {
		return nil
	}
	return err
}
