package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// errNoTool is returned by the checks that are done by a tool of the host, where it is missing.
var errNoTool = errors.New("not on this host")

// tool finds a program: on PATH, or where scripts/promtool keeps its own.
func tool(name string) (string, error) {
	if at, err := exec.LookPath(name); err == nil {
		return at, nil
	}
	if cache, err := os.UserCacheDir(); err == nil {
		if at, err := exec.LookPath(filepath.Join(cache, "skerry", name, "usr", "bin", name)); err == nil {
			return at, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, errNoTool)
}

// call runs a tool in a folder. What it says is the error.
func call(ctx context.Context, dir, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", filepath.Base(program), strings.Join(args, " "), err, out)
	}
	return nil
}

// shellcheck reads shell scripts.
func shellcheck(ctx context.Context, t tree) error {
	program, err := tool("shellcheck")
	if err != nil {
		return err
	}
	return call(ctx, t.root, program, append([]string{"--shell=bash", "--severity=style", "--"}, t.names...)...)
}

// promtool checks Prometheus' configuration and its rules, and runs the rules' tests.
func promtool(ctx context.Context, t tree) error {
	program, err := tool("promtool")
	if err != nil {
		return err
	}
	var all error
	for _, name := range t.names {
		args := []string{"check", "config"}
		switch base := path.Base(name); {
		case base == "guarded.yml": // its certificates are made later
			args = append(args, "--syntax-only")
		case strings.HasSuffix(base, "_test.yml"):
			args = []string{"test", "rules"}
		case strings.HasPrefix(base, "rules"):
			args = []string{"check", "rules", "--lint=all", "--lint-fatal"}
		}
		file := t.path(name)
		all = errors.Join(all, call(ctx, filepath.Dir(file), program, append(args, filepath.Base(file))...))
	}
	return all
}

// program is what a unit starts; systemd-analyze looks whether it is there.
var program = regexp.MustCompile(`/usr/local/bin/\w+`)

// systemdAnalyze verifies all units together, with another program in the place of theirs.
// A template is given an instance.
func systemdAnalyze(ctx context.Context, t tree) error {
	analyze, err := tool("systemd-analyze")
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "validate-units-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	args := []string{"verify", "--man=no"}
	for _, name := range t.names {
		text, err := os.ReadFile(t.path(name))
		if err != nil {
			return err
		}
		unit := filepath.Join(dir, strings.Replace(path.Base(name), "@.", "@0.", 1))
		if err := os.WriteFile(unit, program.ReplaceAll(text, []byte(self)), 0o600); err != nil {
			return err
		}
		args = append(args, unit)
	}
	cmd := exec.CommandContext(ctx, analyze, args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("systemd-analyze verify: %w\n%s", err, out)
	}
	// An unknown key is only said, and the units of the host are spoken of, too.
	var all error
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, dir) || strings.Contains(line, "skerry-") {
			line = strings.ReplaceAll(line, dir+string(filepath.Separator), "")
			all = errors.Join(all, errors.New(strings.Replace(strings.TrimSpace(line), "@0.", "@.", 1)))
		}
	}
	return all
}
