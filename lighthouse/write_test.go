package lighthouse

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/quorum"
)

// heldDisk is a disk whose writes of the log wait while held is locked.
type heldDisk struct {
	cluster.Disk
	held sync.RWMutex
}

func (d *heldDisk) StoreLogs(all []*raft.Log) error {
	d.held.RLock()
	defer d.held.RUnlock()
	return d.Disk.StoreLogs(all)
}

// serving is a server with a disk that can be held, which runs until the test ends.
func serving(t *testing.T) (*Server, context.Context, *heldDisk) {
	t.Helper()
	held := new(heldDisk)
	cfg := DefaultConfig()
	cfg.Listen, cfg.DataDir = "127.0.0.1:0", t.TempDir()
	cfg.Raft.DiskTimeout = time.Minute
	cfg.Raft.Disk = func(d cluster.Disk) cluster.Disk {
		held.Disk = d
		return held
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return s, ctx, held
}

// While a decision is being written, beats and joins are still taken, and who
// joined meanwhile is in a later quorum.
func TestInputsAreTakenWhileTheLedgerIsWritten(t *testing.T) {
	t.Parallel()
	s, ctx, disk := serving(t)
	limited, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	lead, err := s.leadership(limited)
	if err != nil {
		t.Fatal(err)
	}
	j, err := lead.job(t.Context(), "default", quorum.KindTorchft)
	if err != nil {
		t.Fatal(err)
	}
	disk.held.Lock() // the ledger's command waits for this
	locked := true
	defer func() {
		if locked {
			disk.held.Unlock()
		}
	}()
	service := &torchftService{server: s}
	answers := make(chan int, 2)
	ask := func(id string) {
		got, err := service.Quorum(limited, &torchftpb.LighthouseQuorumRequest{Requester: &torchftpb.QuorumMember{ReplicaId: id, WorldSize: 1}})
		if err != nil {
			t.Errorf("%s: %v", id, err)
		}
		answers <- len(testkit.OverWire(t, got, new(torchftpb.LighthouseQuorumResponse)).GetQuorum().GetParticipants())
	}
	go ask("a")
	for writing := false; !writing; {
		if err := j.do(limited, func(time.Time) { writing = j.writing != nil }); err != nil {
			t.Fatalf("a's join does not come to a write: %v", err)
		}
	}
	go ask("b")
	for joined := false; !joined; {
		if err := j.do(limited, func(time.Time) { joined = len(j.askers["b"]) > 0 }); err != nil {
			t.Fatalf("b's join is not taken while the ledger is written: %v", err)
		}
	}
	var refused error
	if err := j.note(limited, func(now time.Time) { refused = j.machine.Heartbeat(now, "c") }); err != nil || refused != nil {
		t.Fatalf("a beat while the ledger is written: %v, %v", err, refused)
	}
	select {
	case n := <-answers:
		t.Fatalf("an answer with %d members before the ledger has it", n)
	default:
	}
	disk.held.Unlock()
	locked = false
	if n := <-answers; n != 1 {
		t.Errorf("a's quorum has %d members, want the one of the decision that was written", n)
	}
	go ask("a") // b waits for it: a was in the last quorum
	for range 2 {
		if n := <-answers; n != 2 {
			t.Errorf("the next quorum has %d members, want 2", n)
		}
	}
}
