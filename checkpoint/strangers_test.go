package checkpoint_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/ckpttest"
)

// knock connects to a donor.
func knock(t *testing.T, donor *checkpoint.HTTP) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(donor.Metadata(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestNoBodyIsRead: whatever body comes, it is refused at once, the connection
// ends, and no file is written.
func TestNoBodyIsRead(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	donor := ckpttest.Running(t, checkpoint.HTTPConfig{Token: []byte("one")})
	const form = "Content-Type: multipart/form-data; boundary=b\r\n"
	for _, head := range []string{
		"GET /v1/manifest?version=v HTTP/1.1\r\nHost: d\r\n" + form + "Transfer-Encoding: chunked\r\n\r\n",
		"GET /v1/manifest HTTP/1.1\r\nHost: d\r\n" + form + "Content-Length: 1099511627776\r\n\r\n",
		"GET /nothing HTTP/1.1\r\nHost: d\r\n" + form + "Content-Length: 1099511627776\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: d\r\nContent-Length: 1099511627776\r\n\r\n",
		"POST /v2/data HTTP/1.1\r\nHost: d\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 9000000\r\n\r\n",
	} {
		c := knock(t, donor)
		if _, err := io.WriteString(c, head); err != nil {
			t.Fatal(err)
		}
		if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge || !resp.Close {
			t.Fatalf("%q: %+v, %v, want %d and a close", head, resp, err, http.StatusRequestEntityTooLarge)
		}
		resp.Body.Close()
		part := []byte("--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n" + strings.Repeat("x", 1<<20))
		sent := 0
		for ; sent < 64 && err == nil; sent++ {
			_, err = c.Write(part)
		}
		if sent == 64 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q: %d MiB of a body were taken, %v", head, sent, err)
		}
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) > 0 {
		t.Errorf("files %v, %v, want none", files, err)
	}
}

// TestStrangersHoldNoPlace: requests that are never finished, or prove nothing,
// hold nothing that a target needs, and end by themselves.
func TestStrangersHoldNoPlace(t *testing.T) {
	t.Parallel()
	s := ckpttest.NewState(3)
	donor := ckpttest.Running(t, checkpoint.HTTPConfig{Token: []byte("one"), Timeout: 2 * time.Second})
	if err := donor.Serve("v", ckpttest.Saves(s)); err != nil {
		t.Fatal(err)
	}
	beginnings := []string{
		"", "G", "GET /v2/data?version=v HTTP/1.1\r\nHost: d\r\n",
		"GET /v1/manifest?version=v HTTP/1.1\r\nHost: d\r\nContent-Length: 5\r\n\r\na",
		"GET /v1/manifest?version=v HTTP/1.1\r\nHost: d\r\nSkerry-Wait-Ms: 10000\r\n\r\n",
	}
	var strangers []net.Conn
	for i := range checkpoint.MaxNewcomers {
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).Dial("tcp", strings.TrimPrefix(donor.Metadata(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_, _ = io.WriteString(c, beginnings[i%len(beginnings)]) // it may be cut already
		strangers = append(strangers, c)
	}
	target := ckpttest.Running(t, checkpoint.HTTPConfig{Token: []byte("one")})
	into := ckpttest.Blank(s)
	if _, err := ckpttest.Fetch(t.Context(), target, "v", []string{donor.Metadata()}, into); err != nil {
		t.Fatalf("fetch beside %d strangers: %v", len(strangers), err)
	}
	ckpttest.Equal(t, into, s)
	until := time.Now().Add(20 * time.Second)
	for i, c := range strangers {
		_ = c.SetReadDeadline(until) // a connection that has gone has no deadline
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("stranger %d (%.40q) is still connected", i, beginnings[i%len(beginnings)])
		}
	}
}

// TestBusyDonorIsAskedAgain: a donor that has no place at the moment is not given
// up, for all that it says so more often than a failing one may fail.
func TestBusyDonorIsAskedAgain(t *testing.T) {
	t.Parallel()
	s := ckpttest.NewState(3)
	donor := ckpttest.Running(t, checkpoint.HTTPConfig{})
	if err := donor.Serve("v", ckpttest.Saves(s)); err != nil {
		t.Fatal(err)
	}
	f := newFront(t, donor)
	var asked atomic.Int64
	f.busy = func() bool { return asked.Add(1)%7 != 0 }
	into := ckpttest.Blank(s)
	if _, err := ckpttest.Fetch(t.Context(), ckpttest.Running(t, checkpoint.HTTPConfig{}), "v", []string{f.url}, into); err != nil {
		t.Fatalf("fetch from a donor that is busy six times of seven: %v", err)
	}
	ckpttest.Equal(t, into, s)
}

// TestGuardedWithoutToken: before its first quorum a donor has no token, and
// serves nothing.
func TestGuardedWithoutToken(t *testing.T) {
	t.Parallel()
	s := ckpttest.NewState(1)
	donor := ckpttest.Running(t, checkpoint.HTTPConfig{Guarded: true})
	if err := donor.Serve("0-0-", ckpttest.Saves(s)); err != nil {
		t.Fatal(err)
	}
	body := get(t, donor.Metadata()+"/v1/manifest?version=v", http.StatusForbidden)
	if strings.Contains(string(body), "0-0-") {
		t.Errorf("%q tells what is served", body)
	}
	donor.SetToken([]byte("one"))
	target := ckpttest.Running(t, checkpoint.HTTPConfig{Token: []byte("one")})
	if _, err := ckpttest.Fetch(t.Context(), target, "0-0-", []string{donor.Metadata()}, ckpttest.Blank(s)); err != nil {
		t.Errorf("fetch with the token: %v", err)
	}
}
