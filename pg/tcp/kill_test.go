package tcp

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
)

// kills: `make kills` takes 200, .ci/run 10.
var kills = flag.Int("tcp.kills", 0, "how many ranks TestKill kills in all-reduces of 64 MiB; 0: two, in short ones")

// TestKill: SIGKILL of one of eight processes in the middle of large
// all-reduces. Every survivor's op fails and names it; then the survivors and a
// newcomer configure and reduce correctly, with as many descriptors, mappings and
// goroutines as before. How long it took is logged, not judged: the machine
// is not ours alone.
func TestKill(t *testing.T) {
	rounds, bytes := *kills, 64<<20
	if rounds == 0 {
		rounds, bytes = 2, 8<<20
	}
	const world = 8
	address := testStore(t, nil)
	var ranks []*rankProcess
	for i := range world {
		ranks = append(ranks, startRank(t, fmt.Sprintf("replica%d", i)))
	}
	o := order{Store: address, Bytes: bytes, Opt: rankOptions{BeatTimeout: patientBeats}}
	var first []answer
	var took []time.Duration
	for q := int64(1); q <= int64(rounds)+1; q++ {
		o.Q, o.Do = q, "configure"
		orderAll(t, ranks, o)
		o.Do = "check"
		held := orderAll(t, ranks, o)
		if q == 2 {
			first = held // by now all have met everything once
		}
		if q > 2 {
			compareHeld(t, ranks, o, first, held)
		}
		if q > int64(rounds) {
			break
		}
		victim := rand.IntN(world)
		took = append(took, killOne(t, ranks, o, victim)...)
		ranks[victim] = startRank(t, fmt.Sprintf("newcomer%d", q))
	}
	slices.Sort(took)
	t.Logf("SIGKILL of one of %d to a survivor's error, %d MiB, %d kills: p50 %v, p99 %v, max %v", world, bytes>>20,
		rounds, took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
}

// killOne kills the victim in a storm and returns how long each survivor took.
func killOne(t *testing.T, ranks []*rankProcess, o order, victim int) []time.Duration {
	t.Helper()
	stormAll(t, ranks, o)
	<-time.After(time.Duration(rand.IntN(200)) * time.Millisecond)
	at := hostClock()
	ranks[victim].signal(t, syscall.SIGKILL)
	var took []time.Duration
	for i, r := range ranks {
		if i == victim {
			continue
		}
		a := r.receive(t)
		if a.Culprit != ranks[victim].id || a.Peer != victim || a.Poisoned > 0 {
			t.Errorf("quorum %d: rank %d: %q blames rank %d (%s), killed was rank %d (%s); %d wrong elements",
				o.Q, i, a.Err, a.Peer, a.Culprit, victim, ranks[victim].id, a.Poisoned)
		}
		took = append(took, time.Duration(a.At-at))
	}
	<-ranks[victim].Done()
	ranks[victim].end()
	return took
}

// compareHeld fails if a survivor holds more than it did, once what goes on beside the
// ops, such as the sweep of an old prefix, is over.
func compareHeld(t *testing.T, ranks []*rankProcess, o order, first, now []answer) {
	t.Helper()
	testkit.EventuallyNil(t, "no survivor holds more than at first", func() error {
		err := heldMore(o.Q, first, now)
		if err != nil {
			now = orderAll(t, ranks, o)
		}
		return err
	})
}

// heldMore names a rank that holds more than it did.
func heldMore(q int64, first, now []answer) error {
	for i := range now {
		a, b := first[i], now[i]
		if b.Lanes != len(now)-1 || b.Maps > a.Maps || b.Files > a.Files || b.Routines > a.Routines {
			return fmt.Errorf("quorum %d: rank %d holds %d files, %d mappings, %d goroutines, %d lanes; at first %d, %d, %d, %d",
				q, i, b.Files, b.Maps, b.Routines, b.Lanes, a.Files, a.Maps, a.Routines, a.Lanes)
		}
	}
	return nil
}

// TestKillPassing: SIGKILL of one of three processes that pass long messages
// around, through shared memory. Both survivors' ops fail and name it, with no
// foreign byte in their tensors, and they go on with a newcomer.
func TestKillPassing(t *testing.T) {
	t.Parallel()
	const world, rounds = 3, 2
	var ranks []*rankProcess
	for i := range world {
		ranks = append(ranks, startRank(t, fmt.Sprintf("replica%d", i)))
	}
	o := order{
		Store: testStore(t, nil), Bytes: 8 << 20, Pass: true, Poison: true,
		Opt: rankOptions{Transport: TransportShared, BeatTimeout: patientBeats},
	}
	for q := int64(1); q <= rounds; q++ {
		o.Q, o.Do = q, "configure"
		orderAll(t, ranks, o)
		victim := rand.IntN(world)
		killOne(t, ranks, o, victim)
		ranks[victim] = startRank(t, fmt.Sprintf("newcomer%d", q))
	}
	o.Q, o.Do = rounds+1, "configure"
	orderAll(t, ranks, o)
	o.Do = "check"
	orderAll(t, ranks, o)
}
