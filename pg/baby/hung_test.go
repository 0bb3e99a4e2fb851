package baby

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
)

// sick is a backend whose opening does not return while there is a file, as the
// initialisation of a sick driver does not.
const sick = "sick"

const (
	sickEnv    = "SKERRY_TEST_SICK"
	hungSuffix = ".hung" // of the file that says that it hangs
)

func openSick(o pg.Options, open func(pg.Options) pg.Backend) (pg.Backend, error) {
	file := os.Getenv(sickEnv)
	if _, err := os.Stat(file); err == nil {
		if err := os.WriteFile(file+hungSuffix, nil, 0o600); err != nil {
			return nil, err
		}
		<-make(chan struct{})
	}
	return open(o), nil
}

// newSick makes a Baby of the sick backend, and what it is sick of.
func newSick(t *testing.T, o Options) (*Backend, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sick")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o.Backend, o.Env, o.Grace = sick, []string{sickEnv + "=" + file}, 100*time.Millisecond
	return newBaby(t, o), file
}

// soloConfig is that of a world of one.
func soloConfig(t *testing.T, quorum int64) pg.Config {
	t.Helper()
	return pg.Config{
		StoreAddress: pgtest.StartStore(t), ReplicaIDs: []string{"solo"}, Cluster: "c", QuorumID: quorum, GroupWorldSize: 1,
	}
}

// A child that never becomes ready keeps nobody: its Configure ends by the
// config's timeout, by Abort, and by Close.
func TestChildThatNeverStarts(t *testing.T) {
	t.Parallel()
	aborted := errors.New("aborted by the test")
	for name, c := range map[string]struct {
		timeout time.Duration
		end     func(b *Backend, e pg.Epoch) // nil: it ends by itself
		want    error
	}{
		"timeout": {100 * time.Millisecond, nil, context.DeadlineExceeded},
		"abort":   {time.Hour, func(b *Backend, e pg.Epoch) { b.Abort(e, aborted) }, aborted},
		"close":   {time.Hour, func(b *Backend, _ pg.Epoch) { b.Close() }, pg.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, _ := newSick(t, Options{})
			cfg := soloConfig(t, 1)
			cfg.Timeout = c.timeout
			ended := make(chan error, 1)
			go func() { ended <- b.Configure(context.Background(), cfg) }()
			if c.end != nil {
				testkit.Eventually(t, "a configure is under way", func() bool {
					b.mu.Lock()
					defer b.mu.Unlock()
					return b.mu.entering.epoch == cfg.Epoch()
				})
				c.end(b, cfg.Epoch())
			}
			select {
			case err := <-ended:
				if !errors.Is(err, c.want) {
					t.Errorf("configure: %v, want %v", err, c.want)
				}
			case <-time.After(pgtest.Bound):
				t.Fatal("configure does not end")
			}
		})
	}
}

// A spare that hangs costs neither Configure nor Close anything, and is not taken.
func TestSpareThatNeverStarts(t *testing.T) {
	t.Parallel()
	b, file := newSick(t, Options{Spare: true})
	ctx, cancel := context.WithCancel(t.Context())
	warmed := make(chan error, 1)
	go func() { warmed <- b.Warm(ctx) }()
	testkit.Eventually(t, "a spare hangs", func() bool {
		_, err := os.Stat(file + hungSuffix)
		return err == nil
	})
	hung := b.sparePID()
	if err := os.Remove(file); err != nil { // the next child is well
		t.Fatal(err)
	}
	bounded, stop := context.WithTimeout(t.Context(), pgtest.Bound)
	defer stop()
	if err := b.Configure(bounded, soloConfig(t, 1)); err != nil {
		t.Fatalf("configure beside a spare that hangs: %v", err)
	}
	if pid := mustChild(t, b); pid == hung {
		t.Error("the spare that hangs is the child")
	}
	cancel()
	if err := <-warmed; !errors.Is(err, context.Canceled) {
		t.Errorf("warm: %v, want it cancelled", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(hung, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d: %v, want none", hung, err)
	}
}
