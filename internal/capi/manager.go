package capi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/internal/logline"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/quorum"
)

// trainer is a Manager, and what its trainer has yet to hear.
type trainer struct {
	*manager.Manager

	parts  map[string]*part
	group  int64
	wishes *wishes
	// patience bounds a wish for a state.
	patience time.Duration

	ran  chan error    // what Run returned; capacity 1
	turn chan struct{} // Finish wants a step; capacity 1
	took chan error    // how that step ended; capacity 1

	mu struct {
		sync.Mutex

		events []string
	}
}

// maxEvents bounds those that the trainer has not heard.
const maxEvents = 1024

// managerText are the settings of OpenManager: manager.Config's, by their names there. What
// is left out is taken from the environment, see manager.Config.FromEnv.
type managerText struct {
	Job, ReplicaID            string
	Lighthouse                []string
	GroupRank, GroupWorldSize int
	GroupStore                string
	Listen, Advertise         string
	Open                      bool
	MinReplicas               int
	FixedWorldSize            int
	Sync, NoInitSync          bool
	HealInPlace               bool
	EveryStep                 bool
	MaxRetries                int
	TotalSteps                int64
	ParityEvery               int
	ParityWhole               bool
	StepTimeoutUs             int64
	HealTimeoutUs             int64
	Start                     struct {
		Cluster                 string
		Step, QuorumID, Batches int64
	}

	Backend string // "": tcp
	Params  map[string]string
	Outside bool   // the program has a group of its own beside each of the Manager's: see WishGroup
	Log     string // the least level that goes to standard error; "": none
	Parts   []partOptions
	// Env are the variables of the environment as the program around has them now: Go knows
	// them as they were when the library was loaded; null is one that it has no more. nil: it
	// has changed none.
	Env map[string]*string
}

type partOptions struct {
	Name            string
	Local, Volatile bool
	Room            int64
	// Asked says that the tensors which are told are copies: they are made anew when somebody wants to
	// read them, see WishState. Then replicas compare nothing.
	Asked bool
}

// OpenManager makes a Manager, which runs until it is closed.
func (l *Library) OpenManager(settings string) (int64, error) {
	var s managerText
	if err := unmarshal(settings, &s); err != nil {
		return 0, err
	}
	t := &trainer{
		parts: make(map[string]*part), wishes: newWishes(), ran: make(chan error, 1),
		turn: make(chan struct{}, 1), took: make(chan error, 1),
	}
	cfg, err := l.config(&s, t)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", pg.ErrInvalidOp, err)
	}
	cfg.Backend, err = pg.Open(cmp.Or(s.Backend, "tcp"), pg.Options{Log: cfg.Log, Params: s.Params, Open: cfg.Guard.Open})
	if err != nil {
		return 0, fmt.Errorf("%w: %w", pg.ErrInvalidOp, err)
	}
	if s.Outside {
		cfg.Backend = &outside{Layer: pg.NewLayer(cfg.Backend), l: l, wishes: t.wishes}
	}
	if t.Manager, err = manager.New(cfg); err != nil {
		return 0, errors.Join(fmt.Errorf("%w: %w", pg.ErrInvalidOp, err), cfg.Backend.Close())
	}
	t.patience = t.Timeouts().Heal
	for _, o := range s.Parts {
		p := &part{name: o.Name}
		save := p.save
		if o.Asked {
			save = func() checkpoint.State { return t.ask(p) }
		}
		t.parts[o.Name] = p
		err := t.RegisterWith(o.Name, save, p.load, manager.StateOptions{Local: o.Local || o.Asked, Volatile: o.Volatile, Room: o.Room})
		if err != nil {
			return 0, errors.Join(fmt.Errorf("%w: %w", pg.ErrInvalidOp, err), t.Manager.Close())
		}
	}
	t.group = l.t.add(t.Group())
	go func() { t.ran <- t.Run(context.Background()) }() // until Close
	return l.t.add(t), nil
}

// config makes a Manager's of settings and the environment.
func (l *Library) config(s *managerText, t *trainer) (manager.Config, error) {
	if err := toEnv(s.Env); err != nil {
		return manager.Config{}, err
	}
	log := zerolog.Nop()
	if s.Log != "" {
		level, err := zerolog.ParseLevel(s.Log)
		if err != nil {
			return manager.Config{}, fmt.Errorf("Log = %q, want debug, info, warn or error", s.Log)
		}
		log = logline.JSON(os.Stderr).Level(level)
	}
	cfg := manager.Config{
		Job: s.Job, ReplicaID: s.ReplicaID, Lighthouse: s.Lighthouse,
		GroupRank: s.GroupRank, GroupWorldSize: s.GroupWorldSize, GroupStore: s.GroupStore,
		Listen: s.Listen, Advertise: s.Advertise, Guard: manager.Guard{Open: s.Open},
		MinReplicas: s.MinReplicas, FixedWorldSize: s.FixedWorldSize,
		Sync: s.Sync, NoInitSync: s.NoInitSync, HealInPlace: s.HealInPlace, EveryStep: s.EveryStep, MaxRetries: s.MaxRetries, TotalSteps: s.TotalSteps,
		ParityEvery: s.ParityEvery, ParityWhole: s.ParityWhole,
		StepTimeout: time.Duration(s.StepTimeoutUs) * time.Microsecond, HealTimeout: time.Duration(s.HealTimeoutUs) * time.Microsecond,
		Start: manager.Start{
			Position: quorum.Position{Cluster: s.Start.Cluster, Step: s.Start.Step, QuorumID: s.Start.QuorumID},
			Batches:  s.Start.Batches,
		},
		OnEvent: t.event, OnKill: l.Kill, Log: log,
	}
	return cfg, cfg.FromEnv()
}

// event keeps what happened until the trainer asks.
func (t *trainer) event(e manager.Event) {
	s, err := text(map[string]any{"type": fmt.Sprintf("%T", e)[len("manager."):], "text": e.String(), "data": fieldsOf(e)})
	if err != nil {
		return // strings marshal
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.mu.events) == maxEvents {
		t.mu.events = t.mu.events[1:]
	}
	t.mu.events = append(t.mu.events, s)
}

// fieldsOf are an event's fields by their names; errors are text, "" for none, and times nanoseconds.
func fieldsOf(e manager.Event) map[string]any {
	v, fields := reflect.ValueOf(e), make(map[string]any)
	for i := range v.NumField() {
		x := v.Field(i).Interface()
		if v.Type().Field(i).Type == reflect.TypeFor[error]() {
			text := ""
			if err, ok := x.(error); ok {
				text = err.Error()
			}
			x = text
		}
		fields[v.Type().Field(i).Name] = x
	}
	return fields
}

// NextEvent is the oldest event that the trainer has not heard, as JSON with type, text and data;
// "": none. One that is not shorter than room stays the oldest.
func (l *Library) NextEvent(h int64, room int) (string, error) {
	t, err := get[*trainer](l.t, h)
	if err != nil {
		return "", err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.mu.events) == 0 {
		return "", nil
	}
	e := t.mu.events[0]
	if len(e) < room {
		t.mu.events = t.mu.events[1:]
	}
	return e, nil
}

// ask has the program copy a part's tensors to where it told. Without an answer, when the program
// refuses or the Manager closes, the state is absent: no reader takes what is left for this step's.
//
// What a heal has brought is the state where it lies, until the program has taken it and tells anew:
// its device has another one until then.
func (t *trainer) ask(p *part) checkpoint.State {
	if p.healed() {
		return p.save()
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.patience)
	defer cancel()
	if err := t.wishes.ask(ctx, WishState, wish{Part: p.name}, nil); err != nil {
		return p.save().Absent()
	}
	return p.save()
}

// Close says goodbye and ends everything; calls under way end with errors.
func (t *trainer) Close() error {
	t.wishes.close()
	err := t.Manager.Close()
	if ran := <-t.ran; !errors.Is(ran, manager.ErrClosed) { // closed before it ran
		err = errors.Join(err, ran)
	}
	return err
}

// TellState says what a part of a Manager's state is from now on: JSON, see partText. Its tensors
// are the Manager's to read from a Start to the end of its Commit, and to write in them. Not
// between the two.
func (l *Library) TellState(h int64, name, text string) error {
	t, err := get[*trainer](l.t, h)
	if err != nil {
		return err
	}
	p, ok := t.parts[name]
	if !ok {
		return invalid("state %q, want one of %q", name, slices.Sorted(maps.Keys(t.parts)))
	}
	return p.tell(text)
}

// loads tells which parts a heal has changed, by name, until their owner tells of them anew:
// a call that ends as it is given up may have heard of one and not said so.
func (t *trainer) loads() (map[string]partText, error) {
	all := make(map[string]partText)
	for name, p := range t.parts {
		news, ok, err := p.news()
		if err != nil {
			return nil, err
		}
		if ok {
			all[name] = news
		}
	}
	return all, nil
}

// returned is what a call has to tell.
type returned struct {
	Commit bool                `json:"commit,omitempty"`
	Rank   int                 `json:"rank,omitempty"`
	Count  int                 `json:"count,omitempty"`
	Quorum int64               `json:"quorum_id,omitempty"`
	Loaded map[string]partText `json:"loaded,omitempty"`
}

// Verb is a method of a Manager that blocks.
type Verb int64

// The verbs. Their numbers do not change.
const (
	VerbStart        Verb = iota + 1 // StartQuorum; flags: 1 forbids a heal, 2 lets nobody in
	VerbWaitQuorum                   // WaitQuorum
	VerbParticipants                 // WaitParticipants
	VerbCommit                       // ShouldCommit
	VerbFinish                       // Finish; argument: linger in µs
	VerbLoaded                       // none: tells which states were loaded, in a call that failed
)

// Call begins a verb and returns its handle, which the caller waits for, and gives to Close:
// that ends it, if it is under way. The timeout, if above 0, is its ctx's.
func (l *Library) Call(h int64, v Verb, argument int64, timeout time.Duration) int64 {
	t, err := get[*trainer](l.t, h)
	return l.start(timeout, func(ctx context.Context, c *call) error {
		if err != nil {
			return err
		}
		return t.do(ctx, c, v, argument)
	})
}

func (t *trainer) do(ctx context.Context, c *call, v Verb, argument int64) (err error) {
	var r returned
	switch v {
	case VerbStart:
		err = t.StartQuorumWith(ctx, manager.StartOptions{ForbidHeal: argument&1 != 0, ShrinkOnly: argument&2 != 0})
	case VerbParticipants:
		var who manager.Participants
		who, err = t.WaitParticipants(ctx)
		r.Rank, r.Count, r.Quorum = who.Rank, who.Count, who.QuorumID
	case VerbCommit:
		r.Commit, err = t.ShouldCommit(ctx)
	case VerbWaitQuorum:
		return t.WaitQuorum(ctx)
	case VerbFinish:
		return t.Finish(ctx, time.Duration(argument)*time.Microsecond, t.awaitStep)
	case VerbLoaded:
	default:
		return invalid("verb = %d, want 1 to %d", v, VerbLoaded)
	}
	if err == nil {
		r.Loaded, err = t.loads()
	}
	if err == nil {
		c.text, err = text(r)
	}
	return err
}

// awaitStep lets the trainer make a step.
func (t *trainer) awaitStep(ctx context.Context) error {
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-t.took:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Turn waits until a Finish wants a step, for timeout at most.
func (l *Library) Turn(h int64, timeout time.Duration) (bool, error) {
	t, err := get[*trainer](l.t, h)
	if err != nil {
		return false, err
	}
	wait := time.NewTimer(timeout)
	defer wait.Stop()
	select {
	case <-t.turn:
		return true, nil
	case <-wait.C:
		return false, nil
	}
}

// Stepped says that the step that Turn wanted has ended, and whether by ErrDrained.
func (l *Library) Stepped(h int64, drained bool) error {
	t, err := get[*trainer](l.t, h)
	if err != nil {
		return err
	}
	if drained {
		err = manager.ErrDrained
	}
	select {
	case t.took <- err:
		return nil
	default:
		return invalid("a step that nobody waits for")
	}
}

// Report discards the step under way, on all replicas.
func (l *Library) Report(h int64, why string) error {
	t, err := get[*trainer](l.t, h)
	if err == nil {
		t.ReportError(errors.New(why))
	}
	return err
}

// Drain asks to leave; see manager.Manager.
func (l *Library) Drain(h int64) error {
	t, err := get[*trainer](l.t, h)
	if err == nil {
		t.Drain()
	}
	return err
}

// Move says that the trainer moves; see manager.Manager.
func (l *Library) Move(h int64) error {
	t, err := get[*trainer](l.t, h)
	if err == nil {
		t.Move()
	}
	return err
}

// ManagedGroup is the handle of a Manager's process group, which goes with the Manager.
func (l *Library) ManagedGroup(h int64) (int64, error) {
	t, err := get[*trainer](l.t, h)
	if err != nil {
		return 0, err
	}
	return t.group, nil
}

// numbers are those of the newest quorum and the step, as JSON.
func (t *trainer) numbers() (string, error) {
	p := t.Position()
	n := map[string]any{
		"step": t.Step(), "batches": t.BatchesCommitted(), "quorum_id": t.QuorumID(),
		"participants": t.NumParticipants(), "participant_rank": t.ParticipantRank(), "participating": t.IsParticipating(),
		"healing": t.IsHealing(), "replica_id": t.ReplicaID(), "holds_state": t.HoldsState(), "op_timeout_us": t.OpTimeout().Microseconds(), "heal_timeout_us": t.Timeouts().Heal.Microseconds(),
		"position": map[string]any{"cluster": p.Cluster, "quorum_id": p.QuorumID, "step": p.Step},
	}
	if err := t.Errored(); err != nil {
		n["errored"] = err.Error()
	}
	return text(n)
}

// finals are the ends of a training, and their codes.
var finals = []struct {
	err  error
	code Code
}{
	{manager.ErrDrained, CodeDrained},
	{manager.ErrEvicted, CodeEvicted},
	{manager.ErrRefused, CodeRefused},
	{manager.ErrRankLost, CodeRankLost},
	{manager.ErrMaxRetries, CodeMaxRetries},
	{manager.ErrUnreachable, CodeUnreachable},
	{manager.ErrAstray, CodeUnreachable},
	{manager.ErrDiffered, CodeDiffered},
	{manager.ErrStateLost, CodeStateLost},
	{manager.ErrStepFailed, CodeStepFailed},
	{manager.ErrStepOpen, CodeStepOpen},
	{manager.ErrClosed, CodeClosed},
}

// finalCode is the code of an error of a Manager; ok is false for others.
func finalCode(err error) (Code, bool) {
	for _, f := range finals {
		if errors.Is(err, f.err) {
			return f.code, true
		}
	}
	if _, ok := errors.AsType[*safetensors.MismatchError](err); ok {
		return CodeOtherState, true
	}
	return CodeNone, false
}
