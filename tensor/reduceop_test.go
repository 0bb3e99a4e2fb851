package tensor_test

import (
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/tensor"
)

// Every reduce op is read back from its name, in any case and with torch's underscores.
func TestParseReduceOp(t *testing.T) {
	t.Parallel()
	for _, op := range tensor.ReduceOps() {
		for _, name := range []string{op.String(), strings.ToUpper(op.String()), strings.ReplaceAll(op.String(), "-", "_")} {
			if got, err := tensor.ParseReduceOp(name); err != nil || got != op {
				t.Errorf("%q is %v, %v", name, got, err)
			}
		}
	}
	if got, err := tensor.ParseReduceOp("Mean"); err != nil || got != tensor.Avg {
		t.Errorf("mean is %v, %v", got, err)
	}
	for _, bad := range []string{"", "average", "sum "} {
		if _, err := tensor.ParseReduceOp(bad); err == nil || !strings.Contains(err.Error(), "premul-sum") {
			t.Errorf("%q: %v, want an error that lists the names", bad, err)
		}
	}
}
