package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/internal/guard"
)

// TestCA: one command makes all that the flags name; the next one keeps CA,
// token and key.
func TestCA(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "certs")
	run := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if status := execute(context.Background(), append([]string{"ca"}, args...), &out, &errs); status != 0 {
			t.Fatalf("%v: status %d: %s", args, status, errs.String())
		}
		return out.String()
	}
	first := run(dir, "one", "localhost", "127.0.0.1")
	kept := contents(t, dir, "ca.pem", "ca.key", "token", "gossip.key")
	run(dir, "two", "skerry")
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
	var errs bytes.Buffer
	if execute(context.Background(), []string{"ca", dir, "../x", "h"}, &errs, &errs) != 1 || !strings.Contains(errs.String(), "NAME") {
		t.Errorf("a name with a path: %s", errs.String())
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
