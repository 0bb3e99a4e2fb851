package testkit

import (
	"bytes"

	"github.com/skerry-ft/skerry/internal/monitor"
)

// Log keeps all that is written to it. The zero value is an empty log. Safe for
// concurrent use.
type Log struct {
	mu monitor.Monitor // that text has grown

	text bytes.Buffer
}

// Write implements io.Writer. It keeps a copy of b and returns no error.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.Broadcast()
	return l.text.Write(b)
}

// String returns the text so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Len returns the number of bytes so far.
func (l *Log) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Len()
}

// Said returns the text so far, and a channel that is closed by the next Write.
func (l *Log) Said() (text string, more <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String(), l.mu.Changed()
}
