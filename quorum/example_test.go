package quorum_test

import (
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// Two replicas form a quorum, and one is killed. The caller is the shell: it has
// the clock, and carries decisions out.
func Example() {
	now := time.Unix(1_700_000_000, 0) // a shell says time.Now()
	m := quorum.New(now, quorum.DefaultConfig(), quorum.NewLedger("cluster", "default", 1000))
	var last *quorum.LastAnswer
	join := func(id quorum.ReplicaID, number uint64) {
		err := m.Join(now, quorum.Join{
			Member: quorum.Member{ReplicaID: id}, Client: quorum.KindSkerry, Kind: quorum.JoinFall, Number: number, Last: last,
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	decide := func() {
		d := m.Decide(now)
		fmt.Println(d.Reason)
		if !d.Ready {
			return
		}
		q := m.Form(now, d, quorum.Token{}, now.UnixMilli()) // if d.Changed, raft has d.Command by now
		last = &quorum.LastAnswer{QuorumID: q.ID, Round: q.Round, Members: q.Members}
		fmt.Println("quorum", q.ID, "with", len(q.Members))
	}

	for _, id := range []quorum.ReplicaID{"a", "b"} {
		if err := m.Open(now, quorum.Hello{ReplicaID: id, Client: quorum.KindSkerry}); err != nil {
			fmt.Println(err)
		}
		join(id, 1)
	}
	decide()
	for m.Decide(now).Reason.Code == quorum.ReasonQuiet {
		now = now.Add(100 * time.Millisecond) // a shell wakes at m.Wake(now), too
		for _, id := range []quorum.ReplicaID{"a", "b"} {
			if err := m.Beat(now, id, quorum.Beat{}); err != nil {
				fmt.Println(err)
			}
		}
	}
	decide()

	// SIGKILL: the stream breaks, and so does the link to the peer.
	m.Broken(now, "b", "EOF", false)
	if err := m.Accuse(now, quorum.Accusation{By: "a", Against: "b", QuorumID: last.QuorumID}); err != nil {
		fmt.Println(err)
	}
	for _, n := range m.Notices() {
		if n.Kind == quorum.NoticeLost {
			fmt.Println(n)
		}
	}
	join("a", 2)
	decide()

	// Output:
	// waiting for quiet: a session opened less than a heartbeat timeout ago
	// all joined: 2 joined
	// quorum 1001 with 2
	// lost to a quorum 1001 about b: was lost: stream broke, accused by a
	// all joined: 1 joined
	// quorum 1002 with 1
}
