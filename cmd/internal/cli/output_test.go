package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
)

// Text is the default; JSON is asked for by a word, or as it was once.
func TestOutput(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"": "seven\n", "-o text": "seven\n", "-o json": "{\n  \"step\": 7\n}\n", "--output=json": "{\n  \"step\": 7\n}\n", "--json": "{\n  \"step\": 7\n}\n",
	} {
		var o cli.Output
		var out bytes.Buffer
		cmd := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error {
			return o.Print(&out, map[string]int{"step": 7}, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, "seven")
				return err
			})
		}}
		o.Add(cmd)
		cli.Strict(cmd)
		if err := cli.Execute(t.Context(), cmd, strings.Fields(args)); err != nil || out.String() != want {
			t.Errorf("%q: %q, %v; want %q", args, &out, err, want)
		}
	}
}

// A user reads the cause, and not what libraries put around it.
func TestPlain(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`: "connection refused",
		"a: read tcp 127.0.0.1:1->127.0.0.1:2: read: connection reset by peer":                                                                              "a: connection reset by peer",
		"dial tcp: lookup h on 10.0.0.1:53: no such host":                                                                                                   "h: no such host",
		"first\nsecond":           "first; second",
		`job = "a b", want a "c"`: `job = "a b", want a "c"`,
	} {
		if got := cli.Plain(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Errors about a configuration name flags; of two about one value the narrower is left.
func TestFlagged(t *testing.T) {
	t.Parallel()
	cause := errors.New("JoinTimeout = -1s, want at least 0\nCluster.Join = \"a\", want host:port\nJoinTimeout = -1s, want 1ms to 24h\nOther = 1")
	flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
	flags.String("join-timeout", "", "")
	flags.String("from", "", "")
	others := map[string]string{"Join": "--from"}
	err := cli.Flagged(cause, flags, others)
	const want = "--from = \"a\", want host:port\n--join-timeout = -1s, want 1ms to 24h\nOther = 1"
	if err.Error() != want || !errors.Is(err, cause) || cli.StatusOf(err) != cli.StatusUsage {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if cli.Flagged(nil, flags, nil) != nil {
		t.Error("nothing is an error")
	}
	if cli.Flagged(os.ErrClosed, flags, others) != os.ErrClosed {
		t.Error("what names no field is reworded")
	}
}

// Help has groups of flags under headings of their own, and a command's own flags first.
func TestGroups(t *testing.T) {
	t.Parallel()
	cmd := &cobra.Command{Use: "x", Run: func(*cobra.Command, []string) {}}
	cli.Group(cmd.Flags(), cli.Connection, func(f *pflag.FlagSet) { f.String("lighthouse", "", "whom to ask") })
	cmd.Flags().String("job", "", "the job")
	var out bytes.Buffer
	cmd.SetOut(&out)
	cli.Strict(cmd)
	if err := cli.Execute(t.Context(), cmd, []string{"--help"}); err != nil {
		t.Fatal(err)
	}
	own, connection, found := strings.Cut(out.String(), "\nConnection flags:\n")
	if !found || !strings.Contains(own, "\nFlags:\n") || !strings.Contains(own, "--job") || strings.Contains(own, "--lighthouse") ||
		!strings.Contains(connection, "--lighthouse") || strings.Contains(connection, "--job") {
		t.Errorf("help:\n%s", &out)
	}
}

// What has no default and no value is asked for by its flag.
func TestNeed(t *testing.T) {
	t.Parallel()
	cmd := &cobra.Command{Use: "x"}
	cmd.Flags().String("store", "", "the store, host:port")
	cmd.Flags().StringSlice("lighthouse", nil, "servers")
	cmd.Flags().String("listen", "nonsense", "")
	if err := cli.Need(cmd, "store", "lighthouse", "listen"); err == nil || err.Error() != "--store is missing, want the store, host:port; --lighthouse is missing, want servers" {
		t.Errorf("got %v", err)
	}
	if err := cli.Address(cmd, "listen"); err == nil || !strings.Contains(err.Error(), `--listen = "nonsense", want host:port`) {
		t.Errorf("got %v", err)
	}
}
