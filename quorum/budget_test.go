package quorum_test

import (
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/quorum"
)

// formAll lets next say what it likes, and forms whatever is ready, for that long;
// it returns how many quorums were written.
func formAll(t *testing.T, m *quorum.Machine, now time.Time, d time.Duration, next func(now time.Time)) int {
	t.Helper()
	written := 0
	for end := now.Add(d); now.Before(end); now = now.Add(time.Millisecond) {
		next(now)
		decision := m.Decide(now)
		if !decision.Ready {
			continue
		}
		if decision.Changed {
			written++
		}
		m.Form(now, decision, quorum.Token{1}, 1)
	}
	return written
}

// One replica cannot have more than FormBurst entries written, and ten a second from
// then on, whatever it says.
func TestOneReplicaWritesLittle(t *testing.T) {
	t.Parallel()
	const lasts = 120 * time.Second
	const most = quorum.FormBurst + int(lasts/quorum.FormEvery) + 1
	for name, lie := range map[string]func(j *quorum.Join){
		"commits each time": func(j *quorum.Join) {
			j.Member.Position = quorum.Position{Cluster: "x", Step: int64(j.Number), QuorumID: 1001}
		},
		"moves each time":  func(j *quorum.Join) { j.Member.StoreAddress = time.Duration(j.Number).String() },
		"failed each time": func(j *quorum.Join) { j.Member.CommitFailures = int64(j.Number) },
		"asks, and then falls": func(j *quorum.Join) {
			if j.Number%2 == 0 {
				j.Kind = quorum.JoinAsk
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "commits each time" || name == "moves each time" {
				testkit.Long(t)
			}
			t.Parallel()
			now := time.Unix(1_700_000_000, 0)
			m := quorum.New(now, quorum.DefaultConfig(), quorum.NewLedger("x", "default", 1000))
			if err := m.Open(now, quorum.Hello{ReplicaID: "a", Client: quorum.KindSkerry}); err != nil {
				t.Fatal(err)
			}
			number := uint64(0)
			written := formAll(t, m, now, lasts, func(now time.Time) {
				number++
				j := skerryJoin("a", number)
				j.Kind = quorum.JoinFall
				if last := m.Last(); last != nil {
					j.Last = &quorum.LastAnswer{Cluster: last.Cluster, QuorumID: last.ID, Round: last.Round, Members: last.Members}
				}
				lie(&j)
				if err := m.Join(now, j); err != nil {
					t.Fatal(err)
				}
			})
			t.Logf("%d entries in %v", written, lasts)
			if written > most {
				t.Errorf("%d entries in %v, want at most %d", written, lasts, most)
			}
		})
	}
}
