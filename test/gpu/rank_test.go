package gpu

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/nccl"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/spawn"
)

// job is what a rank's process is told.
type job struct {
	Scenario  string
	Address   string // of the store
	Cluster   string
	Libraries libraries
	Full      bool // real hardware: full sizes
	Short     bool // as -test.short
	Limit     time.Duration
	Quorums   int
	Spread    bool

	// Of a trainer: where it finds the others, which one it is, and at which step it
	// kills itself; 0: it does not.
	Lighthouse string
	Replica    int
	DieAt      int64
	Baby       bool
}

// A record is a line that a rank prints for the parent, behind recordMark:
// libraries print, too.
type record struct {
	Rank    int
	What    string // what was measured, or looked at
	Value   string // a word about it
	Bytes   int64
	Count   int
	Seconds float64
}

const recordMark = "@skerry "

// rank is a rank's process at work.
type rank struct {
	job
	spawn.Worker

	lib    *nccl.Library
	cuda   *nccl.CUDA
	dev    *nccl.Device
	quorum int64
	held   []*nccl.Buffer // freed by leave
}

// opTimeout bounds every op and every Configure of a scenario.
func (r *rank) opTimeout() time.Duration { return r.Limit / 4 }

// scenarios are what work can run.
func scenarios() map[string]func(r *rank, ctx context.Context) error {
	return map[string]func(r *rank, ctx context.Context) error{
		"look":        (*rank).look,
		"ops":         (*rank).ops,
		"abort":       (*rank).abort,
		"baby":        (*rank).baby,
		"reconfigure": (*rank).reconfigure,
		"bandwidth":   (*rank).bandwidth,
		"die":         (*rank).die,
		"streams":     (*rank).streams,
		"train":       (*rank).train,
		"heal":        (*rank).healed,
		"ddp":         (*rank).ddp,
		"abort-few":   (*rank).abort,
		"idle":        (*rank).idle,
	}
}

// work is the body of a rank's process.
func work(ctx context.Context, w spawn.Worker) error {
	r := &rank{Worker: w}
	if err := json.Unmarshal(w.Args, &r.job); err != nil {
		return err
	}
	f, ok := scenarios()[r.Scenario]
	if !ok {
		return fmt.Errorf("no scenario %q", r.Scenario)
	}
	var err error
	if r.lib, err = nccl.OpenLibrary(r.Libraries.NCCL); err != nil {
		return err
	}
	if r.cuda, err = nccl.OpenCUDA(r.Libraries.CUDA); err != nil {
		return err
	}
	index := 0
	if r.Spread {
		index = r.Rank
	}
	if r.dev, err = nccl.OpenDevice(r.cuda, index); err != nil {
		return err
	}
	if err := f(r, ctx); err != nil {
		return fmt.Errorf("%s: %w", r.Scenario, err)
	}
	return r.dev.Close()
}

// say prints a record.
func (r *rank) say(rec record) {
	rec.Rank = r.Rank
	line, err := json.Marshal(rec)
	if err != nil {
		panic(err) // no value of a record can do that
	}
	fmt.Printf("%s%s\n", recordMark, line)
}

// backend is the group's, in this process.
func (r *rank) backend() (*nccl.Backend, error) {
	o := nccl.Options{Library: r.lib, Device: r.dev}
	if r.Full {
		o.Log = zerolog.New(os.Stderr).With().Int("rank", r.Rank).Logger()
		if r.Scenario == "reconfigure" {
			o.Log = o.Log.Level(zerolog.WarnLevel)
		}
	}
	return nccl.New(o)
}

// group is one of backend, in the next quorum.
func (r *rank) group(ctx context.Context) (*pg.Group, error) {
	b, err := r.backend()
	if err != nil {
		return nil, err
	}
	g := pg.NewGroup(b)
	return g, r.configure(ctx, g)
}

// configure makes the next quorum of all ranks.
func (r *rank) configure(ctx context.Context, g *pg.Group) error {
	r.quorum++
	ids := make([]string, r.WorldSize)
	for i := range ids {
		ids[i] = fmt.Sprintf("rank-%d", i)
	}
	return g.Configure(ctx, pg.Config{
		StoreAddress: fmt.Sprintf("%s/skerry/%s/gpu/%d/0", r.Address, r.Cluster, r.quorum),
		ReplicaIDs:   ids, Rank: r.Rank, Cluster: r.Cluster, QuorumID: r.quorum, GroupWorldSize: 1, Timeout: r.opTimeout(),
	})
}

// meet waits until all ranks have come here, beside the group.
func (r *rank) meet(ctx context.Context, where string) error {
	s, err := store.Open(ctx, r.Address+"/meet/"+r.Cluster+"/"+where, store.ClientConfig{})
	if err != nil {
		return err
	}
	for i := range r.WorldSize {
		key := fmt.Sprint(i)
		if i == r.Rank {
			err = s.Set(ctx, key, []byte{1})
		} else {
			_, err = s.Get(ctx, key)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("meet at %s: %w", where, err), s.Close())
		}
	}
	return s.Close()
}

// tensor is n elements of dtype on the device.
func (r *rank) tensor(dtype tensor.DType, n int) (tensor.Tensor, *nccl.Buffer, error) {
	buf, err := r.dev.Alloc(max(n*dtype.Size(), 1))
	if err != nil {
		return tensor.Tensor{}, nil, err
	}
	t, err := tensor.OnDevice(buf, dtype, n)
	if err != nil {
		return tensor.Tensor{}, nil, errors.Join(err, buf.Close())
	}
	return t, buf, nil
}

// leave closes the group, and frees what was held until nobody can have it open.
func (r *rank) leave(g *pg.Group) error {
	err := g.Close()
	for _, b := range r.held {
		err = errors.Join(err, b.Close())
	}
	r.held = nil
	return err
}

// outcome is what came of the processes of a scenario.
type outcome struct {
	records []record
	errs    []error // by rank
}

// run starts all ranks of a scenario and waits for them.
func start(t testing.TB, scenario string) outcome {
	t.Helper()
	j := job{
		Scenario: scenario, Address: pgtest.StartStore(t), Cluster: fmt.Sprintf("%s-%d", scenario, time.Now().UnixNano()),
		Libraries: open(t), Full: *real, Short: testing.Short(), Limit: scenarioLimit(), Quorums: *quorums, Spread: *spread,
	}
	args, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	procs, outs := make([]*spawn.Process, *ranks), make([]bytes.Buffer, *ranks)
	for i := range procs {
		procs[i], err = spawn.Start(spawn.Worker{Name: workerName, Rank: i, WorldSize: *ranks}, spawn.Options{
			Args: args, Env: environment(i), Stdout: &outs[i], Stderr: os.Stderr,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer procs[i].Kill()
	}
	o := outcome{errs: make([]error, *ranks)}
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit())
	defer cancel()
	for i, p := range procs {
		if o.errs[i] = p.Wait(ctx); ctx.Err() != nil {
			t.Errorf("rank %d has not ended after %v", i, scenarioLimit())
			p.Kill()
			<-p.Done()
		}
		o.records = append(o.records, records(t, &outs[i])...)
	}
	return o
}

// scenarioLimit is how long a scenario may take.
func scenarioLimit() time.Duration {
	if *real {
		return *limit
	}
	return time.Minute
}

// environment makes ranks on one GPU look like different hosts, which NCCL wants
// of them; they talk over sockets, and on this machine.
func environment(i int) []string {
	env := []string{fmt.Sprintf("%s=%d", rankEnv, i)}
	if !*spread {
		env = append(env, fmt.Sprintf("NCCL_HOSTID=skerry-gpu-%d", i))
	}
	for _, v := range []string{"NCCL_SOCKET_IFNAME=lo", "NCCL_IB_DISABLE=1"} {
		if name, _, _ := strings.Cut(v, "="); os.Getenv(name) == "" {
			env = append(env, v)
		}
	}
	return env
}

// rankEnv is seen by a rank's Baby, too, and by NCCL's logs of the environment.
const rankEnv = "SKERRY_GPU_RANK"

// records reads what a rank has printed.
func records(t testing.TB, out *bytes.Buffer) (all []record) {
	t.Helper()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line, ours := strings.CutPrefix(lines.Text(), recordMark)
		if !ours {
			t.Log(line)
			continue
		}
		var rec record
		if err := json.Unmarshal([]byte(line), &rec); err != nil {
			t.Errorf("record %q: %v", line, err)
			continue
		}
		all = append(all, rec)
	}
	return all
}

// succeed fails the test if any rank failed.
func (o outcome) succeed(t testing.TB) {
	t.Helper()
	for rank, err := range o.errs {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}
