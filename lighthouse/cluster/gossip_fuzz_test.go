package cluster

import (
	"bufio"
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

// TestGossipHead: memberlist's own head of a pool is let in; one that announces more
// than there may be is not, however it is written.
func TestGossipHead(t *testing.T) {
	t.Parallel()
	const rest = "\xacUserStateLen\x00\xa4Join\xc2"
	for head, want := range map[string]string{
		"\x83\xa5Nodes\x03" + rest:                                      "",
		"\x83\xa4Join\xc3\xa5Nodes\xcd\x04\x00\xacUserStateLen\xd0\x00": "",
		"\x83\xa5Nodes\xcd\x04\x01" + rest:                              "Nodes = 1025, want at most 1024",
		"\x83\xa5Nodes\xce\x00\x10\x00\x00" + rest:                      "Nodes = 1048576",
		"\x83\xa5Nodes\xd3\xff\xff\xff\xff\xff\xff\xff\xff" + rest:      "malformed",
		"\x83\xa5Nodes\x01\xacUserStateLen\x01\xa4Join\xc2":             "UserStateLen = 1, want at most 0",
		"\x83\xa5Nodes\x01\xa5Nodes\xcd\x7f\xff\xa4Join\xc2":            "malformed",
		"\x84\xa5Nodes\x01" + rest + "\xa5Nodes\x7f":                    "malformed",
		"\x83\xa5Nodes\xcb\x41\xd0\x00\x00\x00\x00\x00\x00" + rest:      "malformed",
		"\xde\x00\x03\xa5Nodes\x01" + rest:                              "malformed",
		"\x83\xa5Node":                                                  "EOF",
	} {
		h := gossipHead{from: bufio.NewReaderSize(strings.NewReader(head), 512)}
		if err := h.pool(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", head, err, want)
		}
	}
}
