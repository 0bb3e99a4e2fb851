package memfd

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// maxNameBytes is the kernel's bound for the name that /proc shows.
const maxNameBytes = 249

// seals are those of every segment.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// Create makes a segment of size zero bytes, 1 to MaxBytes. The name is for
// people who read /proc/PID/maps; it need not be unique.
//
// Its memory is taken at once: where the kernel has too little to give, that is an
// error here, and no touch of the bytes kills the process (SIGBUS) later. It is the
// kernel's own, of no mounted file system: /dev/shm may be full, or missing. A cgroup's
// limit is not seen here: past it the kernel ends a process of the cgroup.
//
// Errors: a size or a name that is out of bounds; those of the system (ENOSPC, ENOMEM,
// EMFILE, EFBIG, ENOSYS).
func Create(name string, size int) (*Segment, error) {
	if size < 1 || size > MaxBytes {
		return nil, fmt.Errorf("memfd: size %d of %q, want 1 to %d", size, name, MaxBytes)
	}
	if len(name) > maxNameBytes {
		return nil, fmt.Errorf("memfd: name of %d bytes, want at most %d", len(name), maxNameBytes)
	}
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd: create %q: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), "memfd:"+name)
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return nil, errors.Join(fmt.Errorf("memfd: size %q to %d bytes: %w", name, size, err), f.Close())
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, errors.Join(fmt.Errorf("memfd: seal %q: %w", name, err), f.Close())
	}
	s, err := FromFile(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := reserve(fd, int64(size)); err != nil {
		return nil, errors.Join(fmt.Errorf("memfd: memory of %d bytes for %q: %w", size, name, err), s.Close())
	}
	return s, nil
}

// reserveBytes are asked for at a time: a signal makes the kernel give up what one
// call has got so far.
const reserveBytes = 16 << 20

// reserve takes the memory of a file of size bytes.
func reserve(fd int, size int64) error {
	for at := int64(0); at < size; {
		n := min(size-at, reserveBytes)
		switch err := unix.Fallocate(fd, 0, at, n); {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return nil // it is taken as it is touched, then
		case err != nil:
			return err
		default:
			at += n
		}
	}
	return nil
}

// FromFile maps a segment that another process made. It owns f from then on,
// unless it fails.
//
// Errors: ErrUnsealed; a size that is not 1 to MaxBytes; those of the system.
func FromFile(f *os.File) (*Segment, error) {
	// File.Fd would put the descriptor into blocking mode for all holders.
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("memfd: %w", err)
	}
	s := &Segment{file: f}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = s.open(int(fd)) }); err != nil {
		return nil, fmt.Errorf("memfd: %w", err)
	}
	if inner != nil {
		return nil, inner
	}
	return s, nil
}

// open checks the file and maps it. Seals come first: after that the size stays.
func (s *Segment) open(fd int) error {
	got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnsealed, s.file.Name(), err)
	}
	if got&seals != seals {
		return fmt.Errorf("%w: %s has seals %#x, want %#x", ErrUnsealed, s.file.Name(), got, seals)
	}
	if got&(unix.F_SEAL_WRITE|unix.F_SEAL_FUTURE_WRITE) != 0 {
		return fmt.Errorf("memfd: %s is sealed against writing", s.file.Name())
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return fmt.Errorf("memfd: statfs %s: %w", s.file.Name(), err)
	}
	if fs.Type == unix.HUGETLBFS_MAGIC {
		return fmt.Errorf("memfd: %s is of huge pages: touching one that its maker took back would kill us", s.file.Name())
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("memfd: stat %s: %w", s.file.Name(), err)
	}
	if st.Size < 1 || st.Size > MaxBytes {
		return fmt.Errorf("memfd: %s has %d bytes, want 1 to %d", s.file.Name(), st.Size, MaxBytes)
	}
	s.data, err = unix.Mmap(fd, 0, int(st.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("memfd: map %d bytes of %s: %w", st.Size, s.file.Name(), err)
	}
	return nil
}
