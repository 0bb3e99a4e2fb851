package oteltrace

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/observe"
)

// scope names what makes the spans.
const scope = "github.com/skerry-ft/skerry/manager/oteltrace"

// Tracer makes the spans of one Manager. nil is one that is off.
type Tracer struct {
	tracer   trace.Tracer
	shutdown func(context.Context) error // nil: the provider is the caller's
	of       []attribute.KeyValue        // of all spans

	mu struct {
		sync.Mutex

		step   trace.Span // that is open; nil: none
		closed bool
	}
}

// New makes a Tracer whose spans go to provider, which stays the caller's.
func New(provider trace.TracerProvider) *Tracer {
	return &Tracer{tracer: provider.Tracer(scope)}
}

// Trace has the Manager of c traced: it puts itself before c.OnEvent and around c.Backend.
// Call it when c is complete otherwise, and once.
func (t *Tracer) Trace(c *manager.Config) {
	if t == nil {
		return
	}
	job := c.Job
	if job == "" {
		job = manager.DefaultJob
	}
	t.of = []attribute.KeyValue{attribute.String("skerry.job", job), attribute.String("skerry.replica", c.ReplicaID)}
	told := c.OnEvent
	c.OnEvent = func(e manager.Event) {
		t.hear(e)
		if told != nil {
			told(e)
		}
	}
	if c.Backend != nil {
		c.Backend = observe.New(c.Backend, (*collectives)(t))
	}
}

// Close ends the open step, and sends what FromEnv's exporter has not sent yet. It ends
// with ctx.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	t.endLocked(time.Now())
	t.mu.closed = true
	t.mu.Unlock()
	if t.shutdown == nil {
		return nil
	}
	return t.shutdown(ctx)
}

// openLocked returns the step's span, which began at that time if there is none yet.
func (t *Tracer) openLocked(began time.Time) trace.Span {
	if t.mu.step == nil {
		_, t.mu.step = t.tracer.Start(context.Background(), "step", trace.WithNewRoot(),
			trace.WithTimestamp(began), trace.WithAttributes(t.of...))
	}
	return t.mu.step
}

// endLocked ends the step's span with what became of it.
func (t *Tracer) endLocked(at time.Time, attributes ...attribute.KeyValue) {
	if t.mu.step == nil {
		return
	}
	t.mu.step.SetAttributes(attributes...)
	t.mu.step.End(trace.WithTimestamp(at))
	t.mu.step = nil
}

// ended ends a step, and begins the next.
func (t *Tracer) ended(cause error, attributes ...attribute.KeyValue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		return
	}
	now := time.Now()
	step := t.openLocked(now)
	if cause != nil {
		step.SetStatus(codes.Error, cause.Error())
	}
	t.endLocked(now, attributes...)
	t.openLocked(now)
}

// within adds a span that has just ended, after so long, to the step.
func (t *Tracer) within(name string, took time.Duration, err error, attributes ...attribute.KeyValue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		return
	}
	now := time.Now()
	began := now.Add(-took)
	ctx := trace.ContextWithSpan(context.Background(), t.openLocked(began))
	_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(began), trace.WithAttributes(t.of...), trace.WithAttributes(attributes...))
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End(trace.WithTimestamp(now))
}

// happened adds an event to the step.
func (t *Tracer) happened(name string, attributes ...attribute.KeyValue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.mu.closed {
		t.openLocked(time.Now()).AddEvent(name, trace.WithAttributes(attributes...))
	}
}

// hear takes in an event of the Manager.
func (t *Tracer) hear(e manager.Event) {
	switch e := e.(type) {
	case manager.QuorumFormed:
		t.within("join", e.Took, nil, quorumID(e.QuorumID), attribute.Int64("skerry.round", e.Round),
			attribute.Int("skerry.members", len(e.Members)), attribute.Int("skerry.participants", e.Participants),
			attribute.Int("skerry.replica_rank", e.ReplicaRank), attribute.String("skerry.reason", e.Reason))
	case manager.Configured:
		t.within("configure", e.Took, nil, quorumID(e.QuorumID))
	case manager.StateCopied:
		t.within("copy", e.Took, e.Err, attribute.Int64("skerry.bytes", e.Bytes), attribute.Int("skerry.rounds", e.Rounds))
	case manager.HealDone:
		t.within("heal", e.Took, e.Err, quorumID(e.QuorumID), attribute.Int64("skerry.step", e.Position.Step),
			attribute.Int64("skerry.bytes", e.Bytes))
	case manager.StepCommitted:
		t.ended(nil, attribute.Int64("skerry.step", e.Step), quorumID(e.QuorumID), attribute.Bool("skerry.committed", true),
			attribute.Int("skerry.participants", e.Participants), attribute.Bool("skerry.settled", e.Settled))
	case manager.StepDiscarded:
		t.ended(e.Cause, attribute.Int64("skerry.step", e.Step), quorumID(e.QuorumID), attribute.Bool("skerry.committed", false),
			attribute.Bool("skerry.settled", e.Settled))
	case manager.GroupBroken:
		t.happened("quorum fell", quorumID(e.QuorumID), attribute.String("skerry.cause", text(e.Cause)))
	case manager.PeerLost:
		t.happened("member lost", quorumID(e.QuorumID), attribute.String("skerry.peer", e.ReplicaID), attribute.String("skerry.cause", e.Why))
	case manager.StateDiffered:
		t.happened("state differed", quorumID(e.QuorumID), attribute.StringSlice("skerry.peers", e.Replicas))
	case manager.HealStarted:
		t.happened("heal started", quorumID(e.QuorumID), attribute.StringSlice("skerry.sources", e.Sources))
	case manager.HealServed:
		t.happened("heal served", quorumID(e.QuorumID), attribute.StringSlice("skerry.targets", e.Targets))
	case manager.LighthouseLost:
		t.happened("lighthouse lost", attribute.String("skerry.cause", text(e.Cause)))
	case manager.LighthouseFound:
		t.happened("lighthouse found", attribute.String("skerry.peer", e.Address))
	case manager.Draining:
		t.happened("draining", attribute.String("skerry.reason", e.Reason))
	case manager.Stays:
		t.happened("drain taken back", attribute.String("skerry.reason", e.Reason))
	}
}

func quorumID(id int64) attribute.KeyValue { return attribute.Int64("skerry.quorum_id", id) }

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// collectives is the Tracer as an observer of operations.
type collectives Tracer

// Begin implements observe.Observer.
func (*collectives) Begin(observe.Info) {}

// End implements observe.Observer.
func (c *collectives) End(i observe.Info, took time.Duration, err error) {
	if i.Kind == pg.KindBallot {
		(*Tracer)(c).within(i.Kind.String(), took, err)
		return
	}
	(*Tracer)(c).within(i.Kind.String(), took, err, attribute.Int("skerry.tensors", i.Tensors),
		attribute.Int("skerry.in_bytes", i.InBytes), attribute.Int("skerry.out_bytes", i.OutBytes))
}
