package quorum_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// errUnfair is the liveness violation: with no more faults, the replicas that
// are up do not come together.
var errUnfair = errors.New("Q6: faults have stopped, and no common step is reached")

// fairRounds bounds the fair run; each round lets everybody do what it can.
const fairRounds = 60

// fair checks Q6 from w on: faults stop, everybody does what it should, all
// messages arrive. All who are up must soon commit two steps in one quorum.
func (x *explorer) fair(w *world) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in the fair run: %v", p)
		}
	}()
	x.Fair++
	w = deepCopy(x.cp, w)
	w.Left = budget{Quorums: 100, Steps: 100}
	if w.up() < w.Cfg.MinReplicas {
		return nil
	}
	begun, commits := w.Now, 0
	for range fairRounds {
		moved, err := x.fairRound(w)
		if err != nil {
			return err
		}
		ok, err := x.fairStep(w)
		if err != nil {
			return err
		}
		if ok {
			if commits++; commits == 2 {
				return x.checkTogether(w)
			}
			continue
		}
		if moved {
			continue
		}
		if err := x.fairTime(w); err != nil {
			return err
		}
		if limit := 2 * (w.Cfg.JoinTimeout + w.Cfg.HeartbeatTimeout + w.Cfg.Grace + time.Second); w.Now.Sub(begun) > limit {
			break
		}
	}
	return fmt.Errorf("%w: %v\n%s", errUnfair, w.LH.Decide(w.Now).Reason, w.describe())
}

// fairTime lets time pass. An ask that then is still not answered is withdrawn
// (PROTOCOL §3), for its heartbeat timeout is over.
func (x *explorer) fairTime(w *world) error {
	waits := map[quorum.ReplicaID]uint64{}
	for i := range w.Reps {
		if r := &w.Reps[i]; r.Join != nil && r.Join.Kind == quorum.JoinAsk {
			waits[r.ID] = r.Join.Number
		}
	}
	said := w.said()
	if err := x.apply(w, move{Kind: mvTime}); err != nil || w.said() != said {
		return err
	}
	for _, id := range sortedIDs(waits) {
		r := w.rep(id)
		if r.Join == nil || r.Join.Number != waits[id] {
			continue
		}
		w.Left.Withdraws++
		if err := x.apply(w, move{Kind: mvWithdraw, Who: id}); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) describe() string {
	s := ""
	for i := range w.Reps {
		s += "      " + describeReplica(&w.Reps[i]) + "\n"
	}
	return s
}

func (w *world) up() int {
	n := 0
	for i := range w.Reps {
		if w.Reps[i].Up {
			n++
		}
	}
	return n
}

// fairRound does every move that is no fault and no passing of time, once for
// each replica, until nothing is left to do.
func (x *explorer) fairRound(w *world) (moved bool, err error) {
	for range fairRounds {
		again := false
		for _, v := range x.moves(w) {
			switch v.Kind {
			case mvDeliver, mvJoin, mvAsk, mvBreak, mvReconnect, mvBeat:
			default:
				continue
			}
			if err := x.apply(w, v); err != nil {
				return moved, err
			}
			moved, again = moved || v.Kind != mvBeat, true // beats come and go with time
			break                                          // the list has changed
		}
		if !again {
			return moved, nil
		}
	}
	return moved, nil
}

// fairStep runs one good step of the quorum that holds everybody who is up.
func (x *explorer) fairStep(w *world) (bool, error) {
	for i := range w.Reps {
		r := &w.Reps[i]
		for _, v := range x.stepMoves(w, r) {
			if v.Mask != 0 || !x.outcomes[outcomeKey{len(r.In().Members), 0}][v.Pick].allCommit() {
				continue
			}
			whole := len(r.In().Members) == w.up()
			return whole, x.apply(w, v)
		}
	}
	return false, nil
}

// checkTogether checks that all who are up hold the same, and that all are
// participants.
func (x *explorer) checkTogether(w *world) error {
	var first *replica
	for i := range w.Reps {
		r := &w.Reps[i]
		switch {
		case !r.Up:
		case first == nil:
			first = r
		case r.Pos() != first.Pos() || r.Bytes != first.Bytes:
			return fmt.Errorf("C1: after the fair run %s is at %v and %s at %v", r.ID, r.Pos(), first.ID, first.Pos())
		}
	}
	if n := len(first.In().Participants); n != w.up() {
		return fmt.Errorf("Q6: %d of %d replicas participate after the fair run", n, w.up())
	}
	return nil
}
