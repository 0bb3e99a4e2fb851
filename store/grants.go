package store

import (
	"bytes"
	"time"

	"github.com/skerry-ft/skerry/internal/monitor"
)

// grant is what a token allows.
type grant struct {
	token []byte
	scope string // what keys must begin with, as they come over the wire
}

// grants are the tokens that a server accepts. Safe for concurrent use.
type grants struct {
	mu struct {
		monitor.Monitor // that allow was called

		byID map[tokenID]grant
	}
}

func newGrants() *grants {
	g := &grants{}
	g.mu.byID = make(map[tokenID]grant)
	return g
}

func (g *grants) allow(prefix string, token []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	scope := ""
	if p := joinPrefix(prefix); p != "" {
		scope = keySlash + p
	}
	g.mu.byID[idOf(token)] = grant{token: bytes.Clone(token), scope: scope}
	g.mu.Broadcast()
}

func (g *grants) forget(id tokenID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.mu.byID, id)
}

func (g *grants) find(id tokenID) (grant, bool, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	got, ok := g.mu.byID[id]
	return got, ok, g.mu.Changed()
}

// await finds the grant, and gives it up to patience to appear.
func (g *grants) await(id tokenID, patience time.Duration, stop <-chan struct{}) (grant, bool) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		got, ok, changed := g.find(id)
		if ok {
			return got, true
		}
		select {
		case <-changed:
		case <-timer.C:
			return grant{}, false
		case <-stop:
			return grant{}, false
		}
	}
}
