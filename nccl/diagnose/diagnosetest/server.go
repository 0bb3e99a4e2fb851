// Package diagnosetest has a RAS service for tests, that says what a test wants.
package diagnosetest

import (
	"bufio"
	"net"
	"strings"
	"testing"
)

// RASServer answers as the library's RAS service does, with answer to a status;
// silent never answers one.
func RASServer(t testing.TB, answer string, silent bool) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			answerRAS(c, answer, silent)
		}
	}()
	return l.Addr().String()
}

func answerRAS(c net.Conn, answer string, silent bool) {
	defer c.Close()
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		reply := "ERROR: unknown command\n"
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "CLIENT PROTOCOL "):
			reply = "SERVER PROTOCOL 2\n"
		case strings.HasPrefix(line, "TIMEOUT ") && line != "TIMEOUT 0":
			reply = "OK\n"
		case line == "VERBOSE STATUS" && silent:
			continue
		case line == "VERBOSE STATUS":
			c.Write([]byte(answer)) //nolint:errcheck // the other side sees the end
			return
		}
		if _, err := c.Write([]byte(reply)); err != nil {
			return
		}
	}
}
