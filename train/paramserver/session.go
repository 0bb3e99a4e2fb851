package paramserver

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/store"
)

// errOver ends what is under way in a session of a server that ends.
var errOver = errors.New("paramserver: the server ends")

// hold is a session's life.
func (s *Server) hold(ctx context.Context, n Session) {
	defer s.forget(n)
	log := s.cfg.Log.With().Str("session", n.ID).Str(logkey.Addr, n.Remote).Logger()
	log.Debug().Msg("session began")
	if err := s.serveSession(ctx, n); err != nil {
		log.Warn().Err(err).Msg("session failed")
		return
	}
	log.Debug().Msg("session ended")
}

// forget gives the place of a session back, after its keys and its secret are gone. What a
// client's last command writes at that very moment is swept once more.
func (s *Server) forget(n Session) {
	s.store.Forget(secretOf(s.cfg.Token, n.ID))
	s.clearKeys(n.ID)
	s.ended.Lock()
	s.ended.ids = append(s.ended.ids, n.ID)
	s.ended.Unlock()
	<-s.places
}

func (s *Server) clearKeys(id string) {
	_, _ = store.WithPrefix(s.store.Local(), sessionPrefix+id).DeletePrefix(context.Background(), "") // of memory: it waits for nothing
}

// sweep clears the keys of sessions that had ended at the sweep before, whose connections
// are gone by now, and returns those that have ended since.
func (s *Server) sweep(before []string) []string {
	for _, id := range before {
		s.clearKeys(id)
	}
	s.ended.Lock()
	defer s.ended.Unlock()
	since := s.ended.ids
	s.ended.ids = nil
	return since
}

func (s *Server) serveSession(ctx context.Context, n Session) (err error) {
	backend, err := s.cfg.Backend()
	if err != nil {
		return fmt.Errorf("make a backend: %w", err)
	}
	g := pg.NewGroup(backend)
	defer func() {
		if cerr := g.Close(); cerr != nil {
			err = errors.Join(err, fmt.Errorf("close: %w", cerr))
		}
	}()
	meet, cancel := context.WithTimeout(ctx, s.cfg.MeetTimeout)
	defer cancel()
	c := groupOf(n.ID, serverRank, s.cfg.Token, s.cfg.TLS, s.cfg.Timeout)
	c.Store = s.store.Local()
	if err := g.Configure(meet, c); err != nil {
		return fmt.Errorf("meet the client: %w", err)
	}
	cancel()
	unhook := context.AfterFunc(ctx, func() { g.Abort(errOver) }) // whatever ctx Forward's ops have
	defer unhook()
	if err := s.forward(ctx, n, g); err != nil {
		return fmt.Errorf("forward: %w", err)
	}
	linger, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	_ = g.Barrier(linger) // ends when the client closes: to leave before it would lose what is on its way
	return nil
}

// forward calls Forward. Its panic ends the session alone, and is logged with its stack.
func (s *Server) forward(ctx context.Context, n Session, g *pg.Group) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return s.cfg.Forward(ctx, n, g)
}
