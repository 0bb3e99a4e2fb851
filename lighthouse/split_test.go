package lighthouse

import (
	"net"
	"testing"
)

// named is a connection that can be told from another.
type named struct {
	net.Conn
	n int
}

// A crowd of connections that say nothing keeps nobody out: who comes is taken,
// and who was silent for longest goes.
func TestSilentCrowdKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	s := &splitter{sniffing: make(map[net.Conn]uint64)}
	all := make([]*named, maxSniffed+2)
	for i := range all {
		all[i] = &named{n: i}
	}
	for i, c := range all {
		if i == maxSniffed {
			s.end(all[0]) // it spoke
		}
		oldest, ok := s.begin(c)
		switch {
		case !ok:
			t.Fatalf("connection %d is refused", i)
		case i <= maxSniffed && oldest != nil:
			t.Errorf("connection %d drives one out", i)
		case i > maxSniffed && oldest != all[1]:
			t.Errorf("connection %d drives out %v, want 1", i, oldest)
		}
	}
	if len(s.sniffing) != maxSniffed {
		t.Errorf("%d connections, want %d", len(s.sniffing), maxSniffed)
	}
	s.closing = true
	if _, ok := s.begin(new(named)); ok {
		t.Error("taken by a splitter that is closed")
	}
}
