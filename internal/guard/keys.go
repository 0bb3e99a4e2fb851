package guard

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
)

// Keys are symmetric keys in a file: in base64, one a line, the first to be used,
// all to be accepted. The file is read again when it changes, so a key is changed
// without anybody being locked out. Safe for concurrent use.
type Keys struct{ file *watched[[][]byte] }

// OpenKeys reads a file of keys of 16, 24 or 32 bytes. Its errors do not repeat
// what they read.
func OpenKeys(path string) (*Keys, error) {
	load := func() ([][]byte, error) {
		text, err := readFile(path)
		if err != nil {
			return nil, fmt.Errorf("read keys: %w", err)
		}
		return parseKeys(path, text)
	}
	file, err := watch(load, path)
	if err != nil {
		return nil, err
	}
	return &Keys{file: file}, nil
}

func parseKeys(where string, text []byte) ([][]byte, error) {
	var found [][]byte
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(line)
		if err != nil {
			return nil, fmt.Errorf("%s does not hold base64", where)
		}
		if !slices.Contains([]int{16, 24, 32}, len(key)) {
			return nil, fmt.Errorf("%s holds a key of %d bytes, want 16, 24 or 32", where, len(key))
		}
		found = append(found, key)
	}
	if len(found) == 0 || len(found) > maxTokens {
		return nil, fmt.Errorf("%s holds %d keys, want 1 to %d", where, len(found), maxTokens)
	}
	return found, nil
}

// All are the keys in force. Do not change them.
func (k *Keys) All() [][]byte { return k.file.get() }
