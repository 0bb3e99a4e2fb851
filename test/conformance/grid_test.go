package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/baby"
	"github.com/skerry-ft/skerry/pg/debug"
	"github.com/skerry-ft/skerry/pg/fault"
	"github.com/skerry-ft/skerry/pg/observe"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/pg/trace"
	"github.com/skerry-ft/skerry/train/spawn"
)

// patientBeats keeps a loaded machine from looking like a dead peer.
const patientBeats = 20 * time.Second

func TestMain(m *testing.M) {
	spawn.Register(workerName, serveRank)
	spawn.Register(initName, liveWorlds)
	if err := registerPatient(); err != nil { // before a Baby's child looks for it
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// Under the race detector each exit would sleep for a second.
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	baby.Init()
	goleak.VerifyTestMain(m)
}

// patientName is what pg's registry calls the tcp backend of these tests.
const patientName = "patient-tcp"

// registerPatient registers it, and it in a Baby, once in a process.
func registerPatient() error {
	if pg.Available(patientName) {
		return nil
	}
	err := pg.Register(patientName, []string{"cpu"}, func(o pg.Options) (pg.Backend, error) {
		return tcp.New(tcp.Options{Listen: o.Listen, BeatTimeout: patientBeats, Logger: o.Log}), nil
	})
	return errors.Join(err, baby.Register(patientName))
}

// babyName is that backend in a child process.
const babyName = "baby:" + patientName

// backend is what the grid runs over.
type backend struct {
	name      string
	portion   portion
	processes bool // starts some
	open      func() pg.Backend
}

// backends are all there are here. NCCL is not: it takes a device.
func backends(t *testing.T) []backend {
	network := pgtest.NewMemory()
	overTCP := func(transport tcp.Transport) func() pg.Backend {
		return func() pg.Backend {
			return tcp.New(tcp.Options{Transport: transport, BeatTimeout: patientBeats})
		}
	}
	named := func(name string) func() pg.Backend {
		return func() pg.Backend {
			b, err := pg.Open(name, pg.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
	}
	return []backend{
		{"memory", thin, false, func() pg.Backend { return network.Backend() }},
		{"tcp", whole, false, overTCP(tcp.TransportTCP)},
		{"tcp shared", whole, false, overTCP(tcp.TransportShared)},
		{"tcp streams", thin, false, func() pg.Backend {
			return tcp.New(tcp.Options{Transport: tcp.TransportTCP, Streams: 3, BeatTimeout: patientBeats})
		}},
		{"devices", thin, false, named("cpu:" + patientName)},
		{"baby", thin, true, named(babyName)},
	}
}

// decorators are all there are, by name.
func decorators() map[string]func(pg.Backend) pg.Backend {
	return map[string]func(pg.Backend) pg.Backend{
		"swallow":  func(b pg.Backend) pg.Backend { return pg.NewSwallow(b) },
		"managed":  func(b pg.Backend) pg.Backend { return pg.NewManaged(b, everybody{b}) },
		"timeout":  func(b pg.Backend) pg.Backend { return pg.NewTimeout(b, 2*pgtest.Bound) },
		"injector": func(b pg.Backend) pg.Backend { return fault.NewInjector(b) },
		"check":    func(b pg.Backend) pg.Backend { return debug.NewCheck(b) },
		"trace":    func(b pg.Backend) pg.Backend { return trace.NewRecorder(b, trace.Config{}) },
		"observe":  func(b pg.Backend) pg.Backend { return observe.New(b, discard{}) },
	}
}

// discard is an observer that keeps nothing.
type discard struct{}

func (discard) Begin(observe.Info)                     {}
func (discard) End(observe.Info, time.Duration, error) {}

// everybody is a manager of a replica that always takes part with all others.
type everybody struct{ backend pg.Backend }

func (everybody) Attempt() int64 { return 1 }

func (e everybody) Roster(int64) (pg.Roster, bool) {
	c, ok := e.backend.(pg.Configured)
	if !ok {
		return pg.Roster{}, false
	}
	config, ok := c.Config()
	r := pg.Roster{Rank: config.Rank, WorldSize: config.WorldSize()}
	for rank := range r.WorldSize {
		r.Participants = append(r.Participants, rank)
	}
	return r, ok
}

func (e everybody) WaitRoster(ctx context.Context, attempt int64) (pg.Roster, error) {
	r, ok := e.Roster(attempt)
	if !ok {
		return r, fmt.Errorf("attempt %d: %w", attempt, pg.ErrUnconfigured)
	}
	return r, nil
}

func (everybody) ReportError(int64, error) {}

func (everybody) Errored(int64) bool { return false }
