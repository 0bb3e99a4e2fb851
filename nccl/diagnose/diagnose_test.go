package diagnose_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/nccl/diagnose"
	"github.com/skerry-ft/skerry/nccl/diagnose/diagnosetest"
)

// RAS's answer is read to its end, or as far as it may be long; a service that is
// silent, or none, ends with the context.
func TestAskRAS(t *testing.T) {
	t.Parallel()
	const says = "NCCL version 2.29.3\nERRORS\n  rank 1 unresponsive\n"
	got, err := diagnose.AskRAS(t.Context(), diagnosetest.RASServer(t, says, false))
	if err != nil || got != says {
		t.Errorf("got %q, %v; want %q", got, err, says)
	}
	const most = 64 << 10
	got, err = diagnose.AskRAS(t.Context(), diagnosetest.RASServer(t, strings.Repeat("x", 2*most), false))
	if err != nil || len(got) != most {
		t.Errorf("got %d bytes, %v; want %d", len(got), err, most)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := diagnose.AskRAS(ctx, diagnosetest.RASServer(t, "", true)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent service: %v, want the deadline", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	greeting := make(chan struct{})
	go func() {
		defer close(greeting)
		if c, err := l.Accept(); err == nil {
			c.Write([]byte("HTTP/1.1 400 Bad Request\r\n")) //nolint:errcheck // the other side sees the end
			c.Close()
		}
	}()
	if _, err := diagnose.AskRAS(t.Context(), l.Addr().String()); err == nil || !strings.Contains(err.Error(), "400") {
		t.Errorf("another service: %v, want an error with its answer", err)
	}
	<-greeting
}
