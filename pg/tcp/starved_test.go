package tcp

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/internal/otherproc"
	"github.com/skerry-ft/skerry/internal/testkit"
)

// A process that has something to do wants a processor; one that is stopped, or only waits,
// does not, and one that is gone is no peer.
func TestWantsProcessor(t *testing.T) {
	t.Parallel()
	var over atomic.Bool
	defer over.Store(true)
	ids := make(chan int)
	go func() {
		runtime.LockOSThread()
		ids <- unix.Gettid()
		for !over.Load() {
		}
	}()
	tid := uint32(<-ids)
	// Go may have put it to sleep for another goroutine.
	testkit.Eventually(t, "a thread that computes wants a processor", func() bool { return otherproc.WantsProcessor(tid) })
	over.Store(true) // others' tests want the processor, too
	r := startRank(t, "replica0")
	pid := uint32(r.PID())
	testkit.Eventually(t, "a process that waits for orders wants no processor", func() bool { return !otherproc.WantsProcessor(pid) })
	if otherproc.Maps(pid, laneName) {
		t.Error("a process without a group has lanes")
	}
	a, b := startRank(t, "a"), startRank(t, "b")
	ranks := []*rankProcess{a, b}
	o := order{Store: testStore(t, nil), Bytes: 1 << 20, Opt: rankOptions{Transport: TransportShared, BeatTimeout: patientBeats}, Q: 1, Do: "configure"}
	orderAll(t, ranks, o)
	stormAll(t, ranks, o)
	busy := uint32(a.PID())
	if !otherproc.Maps(busy, laneName) {
		t.Error("a rank over shared memory has no lanes")
	}
	testkit.Eventually(t, "a rank in a storm wants a processor", func() bool { return otherproc.WantsProcessor(busy) })
	a.signal(t, syscall.SIGSTOP)
	testkit.Eventually(t, "a stopped process wants no processor", func() bool { return !otherproc.WantsProcessor(busy) })
	a.signal(t, syscall.SIGKILL)
	for _, x := range ranks[1:] {
		x.receive(t)
	}
	testkit.Eventually(t, "a process that is gone has no lanes", func() bool { return !otherproc.Maps(busy, laneName) })
}
