package manager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/manager/internal/session"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/store"
)

// hub is what lives once per replica, in group rank 0's process: the store, the
// manager server and its RPC listener, the session with the lighthouse.
type hub struct {
	store    *store.Server
	listener net.Listener
	rpc      *grpc.Server
	stop     chan struct{} // closed when run ends: streams end
	server   *server
	session  *session.Session
	address  string // URL of the manager server
}

// newHub listens for the store and for RPC.
func newHub(m *Manager) (*hub, error) {
	host, _, err := net.SplitHostPort(m.cfg.Listen)
	if err != nil {
		return nil, err
	}
	h := &hub{stop: make(chan struct{})}
	storeListener, err := listen(m.cfg.Network, net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("listen for the replica's store: %w", err)
	}
	h.store, err = store.NewServer(store.ServerConfig{
		Listener: storeListener, Guarded: true, TLS: m.dataTLS, AuthWait: min(m.timeouts.Configure, mostAuthWait), Log: m.log,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the replica's store: %w", err), storeListener.Close())
	}
	h.listener, err = listen(m.cfg.Network, m.cfg.Listen)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen for the replica's ranks: %w", err), h.store.Close())
	}
	h.address = m.scheme() + advertised(h.listener.Addr().String(), m.cfg.Advertise)
	storeAddress := advertised(h.store.Addr(), m.cfg.Advertise)
	h.server = newServer(serverConfig{
		replica: m.id, address: h.address, store: storeAddress, size: m.cfg.GroupWorldSize,
		timeouts: m.timeouts, every: m.cfg.EveryStep, log: m.log,
		admit: func(q *quorum.Quorum) error {
			if err := astray(h.address, m.id, q); err != nil {
				h.server.fail(err)
				m.setFinal(err)
				return err
			}
			return h.admit(q)
		},
	})
	h.session = session.New(session.Config{
		Hello: wire.Hello{
			Job: m.cfg.Job, Address: h.address, StoreAddress: storeAddress, GroupWorldSize: m.cfg.GroupWorldSize,
			Hello: quorum.Hello{ReplicaID: m.id, Client: quorum.KindSkerry},
		},
		Addresses: m.cfg.Lighthouse, DialTimeout: m.timeouts.Dial, CallTimeout: m.timeouts.Call, Log: m.log,
		Dial: func(address string) (*grpc.ClientConn, error) { return dialServer(m.guard, m.cfg.Network, address) },
		Beat: m.beat, Notice: h.server.noticed,
		Found: func(address string) {
			h.server.heard()
			m.events.emit(LighthouseFound{Address: address})
		},
		Lost: func(cause error) { m.events.emit(LighthouseLost{Cause: cause}) },
	})
	h.server.session = h.session
	m.warnUnguarded(h.listener.Addr())
	h.listener = m.limitConns(h.listener)
	intake := m.newIntake()
	h.rpc = grpc.NewServer(m.serverOptions(h.address, intake)...)
	skerrypb.RegisterManagerServer(intake.Registrar(h.rpc), &rpcServer{server: h.server, kill: m.cfg.OnKill, stop: h.stop})
	return h, nil
}

// advertised replaces the host of a listener's address by the one peers dial.
func advertised(addr, host string) string {
	_, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" {
		return addr
	}
	return net.JoinHostPort(host, port)
}

// run works until ctx ends. A lighthouse that refuses us for good ends training
// but not run: peers may still need the store and the state.
func (h *hub) run(ctx context.Context, m *Manager) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	fatal := func(what string, err error) {
		if err != nil && ctx.Err() == nil {
			cancel(fmt.Errorf("%s: %w", what, err))
		}
	}
	wg.Go(func() { fatal("serve the replica's store", h.store.Run(ctx)) })
	wg.Go(func() { fatal("serve the replica's ranks", h.rpc.Serve(h.listener)) })
	wg.Go(func() { fatal("join for the replica", h.server.run(ctx)) })
	inSession, leave := context.WithCancel(ctx)
	defer leave()
	wg.Go(func() {
		if h.server.guardRanks(ctx) {
			leave() // the lighthouse must not wait for what is left of the replica
		}
	})
	wg.Go(func() {
		if err := h.session.Run(inSession); inSession.Err() == nil {
			m.log.Error().Err(err).Msg("lighthouse refused this replica")
			h.server.fail(err)
			m.setFinal(err)
		}
	})
	wg.Go(func() { h.watchContact(ctx, m) })
	wg.Go(func() { h.server.listen(ctx) })
	<-ctx.Done()
	close(h.stop)
	h.rpc.Stop()
	wg.Wait()
	return context.Cause(ctx)
}

// watchContact gives up when the lighthouse could never be reached; later it
// may be away for as long as it likes.
func (h *hub) watchContact(ctx context.Context, m *Manager) {
	timer := time.NewTimer(m.timeouts.Connect)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C:
	}
	if err := h.session.OutOfReach(m.timeouts.Connect); err != nil {
		h.server.fail(err)
		m.setFinal(err)
	}
}

// close releases what newHub took, if run never ran.
func (h *hub) close() error {
	h.rpc.Stop()
	err := h.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return errors.Join(err, h.store.Close())
}

// dropPrefix deletes what a quorum's rendezvous left in this replica's store,
// and puts out who came in with its token.
func (h *hub) dropPrefix(ctx context.Context, q *quorum.Quorum) error {
	h.store.Forget(q.Token[:])
	_, err := h.store.Local().DeletePrefix(ctx, quorumPrefix(q)+"/")
	return err
}

// beat is what the session tells the lighthouse each interval.
func (m *Manager) beat() quorum.Beat {
	busy := m.tracked.busy()
	m.mu.Lock()
	defer m.mu.Unlock()
	b := quorum.Beat{
		Position: m.mu.rank.Position(), QuorumID: m.mu.rank.QuorumID(), Ballots: m.mu.rank.Ballots(), Phase: m.mu.phase,
		Progress: m.presence.moves.Load(),
	}
	b.Away = m.hub.server.isAway()
	b.Waits = busy || m.balloting.Load() > 0 || m.waitsLocked()
	if m.mu.rank.Draining() != "" {
		b.Phase = quorum.PhaseDraining
	}
	return b
}

// waitsLocked says that this replica waits for others: for an answer, a state, or
// a settlement. A heal that waits for the next loan of the tensors waits for its own
// trainer, which may hang. Where it waits for its own ranks it cannot tell whether these
// compute or wait; it is taken to wait.
func (m *Manager) waitsLocked() bool {
	if h := m.mu.heal; h != nil {
		select {
		case <-h.done:
		default:
			return m.mu.loan != nil
		}
	}
	voting := m.cfg.GroupWorldSize > 1 && m.mu.phase == quorum.PhaseBalloting
	return voting || m.mu.phase == quorum.PhaseSettling || m.mu.request != nil
}
