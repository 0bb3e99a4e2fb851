package baby

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/tensor"
)

// listless is a backend whose ballots fail without a list.
const listless = "listless"

type listsNothing struct{ pg.Backend }

func (b listsNothing) Submit(op *pg.Op) *pg.Work {
	if op.Kind == pg.KindBallot {
		return pg.Finished(op, errors.New("lost"))
	}
	return b.Backend.Submit(op)
}

// A child that dies in its ballot takes the digest with it. The other rank, whose own
// ballot is lost on its way, has all of them and commits: no entry may say that this
// rank's ballot went out without a digest.
func TestC5_ABallotWhoseChildDiesHasNoEntries(t *testing.T) {
	t.Parallel()
	mute := func(f tcp.FrameInfo) tcp.Action {
		return tcp.Action{Drop: f.Type == "data" && f.Kind == pg.KindBallot}
	}
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	b := newBaby(t, Options{Silence: pgtest.Bound})
	other := tcp.New(tcp.Options{BeatTimeout: pgtest.Bound, Fault: mute})
	w.Configure(w.Join("a", b), w.Join("b", other))
	x := [2]tensor.Tensor{tensor.New(tensor.Float32, 1000), tensor.New(tensor.Float32, 1000)}
	var sums []*pg.Work
	for rank, g := range w.Groups {
		sums = append(sums, g.AllReduceAsync(x[rank], tensor.Sum))
	}
	allEnded(t, sums, 0)
	ballots := make([]*pg.Work, 2)
	for rank, g := range w.Groups {
		ballots[rank] = g.Submit(&pg.Op{Kind: pg.KindBallot, Ballot: []byte{byte(rank)}, Deadline: time.Now().Add(pgtest.Bound)})
	}
	allEnded(t, ballots[1:], pgtest.Bound)
	if all := ballots[1].Op().Ballots; ballots[1].Err() != nil || !all[0].Here || !all[0].Digest.Valid {
		t.Fatalf("the other rank has %+v, %v; want all ballots, and a digest", all, ballots[1].Err())
	}
	if ballots[0].Finished() {
		t.Fatalf("the ballot has ended before its child: %v", ballots[0].Err())
	}
	killChild(t, b)
	allEnded(t, ballots[:1], 0)
	if e, ok := errors.AsType[*ChildError](ballots[0].Err()); !ok || e.Signal != syscall.SIGKILL {
		t.Errorf("the ballot ended with %v, want the child's end by SIGKILL", ballots[0].Err())
	}
	for rank, e := range ballots[0].Op().Ballots {
		if e.Here || e.Digest.Valid || len(e.Payload) > 0 {
			t.Errorf("entry of rank %d is %+v, want none", rank, e)
		}
	}
}

// A ballot that the child was never given did not go out. The own one is there, as of
// any other backend whose group was broken before.
func TestABallotAfterTheChildsEndHasItsOwn(t *testing.T) {
	t.Parallel()
	b, g := alone(t, Options{})
	killChild(t, b)
	brokenBy(t, b)
	work := g.Submit(&pg.Op{Kind: pg.KindBallot, Ballot: []byte("mine")})
	allEnded(t, []*pg.Work{work}, 0)
	all := work.Op().Ballots
	if !errors.Is(work.Err(), pg.ErrAborted) || len(all) != 1 || !all[0].Here || string(all[0].Payload) != "mine" {
		t.Errorf("ballots %+v, %v; want the own one, and ErrAborted", all, work.Err())
	}
}

// What the backend in the child gives of a ballot that failed is what there is.
func TestC5_ABallotThatFailsWithoutAListHasNoEntries(t *testing.T) {
	t.Parallel()
	_, g := alone(t, Options{Backend: listless})
	work := g.Submit(&pg.Op{Kind: pg.KindBallot, Ballot: []byte("mine")})
	allEnded(t, []*pg.Work{work}, 0)
	if all := work.Op().Ballots; work.Err() == nil || len(all) > 0 {
		t.Errorf("ballots %+v, %v; want none, and an error", all, work.Err())
	}
}
