package guard

import (
	"os"
	"slices"
	"sync"
	"time"
)

// lookEvery is the least time between two looks at whether files have changed.
const lookEvery = time.Second

// watched is a value made of files, made again when they change. Whoever asks
// for the value looks; a look is a stat per file.
type watched[T any] struct {
	paths []string
	load  func() (T, error) // called, and changed, with mu held
	every time.Duration

	mu struct {
		sync.Mutex

		value  T
		stamps []os.FileInfo // by path; nil: there was no such file
		looked time.Time
		err    error // of the newest load; value is then an older one
	}
}

// sameVersion tells one version of a file from the next. Kubernetes renews a
// mounted secret by moving a link, which changes the file behind the name.
func sameVersion(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && os.SameFile(a, b)
}

func watch[T any](load func() (T, error), paths ...string) (*watched[T], error) {
	w := &watched[T]{paths: paths, load: load, every: lookEvery}
	w.mu.stamps = w.stamps() // before the load: a change during it is seen later
	value, err := load()
	if err != nil {
		return nil, err
	}
	w.mu.value, w.mu.looked = value, time.Now()
	return w, nil
}

func (w *watched[T]) stamps() []os.FileInfo {
	all := make([]os.FileInfo, len(w.paths))
	for i, p := range w.paths {
		all[i], _ = os.Stat(p) // nil with any error
	}
	return all
}

// get returns the value of the files as they are now, or, while they are no
// good, as they last were.
func (w *watched[T]) get() T {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.mu.looked) < w.every {
		return w.mu.value
	}
	w.mu.looked = time.Now()
	now := w.stamps()
	if slices.EqualFunc(now, w.mu.stamps, sameVersion) {
		return w.mu.value
	}
	value, err := w.load()
	w.mu.err = err
	w.mu.stamps = now
	if err == nil {
		w.mu.value = value
	}
	return w.mu.value
}

// require makes check part of every load, from the value in force on. After an error,
// which is check's of that one, nothing has changed.
func (w *watched[T]) require(check func(T) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := check(w.mu.value); err != nil {
		return err
	}
	load := w.load
	w.load = func() (T, error) {
		value, err := load()
		if err == nil {
			err = check(value)
		}
		return value, err
	}
	return nil
}

// problem is why the files as they are could not be taken, or nil.
func (w *watched[T]) problem() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.err
}
