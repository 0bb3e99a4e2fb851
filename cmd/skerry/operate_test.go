package main

import (
	"net"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/quorum"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// present opens a session of a replica, which stays until the test ends.
func present(t *testing.T, addr, id string) grpc.BidiStreamingClient[skerrypb.Up, skerrypb.Down] {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, append(wire.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the test is over
	stream, err := skerrypb.NewLighthouseClient(conn).Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h := wire.Hello{Job: "digits", GroupWorldSize: 1, Hello: quorum.Hello{ReplicaID: quorum.ReplicaID(id), Client: quorum.KindSkerry}}
	if err := stream.Send(&skerrypb.Up{Message: &skerrypb.Up_Hello{Hello: wire.HelloToProto(h)}}); err != nil {
		t.Fatal(err)
	}
	if down, err := stream.Recv(); err != nil || down.GetWelcome() == nil {
		t.Fatalf("first word %v, %v; want a welcome", down, err)
	}
	return stream
}

// The verbs reach a lighthouse by a list whose first server is dead, and say in
// one line what they did or why not.
func TestOperatorsVerbs(t *testing.T) {
	t.Parallel()
	l := lighthousetest.Start(t, func(c *lighthouse.Config) { // the replica beats no more, and is there until it is evicted
		c.Rules.HeartbeatTimeout *= 30
		c.Rules.SuspectAfter = c.Rules.HeartbeatTimeout
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := ln.Addr().String()
	_ = ln.Close() // its port is what is wanted: nobody there
	list := dead + ", http://" + l.Addr + "/"
	stream := present(t, l.Addr, "a:00000000-0000-0000-0000-000000000001")
	for _, c := range []struct {
		args   string
		status int
		want   string // part of what is said
	}{
		{"status", 0, "job digits: waiting, step 0, no quorum yet"},
		{"jobs", 0, "digits"},
		{"job config digits", 0, "server's: min-replicas=1"},
		{"job config digits --min-replicas 2 --stuck-after 2m --evict-stuck", 0, "own: min-replicas=2"},
		{"job config digits --min-replicas 3 --max-replicas 2", 2, "--max-replicas = 2, want 0 or at least --min-replicas (3)"},
		{"job config digits --grace 1ns", 2, "--grace = 1ns, want whole milliseconds"},
		{"job config nobody", 4, `no job is called "nobody"; there are: digits`},
		{"job config digits --reset", 0, "server's: min-replicas=1"},
		{"job delete digits", 1, "the job has replicas"},
		{"why", 0, "has had no quorum yet"},
		{"why a", 0, "replica a:00000000 of job digits is heard\n  has not joined"},
		{"why b", 4, `no replica "b" is known`},
		{"drain b --job digits", 4, `no replica "b" is there in job digits; there are: a:00000000`},
		{"kill a --job digits", 4, "no manager address is known"},
		{"drain a --job digits", 0, "a:00000000-0000-0000-0000-000000000001 draining"},
		{"undo a --job digits", 1, "no drain to take back: it was in no quorum, and its join is refused: start it again when it has gone"},
		{"undo b --job digits", 4, `no replica "b" is there`},
		{"evict a:0000 --job digits --reason test -o json", 0, `"replica_id": "a:00000000-0000-0000-0000-000000000001"`},
		{"events --job digits", 0, "a was told to drain"},
		{"events --replica a --wide -n 1", 0, "digits #"},
		{"events --job digits -o json", 0, `"kind":"evicted"`},
		{"events --job nobody", 4, "nobody"},
		{"history", 0, "0 changes"},
	} {
		status, stdout, stderr := skerry(append(strings.Fields(c.args), "--lighthouse", list)...)
		if said := stdout + stderr; status != c.status || !strings.Contains(said, c.want) {
			t.Errorf("skerry %s: status %d, %q; want %d, %q", c.args, status, said, c.status, c.want)
		}
	}
	var told []string
	for len(told) < 2 {
		down, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if down.GetDrain() != nil || down.GetEvict() != nil {
			told = append(told, down.GetDrain().GetReason()+down.GetEvict().GetReason())
		}
	}
	if told[0] != "asked for with skerry drain" || told[1] != "test" {
		t.Errorf("the replica was told %q", told)
	}
	status, _, stderr := skerry("jobs", "--lighthouse", dead)
	if status != 3 || !strings.Contains(stderr, "lighthouse "+dead+" cannot be reached") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("a dead lighthouse: status %d, %q; want one line", status, stderr)
	}
}
