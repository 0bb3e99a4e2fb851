package capi

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/pg"
)

// Library is all that one process has open. Safe for concurrent use.
type Library struct {
	t *table
	// Kill ends the process, when an operator kills its replica; nil: that is refused. Set
	// before the first call.
	Kill func(reason string)
}

// New makes an empty one.
func New() *Library { return &Library{t: newTable()} }

// options are the settings of Open.
type options struct {
	Listen     string            `json:"listen"`
	Interfaces []string          `json:"interfaces"`
	Open       bool              `json:"open"`
	Params     map[string]string `json:"params"`
}

// settings are those of Configure.
type settings struct {
	Store   string   `json:"store"` // host:port/prefix
	IDs     []string `json:"ids"`
	Rank    int      `json:"rank"`
	Cluster string   `json:"cluster"`
	Quorum  int64    `json:"quorum"`
	Token   string   `json:"token"` // hexadecimal; "": none
	// TimeoutUs bounds an operation that has no time of its own; 0: pg.DefaultTimeout.
	TimeoutUs int64 `json:"timeout_us"`
}

// Open makes a group of a backend that is registered, unconfigured.
func (l *Library) Open(backend, settings string) (int64, error) {
	var o options
	if err := unmarshal(settings, &o); err != nil {
		return 0, err
	}
	b, err := pg.Open(backend, pg.Options{Listen: o.Listen, Interfaces: o.Interfaces, Open: o.Open, Params: o.Params})
	if err != nil {
		return 0, fmt.Errorf("%w: %w", pg.ErrInvalidOp, err)
	}
	return l.t.add(pg.NewGroup(b)), nil
}

// unmarshal reads settings; "" is all defaults.
func unmarshal(text string, into any) error {
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return invalid("settings: %v", err)
	}
	return nil
}

// Configure starts an epoch of a group; see pg.Backend. It blocks for timeout at most; 0
// means pg.DefaultTimeout.
func (l *Library) Configure(group int64, text string, timeout time.Duration) error {
	g, err := get[*pg.Group](l.t, group)
	if err != nil {
		return err
	}
	var s settings
	if err := unmarshal(text, &s); err != nil {
		return err
	}
	token, err := hex.DecodeString(s.Token)
	if err != nil {
		return invalid("token: %v", err)
	}
	if len(s.IDs) == 0 || s.Rank < 0 || s.Rank >= len(s.IDs) {
		return invalid("rank = %d of %d ids", s.Rank, len(s.IDs))
	}
	if timeout <= 0 {
		timeout = pg.DefaultTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return g.Configure(ctx, pg.Config{
		StoreAddress: s.Store, ReplicaIDs: s.IDs, Rank: s.Rank, Cluster: s.Cluster, QuorumID: s.Quorum, GroupWorldSize: 1,
		Token: token, Timeout: time.Duration(s.TimeoutUs) * time.Microsecond,
	})
}

// Abort breaks a group; see pg.Group.
func (l *Library) Abort(group int64, why string) error {
	g, err := get[*pg.Group](l.t, group)
	if err == nil {
		g.Abort(errors.New(why))
	}
	return err
}

// Err is why a group is broken, or nil.
func (l *Library) Err(group int64) error {
	g, err := get[*pg.Group](l.t, group)
	if err != nil {
		return err
	}
	return g.Err()
}

// Close closes what a handle stands for: a group, a store, a Manager; ends a call; of an
// operation it forgets the result, and the operation goes on. A handle of nothing is left alone.
func (l *Library) Close(h int64) error {
	x := l.t.remove(h)
	if t, ok := x.(*trainer); ok {
		l.t.remove(t.group)
	}
	if c, ok := x.(interface{ Close() error }); ok {
		return c.Close()
	}
	return nil
}

// awaited is what a program waits for: an operation, or a call.
type awaited interface {
	wait(timeout time.Duration) State // for that at most; 0 or less: it only looks
	result() error                    // why it failed; nil, too, while it goes on
}

// work is an operation under way.
type work struct {
	group *pg.Group
	work  *pg.Work
}

// Submit starts an operation and returns its handle, which the caller gives to Close. An
// operation that cannot be right has failed already.
func (l *Library) Submit(group int64, words []int64) int64 {
	if len(words) > 0 && words[atKind] == quantizedAllReduce {
		return l.reduceQuantized(group, words)
	}
	return l.t.add(l.submit(group, words))
}

func (l *Library) submit(group int64, words []int64) work {
	g, err := get[*pg.Group](l.t, group)
	var op *pg.Op
	if err == nil {
		op, err = decode(words)
	}
	if err != nil {
		return work{g, pg.Finished(&pg.Op{}, err)}
	}
	return work{g, g.Submit(op)}
}

// Run runs an operation whole, and returns 0, or the handle of one that failed. It blocks
// until then, for slice at most: then the handle is that of an operation under way.
func (l *Library) Run(group int64, words []int64, slice time.Duration) int64 {
	w := l.submit(group, words)
	if w.wait(slice) == Done && w.work.Op().Kind != pg.KindRecv {
		return 0
	}
	return l.t.add(w)
}

// State is what became of an operation.
type State int

// The states.
const (
	Done State = iota
	Failed
	Pending
)

// Wait waits for an operation or a call, for timeout at most; 0 or less: it only looks.
func (l *Library) Wait(h int64, timeout time.Duration) State {
	w, err := get[awaited](l.t, h)
	if err != nil {
		return Failed
	}
	return w.wait(timeout)
}

func (w work) wait(timeout time.Duration) State {
	if timeout > 0 && !w.work.Finished() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		_ = w.work.Wait(ctx) // what it says is asked for below
	}
	switch {
	case !w.work.Finished():
		return Pending
	case w.work.Err() != nil:
		return Failed
	}
	return Done
}

// Result is why an operation or a call failed, or nil.
func (l *Library) Result(h int64) error {
	w, err := get[awaited](l.t, h)
	if err != nil {
		return err
	}
	return w.result()
}

func (w work) result() error { return w.work.Err() }

// Source is the rank that the message of a finished receive came from; -1: none.
func (l *Library) Source(h int64) int {
	w, err := get[work](l.t, h)
	if err != nil || !w.work.Finished() || w.work.Err() != nil {
		return -1
	}
	return w.work.Source()
}
