package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// everyCommand calls f with each command that runs something, by its path.
func everyCommand(f func(path string, cmd *cobra.Command)) {
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		f(strings.TrimPrefix(cmd.CommandPath(), "skerry "), cmd)
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(newRoot())
}

// TestCommandsSpeakAlike: what tells something tells it as JSON, too, by one flag; what
// asks a lighthouse names it by one flag, which help shows with those of TLS and tokens.
func TestCommandsSpeakAlike(t *testing.T) {
	t.Parallel()
	tell := []string{
		"status", "why", "events", "history", "jobs", "members", "drain", "evict", "kill", "job config", "job delete", "version", "trace", "demo", "bench", "chaos",
		"lighthouse members", "lighthouse leave", "lighthouse remove", "lighthouse transfer-leader", "lighthouse recover",
	}
	local := []string{"version", "trace", "demo", "bench", "lighthouse recover"} // these ask no lighthouse
	everyCommand(func(path string, cmd *cobra.Command) {
		i := slices.Index(tell, path)
		if i < 0 {
			return
		}
		tell = slices.Delete(tell, i, i+1)
		if f := cmd.Flags().Lookup("output"); f == nil || f.Shorthand != "o" || f.DefValue != "text" || cmd.Flags().Lookup("json").Hidden == false {
			t.Errorf("%s: want --output, -o, and a hidden --json", path)
		}
		if slices.Contains(local, path) {
			return
		}
		for _, name := range []string{"lighthouse", "timeout", "tls-ca", "tls-cert", "tls-key", "token-file"} {
			if cmd.Flags().Lookup(name) == nil {
				t.Errorf("%s lacks --%s", path, name)
			}
		}
		help := cmd.UsageString()
		if _, connection, found := strings.Cut(help, "Connection flags:\n"); !found || !strings.Contains(connection, "--lighthouse") ||
			strings.Contains(connection, "--output") || !strings.Contains(connection, "SKERRY_LIGHTHOUSE") {
			t.Errorf("%s: help does not have connection flags apart:\n%s", path, help)
		}
	})
	if len(tell) > 0 {
		t.Errorf("there are no commands %q", tell)
	}
	everyCommand(func(path string, cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != strings.ToLower(strings.ReplaceAll(f.Name, "_", "-")) {
				t.Errorf("%s --%s: want lower case and dashes", path, f.Name)
			}
		})
	})
}

// TestJSONNames: all JSON of the commands that ask a lighthouse is in snake_case.
func TestJSONNames(t *testing.T) {
	t.Parallel()
	l := lighthousetest.Start(t, func(c *lighthouse.Config) {
		c.Rules.HeartbeatTimeout *= 30
		c.Rules.SuspectAfter = c.Rules.HeartbeatTimeout
	})
	present(t, l.Addr, "a:00000000-0000-0000-0000-000000000001")
	name := regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	var check func(command string, v any)
	check = func(command string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, one := range v {
				if !name.MatchString(k) {
					t.Errorf("%s: %q is not in snake_case", command, k)
				}
				check(command, one)
			}
		case []any:
			for _, one := range v {
				check(command, one)
			}
		}
	}
	for _, command := range []string{"status", "why", "why a", "jobs", "job config digits", "drain a --job digits", "version"} {
		args := append(strings.Fields(command), "-o", "json")
		if command != "version" {
			args = append(args, "--lighthouse", l.Addr)
		}
		status, stdout, stderr := skerry(args...)
		var v any
		if err := json.Unmarshal([]byte(stdout), &v); status != 0 || err != nil || v == nil {
			t.Errorf("%s: status %d, %v, %s%s", command, status, err, stdout, stderr)
		}
		check(command, v)
	}
}

// TestCompletion: shells are told the replicas and jobs that are there at that moment, but
// for names that a shell would run, and nothing where no lighthouse answers.
func TestCompletion(t *testing.T) {
	t.Parallel()
	l := lighthousetest.Start(t, func(c *lighthouse.Config) {
		c.Rules.HeartbeatTimeout *= 30
		c.Rules.SuspectAfter = c.Rules.HeartbeatTimeout
	})
	present(t, l.Addr, "a:00000000-0000-0000-0000-000000000001")
	for _, hostile := range []string{"$(reboot):1", "`reboot`", "b;reboot", "--yes"} {
		present(t, l.Addr, hostile)
	}
	for _, tc := range []struct {
		line string // what is completed is empty
		want []string
	}{
		{"drain --job digits --lighthouse " + l.Addr, []string{"a:00000000\theard"}},
		{"kill --lighthouse " + l.Addr, nil}, // of job default
		{"why --lighthouse " + l.Addr, []string{"a:00000000\theard"}},
		{"why a --lighthouse " + l.Addr, nil}, // it takes one
		{"job config --lighthouse " + l.Addr, []string{"digits"}},
		{"job delete --lighthouse " + l.Addr, []string{"digits"}},
		{"drain --lighthouse " + l.Addr + " --job", []string{"digits"}},
		{"drain --lighthouse 127.0.0.1:1", nil},
		{"status --output", []string{"text", "json"}},
	} {
		args := append(append([]string{"__complete"}, strings.Fields(tc.line)...), "")
		status, stdout, stderr := skerry(args...)
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		if got := lines[:len(lines)-1]; status != 0 || !slices.Equal(got, tc.want) { // the last one is the directive
			t.Errorf("%s: %d %q %q, want %q", tc.line, status, got, stderr, tc.want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if status, stdout, _ := skerry("completion", shell); status != 0 || !strings.Contains(stdout, "skerry") {
			t.Errorf("completion %s: status %d, %d bytes", shell, status, len(stdout))
		}
	}
}

// TestLighthouseIsACommand: skerry is the lighthouse, too.
func TestLighthouseIsACommand(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := skerry("lighthouse", "--help")
	for _, want := range []string{"--bind", "transfer-leader", "Flags of one of several servers:"} {
		if status != 0 || !strings.Contains(stdout, want) {
			t.Errorf("status %d, no %q in %s%s", status, want, stdout, stderr)
		}
	}
	l := lighthousetest.StartCluster(t, 3, lighthousetest.Options{Timing: "slow"})
	for _, command := range []string{"members", "lighthouse members"} {
		status, stdout, stderr := skerry(append(strings.Fields(command), "--lighthouse", "127.0.0.1:1,"+strings.Join(l.Addresses(), ","))...)
		if status != 0 || !strings.Contains(stdout, "leader") {
			t.Errorf("%s: status %d, %s%s", command, status, stdout, stderr)
		}
	}
}
