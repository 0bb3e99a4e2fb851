package spare_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/launch/spare"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// launcher is the other end: it says some text to the first that connects, and closes, unless
// holds is set. It returns what it is answered. The tests that call it set variables of the process.
func launcher(t *testing.T, says string, holds bool) (answer <-chan string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "spare-") // a short path
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", filepath.Join(dir, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(spare.Variable, filepath.Join(dir, "0"))
	told := make(chan string, 1)
	over, end := context.WithCancel(context.Background())
	go func() {
		defer close(told)
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close() //nolint:errcheck // the test is over
		_, _ = conn.Write([]byte(says))
		if holds {
			<-over.Done()
			return
		}
		ack := make([]byte, 1)
		if strings.HasPrefix(says, `{"env"`) && strings.HasSuffix(says, "\n") {
			n, _ := conn.Read(ack) // nothing is as good as an error
			told <- string(ack[:n])
		}
	}()
	t.Cleanup(func() {
		end()
		_ = ln.Close() // and its file
		for range told {
		}
		_ = os.RemoveAll(dir) // no more than litter
	})
	return told
}

// A spare has the variables of its place when it is told one, and is no spare any more. What is no
// spare does not wait.
func TestWait(t *testing.T) {
	t.Setenv("REPLICA_GROUP_ID", "")
	order, err := spare.Order{Env: map[string]string{"REPLICA_GROUP_ID": "2"}}.Line()
	if err != nil {
		t.Fatal(err)
	}
	answer := launcher(t, string(order), false)
	for range 2 {
		if err := spare.Wait(t.Context()); err != nil || os.Getenv("REPLICA_GROUP_ID") != "2" || os.Getenv(spare.Variable) != "" {
			t.Fatalf("%v, replica %q", err, os.Getenv("REPLICA_GROUP_ID"))
		}
	}
	if got := <-answer; got != "\n" {
		t.Errorf("acknowledged by %q", got)
	}
}

// A spare that is not needed, or whose launcher is gone or speaks otherwise, is told so.
func TestWaitErrors(t *testing.T) {
	for _, c := range []struct{ says, want string }{
		{`{"over":true}` + "\n", spare.ErrNotNeeded.Error()},
		{"", "the launcher has ended"},
		{`{"env":{"A":"b"}}`, "17 bytes without an end, want a line of less than 65536"},
		{strings.Repeat("x", 70_000), "65536 bytes without an end"},
		{"{}\n", "want env or over"},
		{"nonsense\n", "invalid character"},
		{`{"env":{"A":"\u0000"}}` + "\n", "no NUL"},
	} {
		launcher(t, c.says, false)
		err := spare.Wait(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, spare.ErrNotNeeded) != strings.Contains(c.says, "over") {
			t.Errorf("%.20q: %v, want %q", c.says, err, c.want)
		}
	}
	t.Setenv(spare.Variable, "/no/such/socket")
	if err := spare.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), `SKERRY_SPARE = "/no/such/socket", want the socket of the skerry run`) {
		t.Error(err)
	}
}

// The end of a context ends the wait, before there is an order and while one is read.
func TestWaitEnds(t *testing.T) {
	for _, says := range []string{"", `{"env"`} {
		launcher(t, says, true)
		ctx, end := context.WithCancelCause(t.Context())
		done := make(chan error)
		go func() { done <- spare.Wait(ctx) }()
		why := errors.New("told to end")
		end(why)
		if err := <-done; !errors.Is(err, why) {
			t.Errorf("%v, want %v", err, why)
		}
	}
}

// An order that no environment can hold is not sent.
func TestLine(t *testing.T) {
	t.Parallel()
	many := make(map[string]string)
	for i := range 65 {
		many[strings.Repeat("A", i+1)] = ""
	}
	for _, env := range []map[string]string{{"": "x"}, {"A=B": "x"}, {"A\x00": "x"}, {"A": "\x00"}, {"A": strings.Repeat("x", 1<<16)}, many} {
		if line, err := (spare.Order{Env: env}).Line(); err == nil {
			t.Errorf("%.40s was taken", line)
		}
	}
}
