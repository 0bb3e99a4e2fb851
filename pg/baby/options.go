package baby

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/train/spawn"
)

// The bounds of a child's life.
const (
	// DefaultGrace is how long a child that was told to end may take.
	DefaultGrace = time.Second
	// DefaultSilence is how long a child with ops in flight may say nothing.
	DefaultSilence = 2 * time.Second
	// ReapLimit is how long pending ops wait for a killed child to be gone.
	ReapLimit = time.Second
	// Slack is how long after an abort or a deadline the child may take to
	// report that an op has ended, if it answers at all.
	Slack = 250 * time.Millisecond
)

// namePrefix stands before the name of the backend in the child.
const namePrefix = "baby:"

// worker is the name of the child's function in train/spawn.
const worker = "skerry/baby"

// Options say what runs in the child, and how.
type Options struct {
	// Backend is the registered name of the backend that the child opens.
	Backend string
	// Open is what the child opens it with; its Log stays here.
	Open pg.Options
	// Env is added to the child's environment, "NAME=value"; it inherits ours,
	// NCCL_* included.
	Env []string
	// Stdout and Stderr take what the child prints; nil throws standard output
	// away. The last lines of standard error are kept for ChildError.
	Stdout, Stderr io.Writer
	// Spare keeps a started child in reserve once the first Configure is done.
	Spare bool
	// Order puts ops on device tensors behind the work of this process's streams;
	// nccl.Order is one. Nil: Submit waits on the host for the default stream of the
	// tensors' device, if their memory can (Settler), and else refuses the op. A
	// caller with streams of its own then waits for those before it submits.
	Order Order
	// Grace, Silence: 0 means DefaultGrace, DefaultSilence.
	Grace, Silence time.Duration
	Log            zerolog.Logger

	// slack is Slack where it is not zero. For tests.
	slack time.Duration
}

// Init makes a re-executed process the child that it was started as, and does
// not return in it; it calls spawn.Init. In any other process it returns at
// once. Call it at the top of main, or TestMain, after the backends and the
// functions of train/spawn have been registered.
func Init() {
	enable()
	spawn.Init()
}

// enabled guards against a second registration of the worker, which train/spawn
// would refuse.
var enabled sync.Once

func enable() { enabled.Do(func() { spawn.Register(worker, serve) }) }

// Register makes "baby:<name>" known to pg.Open for a backend that is
// registered already. Params of pg.Options go to the backend in the child;
// "baby.spare" = "false" stays here, and starts every child anew. Such a Baby has
// no Order: for ops on device tensors use RegisterWith, or see Options.Order.
func Register(name string) error { return RegisterWith(name, nil) }

// RegisterWith is Register for Babies with more than pg.Options can say: prepare
// changes the Options of each one that is opened, for instance its Order.
func RegisterWith(name string, prepare func(*Options) error) error {
	known := pg.Drivers()
	i := slices.IndexFunc(known, func(d pg.Driver) bool {
		return strings.EqualFold(d.Name, name) || d.Name == "tcp" && strings.EqualFold(name, "gloo")
	})
	if i < 0 {
		return fmt.Errorf("baby: register %s%s: no backend %q is registered", namePrefix, name, name)
	}
	d := known[i]
	return pg.Register(namePrefix+d.Name, d.Devices, func(o pg.Options) (pg.Backend, error) {
		spare := true
		switch v := o.Params[spareParam]; v {
		case "", "true":
		case "false":
			spare = false
		default:
			return nil, fmt.Errorf("baby: %s = %q, want true or false", spareParam, v)
		}
		options := Options{Backend: d.Name, Open: o, Spare: spare, Log: o.Log}
		if prepare != nil {
			if err := prepare(&options); err != nil {
				return nil, fmt.Errorf("prepare %s%s: %w", namePrefix, d.Name, err)
			}
		}
		return New(options)
	})
}

// slackTime is how long the child may take beyond an abort or a deadline.
func (o *Options) slackTime() time.Duration { return cmp.Or(o.slack, Slack) }

const spareParam = "baby.spare"

func (o *Options) normalise() error {
	o.Backend = strings.ToLower(o.Backend)
	switch {
	case o.Backend == "":
		return errors.New("baby: no backend named, want one that is registered")
	case strings.HasPrefix(o.Backend, namePrefix):
		return fmt.Errorf("baby: backend %q is a child already, want a plain one", o.Backend)
	case !pg.Available(o.Backend):
		return fmt.Errorf("baby: no backend %q is registered in this process, so the child would have none", o.Backend)
	case o.Grace < 0 || o.Silence < 0:
		return fmt.Errorf("baby: grace %v, silence %v, want 0 (the default) or more", o.Grace, o.Silence)
	}
	o.Grace = cmp.Or(o.Grace, DefaultGrace)
	o.Silence = cmp.Or(o.Silence, DefaultSilence)
	return nil
}
