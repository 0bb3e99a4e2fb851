package goodput

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestRunOverAKill: the replica that is left goes on, and at each step both have the same
// parameters. A busy machine may need more than the 3 s that do elsewhere.
func TestRunOverAKill(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("this takes 3 s and two processes that train: run without -short")
	}
	c := Default()
	c.Replicas, c.Step, c.Faults, c.LogDir = 2, 20*time.Millisecond, []string{Kill}, t.TempDir()
	for c.Duration = 3 * time.Second; ; c.Duration *= 2 {
		c.Every = c.Duration * 8 / 15 // one in the time
		r, err := Run(t.Context(), c)
		if err != nil {
			t.Fatalf("%v\n%s", err, readAll(t, c.LogDir))
		}
		if r.Differed > 0 {
			t.Fatalf("of %d parameters that were compared %d differ", r.Compared, r.Differed)
		}
		if r.Crashes > 0 {
			t.Fatalf("%d ends that were no fault\n%s", r.Crashes, readAll(t, c.LogDir))
		}
		if len(r.Faults) == 1 && r.Compared > 0 && r.Timeline[len(r.Timeline)-1].AtMs > r.Faults[0].AtMs {
			return
		}
		if c.Duration > 20*time.Second {
			t.Fatalf("in %v: %d faults, want 1; %d parameters compared, want some; want a step after the kill: %+v",
				c.Duration, len(r.Faults), r.Compared, r.Faults)
		}
	}
}

// TestLogOfTorchft: what torchft's processes write to standard error is in their logs.
func TestLogOfTorchft(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("torchft takes Linux here")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SKERRY_TORCHFT_PYTHON", self) // see beInterpreter
	c := Default()
	c.Impl, c.Replicas, c.LogDir = Torchft, 2, t.TempDir()
	if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "lighthouse-0 ended") {
		t.Errorf("a lighthouse that ends at once: %v", err)
	}
	if said := readAll(t, c.LogDir); !strings.Contains(said, interpreterSays) {
		t.Errorf("the logs have %q, want %q", said, interpreterSays)
	}
}

// readAll is the text of all files of a folder.
func readAll(t *testing.T, dir string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(filepath.Base(path) + ":\n" + string(text))
	}
	return b.String()
}
