package baby

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/paralleltest"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/train/spawn"
)

// patient is tcp with beats that a loaded machine under the race detector keeps.
const patient = "patient-tcp"

// clingy is a backend that does not let itself be closed.
const clingy = "clingy"

type clings struct{ pg.Backend }

func (c clings) Close() error {
	<-make(chan struct{})
	return nil
}

// tattle is a backend that leaves a file behind when it is aborted.
const tattle = "tattle"

type tattles struct {
	pg.Backend
	file string
}

func (t tattles) Abort(e pg.Epoch, cause error) {
	_ = os.WriteFile(t.file, []byte(cause.Error()), 0o600)
	t.Backend.Abort(e, cause)
}

// register makes the tests' backends known to pg.Open.
func register() error {
	plain := func(o pg.Options) pg.Backend {
		return tcp.New(tcp.Options{BeatTimeout: 20 * time.Second, Logger: o.Log})
	}
	var all error
	for name, open := range map[string]func(o pg.Options) (pg.Backend, error){
		patient: func(o pg.Options) (pg.Backend, error) {
			if words := os.Getenv(crashEnv); words != "" {
				return nil, errors.New(words)
			}
			return plain(o), nil
		},
		inBatches: func(o pg.Options) (pg.Backend, error) { return onlyBatches{plain(o)}, nil },
		vandal:    func(o pg.Options) (pg.Backend, error) { return vandals{plain(o)}, nil },
		sick:      func(o pg.Options) (pg.Backend, error) { return openSick(o, plain) },
		listless:  func(o pg.Options) (pg.Backend, error) { return listsNothing{plain(o)}, nil },
		tattle:    func(o pg.Options) (pg.Backend, error) { return tattles{plain(o), o.Params["file"]}, nil },
		clingy:    func(o pg.Options) (pg.Backend, error) { return clings{plain(o)}, nil },
	} {
		all = errors.Join(all, pg.Register(name, []string{"cpu"}, open))
	}
	return all
}

// testsAtOnce is how many tests run at a time, unless -parallel says otherwise: they
// wait for children and deadlines rather than compute.
const testsAtOnce = 4

func TestMain(m *testing.M) {
	if err := register(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// Under the race detector each exit would sleep for a second.
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	if os.Getenv(withoutInit) != "" {
		startUninitialised()
		return
	}
	spawn.Register(trainerWorker, trainer)
	spawn.Register(supervisorWorker, supervisor)
	Init()
	paralleltest.AtOnce(testsAtOnce)
	goleak.VerifyTestMain(m)
}

// newBaby makes a Baby of the patient backend. On a loaded machine its child may be silent
// for long: a test that waits for silence says for how much of it.
func newBaby(t testing.TB, o Options) *Backend {
	t.Helper()
	if o.Backend == "" {
		o.Backend = patient
	}
	if o.Silence == 0 {
		o.Silence = pgtest.Bound
	}
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}
