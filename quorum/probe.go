package quorum

import (
	"fmt"
	"time"
)

// watch is a peer whose progress may clear a suspect.
type watch struct {
	peer    ReplicaID
	replied bool   // the probe reached it: what it told before may be old news
	based   bool   // its first beat after that was heard
	base    uint64 // the ballots which that beat told, in the last quorum
	latest  uint64 // the most that it told since
}

// sendProbe asks the suspect to speak, and some of its peers to bear witness (§6). Each
// suspicion has a probe of its own: an answer to an earlier one was given before it.
func (m *Machine) sendProbe(r *replica) {
	m.probes++
	r.probe = m.probes
	// The former ones count from a probe that came before the newest reason.
	r.watches = nil
	to := []ReplicaID{r.id}
	// Peers step with it only in a quorum that stands.
	if r.member && !m.fallen {
		for _, peer := range m.watchers(r) {
			r.watches = append(r.watches, watch{peer: peer})
			to = insertID(to, peer)
		}
	}
	// Of a suspect whose stream broke only the peers get it.
	m.notify(Notice{Kind: NoticeProbe, To: to, QuorumID: m.lastID(), About: r.id, Number: r.probe})
}

// watchers are the members after r, in the ring of replica ranks, that can be
// asked: of a, b, c, d and e those of d are e, a and b.
func (m *Machine) watchers(r *replica) []ReplicaID {
	rank, _ := memberRank(m.last.Members, r.id)
	var out []ReplicaID
	n := len(m.last.Members)
	// From its neighbour on, so that suspects of one moment ask different peers.
	for k := 1; k < n && len(out) < probePeers; k++ {
		peer := m.replicas[m.last.Members[(rank+k)%n].ReplicaID]
		// One that is a suspect itself may never answer.
		if peer != nil && peer.session && !peer.suspect {
			out = append(out, peer.id)
		}
	}
	return out
}

// witness counts what a peer's beat says for suspects: two more ballots in the
// standing quorum than when the probe had reached it clear them. A ballot needs
// all members, so the second one was begun after the suspicion; one alone may be
// old news, and only extends the grace. The watch goes on while the suspect is
// silent: each further ballot extends the grace, and when they end it is lost.
//
//	the probe goes to s, which is suspect, and to p; p replies
//	p's beat: 40 ballots    the count begins: the probe had reached p by then
//	p's beat: 41            the grace begins anew; that ballot may have been under way before
//	p's beat: 42            p steps with s: what peers said against s does not count
//	p's beats stay at 42    Grace after that one s is lost
func (m *Machine) witness(now time.Time, peer *replica) {
	// Ballots of an older quorum say nothing of this one's members; in one that fell there are
	// none.
	if len(m.suspects) == 0 || m.fallen || peer.beat.QuorumID != m.lastID() {
		return
	}
	for _, s := range m.suspects {
		for i := range s.watches {
			w := &s.watches[i]
			if w.peer != peer.id || !w.replied {
				continue
			}
			if !w.based {
				// The probe reached it before this beat, at most at this count.
				w.based, w.base, w.latest = true, peer.beat.Ballots, peer.beat.Ballots
				continue
			}
			if peer.beat.Ballots > w.latest {
				w.latest = peer.beat.Ballots
				// §6: a suspect that its peers step with is not lost by the first grace (lostBy).
				s.extended = now
			}
			// One may have been begun before the suspicion, and the suspect have died in it
			// (transcript 31_only_the_lighthouse, "the other way"). The second one took its ballot:
			// what its accusers said is refuted.
			if w.latest >= w.base+2 && !s.vouched {
				s.vouched, s.accusers = true, nil
				m.event(EventCleared, s.id, fmt.Sprintf("%s steps with it", peer.id))
			}
		}
	}
}
