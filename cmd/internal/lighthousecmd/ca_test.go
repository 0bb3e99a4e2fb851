package lighthousecmd

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
)

// TestCA: one command makes all that the flags name; the next one keeps CA,
// token and key. The role and the job are in the certificate.
func TestCA(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "certs")
	run := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if status := Run(context.Background(), append([]string{"ca"}, args...), &out, &errs); status != 0 {
			t.Fatalf("%v: status %d: %s", args, status, errs.String())
		}
		return out.String()
	}
	first := run("--role", "lighthouse", dir, "one", "localhost", "127.0.0.1")
	kept := contents(t, dir, "ca.pem", "ca.key", "token", "gossip.key")
	run("--role", "replica", "--job", "vision", dir, "two", "skerry")
	if again := contents(t, dir, "ca.pem", "ca.key", "token", "gossip.key"); again != kept {
		t.Error("the second certificate replaced the CA, the token or the gossip key")
	}
	if strings.Contains(first, strings.TrimSpace(contents(t, dir, "token"))) {
		t.Error("the token is printed")
	}
	o := parsed(t, strings.Fields(first)...)
	g, err := guard.Open(o.Guard)
	if err != nil {
		t.Fatalf("what it printed does not work: %v", err)
	}
	if !g.Serves() || g.Token.IsZero() {
		t.Error("want a certificate and a token")
	}
	if o := parsed(t, "--data-dir=/d", "--bootstrap-expect=3", "--gossip-key-file="+filepath.Join(dir, "gossip.key")); len(o.Cluster.GossipKeys()[0]) != gossipKeyBytes {
		t.Errorf("gossip key of %d bytes, want %d", len(o.Cluster.GossipKeys()[0]), gossipKeyBytes)
	}
	for _, file := range []string{"ca.key", "one.key", "token", "gossip.key"} {
		if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, want mode 600", file, info.Mode())
		}
	}
	run("--role", "operator", dir, "alice") // is never dialled
	if err := g.CheckOwn("", guard.Lighthouse); err != nil {
		t.Errorf("a lighthouse's certificate: %v", err)
	}
	two := guardtest.Open(t, guard.Options{
		TLSCA: filepath.Join(dir, "ca.pem"), TLSCert: filepath.Join(dir, "two.pem"), TLSKey: filepath.Join(dir, "two.key"),
	})
	if two.CheckOwn("vision", guard.Replica) != nil || two.CheckOwn("text", guard.Replica) == nil || two.CheckOwn("", guard.Lighthouse) == nil {
		t.Error("a replica's certificate of job vision: want it good for a replica of that job alone")
	}
}

// TestCARefuses: what the command cannot do as asked ends in an error that names it.
func TestCARefuses(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "certs")
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--role", "replica", dir, "../x", "h"}, `NAME = "../x"`},
		{[]string{dir, "x", "h"}, "--role is missing"},
		{[]string{"--role", "server", dir, "x", "h"}, `role = "server"`},
		{[]string{"--role", "lighthouse", "--job", "vision", dir, "x", "h"}, `job = "vision"`},
		{[]string{"--role", "replica", "--job", "a/b", dir, "x", "h"}, `a/b`},
		{[]string{"--role", "replica", dir, "x"}, "HOST is missing"},
	} {
		var errs bytes.Buffer
		if Run(context.Background(), append([]string{"ca"}, tc.args...), &errs, &errs) == 0 || !strings.Contains(errs.String(), tc.want) {
			t.Errorf("%v: %s, want something with %s", tc.args, errs.String(), tc.want)
		}
	}
}

// TestCAKeepsOthersOut: a folder that others can write to is refused, and what they
// laid there before, when it was open to them, does no harm.
func TestCAKeepsOthersOut(t *testing.T) {
	t.Parallel()
	dir, theirs := t.TempDir(), filepath.Join(t.TempDir(), "theirs")
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	args := []string{"ca", "--role", "replica", dir, "one", "localhost"}
	var errs bytes.Buffer
	if Run(context.Background(), args, &errs, &errs) != 1 || !strings.Contains(errs.String(), "mode 0777") {
		t.Fatalf("a folder of mode 0777: %s", errs.String())
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%d files were written, %v", len(entries), err)
	}
	err := errors.Join(
		os.WriteFile(theirs, []byte("theirs"), 0o666), os.Chmod(theirs, 0o666), //nolint:gosec // they are careless
		os.WriteFile(filepath.Join(dir, "one.key.new"), nil, 0o666),
		os.Symlink(theirs, filepath.Join(dir, "one.key")),
		os.Symlink(theirs, filepath.Join(dir, "one.pem")),
		os.Chmod(dir, 0o755))
	if err != nil {
		t.Fatal(err)
	}
	errs.Reset()
	if Run(context.Background(), args, &errs, &errs) != 0 {
		t.Fatal(errs.String())
	}
	if info, err := os.Lstat(filepath.Join(dir, "one.key")); err != nil || info.Mode() != 0o600 {
		t.Errorf("one.key: %v, %v; want a file of mode 0600", info.Mode(), err)
	}
	if text, err := os.ReadFile(theirs); err != nil || string(text) != "theirs" {
		t.Errorf("what a link pointed to holds %q, %v", text, err)
	}
	if err := os.Chmod(filepath.Join(dir, "ca.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	errs.Reset()
	if Run(context.Background(), args, &errs, &errs) != 1 || !strings.Contains(errs.String(), "mode 0644") {
		t.Errorf("a CA key that others can read: %s", errs.String())
	}
}

func contents(t *testing.T, dir string, files ...string) string {
	t.Helper()
	var all []byte
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	return string(all)
}
