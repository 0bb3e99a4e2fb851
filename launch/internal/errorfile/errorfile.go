// Package errorfile reads what torch's @record has written of an exception, in the file that
// TORCHELASTIC_ERROR_FILE names.
package errorfile

import (
	"encoding/json"
	"io"
	"os"
	"strings"
)

// Bounds of what a rank may say of its end.
const (
	maxErrorFile = 1 << 20
	maxMessage   = 1000
)

// Message is the last line of the exception, or nothing.
// A rank that was killed writes none, and most programs never do.
func Message(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(io.LimitReader(f, maxErrorFile))
	if err != nil {
		return ""
	}
	var file struct {
		Message json.RawMessage `json:"message"`
	}
	if json.Unmarshal(text, &file) != nil {
		return ""
	}
	// The message is an object with one more, or, of a signal, a text.
	var inner struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(file.Message, &inner) != nil && json.Unmarshal(file.Message, &inner.Message) != nil {
		return ""
	}
	message := strings.TrimSpace(inner.Message)
	return message[:min(len(message), maxMessage)]
}
