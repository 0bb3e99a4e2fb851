package worlds

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// lines is a log that a test reads.
type lines struct {
	sync.Mutex

	b bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.b.Write(p)
}

func (l *lines) with(text string) (all []string) {
	l.Lock()
	defer l.Unlock()
	for line := range strings.SplitSeq(l.b.String(), "\n") {
		if strings.Contains(line, text) {
			all = append(all, line)
		}
	}
	return all
}

// A member whose answer is late withdraws its ask, and goes on in the round that the
// others have left (PROTOCOL §3.2). Their frames end its quorum; they called nothing
// else than it did, and nobody is the odd one.
func TestWorldAnotherRoundIsNoOtherCollective(t *testing.T) {
	t.Parallel()
	inWorld(t, usual(), func(w *world) {
		log := &lines{}
		w.log = zerolog.New(log)
		a, b := w.replica("a", 0, 1, quick()).start(), w.replica("b", 1, 1, quick()).start()
		w.reach(20, 10*time.Second, a, b)
		before := a.ranks[0].m.QuorumID()
		m := quick()
		m.heals = 100 * time.Millisecond
		c := w.replica("c", 2, 1, m).start()
		w.within(20*time.Second, "c is in", func() bool { return a.ranks[0].m.QuorumID() > before && c.ranks[0].m.QuorumID() > before })
		w.net.Hold("lighthouse", a.ranks[0].host.Name, true)
		time.Sleep(1500 * time.Millisecond)
		w.net.Hold("lighthouse", a.ranks[0].host.Name, false)
		at := a.ranks[0].atStep()
		w.reach(at+50, 30*time.Second, a, b, c)
		if odd := log.with("peer called something else"); len(odd) > 0 {
			t.Errorf("%d accusations of other collectives: %s", len(odd), strings.Join(odd, "\n"))
		}
	})
}
