package split

import (
	"net"
	"testing"
	"time"

	"github.com/rs/zerolog"
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
	s := &Splitter{sniffing: make(map[net.Conn]uint64)}
	all := make([]*named, maxSniffed+2)
	for i := range all {
		all[i] = &named{n: i}
	}
	for i, c := range all {
		if i == maxSniffed {
			s.forget(all[0]) // it spoke
		}
		switch oldest := s.begin(c); {
		case i <= maxSniffed && oldest != nil:
			t.Errorf("connection %d drives one out", i)
		case i > maxSniffed && oldest != all[1]:
			t.Errorf("connection %d drives out %v, want 1", i, oldest)
		}
	}
	if len(s.sniffing) != maxSniffed {
		t.Errorf("%d connections, want %d", len(s.sniffing), maxSniffed)
	}
}

// A connection that comes while the splitter is closed is closed, too.
func TestClosedSplitterTakesNothing(t *testing.T) {
	t.Parallel()
	s := New(newPipeListener(), time.Minute, inTheClear, zerolog.Nop())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	client, server := net.Pipe()
	s.begin(server)
	s.hand(server)
	if _, err := client.Read(make([]byte, 1)); err == nil {
		t.Error("taken by a splitter that is closed")
	}
	if len(s.sniffing) != 0 {
		t.Error("the connection is remembered")
	}
}
