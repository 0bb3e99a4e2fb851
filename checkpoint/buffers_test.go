package checkpoint_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/ckpttest"
	"github.com/skerry-ft/skerry/tensor"
)

// Newcomers that copy ahead, and take nothing, because they are stopped or cut off,
// hold up no heal that a quorum waits for.
func TestReadersOfAnyLeaveBuffersToAHeal(t *testing.T) {
	t.Parallel()
	const size = 32 << 20 // more than sockets hold
	s := checkpoint.State{Tensors: map[string]tensor.Tensor{"x": tensor.Of(make([]float32, size/4))}}
	for i := range s.Tensors["x"].Bytes() {
		s.Tensors["x"].Bytes()[i] = byte(i >> 10)
	}
	donor, err := checkpoint.NewHTTP(checkpoint.HTTPConfig{AnyBytesPerSecond: 1 << 40, Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan struct{})
	go func() { defer close(ran); _ = donor.Run(ctx) }()
	var idle []net.Conn
	defer func() {
		for _, c := range idle {
			c.Close() //nolint:errcheck // the donor sees it
		}
		cancel()
		<-ran
	}()
	if err := donor.Serve("v", ckpttest.Saves(s)); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		c, err := net.Dial("tcp", strings.TrimPrefix(donor.Metadata(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, c)
		_, err = fmt.Fprintf(c, "GET /v2/data?version=*&from=0&n=%d HTTP/1.1\r\nHost: x\r\nSkerry-Wait-Ms: 9000\r\n\r\n", size)
		if err != nil {
			t.Fatal(err)
		}
	}
	limited, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	for checkpoint.FreeBuffersForTest(donor, checkpoint.Any) > 0 {
		select {
		case <-time.After(time.Millisecond):
		case <-limited.Done():
			t.Fatal("the readers of Any do not hold all that they can")
		}
	}
	target, err := checkpoint.NewHTTP(checkpoint.HTTPConfig{Timeout: time.Minute}) // the donor reads 32 MiB for its marks
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close() //nolint:errcheck // it serves nothing
	m, err := checkpoint.NewMirror(ckpttest.Blank(s), checkpoint.MirrorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := target.Fetch(limited, "v", []string{donor.Metadata()}, m); err != nil {
		t.Errorf("a heal beside readers of Any that take nothing: %v", err)
	}
}
