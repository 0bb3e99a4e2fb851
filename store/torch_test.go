package store_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/store/storetest"
)

// python is an interpreter that has torch 2.4 or later, if there is one:
//
//	SKERRY_TORCH_PYTHON=…/bin/python go test -run Torch ./store/
//
// Without it the protocol is held by the byte-exact tests alone.
func python(t *testing.T) string {
	t.Helper()
	path := os.Getenv("SKERRY_TORCH_PYTHON")
	if path == "" {
		t.Skip("SKERRY_TORCH_PYTHON names no interpreter with PyTorch 2.4 or later")
	}
	return path
}

// PyTorch's client takes every verb to our server.
func TestTorchClient(t *testing.T) {
	path := python(t)
	s := serve(t, store.ServerConfig{})
	host, port, _ := strings.Cut(s.Addr(), ":")
	const world = 2
	ours := make(chan error, 1)
	go func() {
		c, err := store.Dial(t.Context(), s.Addr(), store.ClientConfig{WorldSize: world, WaitForWorkers: true})
		if err == nil {
			err = c.Close()
		}
		ours <- err
	}()
	out, err := exec.CommandContext(t.Context(), path, "testdata/torch_client.py", host, port, fmt.Sprint(world)).CombinedOutput()
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), "ok") {
		t.Fatalf("got %v and:\n%s", err, out)
	}
	if err := <-ours; err != nil {
		t.Fatal(err)
	}
}

// Our client passes the conformance suite on PyTorch's server.
func TestTorchServer(t *testing.T) {
	path := python(t)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path, "testdata/torch_server.py")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("server process: %v", err)
		}
	})
	lines := bufio.NewScanner(out)
	var mu sync.Mutex
	newServer := func() string {
		mu.Lock()
		defer mu.Unlock()
		if _, err := io.WriteString(in, "one more\n"); err != nil || !lines.Scan() {
			t.Fatalf("ask for a server: %v, %v", err, lines.Err())
		}
		return "127.0.0.1:" + lines.Text()
	}
	opts := storetest.Options{PrefixBytes: len("/"), PyTorch: true}
	storetest.Run(t, opts, func(t *testing.T) storetest.Opener {
		addr := newServer()
		return func() store.Store {
			c, err := store.Dial(t.Context(), addr, store.ClientConfig{})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
	})
}
