package integration

import (
	"bufio"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/quorum"
)

// counters reads the lighthouse's own counters from its metrics.
func counters(t *testing.T, l *lighthousetest.Server) map[string]float64 {
	t.Helper()
	resp, err := http.Get(l.URL("/metrics"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all := make(map[string]float64)
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if !ok || !strings.HasPrefix(name, "skerry_lighthouse_") {
			continue
		}
		if all[name], err = strconv.ParseFloat(value, 64); err != nil {
			t.Fatal(err)
		}
	}
	if len(all) == 0 {
		t.Fatal("no metrics of the lighthouse")
	}
	return all
}

// A quorum stands until somebody needs another: in steady state no step asks the
// lighthouse anything. It hears beats, and nothing that it counts but these
// moves.
func TestSteadyStateAsksNobody(t *testing.T) {
	t.Parallel()
	f := startFleet(t, lighthousetest.Patient, direct) // it asks nobody who is late whether he lives
	// What is told of the beginning is saved a second after it, once.
	testkit.Eventually(t, "the ledger is not written for a while", func() bool {
		was := counters(t, f.light)["skerry_lighthouse_raft_last_index"]
		f.train(t, 1500*time.Millisecond)
		return counters(t, f.light)["skerry_lighthouse_raft_last_index"] == was
	})
	before := counters(t, f.light)
	from := f.trainers[0].steps()
	for _, tr := range f.trainers {
		tr.reaches(t, from+50)
	}
	beats := 0.0
	for name, now := range counters(t, f.light) {
		switch {
		case name == `skerry_lighthouse_messages_total{kind="beat"}`:
			beats = now - before[name]
		case strings.HasPrefix(name, "skerry_lighthouse_step{"), name == `skerry_lighthouse_replicas{job="default",state="live"}`,
			name == `skerry_lighthouse_replicas{job="default",state="healing"}`:
			// It is what beats say: steps, and who has committed since the heal.
		case strings.HasPrefix(name, "skerry_lighthouse_decide_seconds"):
			// It looks again after every beat.
		case now != before[name]:
			t.Errorf("%s went from %v to %v in 50 steps of a standing quorum", name, before[name], now)
		}
	}
	if beats == 0 {
		t.Error("no beats counted: the counters say nothing")
	}
	for _, tr := range f.trainers {
		if s := tr.m.Stats(); s.Joins != 1 || s.Asks != 0 || s.Quorums != 1 || s.Reconfigures != 1 {
			t.Errorf("%s: %+v, want one join and one configured group", tr.name, s)
		}
	}
	f.train(t, 0)
}

// A lighthouse may be away while nobody joins or dies: no step waits for it.
// When it is back on its ledger, the same quorum stands.
func TestLighthouseAwayDelaysNothing(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	var listen string
	rules := quorum.DefaultConfig()
	f := startFleet(t, func(c *lighthouse.Config) { c.DataDir = data }, func(addr string) [3]string {
		listen = addr
		return direct(addr)
	})
	if err := f.light.Stop(); err != nil {
		t.Fatal(err)
	}
	f.train(t, 3*rules.HeartbeatTimeout)
	f.light = lighthousetest.Start(t, func(c *lighthouse.Config) { c.Listen, c.DataDir = listen, data })
	for _, tr := range f.trainers {
		tr.await(t, "a session again", func() bool { return tr.sessions >= 2 })
	}
	f.train(t, rules.HeartbeatTimeout+rules.Grace)
	if j := f.job(t); !j.Stands || j.QuorumID != f.quorum || j.Members != 3 {
		t.Errorf("quorum %d stands: %v, %d members (%s); want %d to stand", j.QuorumID, j.Stands, j.Members, j.FellBy, f.quorum)
	}
}

// A member that only the lighthouse cannot reach is not lost while the others
// step with it: nothing happens to training.
func TestMemberThatOnlyTheLighthouseCannotReach(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(*proxy){"swallowed": (*proxy).swallow, "cut": (*proxy).cut} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t)
			rules := quorum.DefaultConfig()
			rules.Grace = 3 * time.Second // a busy machine makes no step for a while
			// The proxy is the only address that the lighthouse tells of itself,
			// so nobody finds a way around it.
			f := startFleet(t, func(c *lighthouse.Config) { c.Advertise, c.Rules.Grace = p.addr(), rules.Grace }, func(addr string) [3]string {
				p.leadTo(addr)
				return [3]string{addr, addr, p.addr()}
			})
			away(p)
			testkit.Eventually(t, "the lighthouse misses c", func() bool {
				r := f.replica(t, "c")
				return !r.Session || time.Duration(r.SilenceMs)*time.Millisecond > rules.SuspectAfter
			})
			f.train(t, rules.HeartbeatTimeout+rules.Grace+time.Second)
			if j := f.job(t); !j.Stands || j.QuorumID != f.quorum {
				t.Errorf("quorum %d stands: %v (%s); want %d to stand", j.QuorumID, j.Stands, j.FellBy, f.quorum)
			}
			if r := f.replica(t, "c"); r.State == "lost" {
				t.Errorf("c is lost: %s", r.Why)
			}
			p.heal()
			testkit.Eventually(t, "the lighthouse hears c", func() bool {
				r := f.replica(t, "c")
				return r.State == "live" && r.Session && time.Duration(r.SilenceMs)*time.Millisecond < rules.SuspectAfter
			})
			f.train(t, rules.HeartbeatTimeout+rules.Grace)
		})
	}
}
