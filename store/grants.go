package store

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/internal/monitor"
)

// errForgotten ends a client of a token, or of keys, that were good until a moment ago. It
// is no fault: a quorum ended, and not all of its members have heard.
var errForgotten = errors.New("token forgotten")

// grant is what a token allows.
type grant struct {
	token []byte
	scope string // what keys must begin with, as they come over the wire
}

// maxGone is how many tokens are known as forgotten. Clients of a quorum that is over come
// within its last seconds.
const maxGone = 32

// goneGrant is what was known of a token that is forgotten.
type goneGrant struct {
	id    tokenID
	scope string // empty: all keys, or no grant
}

// grants are the tokens that a server accepts. Safe for concurrent use.
type grants struct {
	mu struct {
		monitor.Monitor // that allow was called

		byID map[tokenID]grant
		gone [maxGone]goneGrant // the newest, in a ring
		next int                // of gone
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
	if old, ok := g.mu.byID[id]; ok {
		g.mu.gone[g.mu.next%maxGone] = goneGrant{id, old.scope}
		g.mu.next++
	}
	delete(g.mu.byID, id)
}

// forgot says that a token was good here until a moment ago.
func (g *grants) forgot(id tokenID) bool {
	return g.anyGone(func(old goneGrant) bool { return old.id == id })
}

// wasAllowed says that a key was a client's own until a moment ago.
func (g *grants) wasAllowed(key string) bool {
	return g.anyGone(func(old goneGrant) bool { return old.scope != "" && strings.HasPrefix(key, old.scope) })
}

func (g *grants) anyGone(is func(goneGrant) bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.mu.gone[:min(g.mu.next, maxGone)], is)
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
