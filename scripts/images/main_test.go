package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// inputs makes small static programs and the documents that an image wants.
func inputs(t *testing.T) options {
	t.Helper()
	o := options{
		image: "trainer", programs: t.TempDir(), docs: t.TempDir(), version: "v1", revision: "abc",
		created: time.Unix(1e9, 0).UTC(), target: filepath.Join(t.TempDir(), "image.tar"),
	}
	for _, name := range []string{"LICENSE", "NOTICE", "sbom.cdx.json"} {
		if err := os.WriteFile(filepath.Join(o.docs, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	source := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", filepath.Join(o.programs, "amd64", "trainer"), source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return o
}

// TestPack: the same input gives the same archive, whose digests, sizes and layers agree, and
// whose image has the user, the entry point and the labels that it says.
func TestPack(t *testing.T) {
	o := inputs(t)
	if err := pack(kinds["trainer"], o); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(o.target)
	if err != nil {
		t.Fatal(err)
	}
	if err := pack(kinds["trainer"], o); err != nil {
		t.Fatal(err)
	}
	if second, err := os.ReadFile(o.target); err != nil || !bytes.Equal(first, second) {
		t.Errorf("two archives of one input differ, or: %v", err)
	}
	folder := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "tar", "-C", folder, "-xf", o.target).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	top, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	inner, err := index.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	m, err := inner.IndexManifest()
	if err != nil || len(m.Manifests) != 1 || m.Manifests[0].Platform.Architecture != "amd64" {
		t.Fatalf("manifests %+v, %v; want one, of amd64", m, err)
	}
	img, err := inner.Image(m.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c := cfg.Config; c.User != "65532:65532" || c.Entrypoint[0] != "/usr/local/bin/trainer" || c.Labels["org.opencontainers.image.revision"] != "abc" {
		t.Errorf("config %+v", c)
	}
}

// TestRefuses: a program of another CPU, and what is no program, are refused by name.
func TestRefuses(t *testing.T) {
	o := inputs(t)
	if err := os.Rename(filepath.Join(o.programs, "amd64"), filepath.Join(o.programs, "arm64")); err != nil {
		t.Fatal(err)
	}
	if err := pack(kinds["trainer"], o); err == nil || !strings.Contains(err.Error(), "usr/local/bin/trainer: is of EM_X86_64, want EM_AARCH64") {
		t.Errorf("another CPU's program: %v", err)
	}
	if err := static([]byte("#!/bin/sh")); err == nil {
		t.Error("a script passes for a static program")
	}
}
