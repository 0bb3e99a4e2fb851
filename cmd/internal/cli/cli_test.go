package cli_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
)

// tree is a root with a command of each kind.
func tree() *cobra.Command {
	root := &cobra.Command{Use: "root", RunE: func(*cobra.Command, []string) error { return nil }}
	run := func(*cobra.Command, []string) error { return errors.New("failed") }
	group := &cobra.Command{Use: "group"}
	group.AddCommand(&cobra.Command{Use: "config NAME", Args: cli.Args, RunE: run})
	root.Flags().String("bind", "", "")
	root.Version = "1"
	root.AddCommand(&cobra.Command{Use: "status", Args: cli.Args, RunE: run}, group)
	cli.Strict(root)
	return root
}

func TestStrict(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]struct {
		status int
		said   string
	}{
		"":                   {0, ""},
		"--help":             {0, ""},
		"help status":        {0, ""},
		"group":              {0, ""},
		"status":             {cli.StatusFailed, "failed"},
		"status x":           {cli.StatusUsage, `unexpected argument "x", want flags only`},
		"status --x":         {cli.StatusUsage, "unknown flag --x of root status; root status --help lists them"},
		"statsu":             {cli.StatusUsage, `unknown command "statsu" for "root", did you mean status?`},
		"wholly --help":      {cli.StatusUsage, `unknown command "wholly" for "root"`},
		"help statsu":        {cli.StatusUsage, `unknown command "statsu" for "root", did you mean status?`},
		"help group confg":   {cli.StatusUsage, `unknown command "confg" for "root group", did you mean config?`},
		"group confg":        {cli.StatusUsage, `unknown command "confg" for "root group", did you mean config?`},
		"group config":       {cli.StatusUsage, "NAME is missing, want: root group config NAME"},
		"group config a":     {cli.StatusFailed, "failed"},
		"--help --bind x":    {0, ""},
		"--version --bind x": {0, ""},
		"--bind x":           {0, ""},
		"--bind x statsu":    {cli.StatusUsage, `unknown command "statsu" for "root", did you mean status?`},
		"-- foo":             {cli.StatusUsage, `unknown command "foo" for "root"`},
		"completion":         {0, ""},
		"completion bash":    {0, ""},
		"completion bsh":     {cli.StatusUsage, `unknown command "bsh" for "root completion", did you mean bash or zsh?`},
		"__complete stat":    {0, ""},
	} {
		root := tree()
		root.SetOut(&bytes.Buffer{})
		err := cli.Execute(t.Context(), root, strings.Fields(args))
		if got := cli.StatusOf(err); got != want.status || err != nil && !strings.Contains(err.Error(), want.said) {
			t.Errorf("%q: status %d, %v; want %d, %s", args, got, err, want.status, want.said)
		}
	}
	if cli.WithStatus(3, nil) != nil || !errors.Is(cli.WithStatus(3, os.ErrClosed), os.ErrClosed) {
		t.Error("no error has a status, or an error is hidden by it")
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

// A status that a command chose is told from the one that errors have by themselves, though it
// is the same.
func TestHasStatus(t *testing.T) {
	t.Parallel()
	plain := errors.New("broken")
	if cli.HasStatus(nil) || cli.HasStatus(plain) || !cli.HasStatus(cli.WithStatus(cli.StatusFailed, plain)) {
		t.Error("a status of its own is not told from none")
	}
}
