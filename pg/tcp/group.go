package tcp

import (
	"time"

	"github.com/skerry-ft/skerry/internal/failpoint"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
)

// group is one configuration: an epoch, its members and its ops. Guarded by
// Backend.mu, but for the fields that never change.
type group struct {
	cfg     pg.Config
	epoch   pg.Epoch
	key     frame.Epoch
	rank    int
	world   int
	members [32]byte
	ranks   map[string]int // replica id to rank
	wake    nudge          // Configure looks again
	points  failpoint.Hook // of the context of Configure
	broken  chan struct{}  // closed when it is

	phase    groupPhase
	err      error       // the first cause, once broken
	cause    frame.Cause // what err was made of
	peers    []*link     // by rank; fixed once ready
	missing  int         // peers whose Hello is not checked
	attached bool        // published, and edges taken over
	refusal  error       // the last Hello that was refused
	dialing  []bool
	tries    []int     // dials by rank
	begun    time.Time // the opening of the store, then the dials
	opening  bool      // the store is being opened

	round   int64
	seq     uint64
	active  *task // the collective under way
	queue   queue[*task]
	pending []*task // every op that is not done
	recvs   []*task // receives without a message, in order of Submit
	sendSeq map[p2pKey]uint64
	recvSeq map[p2pKey]uint64
	digest  digest

	deferredBreak *frame.Cause // breaks the group once the active op is done: a peer has left
}

type groupPhase uint8

const (
	groupConfiguring groupPhase = iota
	groupReady
	groupBroken
)
