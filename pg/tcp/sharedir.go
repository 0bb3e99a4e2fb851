package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
)

// EnvShareDir is the variable that ShareDirFromEnv reads.
const EnvShareDir = "SKERRY_SHARE_DIR"

// ShareDirFromEnv is Options.ShareDir as the environment has it, empty if it says
// nothing.
func ShareDirFromEnv() string { return os.Getenv(EnvShareDir) }

// Abstract Unix sockets are found within one network namespace only. Containers
// that have one each, but share memory and a directory, meet at a socket there: its
// name is that of the abstract one, and the directory may be mounted at different
// places. What is passed is the same, and as nameless.
const (
	shareSuffix = ".sock"
	sharePrefix = "skerry-"
	// maxSocketPath is the system's bound, less the zero at the end.
	maxSocketPath = 107
	// staleAfter is how old a socket must be before it is asked whether anybody
	// listens: one is not yet heard on when it has just been bound.
	staleAfter = 10 * time.Second
	// maxStale bounds how many are looked at: each Configure of a new process looks.
	maxStale = 1024
)

// checkShareDir refuses a directory where others than we could put a socket in
// the place of a peer's.
func checkShareDir(dir string) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return fmt.Errorf("tcp: ShareDir = %q: %w", dir, err)
	}
	mode := st.Mode & 0o777
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || mode&0o077 != 0 {
		return fmt.Errorf("tcp: ShareDir = %q, of user %d, mode %#o, want a directory of user %d, mode 0700",
			dir, st.Uid, mode, os.Geteuid())
	}
	if n := len(sharePath(dir, strings.Repeat("x", len(sharePrefix)+2*frame.NonceBytes))); n > maxSocketPath {
		return fmt.Errorf("tcp: ShareDir = %q: a socket's path there has %d bytes, want at most %d", dir, n, maxSocketPath)
	}
	return nil
}

// sharePath is the socket in dir whose abstract twin is called name.
func sharePath(dir, name string) string { return filepath.Join(dir, name+shareSuffix) }

// listenShareDir opens the socket in Options.ShareDir, and removes those whose
// owners were killed. It gives nil if there is no such directory.
func (b *Backend) listenShareDir(name string) (*net.UnixListener, error) {
	dir := b.opt.ShareDir
	if dir == "" {
		return nil, nil
	}
	if err := checkShareDir(dir); err != nil {
		return nil, err
	}
	removeStale(dir, time.Now().Add(-staleAfter))
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: sharePath(dir, name), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen for sharing: %w", err)
	}
	return ln, nil
}

// removeStale removes sockets from before then on which nobody listens. Whatever
// fails, another process does later.
func removeStale(dir string, before time.Time) {
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	names, err := d.Readdirnames(maxStale)
	if err != nil {
		return
	}
	for _, name := range names {
		if !strings.HasPrefix(name, sharePrefix) || !strings.HasSuffix(name, shareSuffix) {
			continue
		}
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path)
		if err != nil || info.Mode().Type() != os.ModeSocket || info.ModTime().After(before) {
			continue
		}
		c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
		if err == nil {
			c.Close()
		} else if errors.Is(err, unix.ECONNREFUSED) {
			_ = os.Remove(path) // gone already, or the next one's task
		}
	}
}

// dialShare connects to a peer's Unix socket: the abstract one, else that in the
// shared directory.
func (b *Backend) dialShare(ctx context.Context, name string) (*net.UnixConn, error) {
	var d net.Dialer
	c, err := d.DialUnix(ctx, "unix", nil, &net.UnixAddr{Name: "@" + name, Net: "unix"})
	if err == nil || b.opt.ShareDir == "" {
		return c, err
	}
	inDir, again := d.DialUnix(ctx, "unix", nil, &net.UnixAddr{Name: sharePath(b.opt.ShareDir, name), Net: "unix"})
	if again != nil {
		return nil, errors.Join(err, again)
	}
	return inDir, nil
}

// validShareName tells whether name can be that of a peer's socket: nothing that
// would lead elsewhere than into the directory.
func validShareName(name string) bool {
	return strings.HasPrefix(name, sharePrefix) && len(name) <= maxShareName && !strings.ContainsAny(name, "/\x00")
}
