package lighthouse

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/lighthouse/internal/answer"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/quorum/story"
)

// settle carries out what the rules say after the last inputs: it pushes their
// notices, decides, has the decision written, and finds when to wake. While a
// decision is being written there is no other.
func (j *job) settle() {
	j.retime()
	if j.broken == nil && j.writing == nil {
		began := time.Now()
		d := j.machine.Decide(began)
		j.leadership.server.metrics.Decided(time.Since(began))
		j.push()
		j.told.Waits(d)
		if d.Ready {
			j.write(d)
		}
	}
	if j.broken != nil {
		j.rebuild()
	}
	j.push()
	j.save(time.Now())
	j.wake = j.machine.Wake(time.Now())
	j.turns.Due = j.wake
}

// write is a decision on its way into the ledger; or, when nothing changed, to
// a check of leadership that is begun after it.
type write struct {
	d         quorum.Decision
	token     quorum.Token
	createdMs int64
	told      []story.Told // goes along
	follows   int64        // the job's last quorum, as the machine knows it; 0: there is none
	err       error
}

// write starts what makes a decision so, beside the job's goroutine: whatever
// comes in meanwhile is taken, and answered by a later decision.
func (j *job) write(d quorum.Decision) {
	w := &write{d: d, token: d.Quorum.Token, createdMs: d.Quorum.CreatedMs}
	if last := j.machine.Last(); last != nil {
		w.follows = last.ID
	}
	if d.Changed { // else nothing is written
		w.told = j.leadership.feed.Unsaved(j.name)
	}
	if d.Changed && w.token == (quorum.Token{}) {
		_, _ = rand.Read(w.token[:]) // never fails, as its documentation says
	}
	if d.Changed && w.createdMs == 0 {
		w.createdMs = time.Now().UnixMilli()
	}
	j.writing = w
	// The leadership waits for it: it ends with raft's answer, at the end of the
	// leader's lease at the latest.
	j.leadership.running.Go(func() {
		w.err = j.commit(w)
		select {
		case j.wrote <- w:
		case <-j.ended:
		}
	})
}

// commit returns when the ledger has the decision, or leadership was confirmed
// after it.
func (j *job) commit(w *write) error {
	l := j.leadership
	if !w.d.Changed {
		return l.ledger.Confirm(l.term, j.name, w.d.Quorum)
	}
	began := time.Now()
	formed := w.d.Command(l.term, w.token, w.createdMs)
	if l.ledger.ReadsDeltas() {
		formed = w.d.Entry(l.term, w.token, w.createdMs)
	}
	err := l.ledger.Apply(cluster.Command{Kind: cluster.CommandFormed, Job: j.name, UnixMs: j.began, Formed: &formed, Told: w.told, Counted: formed.FollowsID == w.follows})
	l.server.metrics.Applied(time.Since(began), err)
	return err
}

// written makes the decision so that was written, and answers those whom it
// answers. Nobody was told of it before.
func (j *job) written(w *write) {
	if j.writing != w {
		return // the machine was rebuilt meanwhile; the ledger refuses or has it
	}
	j.writing = nil
	if w.err != nil {
		j.broken = w.err
		return
	}
	q := j.machine.Form(j.now(), w.d, w.token, w.createdMs)
	if w.d.Changed {
		j.leadership.feed.Saved(j.name, w.told)
		j.ordinal = j.leadership.ledger.Quorums(j.name)
		j.told.Formed(q)
	}
	j.answer(q, w.d.Answers)
}

// answer tells everybody whose join the quorum answers.
func (j *job) answer(q quorum.Quorum, answers []quorum.Answered) {
	shared := answer.New(q, j.extra)
	for _, a := range answers {
		if s := j.sessions[a.ReplicaID]; s != nil {
			s.queue(shared.Down(a))
		}
		j.answerAskers(a, shared)
	}
}

// push sends the machine's notices, and keeps and logs its events.
func (j *job) push() {
	for _, n := range j.machine.Notices() {
		down := wire.NoticeToProto(n)
		for _, id := range n.To {
			if s := j.sessions[id]; s != nil {
				s.send(down)
			}
		}
		j.leadership.server.metrics.Pushed(n.Kind, len(n.To))
	}
	last := story.Last{Ordinal: j.ordinal}
	if q := j.machine.Last(); q != nil {
		last.Round = q.Round
	}
	for _, e := range j.machine.Events() {
		j.leadership.server.metrics.Happened(j.name, e)
		j.told.Event(e)
		switch e.Kind {
		case quorum.EventPositionFell:
			j.steps.FellBack()
		case quorum.EventRestored:
			j.ordinal, last.Ordinal = 0, 0 // the ledger did not count it
		}
		at := time.Now().UnixMilli()
		j.leadership.feed.Note(j.name, at, last, e)
		j.events = append(j.events, api.Note{AtMs: at, Text: e.String()})
		j.events = j.events[max(len(j.events)-eventsKept, 0):]
	}
}

// errRestarted says that a job begins anew from its ledger: what was asked of it
// should be asked again, here.
var errRestarted = fmt.Errorf("%w: this job begins anew from its ledger", wire.ErrRestarted)

// rebuild starts again from the ledger, after a command whose outcome may be
// unknown here. Everybody is dismissed and will come again. When the leadership
// is lost, the leadership is about to end, and nothing is decided until then; any
// other error means that the command did not take effect, so the ledger that
// is read here is the newest.
func (j *job) rebuild() {
	j.log.Warn().Err(j.broken).Msg("machine rebuilt from the ledger")
	j.push() // what happened before stays on the page
	why := errRestarted
	over := cluster.LeadershipEnds(j.broken)
	if over {
		why = cluster.ErrNotLeader
	}
	j.dismiss(why)
	if err := j.restart(); err != nil {
		// The rules were valid when they were written, so this does not happen;
		// if it does, the job decides nothing until there is another leader.
		j.broken = err
		return
	}
	if !over {
		j.broken = nil
	}
}
