package cluster

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/lighthouse/cluster/internal/datadir"
)

var bootstrapSeeds = flag.Int("bootstrap.seeds", 400, "how many histories of founding a cluster are tried")

// founder is a server of the model: what it wrote down, and what it has heard
// since it started.
type founderModel struct {
	id     string
	addr   string
	boot   uint64
	expect int
	stands datadir.ClusterRecord
	words  map[string]lastHeard
	said   []wire.Server // all that it ever said of itself
	up     bool
}

// foundWorld is a set of servers that found a cluster while everything goes
// wrong that may.
type foundWorld struct {
	t       *testing.T
	rng     *rand.Rand
	now     time.Time
	servers []*founderModel
	ghost   *founderModel // what a server was that lost its data
	drawn   int
	founded map[string]map[string]bool // by cluster: the founders who ever took part
	log     []string
}

func (w *foundWorld) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *foundWorld) self(s *founderModel) wire.Server {
	c := s.stands
	return wire.Server{Working: w.took(c.Cluster) >= 2 && c.Standing == wire.StandingFounded, RaftID: s.id, RPCAddress: s.addr + ":1", RaftAddress: s.addr + ":2", Expect: s.expect, Boot: s.boot,
		Standing: c.Standing, Cluster: c.Cluster, Proposer: c.Proposer, Founders: c.Founders, Voters: c.Voters,
		Abandoned: c.Abandoned, ProposerLost: c.ProposerLost}
}

// decide runs a server's rules until they rest; each state is written down and
// may be heard.
func (w *foundWorld) decide(s *founderModel) {
	for range 10 {
		b := bootstrap{now: w.now, self: w.self(s), stands: s.stands, expect: s.expect, words: s.words,
			draw: func() string { w.drawn++; return fmt.Sprintf("c%d", w.drawn) }}
		next, _, err := b.next()
		if err != nil {
			w.t.Fatalf("%s: %v\n%s", s.id, err, strings.Join(w.log, "\n"))
		}
		same := next.Standing == s.stands.Standing && next.Cluster == s.stands.Cluster &&
			next.ProposerLost == s.stands.ProposerLost && slices.Equal(next.Abandoned, s.stands.Abandoned)
		if same {
			return
		}
		w.note("%s: %v of %q, proposer lost %v", s.id, next.Standing, next.Cluster, next.ProposerLost)
		s.stands = next
		s.said = append(s.said, w.self(s))
		if next.Standing == wire.StandingFounded {
			if w.founded[next.Cluster] == nil {
				w.founded[next.Cluster] = make(map[string]bool)
			}
			w.founded[next.Cluster][s.id] = isFounder(next.Founders, s.id)
			w.checkOne()
		}
	}
	w.t.Fatalf("%s does not come to rest\n%s", s.id, strings.Join(w.log, "\n"))
}

// took returns how many founders took part in a cluster.
func (w *foundWorld) took(cluster string) int {
	n := 0
	for _, founder := range w.founded[cluster] {
		if founder {
			n++
		}
	}
	return n
}

// checkOne fails if two clusters arose: ones that a majority of their founders
// took part in, so that they could decide anything. A proposer that founded, and
// lost its data before anybody heard, led nobody.
func (w *foundWorld) checkOne() {
	w.t.Helper()
	var arose []string
	for cluster := range w.founded {
		if w.took(cluster) >= 2 {
			arose = append(arose, cluster)
		}
	}
	if len(arose) > 1 {
		w.t.Fatalf("two clusters: %v of %v\n%s", arose, w.founded, strings.Join(w.log, "\n"))
	}
}

// tell brings one server's word to another: what it says now, or said once.
func (w *foundWorld) tell(from, to *founderModel, old bool) {
	s := w.self(from)
	if old && len(from.said) > 0 {
		s = from.said[w.rng.IntN(len(from.said))]
	}
	if to.words[s.RaftID].server.Boot > s.Boot {
		return // as noteWord does
	}
	to.words[s.RaftID] = lastHeard{s, w.now}
	w.decide(to)
}

// Whatever is lost, late, repeated or out of order, whoever crashes anywhere and
// whichever one server loses its data: two clusters never arise. When the faults
// are over, all servers are in one.
func TestTwoClustersNeverArise(t *testing.T) {
	t.Parallel()
	for seed := range *bootstrapSeeds {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		w := &foundWorld{t: t, rng: rng, now: time.Unix(1e9, 0), founded: make(map[string]map[string]bool)}
		n := 3 + rng.IntN(3) // up to two more than expected
		for i := range n {
			id := fmt.Sprintf("%c%d", 'a'+rng.IntN(26), i)
			w.servers = append(w.servers, &founderModel{id: id, addr: id, expect: 3, words: make(map[string]lastHeard), up: true})
		}
		wiped := false
		for range 200 {
			w.now = w.now.Add(time.Duration(rng.IntN(800)) * time.Millisecond)
			a, b := w.servers[rng.IntN(n)], w.servers[rng.IntN(n)]
			switch p := rng.IntN(100); {
			case p < 6: // killed, and back with its data
				a.boot++
				a.words, a.up = make(map[string]lastHeard), rng.IntN(2) == 0
			case p < 7 && !wiped && n < 5: // back with nothing; six ids could be two threes
				wiped = true
				w.note("%s lost its data", a.id)
				w.ghost = new(*a)
				*a = founderModel{id: a.id + "x", addr: a.addr, boot: a.boot + 1, expect: 3, words: make(map[string]lastHeard), up: true}
			case p < 9 && w.ghost != nil && len(w.ghost.said) > 0 && b.up: // on the way when it lost them
				w.tell(w.ghost, b, true)
			case p < 15:
				a.up = true
			case a != b && b.up && (a.up || p < 40 && len(a.said) > 0):
				w.tell(a, b, !a.up || p < 40)
			}
		}
		for range 60 { // the faults are over
			w.now = w.now.Add(time.Second)
			for _, a := range w.servers {
				a.up = true
				for _, b := range w.servers {
					if a != b {
						w.tell(a, b, false)
					}
				}
			}
		}
		for _, s := range w.servers {
			if s.stands.Standing != wire.StandingFounded {
				t.Fatalf("seed %d: %s stands at %+v in the end\n%s", seed, s.id, s.stands, strings.Join(w.log, "\n"))
			}
		}
	}
}

// Who waits says for whom.
func TestWaitingNamesWhoIsMissing(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	b := bootstrap{now: now, self: wire.Server{RaftID: "b", RPCAddress: "b:1", Expect: 3}, expect: 3,
		join: []string{"a:1", "c:1"}, words: map[string]lastHeard{
			"a": {wire.Server{RaftID: "a", RPCAddress: "a:1", Expect: 3}, now}}}
	_, why, err := b.next()
	if want := "1 of 3 servers: heard a:1, b:1; no answer from c:1"; err != nil || why != want {
		t.Errorf("waits for %q, %v; want %q", why, err, want)
	}
	b.words["c"] = lastHeard{wire.Server{RaftID: "c", RPCAddress: "c:1", Expect: 5}, now}
	if _, _, err := b.next(); err == nil || !strings.Contains(err.Error(), "c:1 expects 5 servers, this one 3") {
		t.Errorf("with another --bootstrap-expect: %v", err)
	}
	b.words["c"] = lastHeard{wire.Server{RaftID: "c", RPCAddress: "c:1", Standing: wire.StandingFounded, Working: true, Cluster: "one"}, now}
	b.words["a"] = lastHeard{wire.Server{RaftID: "a", RPCAddress: "a:1", Standing: wire.StandingFounded, Working: true, Cluster: "two"}, now}
	if _, _, err := b.next(); err == nil || !strings.Contains(err.Error(), "two clusters answer") {
		t.Errorf("with servers of two clusters: %v", err)
	}
	b = bootstrap{now: now, self: wire.Server{RaftID: "b", RPCAddress: "b:1"}, words: map[string]lastHeard{}}
	if _, why, _ := b.next(); !strings.Contains(why, "cluster that works") {
		t.Errorf("a server that only joins waits for %q", why)
	}
	founders := []wire.Founder{{RaftID: "a", RPCAddress: "a:1"}, {RaftID: "b", RPCAddress: "b:1"}, {RaftID: "c", RPCAddress: "c:1"}}
	b = bootstrap{now: now, self: wire.Server{RaftID: "b", RPCAddress: "b:1", Expect: 3}, expect: 3, words: map[string]lastHeard{},
		stands: datadir.ClusterRecord{Standing: wire.StandingPledged, Cluster: "one", Proposer: "a", Founders: founders}}
	if _, why, _ := b.next(); !strings.Contains(why, "a:1 (silent), c:1 (silent)") {
		t.Errorf("a pledged server waits for %q", why)
	}
	if slices.Contains(sortedKeys(b.words), "a") {
		t.Error("a question left a word behind")
	}
}
