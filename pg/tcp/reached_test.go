package tcp

import (
	"context"
	"errors"
	"testing"

	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/store"
)

// A group that strangers reach has a token, or somebody's word that it is open.
func TestReachedNeedsAToken(t *testing.T) {
	t.Parallel()
	outward, ok := netaddr.Outward()
	if !ok {
		t.Skip("this host has no address beyond loopback")
	}
	for _, c := range []struct {
		listen, token string
		open, refused bool
	}{
		{"127.0.0.1", "", false, false},
		{"", "", false, false}, // a store that is nowhere: loopback
		{outward.String(), "", false, true},
		{":0", "", false, true},
		{outward.String(), "a token of sixteen", false, false},
		{outward.String(), "", true, false},
	} {
		b := New(Options{Listen: c.listen, Open: c.open})
		err := pg.NewGroup(b).Configure(context.WithoutCancel(t.Context()), pg.Config{
			StoreAddress: "reached", Store: store.NewHash(), ReplicaIDs: []string{"a"}, Cluster: "c", QuorumID: 1,
			GroupWorldSize: 1, Token: []byte(c.token), Timeout: testTimeout,
		})
		if errors.Is(err, netaddr.ErrUnguarded) != c.refused || err != nil && !c.refused {
			t.Errorf("%+v: %v", c, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}
