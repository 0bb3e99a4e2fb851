package localsgd

import (
	"context"
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/dist/quant"
	"github.com/skerry-ft/skerry/pg"
)

// ErrDone is returned by Step after the last round, where no round is under way. Leave the loop: a
// loop that asks the manager's step instead of Done would not end, and learn alone. Idle, in the
// manager's Finish, takes part in what the others still do.
var ErrDone = errors.New("localsgd: all rounds are through")

// Manager is what an Averager needs of a *manager.Manager.
type Manager interface {
	Steps
	Register(name string, save func() checkpoint.State, load func(checkpoint.State) error) error
	Group() *pg.Group
	ReportError(err error)
	Move() // the trainer has made an inner step
}

// Steps are a Manager's.
type Steps interface {
	StartQuorum(ctx context.Context) error
	ShouldCommit(ctx context.Context) (bool, error)
	Step() int64 // the number of those that were committed
}

// Averager synchronises the replicas of one model in rounds; see the package comment.
// It is owned by the trainer's goroutine, but for State, which a manager calls from
// another while a round is under way.
type Averager struct {
	settings

	manager   Manager
	fragments []*fragment
	counters  []int64 // registered: the rounds committed, and then those of each fragment
	reducer   *reducer

	open   bool      // a round is under way
	taken  int       // inner steps of it
	healed bool      // in the call of the manager that was made last
	under  *underWay // the reduction of the round; nil: it has not begun
}

// NewLocalSGD makes an Averager by which the replicas' parameters are averaged, and
// registers its state with m, which must not run yet. The parameters hold what training
// begins with. Errors name all that is wrong with params and c.
// Source: torchft LocalSGD.
func NewLocalSGD(m Manager, params []Param, c Config) (*Averager, error) {
	s, err := c.settings()
	return newAverager(m, [][]Param{params}, s, err)
}

// NewDiLoCo makes an Averager by which an outer optimizer follows the replicas, and registers
// its state with m, which must not run yet. One fragment is DiLoCo, several are
// streaming DiLoCo. The parameters hold what training begins with. Errors name all that is
// wrong with fragments and c.
// Source: torchft DiLoCo.
func NewDiLoCo(m Manager, fragments [][]Param, c DiLoCoConfig) (*Averager, error) {
	s, err := c.settings(len(fragments))
	return newAverager(m, fragments, s, err)
}

func newAverager(m Manager, fragments [][]Param, s settings, bad error) (*Averager, error) {
	if err := errors.Join(bad, checkParams(fragments)); err != nil {
		return nil, fmt.Errorf("localsgd: %w", err)
	}
	a := &Averager{settings: s, manager: m, counters: make([]int64, 1+len(fragments))}
	for _, params := range fragments {
		a.fragments = append(a.fragments, newFragment(params, s.outer != nil && s.outer.Momentum != 0))
	}
	a.reducer = newReducer(s.reduction, a.fragments)
	if err := m.Register(StateName, a.State, a.Load); err != nil {
		return nil, fmt.Errorf("localsgd: register an Averager, of which a Manager takes one, with all its fragments: %w", err)
	}
	return a, nil
}

// Rounds is how many rounds the global parameters have had, on any replica.
func (a *Averager) Rounds() int64 { return a.counters[0] }

// Done says that Config.Rounds rounds have been committed.
func (a *Averager) Done() bool { return a.rounds > 0 && a.Rounds() >= a.rounds }

// Sent is what this replica's last reduction gave to the ops of the group, by
// arithmetic: the bytes of their inputs. (What of these goes over a link is the backend's
// business: the ring of an all-reduce among W ranks sends 2(W−1)/W of them, a direct all-to-all
// (W−1)/W, the ring of an all-gather W−1 times as many.) It is zero before the first, and while one is under way.
func (a *Averager) Sent() quant.Sent {
	if a.under != nil {
		return quant.Sent{}
	}
	return a.reducer.sent
}

// Begin begins a round if none is under way, and else does nothing. It blocks, and fails, as
// manager.StartQuorum does; a heal in it makes the live parameters the global ones.
func (a *Averager) Begin(ctx context.Context) error {
	if a.open {
		return nil
	}
	a.taken, a.healed = 0, false
	if err := a.manager.StartQuorum(ctx); err != nil {
		return fmt.Errorf("begin a round: %w", err)
	}
	a.open = true
	return nil
}

// Step counts an inner step that the live parameters have made. In the last one of a
// round it ends the round, and returns whether it was committed: see the package comment for
// what then has become of the live parameters. Else it returns false without
// blocking. A round that is under way when Done comes true, as by a heal in Begin, it counts in
// and ends like any other, and changes nothing by it.
//
// Errors end training: those of StartQuorum and ShouldCommit, by which the round is discarded; and
// ErrDone.
func (a *Averager) Step(ctx context.Context) (committed bool, err error) {
	if a.Done() && !a.open {
		return false, ErrDone
	}
	a.manager.Move()
	begins := !a.open
	if err := a.Begin(ctx); err != nil {
		return false, err
	}
	if begins && a.healed {
		return false, nil // the inner step was of parameters that are gone
	}
	a.taken++
	if a.under == nil && a.taken >= a.period-a.delay {
		a.launch(ctx, a.taken < a.period)
	}
	if a.taken < a.period {
		return false, nil
	}
	return a.end(ctx)
}

// Idle takes part in a round, or ends the one under way, as if no inner steps were made in
// it: the live parameters of the round's fragment are put back first. It is the step of
// manager.Finish, for the rounds after the last.
// It blocks as Begin does, and then as the last Step of a round. Errors are those of Step.
func (a *Averager) Idle(ctx context.Context) error {
	if err := a.Begin(ctx); err != nil {
		return err
	}
	if a.under == nil {
		a.fragmentOf(a.manager.Step()).back()
		a.launch(ctx, false)
	}
	_, err := a.end(ctx)
	return err
}

// Close ends a reduction that is under way, and waits for it: with Delay above 0 call it
// when the loop ends. It returns nil.
func (a *Averager) Close() error {
	if a.under != nil {
		a.under.cancel(pg.ErrClosed)
		a.under.wg.Wait()
	}
	return nil
}

func (a *Averager) fragmentOf(step int64) *fragment {
	return a.fragments[step%int64(len(a.fragments))]
}

// launch begins the round's reduction, with the live parameters as they are.
func (a *Averager) launch(ctx context.Context, beside bool) {
	step := a.manager.Step()
	f := a.fragmentOf(step)
	if a.outer == nil {
		f.live(a.reducer.buffer)
	} else {
		f.away(a.reducer.buffer)
	}
	a.under = a.reducer.reduce(ctx, a.manager.Group(), step, beside)
}

// end ends the round.
func (a *Averager) end(ctx context.Context) (bool, error) {
	under := a.under
	if err := under.wait(ctx); err != nil {
		a.manager.ReportError(fmt.Errorf("reduce step %d: %w", under.step, err))
	}
	a.open, a.taken, a.under, a.healed = false, 0, nil, false
	committed, err := a.manager.ShouldCommit(ctx)
	if err != nil || !committed {
		a.fragmentOf(under.step).back()
		if err != nil {
			err = fmt.Errorf("end a round: %w", err)
		}
		return false, err
	}
	return a.commit(a.manager.Step() - 1)
}

// commit makes the average the global parameters' next step. Step is the manager's
// before its commit: a replica that has healed in it knew another one before.
func (a *Averager) commit(step int64) (bool, error) {
	f := a.fragmentOf(step)
	if a.Done() {
		f.back()
		return false, nil
	}
	average := a.reducer.buffer[:len(f.global)]
	rounds := &a.counters[1+step%int64(len(a.fragments))]
	if a.outer == nil {
		copy(f.global, average)
	} else {
		a.outer.step(f.global, f.momentum, average, *rounds == 0)
	}
	*rounds++
	a.counters[0]++
	if a.healed {
		f.back()
	} else {
		f.blend(a.alpha)
	}
	return true, nil
}
