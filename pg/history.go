package pg

import (
	"fmt"
	"slices"
)

// maxHistory is how many store prefixes a History remembers.
const maxHistory = 4096

// History is for backends: what they were configured with, for their Configure to refuse
// a store prefix or an epoch a second time. The zero value is empty; a mutex of the
// backend's guards it.
type History struct {
	last     *Epoch    // nil before the first
	prefixes []string  // oldest first
	tokens   [3]string // of the last three prefixes, oldest first
}

// Use notes c, or returns ErrUsedPrefix if its prefix is one of the last 4,096, or its
// epoch not after the last one. An empty prefix is of a group that needs no store.
func (h *History) Use(c *Config) error {
	if h.last != nil && !c.Epoch().After(*h.last) {
		return fmt.Errorf("%w: quorum id %d after %d", ErrUsedPrefix, c.QuorumID, h.last.QuorumID)
	}
	if slices.Contains(h.prefixes, c.StoreAddress) {
		return fmt.Errorf("%w: %s", ErrUsedPrefix, c.StoreAddress)
	}
	h.last = new(c.Epoch())
	if c.StoreAddress == "" {
		return nil
	}
	h.tokens = [3]string{h.tokens[1], h.tokens[2], string(c.Token)}
	if h.prefixes = append(h.prefixes, c.StoreAddress); len(h.prefixes) > maxHistory {
		h.prefixes = h.prefixes[1:]
	}
	return nil
}

// BeforeLast returns the prefix before the one before the last. No member needs it any
// more once the last is configured: each has left it. There is none for a member to
// delete where each prefix has a token of its own, which opens no other: there the
// store's owner does it.
func (h *History) BeforeLast() (string, bool) {
	if len(h.prefixes) < 3 || h.tokens[0] != h.tokens[2] {
		return "", false
	}
	return h.prefixes[len(h.prefixes)-3], true
}
