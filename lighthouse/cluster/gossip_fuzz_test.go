package cluster

import (
	"encoding/json"
	"net"
	"strings"
	"testing"

	"github.com/hashicorp/memberlist"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/quorum"
)

// FuzzGossip tells anything of a node of gossip: nothing panics, only a node of this
// cluster is known afterwards, with values within their bounds, and one that says so
// leaves.
func FuzzGossip(f *testing.F) {
	good, err := json.Marshal(gossipNode{Cluster: "c", RaftID: "7c9e6679-7425-40de-944b-e07fc1f90ae7", Boot: 3,
		RPC: "10.0.0.1:29510", Raft: "10.0.0.1:29511", Version: "v1", Deltas: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("a.1", good, []byte(good), uint16(29512))
	for _, seed := range []string{"", "null", "{}", `{"c":"other"}`, `{"c":"c","i":"\u0000"}`, `{"c":"c","b":-1}`, "[[[["} {
		f.Add("a.1", []byte(seed), []byte(good), uint16(0))
	}
	f.Fuzz(func(t *testing.T, name string, meta, update []byte, port uint16) {
		book := newDirectory()
		d := &gossipDelegate{cluster: "c", book: book}
		n := &memberlist.Node{Name: name, Addr: net.IPv4(10, 0, 0, 1), Port: port, Meta: meta}
		if d.NotifyAlive(n) == nil {
			d.NotifyJoin(n)
		}
		after := *n
		after.Meta = update
		d.NotifyUpdate(&after)
		if err := d.NotifyMerge([]*memberlist.Node{n, &after}); err != nil && len(err.Error()) > 4*len(name)+8*memberlist.MetaMaxSize+8*len(meta)+8*len(update) {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
		known, _ := book.all()
		if len(known) > 2 {
			t.Fatalf("two nodes became %d servers", len(known))
		}
		for _, e := range known {
			if e.Cluster != "c" || e.RaftID == "" || len(e.RaftID) > wire.MaxServerIDBytes || strings.ContainsAny(e.RaftID, "\n\x00") ||
				len(e.RPC) > quorum.MaxAddressBytes || len(e.Raft) > quorum.MaxAddressBytes || !e.alive {
				t.Errorf("known: %+v", e)
			}
		}
		d.NotifyLeave(&after)
		d.NotifyLeave(n)
		if known, _ = book.all(); len(known) == 1 && known[0].alive {
			t.Errorf("it left, and is alive: %+v", known)
		}
	})
}
