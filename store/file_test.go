package store_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/store"
)

// process starts this binary as a worker on path.
func process(t *testing.T, role, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"="+role+" "+path)
	cmd.Stderr = os.Stderr
	return cmd
}

func open(t *testing.T, path string, world int) *store.File {
	t.Helper()
	s, err := store.NewFile(path, world)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Stat(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

func TestFileProcesses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store")
	var all []*exec.Cmd
	for range workers {
		cmd := process(t, "count", path)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	if exists(t, path) {
		t.Error("the last one out left the file")
	}
}

// SIGKILL while it writes: whole frames stay, the rest is cut off.
func TestFileKilledWriter(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store")
	cmd := process(t, "writer", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() //nolint:errcheck // it was killed
	s := open(t, path, 0)
	if got, err := s.Get(within(t), "k0"); err != nil || len(got) != 100<<10 {
		t.Fatalf("got %d bytes, %v", len(got), err)
	}
	if err := s.Set(within(t), "after", []byte("x")); err != nil {
		t.Fatal(err)
	}
}

func TestFileLastOneOut(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store")
	a, b := open(t, path, 2), open(t, path, 2)
	if err := a.Close(); err != nil || !exists(t, path) {
		t.Fatalf("one of two has left: got %v, file there = %t", err, exists(t, path))
	}
	if err := b.Set(within(t), "k", nil); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil || exists(t, path) {
		t.Fatalf("both have left: got %v, file there = %t", err, exists(t, path))
	}
	// A fresh run finds nothing of the one before, whatever its order.
	c := open(t, path, 2)
	if ok, err := c.Check(within(t), "k"); ok || err != nil {
		t.Fatalf("got %t, %v from a fresh file", ok, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open(t, path, 2).Close(); err != nil || exists(t, path) {
		t.Fatalf("one after the other: got %v, file there = %t", err, exists(t, path))
	}
	d := open(t, path, 0)
	if err := errors.Join(d.Set(within(t), "k", nil), d.Close()); err != nil || !exists(t, path) {
		t.Fatalf("no world size: got %v, file there = %t", err, exists(t, path))
	}
	if ok, err := open(t, path, 0).Check(within(t), "k"); !ok || err != nil {
		t.Fatalf("no world size: got %t, %v, want the old keys", ok, err)
	}
}

func TestFileUsed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store")
	open(t, path, 1)
	if _, err := store.NewFile(path, 1); !errors.Is(err, store.ErrUsedFile) || !strings.Contains(err.Error(), path) {
		t.Fatalf("one process too many: got %v, want %v that names the file", err, store.ErrUsedFile)
	}

	// Two of three came, and died with the machine: here, their descriptors.
	path = filepath.Join(t.TempDir(), "store")
	cmd := process(t, "writer", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	alive, err := store.NewFile(path, 3)
	if err != nil {
		t.Fatalf("while the other is alive: %v", err)
	}
	if err := alive.Close(); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Kill()
	cmd.Wait() //nolint:errcheck // it was killed
	if _, err := store.NewFile(path, 3); !errors.Is(err, store.ErrUsedFile) {
		t.Fatalf("those before are dead: got %v, want %v", err, store.ErrUsedFile)
	}
}

func TestFileRefusesOthers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store")
	if err := os.WriteFile(path, []byte("this is a text of somebody"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.NewFile(path, 0); err == nil || !strings.Contains(err.Error(), "corrupt") {
		t.Fatalf("a foreign file: got %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "this is a text of somebody" {
		t.Fatalf("a foreign file now holds %q, %v", got, err)
	}
	if _, err := store.NewFile(filepath.Join(path, "below"), 0); err == nil {
		t.Fatal("a file below a file was opened")
	}
}

// A file that is removed under its users is no store any more.
func TestFileRemoved(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store")
	s := open(t, path, 0)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := s.Set(within(t), "k", nil); !errors.Is(err, store.ErrClosed) {
		t.Fatalf("got %v, want %v", err, store.ErrClosed)
	}
}

// FuzzFile cuts and flips a log: what is read is a prefix of what was written,
// or the file is refused. A cut alone is never refused, for a crash cuts.
func FuzzFile(f *testing.F) {
	f.Add(uint16(0), uint16(0), byte(0))
	f.Add(uint16(20), uint16(0), byte(0))
	f.Add(uint16(999), uint16(30), byte(1))
	f.Fuzz(func(t *testing.T, cut, at uint16, flip byte) {
		path := filepath.Join(t.TempDir(), "store")
		ctx := context.Background()
		s, err := store.NewFile(path, 0)
		if err != nil {
			t.Fatal(err)
		}
		const writes = 4
		for i := range writes {
			if err := s.Append(ctx, "log", bytes.Repeat([]byte{byte('a' + i)}, 10)); err != nil {
				t.Fatal(err)
			}
		}
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		b := bytes.Clone(whole[:min(int(cut), len(whole))])
		if len(b) > 0 {
			b[int(at)%len(b)] ^= flip
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err = store.NewFile(path, 0)
		if err != nil {
			if flip == 0 {
				t.Fatalf("cut to %d bytes: %v", len(b), err)
			}
			return
		}
		defer s.Close()
		if err := s.Append(ctx, "log", []byte("end")); err != nil {
			t.Fatal(err)
		}
		got, err := s.Get(ctx, "log")
		want := []byte("aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd")
		if n := len(got) - len("end"); err != nil || n < 0 || n%10 != 0 || !bytes.Equal(got[:n], want[:n]) {
			t.Fatalf("got %q, %v", got, err)
		}
	})
}
