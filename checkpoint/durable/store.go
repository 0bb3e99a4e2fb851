package durable

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// Store is where the bytes go: a local directory (package localdir below this one), an
// object store (package s3), or whatever a program has. Names are slash-separated, of
// letters, digits, '.', '-' and '_': see CheckName. It is safe for concurrent use, also by
// several processes. Everything that waits ends by its ctx.
type Store interface {
	// Put makes name hold the size bytes that r gives, in place of what it held. A
	// reader sees it whole or not at all, and once Put has returned nil it
	// outlives a power failure. An r that ends early or late is an error.
	Put(ctx context.Context, name string, size int64, r io.Reader) error

	// Get opens name from its beginning. The error is fs.ErrNotExist if there is none,
	// and checkpoint.ErrCorrupt, now or from Read, if the medium has lost bytes of
	// it. The caller closes it.
	Get(ctx context.Context, name string) (io.ReadCloser, error)

	// List calls each with every file whose name begins with prefix, in any order. An
	// error of each ends it, and is returned.
	List(ctx context.Context, prefix string, each func(Entry) error) error

	// Delete deletes name; nil if there is none.
	Delete(ctx context.Context, name string) error
}

// Entry is a file of a Store.
type Entry struct {
	Name      string
	SizeBytes int64
}

// MaxNameBytes bounds a name of a Store.
const MaxNameBytes = 512

// CheckName refuses what is no name of a Store. Such a name leads nowhere else in any
// file system or object store.
func CheckName(name string) error {
	if len(name) > MaxNameBytes {
		return fmt.Errorf("name of %d bytes, want at most %d", len(name), MaxNameBytes)
	}
	for element := range strings.SplitSeq(name, "/") {
		if element == "" || element[0] == '.' || strings.IndexFunc(element, notInName) >= 0 {
			return fmt.Errorf("name = %q, want elements of letters, digits, '.', '-' and '_', which begin with no '.'", name)
		}
	}
	return nil
}

func notInName(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '-', r == '_':
		return false
	}
	return true
}
