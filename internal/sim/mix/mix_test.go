package mix_test

import (
	"testing"

	"github.com/skerry-ft/skerry/internal/sim/mix"
)

// Seeds that are written down repeat as long as these stay.
func TestOf(t *testing.T) {
	for _, c := range []struct {
		of   []uint64
		want uint64
	}{
		{nil, 0xcbf29ce484222325},
		{[]uint64{1}, 0xaf63bc49fd1c5448}, {[]uint64{1, 2}, 0x22cd3bb8014ae476}, {[]uint64{2, 1}, 0x22bf2ab802fbfca8},
	} {
		if got := mix.Of(c.of...); got != c.want {
			t.Errorf("Of(%v) = %#x, want %#x", c.of, got, c.want)
		}
	}
}
