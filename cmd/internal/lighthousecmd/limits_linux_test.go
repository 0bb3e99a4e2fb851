package lighthousecmd

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/internal/testkit"
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
	p, page := program(t)
	waitHealthy := func() {
		t.Helper()
		testkit.EventuallyNil(t, "it is well", func() error { return healthAt(page) })
	}
	waitHealthy()
	const most = 64
	if err := unix.Prlimit(p.PID(), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: most}, nil); err != nil {
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
	p.Says("too many open files", 0)
	<-time.After(3 * time.Second)
	if n := strings.Count(p.String(), "\n"); n > 30 {
		t.Errorf("%d lines of log in seconds", n)
	}
	for _, c := range conns {
		_ = c.Close() // nothing was written
	}
	conns = nil
	waitHealthy()
}
