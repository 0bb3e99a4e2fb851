package testkit

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// HostileText is what a hostile peer may call itself.
const HostileText = "\x1b[2J\nskerry: all is well\r\u009b1m\u202e"

// Harmless fails if what a command printed could steer a terminal, or forge a
// line of its own.
func Harmless(t testing.TB, printed string) {
	t.Helper()
	for line := range strings.Lines(printed) {
		line = strings.TrimSuffix(line, "\n")
		if i := strings.IndexFunc(line, func(r rune) bool { return !strconv.IsPrint(r) }); i >= 0 || !utf8.ValidString(line) {
			t.Errorf("printed: %q", line)
		}
		if strings.HasPrefix(line, "skerry: all is well") {
			t.Errorf("a line that a peer made: %q", line)
		}
	}
}
