package baddays

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
)

const day = 24 * time.Hour

// The certificates of a running job come to their end: every process says so a week
// ahead, and when they have ended; all train on, with the connections that stand. A
// replica that comes then ends in one line that says which certificate ended, when, and what to do;
// so does one whose clock is not that of the others. When a server dies besides, nothing
// new can be formed, and all still train; a member that dies then leaves the others waiting
// for the next quorum. With renewed files, and no restart, that is formed, with newcomers in it.
func TestCertificatesEndInMidRun(t *testing.T) {
	t.Parallel()
	const trainers = 2
	dir := filepath.Join(t.TempDir(), "certs")
	j := newJob(t, jumpy(t)).withWalls(trainers + 1).guarded(dir)
	j.startServers()
	j.train(trainers)
	newcomer := servers + trainers
	j.walls[newcomer].Jump(t, time.Hour)
	j.startTrainer(trainers).EndsIn("the proof is -1h0m", "compare the clocks")
	j.walls[newcomer].Jump(t, -2*day)
	j.startTrainer(trainers).EndsIn(`own certificate: certificate "digits" in `+filepath.Join(dir, "digits.pem")+" begins on ", "compare the clocks")

	allSay := func(off time.Duration, what, when string) {
		t.Helper()
		for _, w := range j.walls {
			w.Jump(t, off)
		}
		for i, p := range append(append([]*testkit.Program(nil), j.servers...), j.members...) {
			name := fmt.Sprint("server", i)
			if i >= servers {
				name = "digits"
			}
			p.Says(`certificate \"`+name+`\" in `+filepath.Join(dir, name+".pem")+" "+when, p.Says(what, 0))
		}
		for _, p := range j.members {
			goesOn(p)
		}
	}
	allSay(84*day, "certificate ends soon", "ends on ")
	allSay(91*day, "certificate does not hold", "ended on ")
	j.startTrainer(trainers).EndsIn(`own certificate: certificate "digits" in `+filepath.Join(dir, "digits.pem")+" ended on ", "lighthouse ca")

	from := make([]int, trainers)
	for i, p := range j.members {
		from[i] = p.Len()
	}
	leader, term := j.leaderAfter(0)
	j.servers[leader].Kill()
	for i, p := range j.members {
		p.Says("ended on ", p.Says("lighthouse not reached", from[i]))
		goesOn(p)
	}
	// A member dies as well: the next quorum needs new connections, and waits for them.
	j.members[1].Kill()
	j.members = j.members[:1]
	j.sign(dir)
	j.startServer(leader)
	j.leaderAfter(term)
	for i, p := range j.members {
		p.Says("certificate renewed", 0)
		from[i] = p.Len()
	}
	j.members = append(j.members, j.startTrainer(1), j.startTrainer(trainers))
	j.together([]int{from[0], 0, 0})
	j.idsRise(j.members...)
}
