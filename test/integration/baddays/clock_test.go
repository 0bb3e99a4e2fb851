package baddays

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
)

const year = 365 * 24 * time.Hour

// The wall clock of one trainer, of a server that follows, of the leader and of all
// jumps, by an hour and by a year, forth and back, in mid-run: no step is lost to it,
// and what a quorum is needed for afterwards, a replica that dies and comes back, a
// leader that dies, gets one with a higher id.
func TestClocksJump(t *testing.T) {
	t.Parallel()
	const trainers = 2
	j := newJob(t, jumpy(t)).withWalls(trainers)
	j.startServers()
	j.train(trainers)
	leader, term := j.leaderAfter(0)
	for _, who := range []struct {
		name  string
		walls []int
	}{
		{"a trainer", []int{servers}},
		{"a follower", []int{(leader + 1) % servers}},
		{"the leader", []int{leader}},
		{"all", []int{0, 1, 2, 3, 4}},
	} {
		for _, off := range []time.Duration{time.Hour, -time.Hour, year, -year} {
			j.undisturbed(fmt.Sprintf("the clock of %s, by %v", who.name, off), func() {
				for _, back := range []time.Duration{0, off} {
					for _, i := range who.walls {
						j.walls[i].Jump(t, back)
					}
				}
			})
		}
		j.replace(1) // by clocks that are a year late
		for _, i := range who.walls {
			j.walls[i].Jump(t, 0)
		}
	}
	// The leader dies, and the next one's clock is a year behind what quorums were made by.
	for _, w := range j.walls {
		w.Jump(t, -year)
	}
	j.servers[leader].Kill()
	j.leaderAfter(term)
	j.startServer(leader)
	j.replace(1)
	j.idsRise(j.members...)
}

// What strangers cause is logged in samples, and a clock that jumps back a year does not
// silence that for a year.
func TestSampledLinesAfterAJump(t *testing.T) {
	t.Parallel()
	j := newJob(t, jumpy(t)).withWalls(0)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("a-token-of-sixteen-bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := testkit.Start(t, "server", j.wallEnv(0), filepath.Join(j.bin, "lighthouse"), "--bind", j.addrs[0], "--token-file", token)
	j.serves(0)
	const says, burst = "request denied", 50
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func() (lines int) {
		resp, err := client.Post("http://"+j.addrs[0]+"/jobs/default/replicas/r/evict", "text/plain", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close() // the log is what counts
		text := p.String()
		return strings.Count(text, says)
	}
	for began := time.Now(); ask() < burst; {
		if time.Since(began) > patience {
			t.Fatalf("fewer than %d lines were logged", burst)
		}
	}
	j.walls[0].Jump(t, -year)
	for began := time.Now(); ask() <= burst; time.Sleep(200 * time.Millisecond) {
		if time.Since(began) > patience/2 {
			t.Fatalf("nothing is logged any more, though %v went by", time.Since(began))
		}
	}
}

// A replica whose clock is an hour off trains on while its session stands. Once that
// has broken no server opens another one, and it says why; it stays in the standing
// quorum, for the others step with it, and is not in the next one. With its clock right
// again it is back.
func TestMemberWithAnotherClock(t *testing.T) {
	t.Parallel()
	const trainers, late, dies = 3, 1, 2
	j := newJob(t, jumpy(t)).withWalls(trainers)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("a-token-of-sixteen-bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	j.flags = func(int) []string { // half as patient as elsewhere: each of these times is waited for
		return []string{"--token-file", token, "--heartbeat-timeout", "10s", "--suspect-after", "5s", "--grace", "10s"}
	}
	j.env = []string{"SKERRY_TOKEN_FILE=" + token}
	j.startServers()
	j.train(trainers)
	j.walls[servers+late].Jump(t, -time.Hour)
	for _, p := range j.members {
		goesOn(p)
	}
	leader, term := j.leaderAfter(0)
	from := j.heard()
	j.servers[leader].Kill()
	leader, _ = j.leaderAfter(term)
	j.members[late].Says("compare the clocks", j.members[late].Says("lighthouse not reached", from[late]))
	j.servers[leader].Says("steps with it", j.servers[leader].Says("suspect ", 0))
	for i, p := range j.members {
		goesOn(p)
		if text := p.String(); strings.Contains(text[from[i]:], "take part") {
			t.Errorf("%s is in another quorum:\n%s", p.Name, text[from[i]:])
		}
	}
	from = j.heard()
	j.members[dies].Kill()
	j.members[0].Says(" 1 of 1 members take part", from[0])
	goesOn(j.members[0])
	from = j.heard()
	from[dies] = 0
	j.members[dies] = j.startTrainer(dies)
	j.walls[servers+late].Jump(t, 0)
	j.together(from)
	j.idsRise(j.members...)
}
