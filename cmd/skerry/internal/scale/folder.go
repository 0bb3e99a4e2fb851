package scale

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// folder is where this user's launchers listen. It is made if make is set.
func folder(create bool) (string, error) {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("skerry-%d", os.Geteuid()))
	if run := os.Getenv("XDG_RUNTIME_DIR"); run != "" {
		path = filepath.Join(run, "skerry")
	}
	if create {
		if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	// Another user could have made it first, and would hear what is asked for.
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("folder %s (%v) is not this user's alone: take it away, or name another by XDG_RUNTIME_DIR", path, info.Mode())
	}
	return path, nil
}

// socket is the name of a job's socket in the folder: of any job a short one.
func socket(job string) string {
	sum := sha256.Sum256([]byte(job))
	return fmt.Sprintf("run-%x.sock", sum[:8])
}
