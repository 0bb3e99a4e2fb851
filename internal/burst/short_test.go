package burst_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/skerry-ft/skerry/internal/burst"
)

func TestShort(t *testing.T) {
	t.Parallel()
	if err := burst.Short(nil); err != nil {
		t.Errorf("of nil: %v", err)
	}
	for _, n := range []int{0, 400, 500, 512, 600, 300_000} {
		for _, said := range []string{"a", "ü", "✓", "\x80"} {
			long := fmt.Errorf("read %s: %w", strings.Repeat(said, n/len(said)), io.EOF)
			err := burst.Short(long)
			text := err.Error()
			switch {
			case !errors.Is(err, io.EOF):
				t.Errorf("%d bytes of %q: not the same error", n, said)
			case len(long.Error()) <= burst.MaxErrorBytes && text != long.Error():
				t.Errorf("%q became %q", long, text)
			case len(text) > burst.MaxErrorBytes:
				t.Errorf("%d bytes of %q became %d, want %d at most", n, said, len(text), burst.MaxErrorBytes)
			case !strings.HasPrefix(text, "read ") || !strings.HasSuffix(text, ": EOF"):
				t.Errorf("%d bytes of %q lost an end: %q", n, said, text)
			case said != "\x80" && !utf8.ValidString(text):
				t.Errorf("%d bytes of %q were cut within a character: %q", n, said, text)
			}
		}
	}
}
