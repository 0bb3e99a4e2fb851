package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// healthAt asks a server whether it is well, on a connection of its own.
func healthAt(page string) error {
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(strings.TrimSuffix(page, "/") + "/healthz")
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // read to its end
	if err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s, %v", resp.Status, body, err)
	}
	return nil
}

// A server that may open few files says so in its log, once in a while, lives on,
// and takes connections again as soon as it can.
func TestFewOpenFiles(t *testing.T) {
	t.Parallel()
	cmd, page := program(t)
	waitHealthy := func() {
		t.Helper()
		var err error
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(100 * time.Millisecond) {
			if err = healthAt(page); err == nil {
				return
			}
		}
		t.Fatalf("not well within %v: %v; it said:\n%s", patience, err, cmd.Stderr)
	}
	waitHealthy()
	const most = 64
	if err := unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: most}, nil); err != nil {
		t.Fatal(err)
	}
	addr := strings.TrimSuffix(strings.TrimPrefix(page, "http://"), "/")
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close() // nothing was written
		}
	}()
	for range 2 * most { // the kernel takes those that the server does not
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			break
		}
		conns = append(conns, c)
	}
	log, _ := cmd.Stderr.(*programLog)
	const says = "too many open files"
	for deadline := time.Now().Add(patience); !strings.Contains(log.String(), says); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("nothing says %q within %v; it said:\n%s", says, patience, log)
		}
	}
	<-time.After(3 * time.Second)
	if n := strings.Count(log.String(), "\n"); n > 30 {
		t.Errorf("%d lines of log in seconds", n)
	}
	for _, c := range conns {
		_ = c.Close() // nothing was written
	}
	conns = nil
	waitHealthy()
}
