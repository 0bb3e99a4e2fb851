package main

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	begin()
	goleak.VerifyTestMain(m)
}

// output runs a program and gives its lines, sorted: ranks write in any order.
func output(t *testing.T, name string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out bytes.Buffer
	if err := run(ctx, name, &out); err != nil {
		t.Fatal(err)
	}
	all := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	slices.Sort(all)
	return all
}

// The programs of the guide print what it says.
func TestPrograms(t *testing.T) {
	t.Parallel()
	sums := "[72 76 80 84 88 92 96 100 104 108 112 116]"
	for name, want := range map[string][]string{
		"basic":    {"rank 0: float32[2 2] [2 2 2 2]", "rank 1: float32[2 2] [2 2 2 2]"},
		"blocking": {"rank 0 has 1", "rank 1 has 1"},
		"started":  {"rank 0 has 1", "rank 1 has 1"},
		"ring":     {"rank 0: " + sums, "rank 1: " + sums, "rank 2: " + sums, "rank 3: " + sums},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := output(t, name); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// Training finds the function, and all ranks end with the same bytes.
func TestTraining(t *testing.T) {
	t.Parallel()
	got := output(t, "training")
	if len(got) != 6 || !strings.HasPrefix(got[1], "epoch 29: loss 0.000") {
		t.Fatalf("got %q, want three epochs, the last with hardly a loss, and three ranks", got)
	}
	weights := regexp.MustCompile(`^rank (\d): weights \[1\.00 -2\.00 0\.50 3\.00\], checksum ([0-9a-f]{8})$`)
	var sums []string
	for rank, line := range got[3:] {
		m := weights.FindStringSubmatch(line)
		if m == nil || m[1] != fmt.Sprint(rank) {
			t.Fatalf("rank %d: %q", rank, line)
		}
		sums = append(sums, m[2])
	}
	if sums[0] != sums[1] || sums[1] != sums[2] {
		t.Errorf("checksums of the weights differ: %v", sums)
	}
}
