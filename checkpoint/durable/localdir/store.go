package localdir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/durable"
	"github.com/skerry-ft/skerry/internal/problems"
)

// Config says which directory.
type Config struct {
	Path string // required
	// ReadOnly: it exists, and every Put and Delete is refused. Otherwise it is made,
	// with its parents.
	ReadOnly bool
}

// Store is a durable.Store in a directory; see the package comment. Links are not followed
// out of it. It is safe for concurrent use, by several processes too.
type Store struct {
	root     *os.Root
	readOnly bool
	run      string // names the temporary files of this Store
	count    atomic.Int64
}

// tmpDir holds what is being written. No name begins with a dot.
const tmpDir = ".tmp"

// staleAfter is when a temporary file is one that a process left behind as it died: no
// Put pauses so long between two writes.
const staleAfter = 24 * time.Hour

// The modes of what is made; umask takes away from them.
const (
	dirMode  = 0o777
	fileMode = 0o666
)

// New opens a directory, and deletes the temporary files in it that have not been
// written to for a day.
func New(cfg Config) (*Store, error) {
	var l problems.List
	l.Want(cfg.Path != "", "Path", cfg.Path, "a directory")
	if err := l.Err(); err != nil {
		return nil, fmt.Errorf("localdir: %w", err)
	}
	if !cfg.ReadOnly {
		if err := makeDir(cfg.Path); err != nil {
			return nil, fmt.Errorf("localdir: %w", err)
		}
	}
	root, err := os.OpenRoot(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("localdir: %w", err)
	}
	s := &Store{root: root, readOnly: cfg.ReadOnly, run: uuid.NewString()}
	if !cfg.ReadOnly {
		s.sweep(time.Now())
	}
	return s, nil
}

// makeDir makes a directory and its parents, and puts their names on the disk. Those
// that it may not open were there before.
func makeDir(name string) error {
	if err := os.MkdirAll(name, dirMode); err != nil {
		return err
	}
	name, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	for parent := filepath.Dir(name); ; parent = filepath.Dir(parent) {
		f, err := os.Open(parent)
		if err != nil {
			return nil
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil || parent == filepath.Dir(parent) {
			return nil
		}
	}
}

// sweep deletes what dead processes left. What it cannot delete stays: it harms nothing.
func (s *Store) sweep(now time.Time) {
	left, err := fs.ReadDir(s.root.FS(), tmpDir)
	if err != nil {
		return
	}
	for _, e := range left {
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > staleAfter {
			_ = s.root.Remove(path.Join(tmpDir, e.Name())) // or the next sweep does
		}
	}
}

// Close releases the directory.
func (s *Store) Close() error { return s.root.Close() }

// Put implements durable.Store.
func (s *Store) Put(ctx context.Context, name string, size int64, r io.Reader) error {
	if err := s.writable("put", name); err != nil {
		return err
	}
	if err := s.root.MkdirAll(tmpDir, dirMode); err != nil {
		return fmt.Errorf("put %s: %w", name, err)
	}
	tmp := path.Join(tmpDir, s.run+"-"+strconv.FormatInt(s.count.Add(1), 10))
	err := s.writeSynced(tmp, &exactly{ctx: ctx, r: r, left: size})
	if err == nil {
		err = s.publish(tmp, name)
	}
	if err != nil {
		_ = s.root.Remove(tmp) // or a sweep does
		return fmt.Errorf("put %s: %w", name, err)
	}
	return nil
}

func (s *Store) writable(verb, name string) error {
	if s.readOnly {
		return fmt.Errorf("%s %s: %w: the directory is opened ReadOnly", verb, name, fs.ErrPermission)
	}
	if err := durable.CheckName(name); err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	return nil
}

// writeSynced makes a file of what r has, on the disk.
func (s *Store) writeSynced(name string, r io.Reader) error {
	f, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, r, make([]byte, readStep))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// publish gives a file its name, which is on the disk when it returns, with the directories
// that lead to it. A Delete may take a directory away before the file is there, as it is
// empty; then it is made again. One that is gone afterwards says that the file has been
// deleted since: it was put.
func (s *Store) publish(tmp, name string) error {
	dir := path.Dir(name)
	var err error
	for range publishTries {
		if err = s.root.MkdirAll(dir, dirMode); err == nil {
			err = s.root.Rename(tmp, name)
		}
		// os says that it exists, too, where it is deleted before os has looked what it is.
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err != nil {
		return err
	}
	for ; ; dir = path.Dir(dir) { // another process may have made them, and not synced yet
		if err := s.sync(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if dir == "." {
			return nil
		}
	}
}

// publishTries is how often a directory is made again that another process deletes.
const publishTries = 100

func (s *Store) sync(dir string) error {
	f, err := s.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Get implements durable.Store.
func (s *Store) Get(_ context.Context, name string) (io.ReadCloser, error) {
	if err := durable.CheckName(name); err != nil {
		return nil, fmt.Errorf("get: %w", err)
	}
	f, err := s.root.Open(name)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", name, lost(err))
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("get %s: %w", name, errors.Join(err, errNotRegular, f.Close()))
	}
	return dirFile{f}, nil
}

// errNotRegular is what a name is refused with that is a directory or a device.
var errNotRegular = fmt.Errorf("%w: want a regular file", checkpoint.ErrCorrupt)

// lost makes ErrCorrupt of what a medium says that has lost bytes.
func lost(err error) error {
	if errors.Is(err, syscall.EIO) {
		return fmt.Errorf("%w: %w", checkpoint.ErrCorrupt, err)
	}
	return err
}

// dirFile is a file that is read.
type dirFile struct{ f *os.File }

// Read implements io.Reader.
func (f dirFile) Read(p []byte) (int, error) {
	n, err := f.f.Read(p)
	if err != nil {
		err = lost(err)
	}
	return n, err
}

// Close implements io.Closer.
func (f dirFile) Close() error { return f.f.Close() }

// List implements durable.Store.
func (s *Store) List(ctx context.Context, prefix string, each func(durable.Entry) error) error {
	err := fs.WalkDir(s.root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, fs.ErrNotExist) && name != ".": // deleted meanwhile
			return nil
		case err != nil:
			return err
		case e.IsDir():
			return skipDir(name, prefix)
		case !strings.HasPrefix(name, prefix) || durable.CheckName(name) != nil || !e.Type().IsRegular():
			return nil
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return each(durable.Entry{Name: name, SizeBytes: info.Size()})
	})
	if err != nil {
		return fmt.Errorf("list %q: %w", prefix, err)
	}
	return nil
}

// skipDir leaves out a directory that can hold no name that begins with prefix.
func skipDir(name, prefix string) error {
	below := name + "/"
	if name == "." || durable.CheckName(name) == nil && (strings.HasPrefix(below, prefix) || strings.HasPrefix(prefix, below)) {
		return nil
	}
	return fs.SkipDir
}

// Delete implements durable.Store. It deletes the directories that are empty then.
func (s *Store) Delete(_ context.Context, name string) error {
	if err := s.writable("delete", name); err != nil {
		return err
	}
	if err := s.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if s.root.Remove(dir) != nil { // it is not empty
			break
		}
	}
	return nil
}
