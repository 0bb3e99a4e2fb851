package checkpoint

import (
	"context"
	"errors"

	"github.com/skerry-ft/skerry/pg"
)

// State is what a replica group rank must have to go on: parameters, optimizer
// state, and small things such as step counters in Meta. Names are unique;
// tensors are views of the owner's memory.
type State struct {
	Tensors map[string]pg.Tensor
	Meta    map[string]string
}

// Version names a state: a position, as text without spaces.
type Version string

// Transport carries states between replicas. T is usually HTTP.
type Transport interface {
	// Metadata is what a target needs to find this donor: a URL.
	Metadata() string

	// Serve stages a copy of s as v, replacing any other, and returns once the
	// copy is made: from then on the owner may change its tensors. Fetches of
	// v that came early are answered now.
	Serve(ctx context.Context, v Version, s State) error

	// Disallow drops the staged copy once its readers have finished or ctx
	// ends; requests that come later wait for the next Serve or their own
	// deadline.
	Disallow(ctx context.Context) error

	// Fetch reads v from the donors named by their metadata, the first being
	// the one to ask first, into the tensors of into, which must have the same
	// names, dtypes and shapes (*MismatchError), and returns the donor's Meta. Into is
	// undefined after an error. Blocks until done, or ctx ends.
	Fetch(ctx context.Context, v Version, donors []string, into State) (map[string]string, error)

	// Close stops serving.
	Close() error
}

// Runner is implemented by transports that work in the background.
type Runner interface {
	// Run works until ctx ends or Close, and returns nil then.
	Run(ctx context.Context) error
}

// TokenSetter is implemented by transports that guard states with the
// quorum's token. It holds for Serve and Fetch calls from then on.
type TokenSetter interface {
	SetToken(token []byte)
}

// Errors that callers tell apart.
var (
	// ErrNoDonor is returned by Fetch when every donor failed; it is joined
	// with what each of them said.
	ErrNoDonor = errors.New("checkpoint: no donor could serve the state")
	// ErrCorrupt is returned when bytes do not match their checksum or format.
	ErrCorrupt = errors.New("checkpoint: corrupt bytes")
)
