package checkpoint

import (
	"context"
	"errors"

	"github.com/skerry-ft/skerry/checkpoint/safetensors"
)

// State is what a transport moves, as the format has it.
type State = safetensors.State

// Version names a state: a position, as text without spaces.
type Version string

// Transport carries states between replicas. T is usually HTTP.
type Transport interface {
	// Metadata is what a target needs to find this donor: a URL.
	Metadata() string

	// Serve lets targets read the state v, straight from its owner's tensors,
	// until Pause or the next Serve. Save returns views of them; it is called
	// from another goroutine, once a target asks, and only before Pause returns.
	// The tensors must not change until then. Fetches of v that came early are
	// answered now.
	Serve(v Version, save func() (State, error)) error

	// Pause ends that, and returns once nothing is being read: it waits for a
	// chunk's copy, never for the network. Requests that come later wait for the
	// next Serve or their own deadline. What targets have got they keep.
	Pause()

	// Fetch makes into hold v, from the donors named by their metadata, the first
	// being the one to ask first, and returns the donor's Meta. Only what into
	// does not hold travels. A state that is not like into's tensors is a
	// *MismatchError. With v Any chunks may be of different states, and Meta is of
	// no use: a later Fetch of one version brings what differs. After an error
	// into keeps what has come. Blocks until done, or ctx ends.
	Fetch(ctx context.Context, v Version, donors []string, into *Mirror) (map[string]string, error)

	// Close stops serving.
	Close() error
}

// Runner is implemented by transports that work in the background.
type Runner interface {
	// Run works until ctx ends or Close, and returns nil then.
	Run(ctx context.Context) error
}

// TokenSetter is implemented by transports that guard states with the
// quorum's token. It holds for reads and Fetch calls from then on.
type TokenSetter interface {
	SetToken(token []byte)
}

// Errors that callers tell apart.
var (
	// ErrNoDonor is returned by Fetch when every donor failed; it is joined
	// with what each of them said.
	ErrNoDonor = errors.New("checkpoint: no donor could serve the state")
	// ErrOtherCut is returned by Fetch when the donors' tensors are not those of the
	// fetch before, and the mirror's hold parts of that: Restore, and begin with
	// another mirror.
	ErrOtherCut = errors.New("checkpoint: donors cut the state in another way than before")
	// ErrCorrupt is returned when bytes do not match their checksum or format.
	ErrCorrupt = safetensors.ErrCorrupt
)
