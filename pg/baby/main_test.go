package baby

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp"
)

// patient is tcp with beats that a loaded machine under the race detector keeps.
const patient = "patient-tcp"

func TestMain(m *testing.M) {
	err := pg.Register(patient, []string{"cpu"}, func(o pg.Options) (pg.Backend, error) {
		if words := os.Getenv(crashEnv); words != "" {
			return nil, errors.New(words)
		}
		return tcp.New(tcp.Options{BeatTimeout: 20 * time.Second, Logger: o.Log}), nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	err = pg.Register(inBatches, []string{"cpu"}, func(o pg.Options) (pg.Backend, error) {
		return onlyBatches{tcp.New(tcp.Options{BeatTimeout: 20 * time.Second, Logger: o.Log})}, nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	err = pg.Register(vandal, []string{"cpu"}, func(o pg.Options) (pg.Backend, error) {
		return vandals{tcp.New(tcp.Options{BeatTimeout: 20 * time.Second, Logger: o.Log})}, nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// Under the race detector each exit would sleep for a second.
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	Init()
	goleak.VerifyTestMain(m)
}

// newBaby makes a Baby of the patient backend.
func newBaby(t testing.TB, o Options) *Backend {
	t.Helper()
	if o.Backend == "" {
		o.Backend = patient
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
