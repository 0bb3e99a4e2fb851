package spool

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gated is a writer that takes something when it is let.
type gated struct {
	let chan struct{}
	bytes.Buffer
}

func (g *gated) Write(p []byte) (int, error) {
	<-g.let
	return g.Buffer.Write(p)
}

// What is written comes out whole and in order.
func TestWritesInOrder(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	s := New(&b)
	var want strings.Builder
	for i := range 100 {
		line := fmt.Appendf(nil, "line %d\n", i)
		want.Write(line)
		if n, err := s.Write(line); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
		clear(line) // it is the caller's again
	}
	if lost, ok, err := s.Close(time.Minute); lost != 0 || !ok || err != nil || b.String() != want.String() {
		t.Errorf("%d lost, %t, %v: %q", lost, ok, err, b.String())
	}
}

// A writer that takes nothing holds up those who write for a second, in all: the rest is
// dropped and counted, and told when it takes something again.
func TestStalledWriter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gated{let: make(chan struct{})}
		s := New(g)
		line := bytes.Repeat([]byte("x"), maxBytes/4)
		began := time.Now()
		for range 4 + 10 { // ten more than there is room for
			_, _ = s.Write(line)
		}
		if took := time.Since(began); took != patience {
			t.Errorf("it took %v, want %v", took, patience)
		}
		if lost, ok, err := s.Close(time.Second); ok || lost != 10+4+1 || err != nil { // and what tells of it
			t.Errorf("closed while it is stuck: %d lost, %t, %v", lost, ok, err)
		}
		close(g.let)
		if _, ok, _ := s.Close(time.Minute); !ok {
			t.Error("it is stuck for ever")
		}
	})
}

// A reader that goes on is told how much it misses.
func TestTellsWhatIsMissing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gated{let: make(chan struct{})}
		s := New(g)
		line := bytes.Repeat([]byte("x"), maxBytes/2)
		for range 2 + 3 {
			_, _ = s.Write(line)
		}
		close(g.let)
		synctest.Wait()
		_, _ = s.Write([]byte("on\n"))
		lost, ok, err := s.Close(time.Minute)
		if lost != 3 || !ok || err != nil || !strings.HasSuffix(g.String(), "x… 3 lines are missing here: what reads this took none for a while\non\n") {
			t.Errorf("%d lost, %t, %v, …%q", lost, ok, err, g.String()[2*len(line):])
		}
	})
}

// A writer that is slow loses nothing.
func TestSlowWriter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gated{let: make(chan struct{})}
		s := New(g)
		go func() {
			for range 20 {
				<-time.After(patience * 9 / 10)
				g.let <- struct{}{}
			}
		}()
		line := bytes.Repeat([]byte("x"), maxBytes/2)
		for range 20 {
			_, _ = s.Write(line)
		}
		if lost, ok, _ := s.Close(time.Minute); lost != 0 || !ok || g.Len() != 20*len(line) {
			t.Errorf("%d lost, %t, %d bytes", lost, ok, g.Len())
		}
	})
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("closed") }

// The first error is told at the end, and ends nothing.
func TestBrokenWriter(t *testing.T) {
	t.Parallel()
	s := New(broken{})
	_, _ = s.Write([]byte("a"))
	_, _ = s.Write([]byte("b"))
	if lost, ok, err := s.Close(time.Minute); lost != 0 || !ok || err == nil {
		t.Errorf("%d, %t, %v", lost, ok, err)
	}
	if _, err := s.Write([]byte("after the end")); err != nil {
		t.Error(err)
	}
}
