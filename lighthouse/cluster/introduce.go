package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse/cluster/internal/datadir"
)

const (
	// introduceEvery is how often a server that waits for its cluster asks
	// around, and one that is in it asks for those whom gossip does not see.
	introduceEvery = 200 * time.Millisecond

	// introduceTimeout bounds one such call.
	introduceTimeout = time.Second

	// refusedTimeout bounds a look whether somebody listens at an address.
	refusedTimeout = 300 * time.Millisecond

	// twiceTimeout is how long another process may be seen under this server's
	// raft id before that is an error. A restart at another address is soon
	// over for gossip.
	twiceTimeout = 3 * time.Second
)

var (
	errTwice    = errors.New("this raft id is in use by another server")
	errClusters = errors.New("the servers are of different clusters")
)

// hear takes what another server says, from itself. An error is for it to be
// told, or, if it was us who asked, for us.
func (n *Node) hear(i wire.Introduction) error {
	s := i.Self
	if s.RaftID == n.me().RaftID {
		if s.Boot == n.me().Boot {
			return nil // one of the addresses is our own
		}
		return fmt.Errorf("%w: %s is %s's and %s's: one data dir is a copy of the other's; start it with an empty one",
			errTwice, s.RaftID, n.me().RPCAddress, s.RPCAddress)
	}
	if e, ok := n.book.find(s.RaftID); ok && e.alive && e.Boot != s.Boot && e.RPC != s.RPCAddress && !n.refuses(e.RPC) {
		return fmt.Errorf("%w: %s is alive at %s and starts at %s: one data dir is a copy of the other's; start it with an empty one",
			errTwice, s.RaftID, e.RPC, s.RPCAddress)
	}
	if known, err := n.noteWord(i); err != nil || !known {
		return err
	}
	n.book.learn(gossipNode{RaftID: s.RaftID, Boot: s.Boot, RPC: s.RPCAddress, Raft: s.RaftAddress,
		Cluster: s.Cluster, Version: s.Version, NonVoter: s.NonVoter})
	return nil
}

// refuses tells whether nobody listens at address any more: gossip may take long
// to see that a server was killed, above all if it is alone to see it. One that
// does not answer at all may only be out of our reach.
func (n *Node) refuses(address string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), refusedTimeout)
	defer cancel()
	conn, err := n.cfg.Network.Dial(ctx, address)
	if err == nil {
		_ = conn.Close() // nothing was said
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// noteWord keeps a server's word, unless it is older than the one we have or of
// another cluster.
func (n *Node) noteWord(i wire.Introduction) (fresh bool, err error) {
	s := i.Self
	n.mu.Lock()
	defer n.mu.Unlock()
	mine := n.mu.saved.ClusterRecord
	if mine.Standing == wire.StandingFounded && s.Standing == wire.StandingFounded && mine.Cluster != s.Cluster {
		return false, fmt.Errorf("%w: %s is of %s, %s is of %s: give it the data dir or the servers of its own cluster",
			errClusters, n.me().RPCAddress, mine.Cluster, s.RPCAddress, s.Cluster)
	}
	old, known := n.mu.heard[s.RaftID]
	if old.server.Boot > s.Boot {
		return false, nil
	}
	if known || len(n.mu.heard) < wire.MaxServers {
		n.mu.heard[s.RaftID] = lastHeard{s, time.Now()}
	}
	for _, a := range append(slices.Clone(i.Known), s.RPCAddress) {
		if a != n.me().RPCAddress && len(n.mu.known) < wire.MaxKnown {
			n.mu.known[a] = true
		}
	}
	select {
	case n.mu.news <- struct{}{}:
	default:
	}
	return true, nil
}

// addresses returns the RPC addresses of others, sorted.
func (n *Node) addresses() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return sortedKeys(n.mu.known)
}

// introduce tells every server at these addresses who we are, hears who they
// are, and returns what was wrong with that. Silence is not wrong.
func (n *Node) introduce(ctx context.Context, addresses []string) (gossips []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, introduceTimeout)
	defer cancel()
	var asking sync.WaitGroup
	var mu sync.Mutex // guards the results
	for _, a := range addresses {
		asking.Go(func() {
			heard, e := n.ask(ctx, a)
			if e == nil && heard != nil {
				e = n.hear(*heard)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, wrong := range []error{errTwice, errClusters, datadir.ErrOldCopy, errRetired} {
				if errors.Is(e, wrong) {
					err = errors.Join(err, e)
				}
			}
			if heard != nil && heard.Self.GossipAddress != "" && heard.Self.RaftID != n.me().RaftID {
				gossips = append(gossips, heard.Self.GossipAddress)
			}
		})
	}
	asking.Wait()
	return gossips, err
}

// ask introduces this server to the one at an address. It returns nil if
// nobody answers, and an error if what answers does not go with us.
func (n *Node) ask(ctx context.Context, address string) (*wire.Introduction, error) {
	conn, err := Dial(n.cfg.Network, n.cfg.Guard.Speaks(), address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // it has served
	known := n.addresses()
	resp, err := skerrypb.NewClusterClient(conn).Introduce(ctx, &skerrypb.IntroduceRequest{
		Self: wire.ServerToProto(n.present()), Known: known[:min(len(known), wire.MaxKnown)]})
	switch status.Code(err) {
	case codes.OK:
	case codes.AlreadyExists:
		return nil, fmt.Errorf("%w: the server at %s says: %s", errTwice, address, status.Convert(err).Message())
	case codes.FailedPrecondition:
		return nil, fmt.Errorf("%w: the server at %s says: %s", errClusters, address, status.Convert(err).Message())
	default:
		return nil, fmt.Errorf("introduce this server to %s: %w", address, err)
	}
	i, err := wire.IntroducedFromProto(resp)
	if err != nil {
		return nil, fmt.Errorf("introduce this server to %s: %w", address, err)
	}
	if i.Retired {
		return nil, fmt.Errorf("%w; %s says so", errRetired, address)
	}
	if had := n.me().LastIndex; i.YourIndex > had && n.Ledger() == nil {
		return nil, fmt.Errorf("%w: it ends at %d, and %s had its word for %d", datadir.ErrOldCopy, had, address, i.YourIndex)
	}
	return &i, nil
}
