package oteltrace_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/manager/oteltrace"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// trainer is a traced replica.
type trainer struct {
	m       *manager.Manager
	steps   atomic.Int64
	discard atomic.Bool // the next attempt is to be
	told    atomic.Int64
	over    atomic.Bool
	stop    context.CancelFunc
	ended   sync.WaitGroup
}

// train starts a replica that t traces.
func train(t *testing.T, name, lighthouse string, network *pgtest.Memory, tracer *oteltrace.Tracer) *trainer {
	t.Helper()
	tr, params := &trainer{}, []float32{1, 2, 3, 4}
	cfg := manager.Config{
		ReplicaID: name, Lighthouse: []string{lighthouse}, Backend: network.Backend(), Log: zerolog.Nop(),
		StepTimeout: testkit.Patience, HealTimeout: testkit.Patience,
		OnEvent: func(manager.Event) { tr.told.Add(1) },
	}
	tracer.Trace(&cfg)
	m, err := manager.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	tr.m = m
	err = m.Register("model", func() checkpoint.State {
		return checkpoint.State{Tensors: map[string]tensor.Tensor{"params": tensor.Of(params)}}
	}, nil)
	if err != nil {
		t.Error(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	tr.stop = stop
	tr.ended.Go(func() { _ = m.Run(ctx) }) // the loop has the error
	tr.ended.Go(func() {
		if err := tr.loop(ctx, params); err != nil && !tr.over.Load() {
			t.Errorf("%s: %v", name, err)
		}
	})
	t.Cleanup(tr.end)
	return tr
}

func (tr *trainer) end() {
	tr.over.Store(true)
	_ = tr.m.Close() // the test is over
	tr.stop()
	tr.ended.Wait()
}

func (tr *trainer) loop(ctx context.Context, params []float32) error {
	for {
		if err := tr.m.StartQuorum(ctx); err != nil {
			return err
		}
		if tr.discard.Swap(false) {
			tr.m.ReportError(io.ErrUnexpectedEOF)
		}
		if err := tr.m.Group().AllReduce(ctx, tensor.Of(make([]float32, len(params))), tensor.Avg); err != nil {
			return err
		}
		committed, err := tr.m.ShouldCommit(ctx)
		if err != nil {
			return err
		}
		if committed {
			tr.steps.Add(1)
		}
	}
}

func (tr *trainer) reaches(t *testing.T, steps int64) {
	t.Helper()
	testkit.Eventually(t, "some steps", func() bool { return tr.steps.Load() >= steps })
}

// attributesOf are a span's, by their names.
func attributesOf(all []attribute.KeyValue) map[string]any {
	got := make(map[string]any)
	for _, a := range all {
		got[string(a.Key)] = a.Value.AsInterface()
	}
	return got
}

// A replica trains, discards a step, dies and comes back: each attempt is a trace of its
// own, with what was done in it.
func TestStepsAreTraces(t *testing.T) {
	t.Parallel()
	l := lighthousetest.Start(t, nil)
	network := pgtest.NewMemory()
	kept := tracetest.NewInMemoryExporter()
	tracerOf := func() *oteltrace.Tracer {
		return oteltrace.New(sdk.NewTracerProvider(sdk.WithSyncer(kept)))
	}
	a := train(t, "a", l.Addr, network, tracerOf())
	a.reaches(t, 5)
	b := train(t, "b", l.Addr, network, tracerOf())
	b.reaches(t, 5)
	a.discard.Store(true)
	testkit.Eventually(t, "a discarded step", func() bool { return a.m.Stats().Discards > 0 })
	a.reaches(t, a.steps.Load()+5)
	a.end()
	b.end()
	if a.told.Load() == 0 {
		t.Error("the caller's OnEvent was not called")
	}
	count := make(map[string]int) // of spans within steps, by name
	steps := make(map[[16]byte]tracetest.SpanStub)
	discarded := 0
	spans := kept.GetSpans()
	for _, s := range spans {
		of := attributesOf(s.Attributes)
		if of["skerry.job"] != "default" || of["skerry.replica"] != "a" && of["skerry.replica"] != "b" {
			t.Fatalf("span %s of %v", s.Name, of)
		}
		if s.Name != "step" {
			continue
		}
		if s.Parent.IsValid() {
			t.Error("a step is within another span")
		}
		if _, twice := steps[s.SpanContext.TraceID()]; twice {
			t.Error("two steps in one trace")
		}
		steps[s.SpanContext.TraceID()] = s
		if of["skerry.committed"] == false && s.Status.Code != codes.Error {
			t.Errorf("a discarded step with status %v", s.Status)
		}
		if strings.Contains(s.Status.Description, io.ErrUnexpectedEOF.Error()) {
			discarded++
		}
	}
	for _, s := range spans {
		if s.Name == "step" {
			continue
		}
		count[s.Name]++
		step, ok := steps[s.SpanContext.TraceID()]
		if !ok {
			continue // of the step that was open when the replica ended
		}
		if s.Parent.SpanID() != step.SpanContext.SpanID() || s.EndTime.After(step.EndTime) {
			t.Errorf("%s is not within its step", s.Name)
		}
	}
	for name, least := range map[string]int{"join": 3, "configure": 3, "all-reduce": 15, "ballot": 15, "heal": 1} {
		if count[name] < least {
			t.Errorf("%d spans %s, want %d at least (%v)", count[name], name, least, count)
		}
	}
	if len(steps) < 15 || discarded < 1 {
		t.Errorf("%d steps, %d of them discarded by the trainer; want 15 and 1 at least", len(steps), discarded)
	}
}

// Without an endpoint tracing is off, and costs nothing.
func TestOff(t *testing.T) {
	for _, env := range []map[string]string{
		{},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:1", "OTEL_SDK_DISABLED": "true"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:1", "OTEL_TRACES_EXPORTER": "none"},
	} {
		setenv(t, env)
		tracer, err := oteltrace.FromEnv(t.Context())
		if err != nil || tracer != nil {
			t.Errorf("%v: a tracer (%v)", env, err)
		}
		cfg := manager.Config{}
		tracer.Trace(&cfg)
		if cfg.OnEvent != nil || tracer.Close(t.Context()) != nil {
			t.Errorf("%v: nil is not off", env)
		}
	}
	for name, env := range map[string]map[string]string{
		"OTEL_TRACES_EXPORTER":        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:1", "OTEL_TRACES_EXPORTER": "zipkin"},
		"OTEL_EXPORTER_OTLP_PROTOCOL": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
	} {
		setenv(t, env)
		if _, err := oteltrace.FromEnv(t.Context()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v: %v, want an error about %s", env, err, name)
		}
	}
}

// setenv sets these variables of OpenTelemetry's, and no other.
func setenv(t *testing.T, env map[string]string) {
	t.Helper()
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER",
		"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"} {
		t.Setenv(name, env[name])
	}
}

// FromEnv sends OTLP to the endpoint.
func TestFromEnv(t *testing.T) {
	var mu sync.Mutex
	var got strings.Builder
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/traces" {
			http.Error(w, "not here", http.StatusNotFound)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		got.Write(body)
	}))
	defer collector.Close()
	setenv(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL, "OTEL_SERVICE_NAME": "digits"})
	tracer, err := oteltrace.FromEnv(t.Context())
	if err != nil || tracer == nil {
		t.Fatalf("tracer %v, %v", tracer, err)
	}
	l := lighthousetest.Start(t, nil)
	a := train(t, "a", l.Addr, pgtest.NewMemory(), tracer)
	a.reaches(t, 3)
	a.end()
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"digits", "step", "join", "configure", "all-reduce", "ballot", "skerry.quorum_id"} {
		if !strings.Contains(got.String(), want) {
			t.Errorf("the collector was not told of %q", want)
		}
	}
}
