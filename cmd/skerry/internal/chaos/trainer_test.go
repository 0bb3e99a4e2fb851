package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/chaos/faults"
	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/paralleltest"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/spawn"
)

const trainerWorker = "chaos-trainer"

// testsAtOnce is how many tests run at a time: they wait for trainers more than they compute.
const testsAtOnce = 4

func TestMain(m *testing.M) {
	if status, keeper := faults.Keep(); keeper {
		os.Exit(status)
	}
	spawn.Register(trainerWorker, train)
	spawn.Init()
	if !testkit.RaceEnabled {
		paralleltest.AtOnce(testsAtOnce)
	}
	goleak.VerifyTestMain(m)
}

// stepTime is how long a step of a trainer takes.
const stepTime = 20 * time.Millisecond

// train is one rank of a replica, as a launcher starts it: all that it knows is in its
// environment. It trains for ever.
func train(ctx context.Context, _ spawn.Worker) error {
	cfg := manager.Config{}
	if err := cfg.FromEnv(); err != nil {
		return err
	}
	return trainAs(ctx, cfg)
}

// trainAs trains until ctx ends.
func trainAs(ctx context.Context, cfg manager.Config) error {
	cfg.Backend = tcp.New(tcp.Options{})
	m, err := manager.New(cfg)
	if err != nil {
		return err
	}
	sum := make([]float32, 2)
	state := func() checkpoint.State {
		return checkpoint.State{Tensors: map[string]tensor.Tensor{"sum": tensor.Of(sum)}}
	}
	if err := m.Register("job", state, func(checkpoint.State) error { return nil }); err != nil {
		return errors.Join(err, m.Close())
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return m.Run(ctx) })
	g.Go(func() error {
		defer m.Close() // its error is Run's
		for ctx.Err() == nil {
			if err := step(ctx, m, sum); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	return g.Wait()
}

func step(ctx context.Context, m *manager.Manager, sum []float32) error {
	if err := m.StartQuorum(ctx); err != nil {
		return err
	}
	if err := backoff.Sleep(ctx, stepTime); err != nil {
		return err
	}
	grad := []float32{1, 2}
	if err := m.Group().AllReduce(ctx, tensor.Of(grad), tensor.Avg); err != nil {
		return err
	}
	committed, err := m.ShouldCommit(ctx)
	if committed {
		sum[0], sum[1] = sum[0]+grad[0], sum[1]+grad[1]
	}
	return err
}

// launcher keeps replicas of some ranks going, as a user's own does: when a rank dies, it
// starts the whole replica again.
type launcher struct {
	t          *testing.T
	lighthouse string
	ranks      int
	store      string
	again      bool // dead replicas are started again
	stop       context.CancelFunc
	all        sync.WaitGroup
}

// launch starts replicas, which end with the test.
func launch(t *testing.T, lighthouse string, replicas, ranks int, again bool) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	l := &launcher{t: t, lighthouse: lighthouse, ranks: ranks, again: again, stop: stop}
	s, err := store.NewServer(store.ServerConfig{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	l.store = s.Addr()
	l.all.Go(func() { _ = s.Run(ctx) }) // it ends with the test
	for i := range replicas {
		l.all.Go(func() { l.keep(ctx, i) })
	}
	t.Cleanup(func() {
		stop()
		l.all.Wait()
	})
}

// keep runs one replica until ctx ends.
func (l *launcher) keep(ctx context.Context, index int) {
	for start := 0; ctx.Err() == nil && (start == 0 || l.again); start++ {
		var ranks []*spawn.Process
		died := make(chan struct{}, l.ranks)
		for rank := range l.ranks {
			p, err := spawn.Start(spawn.Worker{Name: trainerWorker, Rank: rank, WorldSize: l.ranks}, spawn.Options{Env: l.env(index, rank, start)})
			if err != nil {
				l.t.Error(err)
				break
			}
			ranks = append(ranks, p)
			l.all.Go(func() {
				<-p.Done()
				died <- struct{}{}
			})
		}
		select {
		case <-died:
		case <-ctx.Done():
		}
		for _, p := range ranks {
			p.Kill()
		}
	}
}

// env is what a launcher tells a rank.
func (l *launcher) env(index, rank, start int) []string {
	host, port, _ := strings.Cut(l.store, ":")
	return []string{
		"SKERRY_LIGHTHOUSE=" + l.lighthouse, fmt.Sprintf("REPLICA_GROUP_ID=r%d", index), "SKERRY_JOB=" + job(l.t),
		fmt.Sprint("RANK=", rank), fmt.Sprint("WORLD_SIZE=", l.ranks), "MASTER_ADDR=" + host, "MASTER_PORT=" + port,
		fmt.Sprintf("TORCHELASTIC_RESTART_COUNT=%d-%d", index, start),
	}
}

// job is a test's job.
func job(t *testing.T) string { return strings.ReplaceAll(t.Name(), "/", "-") }

// chaos runs the command as skerry does.
func chaos(t *testing.T, ctx context.Context, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	root := &cobra.Command{Use: "skerry"}
	root.AddCommand(Command())
	cli.Strict(root)
	root.SetOut(&out)
	root.SetErr(io.Discard)
	err := cli.Execute(ctx, root, append([]string{"chaos", "--job", job(t), "--svg", ""}, args...))
	if err != nil {
		cli.Say(&errs, "skerry", err)
	}
	return cli.StatusOf(err), out.String(), errs.String()
}
