package baddays

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/skerry-ft/skerry/internal/testkit"
)

// A renewal writes certificates first and keys later, as an operator does by hand, or a
// script that is stopped between: for as long as they do not agree every process goes
// on with the pair it has, says so, and serves who comes: a replica that joins then
// reaches the servers, heals, and trains with the others. With the keys all take the
// new pairs.
func TestHalfARenewal(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	const trainers = 2
	dir := filepath.Join(t.TempDir(), "certs")
	j := newJob(t, build(t)).guarded(dir)
	j.ca(dir, "--role", "replica", dir, "late", "127.0.0.1")
	var files []string
	for _, name := range []string{"digits", "server0", "server1", "server2"} {
		files = append(files, filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key"))
	}
	first := contents(t, files)
	j.sign(dir, "--life", "1000h")
	next := contents(t, files)
	put(t, first, ".pem", ".key")
	j.startServers()
	j.train(trainers)
	renew := func(what, says string) {
		t.Helper()
		from := make([]int, 0, servers+trainers)
		all := append(slices.Clone(j.servers), j.members...)
		for _, p := range all {
			from = append(from, p.Len())
		}
		put(t, next, what)
		for i, p := range all {
			p.Says(says, from[i])
		}
	}
	joins := func() {
		t.Helper()
		from := make([]int, 0, trainers+1)
		for _, p := range j.members {
			from = append(from, p.Len())
		}
		env := j.env
		j.env = append(slices.Clone(env), "SKERRY_TLS_CERT="+filepath.Join(dir, "late.pem"), "SKERRY_TLS_KEY="+filepath.Join(dir, "late.key"))
		j.members = append(j.members, j.startTrainer(trainers))
		j.env = env
		j.together(append(from, 0))
		goesOn(j.members[trainers])
		j.members[trainers].Kill()
		j.members = j.members[:trainers]
		for _, p := range j.members {
			goesOn(p)
		}
	}
	renew(".pem", "renewed file of the guard not taken: what it held before stays in force")
	joins()
	renew(".key", "certificate renewed")
	joins()
	j.idsRise(j.members...)
}

// contents are those of files, by name.
func contents(t *testing.T, files []string) map[string][]byte {
	t.Helper()
	all := make(map[string][]byte)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = text
	}
	return all
}

// put writes those of the files whose names end in one of ends.
func put(t *testing.T, files map[string][]byte, ends ...string) {
	t.Helper()
	for name, text := range files {
		if !slices.Contains(ends, filepath.Ext(name)) {
			continue
		}
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
