package tcp

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/internal/guard/guardtest"
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
	cert := certified(t, guardtest.New(t), replica, "replica")
	for _, c := range []struct {
		listen, token string
		tls           *store.TLS
		open          bool
		refused       string // what it says to set; empty: it is not
	}{
		{"127.0.0.1", "", nil, false, ""},
		{"", "", nil, false, ""}, // a store that is nowhere: loopback
		{outward.String(), "", nil, false, "nothing guards it: set a Token on all ranks, or Open"},
		{":0", "", nil, false, "set a Token on all ranks, or Open"},
		{outward.String(), "", cert, false, "of another group too; set a Token on all ranks besides, or Open"},
		{outward.String(), "a token of sixteen", nil, false, ""},
		{outward.String(), "a token of sixteen", cert, false, ""},
		{outward.String(), "", nil, true, ""},
	} {
		b := New(Options{Listen: c.listen, Open: c.open})
		err := pg.NewGroup(b).Configure(context.WithoutCancel(t.Context()), pg.Config{
			StoreAddress: "reached", Store: store.NewHash(), ReplicaIDs: []string{"a"}, Cluster: "c", QuorumID: 1,
			GroupWorldSize: 1, Token: []byte(c.token), TLS: c.tls, Timeout: testTimeout,
		})
		if refused := errors.Is(err, netaddr.ErrUnguarded); refused != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) ||
			err != nil && !refused {
			t.Errorf("listen %q, token %q, TLS %t, open %t: %v, want it refused with %q", c.listen, c.token, c.tls != nil, c.open, err, c.refused)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}
