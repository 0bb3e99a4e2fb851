package secrets

import (
	"encoding/base64"
	"encoding/hex"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/internal/portlease"
	"github.com/skerry-ft/skerry/internal/testkit"
)

// finish runs a program to its end and returns what it wrote.
func finish(t *testing.T, args ...string) (string, error) {
	t.Helper()
	p := testkit.Start(t, filepath.Base(args[0]), nil, args...)
	err := p.Err()
	return p.String(), err
}

// assertPrivate wants what a program keeps in dir to be for its owner alone.
func assertPrivate(t *testing.T, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		files++
		return err
	})
	if err != nil || files < 5 { // its folder, lock, id, cluster and log, at least
		t.Errorf("%d files in %s, %v", files, dir, err)
	}
}

// TestNoSecretShows: lighthouse, trainers and skerry run guarded, at trace
// level, over TLS with a token: train, are asked, are denied; and no secret is in
// what they write, in their command lines, or on the pages.
func TestNoSecretShows(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the programs")
	}
	t.Parallel()
	bin, dir := t.TempDir(), filepath.Join(t.TempDir(), "skerry")
	lighthouse, trainer := testkit.Build(t, bin, "cmd/lighthouse"), testkit.Build(t, bin, "examples/digits/trainer")
	skerry := testkit.Build(t, bin, "cmd/skerry")
	for name, role := range map[string]string{"server": "lighthouse", "replica": "replica", "operator": "operator"} {
		if out, err := finish(t, lighthouse, "ca", "--role", role, dir, name, "localhost", "127.0.0.1"); err != nil {
			t.Fatalf("lighthouse ca: %v\n%s", err, out)
		}
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	flags := func(name string) []string {
		return []string{"--tls-ca", file("ca.pem"), "--tls-cert", file(name + ".pem"), "--tls-key", file(name + ".key"), "--token-file", file("token")}
	}
	ports := portlease.ForTest(t, 3)
	addr := ports[0]
	server := testkit.Start(t, "lighthouse", nil, append(append([]string{lighthouse}, flags("server")...), "--bind", addr, "--raft-address", ports[1], "--gossip-address", ports[2],
		"--log-level", "trace", "--log-json",
		"--data-dir", filepath.Join(dir, "data"), "--gossip-key-file", file("gossip.key"), "--bootstrap-expect", "1")...)
	testkit.Eventually(t, "the lighthouse leads", func() bool {
		if strings.Contains(server.String(), "lighthouse: ") {
			t.Fatalf("it did not start:\n%s", server)
		}
		return strings.Contains(server.String(), "leadership gained")
	})
	assertPrivate(t, filepath.Join(dir, "data"))
	env := []string{"SKERRY_TLS_CA=" + file("ca.pem"), "SKERRY_TLS_CERT=" + file("replica.pem"), "SKERRY_TLS_KEY=" + file("replica.key"),
		"SKERRY_TOKEN=" + strings.TrimSpace(read(t, file("token")))}
	var trainers []*testkit.Program
	for _, index := range []string{"0", "1"} {
		trainers = append(trainers, testkit.Start(t, "trainer", env, trainer, "-lighthouse", addr, "-index", index,
			"-replicas", "2", "-steps", "100000", "-step-time", "5ms", "-debug"))
	}
	testkit.Eventually(t, "they train together", func() bool {
		return strings.Contains(trainers[0].String(), "step 50:") && strings.Contains(trainers[1].String(), "step 50:")
	})
	seen := map[string]string{"lighthouse": "", "trainer 0": "", "trainer 1": ""}
	for _, args := range [][]string{
		append([]string{"status", "--lighthouse", addr, "--json"}, flags("operator")...),
		append([]string{"status", "--lighthouse", addr}, flags("operator")...),
		{"status", "--lighthouse", addr},                                                            // without a guard
		{"status", "--lighthouse", addr, "--tls-ca", file("token"), "--token-file", file("ca.pem")}, // mixed up
		{"status", "--lighthouse", addr, "--tls-ca", file("ca.pem"), "--token-file", file("server.key")},
	} {
		out, err := finish(t, append([]string{skerry}, args...)...)
		if good := len(args) > 9; good != (err == nil) {
			t.Errorf("skerry %v: %v\n%s", args, err, out)
		}
		seen["skerry "+strings.Join(args, " ")] = out
	}
	seen["/proc"] = commandLines(t, server, trainers[0], trainers[1])
	denied(t, addr)
	seen["lighthouse"], seen["trainer 0"], seen["trainer 1"] = server.String(), trainers[0].String(), trainers[1].String()
	search(t, seen, dir)
}

// denied knocks without a certificate and in the clear, with a token that must
// not be repeated.
func denied(t *testing.T, addr string) {
	t.Helper()
	resp, err := http.Get("http://" + addr + "/jobs?token=a-token-in-the-clear")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body) // its status is what matters
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("plain HTTP: %s", resp.Status)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// commandLines is what `ps` shows.
func commandLines(t *testing.T, programs ...*testkit.Program) string {
	t.Helper()
	var all strings.Builder
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		all.WriteString(strings.ReplaceAll(string(b), "\x00", " ") + "\n")
	}
	for _, p := range programs {
		if !strings.Contains(all.String(), p.Path()) {
			t.Fatalf("%s is not in /proc: the search would show nothing", p.Path())
		}
	}
	return all.String()
}

// search looks for every secret, as it is and encoded, in all that was seen.
func search(t *testing.T, seen map[string]string, dir string) {
	t.Helper()
	secrets := map[string]string{"the token": strings.TrimSpace(read(t, filepath.Join(dir, "token")))}
	gossip := strings.TrimSpace(read(t, filepath.Join(dir, "gossip.key")))
	secrets["the gossip key"] = gossip
	if raw, err := base64.StdEncoding.DecodeString(gossip); err == nil {
		secrets["the gossip key in hex"] = hex.EncodeToString(raw)
	}
	for _, name := range []string{"ca", "server", "replica", "operator"} {
		lines := strings.Split(strings.TrimSpace(read(t, filepath.Join(dir, name+".key"))), "\n")
		secrets["the key of "+name] = lines[2] // lines 1 and 4 are the same in every key
	}
	for what, secret := range secrets {
		for where, text := range seen {
			for _, form := range []string{secret, hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret))} {
				if strings.Contains(text, form) {
					t.Errorf("%s shows in %s", what, where)
				}
			}
		}
	}
	for _, who := range []string{"lighthouse", "trainer 0", "trainer 1"} {
		if len(seen[who]) < 1000 {
			t.Errorf("%s wrote %d bytes: the search would show nothing", who, len(seen[who]))
		}
	}
}
