package spawn

import (
	"fmt"
	"strings"
	"testing"
)

// The end of what was written is kept, and of a crash its beginning, however
// the bytes are cut.
func TestTail(t *testing.T) {
	stack := strings.Repeat("goroutine 1 [running]:\nmain.main()\n\t/x.go:1\n", 400)
	for _, c := range []struct{ name, text, has, lacks string }{
		{"short", "one\ntwo\n", "one\ntwo", "three"},
		{"long", "first\n" + strings.Repeat("x", 3*tailBytes) + "\nlast\n", "last", "first"},
		{"signal", "log line\nSIGABRT: abort\nPC=0x1\n" + stack, "SIGABRT: abort\nPC=0x1", "log line"},
		{"panic", "log line\npanic: out of patience\n\n" + stack, "panic: out of patience", "log line"},
		{"no crash", "SIG of nothing: x\n" + stack + "the end\n", "the end", "SIG of"},
	} {
		for _, size := range []int{1, 7, 1 << 20} {
			t.Run(fmt.Sprint(c.name, "/", size), func(t *testing.T) {
				k := newTail()
				for rest := c.text; rest != ""; {
					n := min(size, len(rest))
					if got, err := k.Write([]byte(rest[:n])); got != n || err != nil {
						t.Fatalf("write of %d: %d, %v", n, got, err)
					}
					rest = rest[n:]
				}
				got := k.String()
				if !strings.Contains(got, c.has) || strings.Contains(got, c.lacks) {
					t.Errorf("kept %.80q…, want %q and not %q", got, c.has, c.lacks)
				}
				if len(got) > tailBytes {
					t.Errorf("kept %d bytes, want at most %d", len(got), tailBytes)
				}
			})
		}
	}
}
