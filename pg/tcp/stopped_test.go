package tcp

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
)

// stops: where a process is stopped is a matter of chance.
var stops = flag.Int("tcp.stops", 3, "how often TestStopped stops a process, over each transport")

// TestStopped: a process is stopped in the middle of a storm, wherever it is,
// then in a write into shared memory. The others find it silent, go on without
// it in the next quorum, and reuse their buffers at once. When it is continued
// it finishes what it was at: nothing of that lands in a tensor of theirs, and
// nothing of their new quorum in the tensor of its op, which fails. Then all
// meet again.
func TestStopped(t *testing.T) {
	t.Parallel()
	for _, transport := range []Transport{TransportShared, TransportTCP} {
		t.Run(transport.String(), func(t *testing.T) {
			if transport == TransportShared {
				testkit.Long(t)
			}
			t.Parallel()
			testStopped(t, transport)
		})
	}
}

func testStopped(t *testing.T, transport Transport) {
	const world, victim = 3, 1
	rounds := *stops
	if testing.Short() {
		rounds = 2
	}
	var ranks []*rankProcess
	for i := range world {
		ranks = append(ranks, startRank(t, fmt.Sprintf("replica%d", i)))
	}
	stopped := ranks[victim]
	others := []*rankProcess{ranks[0], ranks[2]}
	o := order{
		Store: testStore(t, nil), Bytes: 8 << 20, Poison: true,
		Opt: rankOptions{Transport: transport, BeatTimeout: quietLimit, Streams: 2}, // where there is no lane
	}
	for i := range rounds {
		o.Pass = i%2 == 1
		o.Q, o.Do = o.Q+1, "configure"
		orderAll(t, ranks, o)
		stormAll(t, ranks, o)
		<-time.After(time.Duration(rand.IntN(50)) * time.Millisecond)
		stopped.signal(t, syscall.SIGSTOP)
		for _, r := range others {
			a := r.receive(t)
			if a.Culprit != stopped.id || a.Poisoned > 0 {
				t.Errorf("quorum %d: %s: %q blames %q; %d foreign elements", o.Q, r.id, a.Err, a.Culprit, a.Poisoned)
			}
		}
		o.Q, o.Do = o.Q+1, "configure"
		orderAll(t, others, o)
		o.Do = "check"
		orderAll(t, others, o)
		stopped.signal(t, syscall.SIGCONT)
		orderAll(t, others, o) // while it writes on, perhaps
		if a := stopped.receive(t); a.Err == "" || a.Poisoned > 0 {
			t.Errorf("quorum %d: the stopped rank: %q, %d foreign elements", o.Q, a.Err, a.Poisoned)
		}
		orderAll(t, others, o)
		o.Do = "inspect" // nothing came into the tensors of the broken quorum either
		orderAll(t, ranks, o)
	}
	o.Q, o.Do = o.Q+1, "configure"
	orderAll(t, ranks, o)
	o.Do = "inspect"
	orderAll(t, ranks, o)
	o.Do = "check"
	for i, a := range orderAll(t, ranks, o) {
		if want := map[Transport]int{TransportShared: world - 1}[transport]; a.Lanes != want {
			t.Errorf("rank %d has %d lanes, want %d", i, a.Lanes, want)
		}
	}
}

func ids(ranks []*rankProcess) []string {
	var all []string
	for _, r := range ranks {
		all = append(all, r.id)
	}
	return all
}
