package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse/internal/network"
)

// Membership is what operators see of a cluster.
type Membership struct {
	Cluster      string   `json:"cluster"`
	Term         uint64   `json:"term"`
	LastIndex    uint64   `json:"last_index"`    // of the leader's log
	VotersWanted int      `json:"voters_wanted"` // how many there shall be
	Next         string   `json:"next"`          // the change that comes next, or why there is none
	Members      []Member `json:"members"`
}

// Member is one server.
type Member struct {
	RaftID    string `json:"raft_id"`
	Addr      string `json:"addr"` // for RPC and HTTP
	RaftAddr  string `json:"raft_addr"`
	Version   string `json:"version"`
	Voter     bool   `json:"voter"`
	NonVoter  bool   `json:"non_voter"` // is never to be a voter
	Leader    bool   `json:"leader"`
	Alive     bool   `json:"alive"`      // as gossip sees it
	InRaft    bool   `json:"in_raft"`    // false: known by gossip alone
	LastIndex uint64 `json:"last_index"` // acknowledged to the leader; 0: unknown
	SilenceMs uint64 `json:"silence_ms"` // since the leader last heard from it
}

// Client speaks to the servers of a cluster for an operator. Any of them
// will do. Its methods are safe for concurrent use.
type Client struct {
	// Addrs are RPC addresses; the first that answers is used.
	Addrs []string
	// Guard has the certificate and the token; nil has neither.
	Guard *guard.Guard
}

// each calls f with the servers in turn, until one of them answers, be it with a
// refusal.
func (c *Client) each(ctx context.Context, f func(skerrypb.ClusterClient) error) error {
	var silent error
	for _, addr := range c.Addrs {
		conn, err := Dial(network.Machine(), c.Guard, addr)
		if err != nil {
			return err
		}
		err = f(skerrypb.NewClusterClient(conn))
		_ = conn.Close() // it has served
		if err == nil {
			return nil
		}
		err = fmt.Errorf("ask %s: %w", addr, wire.FromStatus(err))
		if !errors.Is(err, wire.ErrNoLeader) && !ConnLost(errors.Unwrap(err)) {
			return err
		}
		silent = errors.Join(silent, err)
		if ctx.Err() != nil {
			break
		}
	}
	return silent
}

// Members returns who is in the cluster. Errors: those of the call; none of the
// servers answers.
func (c *Client) Members(ctx context.Context) (Membership, error) {
	var m Membership
	err := c.each(ctx, func(client skerrypb.ClusterClient) error {
		resp, err := client.Members(ctx, &skerrypb.MembersRequest{})
		if err == nil {
			m = membershipOf(resp)
		}
		return err
	})
	return m, err
}

func membershipOf(resp *skerrypb.MembersResponse) Membership {
	m := Membership{Cluster: resp.GetCluster(), Term: resp.GetTerm(), LastIndex: resp.GetLastIndex(),
		VotersWanted: int(resp.GetVotersWanted()), Next: resp.GetNext(), Members: []Member{}}
	for _, s := range resp.GetMembers() {
		m.Members = append(m.Members, Member{
			RaftID: s.GetRaftId(), Addr: s.GetRpcAddress(), RaftAddr: s.GetRaftAddress(), Version: s.GetVersion(),
			Voter: s.GetVoter(), NonVoter: s.GetNonVoter(), Leader: s.GetLeader(), Alive: s.GetAlive(),
			InRaft: s.GetInRaft(), LastIndex: s.GetLastIndex(), SilenceMs: s.GetSilenceMs(),
		})
	}
	return m
}

// Remove takes a server out of the cluster for good, named by its RPC address,
// its raft id or the beginning of that. It is refused while it would endanger
// the cluster; force overrules that, except for the only voter.
func (c *Client) Remove(ctx context.Context, server string, force bool) error {
	return c.each(ctx, func(client skerrypb.ClusterClient) error {
		_, err := client.Remove(ctx, &skerrypb.RemoveRequest{RaftId: server, Force: force})
		return err
	})
}

// TransferLeader hands the leadership to a server, named as for Remove, or, if to
// is empty, to whichever is furthest.
// The reason, if there is one, stands in the events of the jobs.
func (c *Client) TransferLeader(ctx context.Context, to, reason string) error {
	return c.each(ctx, func(client skerrypb.ClusterClient) error {
		_, err := client.TransferLeader(ctx, &skerrypb.TransferLeaderRequest{To: to, Reason: reason})
		return err
	})
}

// Dial prepares calls to a server over n. It does not connect: the first call does.
func Dial(n network.Network, g *guard.Guard, addr string) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///"+addr, slices.Concat(wire.DialOptions(), g.DialOptions(lighthouse(), ""), network.DialOptions(n))...)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	return conn, nil
}

// ConnLost tells a call that its connection ended from one that the server did. The
// code of a call whose connection was closed here is Canceled.
func ConnLost(err error) bool {
	code := status.Code(err)
	return (code == codes.Unavailable || code == codes.Canceled) && !errors.Is(wire.FromStatus(err), wire.ErrNoLeader)
}
