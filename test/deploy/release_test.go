package deploy

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

var releases = flag.Bool("deploy.release", false, "pack a release of the commit in two folders, compare, try what is in it; and build what the images have")

// TestRelease: the same commit gives the same bytes wherever it is packed, they run, and say
// which commit they are. With an emulator of arm64 (Debian: qemu-user-static) so do those.
func TestRelease(t *testing.T) {
	if !*releases {
		t.Skip("it builds the programs for two systems; -deploy.release")
	}
	t.Parallel()
	var sums [2]string
	var out string
	for i := range sums {
		at := filepath.Join(t.TempDir(), strings.Repeat("elsewhere/", i)+"tree")
		run(t, "", "git", "clone", "--quiet", "../..", at)
		out = filepath.Join(at, "release")
		run(t, at, "scripts/release", "linux/amd64", "linux/arm64")
		b, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = string(b)
	}
	if sums[0] != sums[1] {
		t.Errorf("two releases of one commit:\n%s\n%s", sums[0], sums[1])
	}
	run(t, out, "sha256sum", "-c", "SHA256SUMS")
	if err := os.WriteFile(filepath.Join(out, "../unknown"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused := exec.CommandContext(t.Context(), "scripts/release", "linux/amd64")
	refused.Dir = filepath.Dir(out)
	if said, err := refused.CombinedOutput(); err == nil || !strings.Contains(string(said), "files that git does not know") {
		t.Errorf("with a file that git does not know: %v\n%s", err, said)
	}
	commit := strings.TrimSpace(run(t, "", "git", "rev-parse", "HEAD"))
	for cpu, emulator := range map[string]string{"amd64": "qemu-x86_64-static", "arm64": "qemu-aarch64-static"} {
		skerry := unpacked(t, out, cpu)
		words := []string{skerry}
		if cpu != runtime.GOARCH {
			path, err := exec.LookPath(emulator)
			if err != nil {
				t.Logf("%s is packed, and not tried: %v", cpu, err)
				continue
			}
			words = []string{path, skerry}
		}
		if said := run(t, "", append(words, "version")...); !strings.Contains(said, commit) || strings.Contains(said, "with changes") {
			t.Errorf("%s: %q, want commit %s", cpu, said, commit)
		}
		if said := run(t, "", append(words, "sim", "--seeds", "5")...); !strings.Contains(said, "5 seeds") {
			t.Errorf("%s simulates: %q", cpu, said)
		}
	}
}

// run runs a command in a folder, and returns what it prints.
func run(t *testing.T, dir string, words ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", words, err, out)
	}
	return string(out)
}

// unpacked is the program skerry of the release for Linux on a CPU.
func unpacked(t *testing.T, release, cpu string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(release, "skerry-*-linux-"+cpu+".tar.gz"))
	if err != nil || len(all) != 1 {
		t.Fatalf("files for %s: %q, %v", cpu, all, err)
	}
	f, err := os.Open(all[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // read only
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	at := filepath.Join(t.TempDir(), "skerry")
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(h.Name)
		found[name] = true
		if name != "skerry" || h.Typeflag != tar.TypeReg {
			continue
		}
		b, err := io.ReadAll(r)
		if err == nil {
			err = os.WriteFile(at, b, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"skerry", "lighthouse", "LICENSE", "NOTICE"} {
		if !found[name] {
			t.Errorf("%s has no %s", all[0], name)
		}
	}
	return at
}
