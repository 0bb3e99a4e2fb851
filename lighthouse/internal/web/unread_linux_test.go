package web

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"

	"golang.org/x/sys/unix"
)

// wrapped is a connection as the splitter and the guard hand it on.
type wrapped struct{ net.Conn }

func (w wrapped) NetConn() net.Conn { return w.Conn }

// The system is told to end a connection whose reader takes nothing, through all that is around
// it; a connection that is not of the system is left alone.
func TestUnreadStreamIsBoundBySystem(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nothing waits for it
	far, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close() //nolint:errcheck // nothing was written
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // nothing was written
	asked := func(c net.Conn) *http.Request {
		return (&http.Request{}).WithContext(withConn(context.Background(), c))
	}
	boundUnread(asked(wrapped{wrapped{conn}}))
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var ms, bytes int
	var err2 error
	if err := raw.Control(func(fd uintptr) {
		ms, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
		bytes, err2 = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF)
	}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	if want := int(unreadPatience.Milliseconds()); ms != want {
		t.Errorf("the system waits %d ms, want %d", ms, want)
	}
	if want := 2 * unreadBytes; bytes != want {
		t.Errorf("the system keeps %d bytes, want %d", bytes, want)
	}
	here, there := net.Pipe()
	defer here.Close()  //nolint:errcheck // nothing was written
	defer there.Close() //nolint:errcheck // nothing was written
	boundUnread(asked(wrapped{here}))
	boundUnread(&http.Request{}) // a test's, without a connection
}
