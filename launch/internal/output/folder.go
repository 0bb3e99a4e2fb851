package output

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Folder makes the folder for the logs of a start: attempt-0, or the next that is free, so
// that a run keeps those of the run before.
func Folder(replica string, attempt int) (string, error) {
	if err := os.MkdirAll(replica, 0o755); err != nil {
		return "", err
	}
	for ; ; attempt++ {
		path := filepath.Join(replica, fmt.Sprintf("attempt-%d", attempt))
		if err := os.Mkdir(path, 0o755); !errors.Is(err, os.ErrExist) {
			return path, err
		}
	}
}

// JobFolder is a job's name as that of a folder: it has letters, digits, dots and dashes.
func JobFolder(job string) string {
	if strings.Trim(job, ".") == "" {
		return "job" + job // "." and ".." are other folders
	}
	return job
}
