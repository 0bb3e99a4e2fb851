package replica

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/split"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/manager/internal/session"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/store"
)

// Config says which replica it is, and what it calls. The functions are called from
// the goroutines of Run, and must not block.
type Config struct {
	ID                quorum.ReplicaID
	Job               string
	GroupWorldSize    int
	TotalSteps        int64    // of the run; 0: not known
	EveryStep         bool     // an ask waits for its answer
	Lighthouse        []string // addresses, see session.Addresses
	Listen, Advertise string   // as in manager.Config
	Guard             *guard.Guard
	TLS               *store.TLS // of the store; nil: it is plain
	Network           Network    // nil: TCP
	Timeouts          Timeouts
	Log, Sampled      zerolog.Logger      // Sampled takes the lines that strangers cause
	OnKill            func(reason string) // nil: kills are refused
	Metrics           http.Handler        // answers GET /metrics

	Beat  func() quorum.Beat         // without Away
	Admit func(*quorum.Quorum) error // before the ranks get it; an error ends the replica
	Final func(error)                // training cannot go on in any rank
	Found func(address string)       // a session with the lighthouse has opened
	Lost  func(cause error)          // and has ended
}

// Timeouts are those of manager.Timeouts that a replica's server needs.
type Timeouts struct{ Connect, Dial, Call, Configure time.Duration }

// Stats counts what a replica's server did.
type Stats struct{ Joins, Asks, Unanswered, Reconnects uint64 }

// Replica is what lives once per replica, in group rank 0's process: the store, the
// server that the ranks report to, its RPC listener, the session with the lighthouse.
type Replica struct {
	cfg      Config
	store    *store.Server
	listener net.Listener
	port     *split.Splitter // of the listener: rpc's half, and web's
	rpc      *grpc.Server
	web      *http.Server
	server   *server
	session  *session.Session
	address  string // URL of the manager server
}

// New listens for the store and for RPC; it starts nothing.
func New(cfg Config) (*Replica, error) {
	if len(session.Addresses(cfg.Lighthouse)) == 0 { // the session asks the first one
		return nil, fmt.Errorf("Lighthouse = %q, want the address of at least one lighthouse server", cfg.Lighthouse)
	}
	host, _, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return nil, err
	}
	r := &Replica{cfg: cfg}
	storeListener, err := Listen(cfg.Network, net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("listen for the replica's store: %w", err)
	}
	r.store, err = store.NewServer(store.ServerConfig{
		Listener: storeListener, Guarded: true, TLS: cfg.TLS, AuthWait: min(cfg.Timeouts.Configure, mostAuthWait), Log: cfg.Log,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the replica's store: %w", err), storeListener.Close())
	}
	r.listener, err = Listen(cfg.Network, cfg.Listen)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen for the replica's ranks: %w", err), r.store.Close())
	}
	r.address = scheme(cfg.Guard) + advertised(r.listener.Addr().String(), cfg.Advertise)
	r.server = newServer(serverConfig{
		replica: cfg.ID, address: r.address, store: r.StoreAddress(), size: cfg.GroupWorldSize,
		every: cfg.EveryStep, admit: r.admit, log: cfg.Log,
	})
	r.session = r.newSession()
	r.server.session = r.session
	r.serve()
	return r, nil
}

// newSession makes the session of this replica.
func (r *Replica) newSession() *session.Session {
	return session.New(session.Config{
		Hello: wire.Hello{
			Job: r.cfg.Job, Address: r.address, StoreAddress: r.StoreAddress(), GroupWorldSize: r.cfg.GroupWorldSize,
			TotalSteps: r.cfg.TotalSteps,
			Hello:      quorum.Hello{ReplicaID: r.cfg.ID, Client: quorum.KindSkerry},
		},
		Addresses: r.cfg.Lighthouse, DialTimeout: r.cfg.Timeouts.Dial, CallTimeout: r.cfg.Timeouts.Call, Log: r.cfg.Log,
		Dial: r.dialLighthouse,
		Beat: func() quorum.Beat {
			b := r.cfg.Beat()
			b.Away = r.server.isAway()
			return b
		},
		Notice: r.server.noticed,
		Found: func(address string) {
			r.server.lighthouseBack()
			r.cfg.Found(address)
		},
		Lost: r.cfg.Lost,
	})
}

// advertised replaces the host of a listener's address by the one peers dial.
func advertised(addr, host string) string {
	_, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" {
		return addr
	}
	return net.JoinHostPort(host, port)
}

// Address is the URL of the manager server, as peers dial it.
func (r *Replica) Address() string { return r.address }

// StoreAddress is "host:port" of the store, as peers dial it.
func (r *Replica) StoreAddress() string { return advertised(r.store.Addr(), r.cfg.Advertise) }

// Addr is where the manager server listens.
func (r *Replica) Addr() net.Addr { return r.listener.Addr() }

// Link is group rank 0's way to the server.
func (r *Replica) Link() Link { return direct{r.server} }

// Linked says whether a rank above 0 has its link to the server open.
func (r *Replica) Linked(rank int) bool {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	return r.server.mu.links[rank].open > 0
}

// String says which reports and votes wait, for a person who looks for what hangs.
func (r *Replica) String() string { return r.server.waiting() }

// Stats returns the counts so far.
func (r *Replica) Stats() Stats {
	var s Stats
	s.Joins, s.Asks, s.Reconnects = r.session.Counts()
	s.Unanswered = r.server.unansweredAsks()
	return s
}

// Run works until ctx ends. A lighthouse that refuses this replica for good ends
// training but not Run: peers may still need the store and the state.
func (r *Replica) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	fatal := func(what string, err error) {
		if err != nil && ctx.Err() == nil {
			cancel(fmt.Errorf("%s: %w", what, err))
		}
	}
	wg.Go(func() { fatal("serve the replica's store", r.store.Run(ctx)) })
	wg.Go(func() { fatal("serve the replica's ranks", r.rpc.Serve(r.port.GRPC())) })
	wg.Go(func() { fatal("serve the replica's metrics", r.web.Serve(r.port.HTTP())) })
	wg.Go(r.port.Run)
	wg.Go(func() { fatal("join for the replica", r.server.run(ctx)) })
	inSession, leave := context.WithCancel(ctx)
	defer leave()
	wg.Go(func() {
		if r.server.guardRanks(ctx) {
			leave() // the lighthouse must not wait for what is left of the replica
		}
	})
	wg.Go(func() {
		if err := r.session.Run(inSession); inSession.Err() == nil {
			r.cfg.Log.Error().Err(err).Msg("lighthouse refused this replica")
			r.End(err)
			r.cfg.Final(err)
		}
	})
	wg.Go(func() { r.watchContact(ctx) })
	wg.Go(func() { r.server.pingWhenUnanswered(ctx) })
	<-ctx.Done()
	r.rpc.Stop()       // which ends the ranks' streams, too
	_ = r.web.Close()  // scrapes are cut, and come again
	_ = r.port.Close() // the listener is closed: its error changes nothing
	wg.Wait()
	return context.Cause(ctx)
}

// watchContact gives up when the lighthouse could never be reached; later it
// may be away for as long as it likes.
func (r *Replica) watchContact(ctx context.Context) {
	if backoff.Sleep(ctx, r.cfg.Timeouts.Connect) != nil {
		return
	}
	if err := r.session.OutOfReach(r.cfg.Timeouts.Connect); err != nil {
		r.End(err)
		r.cfg.Final(err)
	}
}

// Close releases what New took, if Run never ran.
func (r *Replica) Close() error {
	r.rpc.Stop()
	err := r.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return errors.Join(err, r.store.Close())
}

// End gives err to every report from now on: it ends training in the ranks above 0.
// Config.Final is not called.
func (r *Replica) End(err error) { r.server.fail(err) }

// Goodbye leaves the lighthouse, and says why; it waits up to patience for that to be
// received.
func (r *Replica) Goodbye(why string, patience time.Duration) { r.session.Leave(why, patience) }

// Accuse tells the lighthouse of an accusation.
func (r *Replica) Accuse(a quorum.Accusation) { r.session.Accuse(a) }

// ReportLink tells the lighthouse whether a peer is reached.
func (r *Replica) ReportLink(l quorum.LinkReport) { r.session.ReportLink(l) }

// ForgetLink ends what a new leader is told of the link to a peer.
func (r *Replica) ForgetLink(peer quorum.ReplicaID) { r.session.ForgetLink(peer) }

// Drain tells the lighthouse that this replica wants to leave, with the proof that it
// is a member of the last quorum, q: so it may without the operators' token. The
// answer says whether no other replica is there that could go on. It ends with ctx, or
// after the call timeout.
func (r *Replica) Drain(ctx context.Context, q *quorum.Quorum, again bool) (alone, undone bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeouts.Call)
	defer cancel()
	addr := r.session.Address()
	conn, err := r.dialLighthouse(addr)
	if err != nil {
		return false, false, fmt.Errorf("dial %s: %w", addr, err)
	}
	defer conn.Close() //nolint:errcheck // nothing is lost with it
	req := &skerrypb.DrainRequest{Job: r.cfg.Job, ReplicaId: string(r.cfg.ID), Reason: "asked to", Again: again}
	if q != nil {
		proof := guard.FixedToken(guard.NewSecret(q.Token[:])).Prove(skerrypb.Lighthouse_Drain_FullMethodName, guard.Body(req))
		ctx = metadata.AppendToOutgoingContext(ctx, guard.MemberMetadata, proof)
	}
	out, err := skerrypb.NewLighthouseClient(conn).Drain(ctx, req)
	return out.GetAlone(), out.GetUndone(), FromStatus(err)
}

// admit asks Config.Admit, and lets the members of q use the store, under q's prefix.
func (r *Replica) admit(q *quorum.Quorum) error {
	if err := r.cfg.Admit(q); err != nil {
		r.End(err)
		r.cfg.Final(err)
		return err
	}
	if err := r.store.Allow(quorumPrefix(q), q.Token[:]); err != nil {
		return fmt.Errorf("let the members of quorum %d into the store: %w", q.ID, err)
	}
	return nil
}

// DropPrefix deletes what a quorum's rendezvous left in this replica's store, and
// disconnects clients that authenticated with its token.
func (r *Replica) DropPrefix(ctx context.Context, q *quorum.Quorum) error {
	r.store.Forget(q.Token[:])
	_, err := r.store.Local().DeletePrefix(ctx, quorumPrefix(q)+"/")
	return err
}

// quorumPrefix is the part of the store that a quorum uses.
func quorumPrefix(q *quorum.Quorum) string {
	return fmt.Sprintf("skerry/%s/%s/%d", q.Cluster, q.Job, q.ID)
}
