package demo

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/train/spawn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRecoveryCountsTheLastSurvivor plays a kill to the ledger.
func TestRecoveryCountsTheLastSurvivor(t *testing.T) {
	t.Parallel()
	l := newLedger()
	all := make([]*replica, 3)
	for i := range all {
		all[i] = &replica{worker: worker{index: i, generation: 1}, committed: true, id: fmt.Sprint("r", i)}
	}
	commit := func(i int, step, quorum, at int64) {
		l.take(all[i], event{Kind: eventCommitted, Step: step, QuorumID: quorum, AtNs: at})
	}
	l.take(all[0], event{Kind: eventQuorum, QuorumID: 1, Members: []string{"r0", "r1", "r2"}, AtNs: 1})
	commit(0, 1, 1, 100)
	l.killed(150, all[2], all)
	commit(0, 2, 1, 160) // was as good as committed when r2 died
	if l.outages[0].over {
		t.Error("a commit of the old quorum ended the outage")
	}
	l.take(all[0], event{Kind: eventQuorum, QuorumID: 2, Members: []string{"r0", "r1"}, AtNs: 170})
	commit(0, 3, 2, 200)
	if l.outages[0].over {
		t.Error("the outage is over before the last survivor committed")
	}
	commit(1, 3, 2, 230)
	if o := l.outages[0]; !o.over || o.lastNs-o.at != 80 {
		t.Errorf("outage %+v, want it over after 80", o)
	}
	commit(1, 4, 2, 300)
	if o := l.outages[0]; o.lastNs != 230 {
		t.Errorf("a later commit moved the end to %d", o.lastNs)
	}
	l.killed(310, all[1], all) // r0 waits for nobody but itself
	l.killed(320, all[0], all)
	if l.outages[1].over {
		t.Error("an outage ended because its last survivor died")
	}
}

// TestKillsComeAtTheirTime: the victim dies at the moment that was drawn, not
// with the next event that comes in.
func TestKillsComeAtTheirTime(t *testing.T) {
	t.Parallel()
	d := newDemo(config{Replicas: 2, Steps: 100, KillEvery: 10, StepTime: time.Hour}, newView(io.Discard))
	for _, r := range d.replicas {
		r.committed = true
		d.schedule(event{Kind: eventCommitted, Step: 10})
	}
	select {
	case <-d.killAt.C:
		t.Error("the second commit of a step hastened the kill")
	case <-time.After(50 * time.Millisecond): // the draw of seed 0 is minutes
	}
	d.replicas[1].committed = false
	if err := d.kill(); err != nil || !d.postponed {
		t.Fatalf("%v, postponed %v: want a kill that waits for a second holder of the state", err, d.postponed)
	}
	d.schedule(event{Kind: eventCommitted, Step: 11})
	select {
	case <-d.killAt.C:
		t.Error("the last holder of the state is to die")
	case <-time.After(50 * time.Millisecond):
	}
	d.replicas[1].committed = true
	d.schedule(event{Kind: eventCommitted, Step: 12})
	select {
	case <-d.killAt.C:
	case <-time.After(stepLimit):
		t.Error("the kill that was put off does not come")
	}
}

// TestCrashesAreTrouble: a replica that ends by itself is not taken for one that was killed.
func TestCrashesAreTrouble(t *testing.T) {
	t.Parallel()
	killed, crashed := &spawn.ExitError{Signal: syscall.SIGKILL}, &spawn.ExitError{Code: 2}
	if !byOthers(killed) || byOthers(crashed) || byOthers(errors.New("exit status 0")) {
		t.Error("whose doing an end was is mistaken")
	}
	r := Report{Steps: 1, wanted: 1, Crashes: []string{"a: panic", "b: panic"}, Replicas: []replicaReport{{SHA256: "x"}}}
	if got := r.trouble(); got != "2 ends without being killed, the first: a: panic" {
		t.Errorf("trouble %q", got)
	}
}

func TestGoodput(t *testing.T) {
	t.Parallel()
	l := newLedger()
	l.firstNs = int64(time.Second)
	at := l.firstNs
	for step := int64(1); step <= 100; step++ {
		at += int64(50 * time.Millisecond)
		if step == 50 {
			at += int64(5 * time.Second) // as long as all steps together
		}
		l.commits[step] = at
	}
	part, pace := l.goodput()
	if part != 0.5 || pace != 50 {
		t.Errorf("goodput %v at %v ms a step, want 0.5 at 50", part, pace)
	}
	if part, _ := newLedger().goodput(); part != 0 {
		t.Errorf("goodput %v without a step, want 0", part)
	}
}

// What demo's replicas say is shown harmlessly, on a terminal and elsewhere.
func TestHostileTextInDemo(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	v := newView(&out)
	r := &replica{}
	for _, e := range []event{
		{Kind: eventQuorum, QuorumID: 1, Members: []string{testkit.HostileText, testkit.HostileText}},
		{Kind: eventDiffered, Text: testkit.HostileText},
		{Kind: eventFinal, Step: 3, Hash: testkit.HostileText},
	} {
		v.event(r, e)
	}
	v.note("did not start again: %v", errors.New(testkit.HostileText))
	Report{Replicas: []replicaReport{{Name: "replica-0", SHA256: testkit.HostileText}}}.print(&out)
	if strings.Count(out.String(), "all is well") < 3 {
		t.Errorf("printed %q, without what the replicas say", &out)
	}
	testkit.Harmless(t, out.String())
	d := newDemo(config{Replicas: 1, Steps: 1}, v)
	d.ledger.quorum, d.ledger.members[1] = 1, []string{testkit.HostileText}
	d.replicas[0].phase = testkit.HostileText
	for _, line := range v.picture(d) {
		if strings.ContainsRune(line, '\n') {
			t.Errorf("%q is more than a line", line)
		}
		testkit.Harmless(t, line)
	}
}
