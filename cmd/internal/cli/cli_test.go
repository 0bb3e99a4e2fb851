package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
)

func TestNoArgs(t *testing.T) {
	t.Parallel()
	leaf, parent := &cobra.Command{Use: "leaf", Run: func(*cobra.Command, []string) {}}, &cobra.Command{Use: "parent"}
	parent.AddCommand(leaf)
	if err := cli.NoArgs(leaf, nil); err != nil {
		t.Error(err)
	}
	for cmd, want := range map[*cobra.Command]string{leaf: `"x", want flags only`, parent: `"x", want flags, or a command`} {
		if err := cli.NoArgs(cmd, []string{"x"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", cmd.Use, err, want)
		}
	}
}

func TestFilesAreNoTerminals(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if cli.IsTerminal(f) || cli.IsTerminal(null) || cli.IsTerminal(&bytes.Buffer{}) {
		t.Error("a file, the null device or a buffer is a terminal")
	}
}

func TestPlural(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0 steps", 1: "1 step", 2: "2 steps"} {
		if got := cli.Plural(n, "step"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
