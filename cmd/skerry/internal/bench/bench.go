package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/internal/problems"
)

// Options are what a user may choose for all benches.
type Options struct {
	Samples int     // of each contestant and row; 0: the bench's own number
	Peers   bool    // measure installed peers beside us
	N       []int   // ranks or replicas; nil: the bench's own
	Bytes   []int64 // message sizes; nil: the bench's own
	Notes   io.Writer
}

// MaxSamples bounds Options.Samples.
const MaxSamples = 100_000

// MaxN bounds Options.N: so many replicas one lighthouse holds.
const MaxN = 16_384

// Validate returns all problems, joined.
func (o Options) Validate() error {
	l := problems.List{Prefix: "--"}
	problems.Within(&l, "samples", o.Samples, 0, MaxSamples)
	for _, n := range o.N {
		problems.Within(&l, "n", n, 1, MaxN)
	}
	for _, b := range o.Bytes {
		l.Want(b >= 4 && b <= 4<<30 && b%4 == 0, "bytes", b, "a multiple of 4 from 4 to %d", int64(4)<<30)
	}
	return cli.Usage(l.Err())
}

// worlds are the numbers of ranks that the user chose, or the bench's own.
func (o Options) worlds(own ...int) []int {
	if o.N != nil {
		return o.N
	}
	return own
}

// sizes are the numbers of bytes that the user chose, or the bench's own.
func (o Options) sizes(own ...int64) []int64 {
	if o.Bytes != nil {
		return o.Bytes
	}
	return own
}

// note tells the person at the terminal something that is not a row.
func (o Options) note(format string, args ...any) {
	if o.Notes != nil {
		fmt.Fprintf(o.Notes, format+"\n", args...)
	}
}

// Bench is one named set of rows.
type Bench struct {
	Name string
	Help string
	run  runFunc
}

// runFunc measures, and hands out rows as they come.
type runFunc func(ctx context.Context, o Options, emit emitFunc) error

// emitFunc takes rows; the [Printer] keeps what goes wrong with them.
type emitFunc func(...Row)

func (b Bench) measure(ctx context.Context, o Options, emit emitFunc) error {
	if err := b.run(ctx, o, emit); err != nil {
		return fmt.Errorf("bench %s: %w", b.Name, err)
	}
	return nil
}

// All lists the benches in the order in which they run.
func All() []Bench {
	return []Bench{
		{"allreduce", "time of one all-reduce (float32, sum, in place) over processes of this host", runAllReduce},
		{"collectives", "the same for reduce-scatter, all-gather, all-to-all and broadcast", runCollectives},
		{"ddp", "a step whose backward pass takes 50 ms on a device, and its gradients' average beside it, by hook", runDDP},
		{"reconfigure", "next quorum known to its first all-reduce done: all edges new, kept, one rank new", runReconfigure},
		{"detect", "SIGKILL of one rank to the failure of every survivor's all-reduce", runDetect},
		{"baby", "an all-reduce in child processes beside the same without, and a child's restart", runBaby},
		{"quorum", "round trip of a quorum that stands, and of one that changes, over RPC", runQuorum},
		{"failover", "SIGKILL of the leader of three lighthouse servers to everybody's next quorum", runFailover},
		{"scale", "one lighthouse with 10,000 sessions; 1,000 replicas through torchft's API", runScale},
		{"viewers", "one lighthouse with 1,000 replicas of ten jobs that train, without and with 100 viewers of its page", runViewers},
		{"heal", "a joiner's heal of 1 GiB: the members' longest time between two commits", runHeal},
		{"tls", "what encryption adds: an all-reduce between hosts, new edges, a fetch of a state, calls on a store; beside the same in the clear", runTLS},
		{"parity", "what comparing states at rest adds to a step of 256 MiB", runParity},
		{"recover", "SIGKILL of a replica to the survivors' next commit", runRecover},
		{"python", "torch.distributed over the Python package: all-reduces, steps of DDP and FSDP2, deaths; with --peers Gloo in the same processes", runPython},
	}
}

// Names lists what Run takes.
func Names() []string {
	var names []string
	for _, b := range All() {
		names = append(names, b.Name)
	}
	return names
}

// Run runs the named benches, or all if there is no name, and prints their rows.
func Run(ctx context.Context, names []string, o Options, p *Printer) error {
	if err := o.Validate(); err != nil {
		return err
	}
	for _, name := range names {
		if !slices.Contains(Names(), name) {
			return cli.Usagef("no bench is called %q; there are: %s", name, strings.Join(Names(), ", "))
		}
	}
	for _, b := range All() {
		if len(names) > 0 && !slices.Contains(names, b.Name) {
			continue
		}
		if err := errors.Join(b.measure(ctx, o, p.Print), p.err); err != nil {
			return errors.Join(err, p.Flush()) // what was measured is worth seeing
		}
	}
	return p.Flush()
}
