package capi_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/internal/capi"
)

// What the child of a fork reads lists the sockets of this process.
func TestPollerListsSockets(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if !toldOfEpoll() {
		t.Skip("/proc/self/fdinfo does not tell what an epoll instance watches, as under gVisor")
	}
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", capi.Poller()))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		if !regexp.MustCompile(fmt.Sprintf(`(?m)^tfd:\s+%d\s`, fd)).Match(info) {
			t.Errorf("descriptor %d is not in\n%s", fd, info)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// toldOfEpoll reports whether the system tells what epoll instances watch. This process has
// one that watches something: the Go runtime's.
func toldOfEpoll() bool {
	paths, err := filepath.Glob("/proc/self/fdinfo/*")
	if err != nil {
		return false
	}
	for _, path := range paths {
		// One may have been closed since.
		if info, err := os.ReadFile(path); err == nil && strings.Contains(string(info), "tfd:") {
			return true
		}
	}
	return false
}
