package chaos

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/train/spawn"
)

// commits are the times at which the given trainers committed, in order; none
// given means all.
func (c *cluster) commits(which ...int) (at []time.Time) {
	c.each(func(r report) {
		if r.Kind == committed && (len(which) == 0 || slices.Contains(which, r.index)) {
			at = append(at, time.Unix(0, r.At))
		}
	})
	slices.SortFunc(at, time.Time.Compare)
	return at
}

// gap is the longest time between two commits of which any part lies between two
// moments; what is open at the end counts.
func gap(at []time.Time, from, to time.Time) (longest time.Duration) {
	last := from
	for _, t := range at {
		if !last.Before(to) {
			return longest
		}
		if t.After(from) {
			longest = max(longest, t.Sub(last))
		}
		last = t
	}
	if last.Before(from) {
		last = from
	}
	return max(longest, to.Sub(last))
}

// gaps is the longest gap of each of the trainers' own commits, over all of them.
func (c *cluster) gaps(from, to time.Time, which ...int) (longest time.Duration) {
	for _, i := range which {
		longest = max(longest, gap(c.commits(i), from, to))
	}
	return longest
}

// quantile is the value that the part q of sorted values does not exceed.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// replay computes the parameters of every committed step again from its
// contributors, and compares: the same bytes, every contributor once, and as many
// as the divisor says. It returns the number of steps.
func (c *cluster) replay() int64 {
	c.t.Helper()
	at := make(map[int64]report)
	var high int64
	c.each(func(r report) {
		if r.Kind != committed {
			return
		}
		if first, seen := at[r.Step]; seen && !slices.Equal(first.Counts, r.Counts) {
			c.t.Errorf("step %d: replica %d says that %v are in it, replica %d %v", r.Step, first.index, first.Counts, r.index, r.Counts)
		}
		at[r.Step], high = r, max(high, r.Step)
	})
	params := make([]int64, counterSize)
	for step := int64(1); step <= high; step++ {
		r, seen := at[step]
		if !seen {
			c.t.Errorf("step %d: nobody committed it, and %d was", step, high)
			return step - 1
		}
		n := 0
		for replica, times := range r.Counts {
			if times < 0 || times > 1 {
				c.t.Errorf("step %d: replica %d is in it %d times", step, replica, times)
			}
			for i := 0; times != 0 && i < len(params); i++ {
				params[i] += times * part(replica, step, i)
			}
			n += int(times)
		}
		if n != r.Divisor {
			c.t.Errorf("step %d: divided by %d, and %v are in it", step, r.Divisor, r.Counts)
		}
		if got := hashOf(params); got != r.Hash {
			c.t.Errorf("step %d of quorum %d: replica %d has %s, replayed from %v it is %s", step, r.Quorum, r.index, r.Hash, r.Counts, got)
			return step - 1
		}
	}
	return high
}

// status is what the lighthouse says of the job: what skerry why tells.
func (c *cluster) status() (j lighthouse.JobStatus) {
	c.t.Helper()
	client := http.Client{Timeout: patience}
	resp, err := client.Get("http://" + c.addr + "/status.json")
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	var st lighthouse.Status
	if err := json.NewDecoder(resp.Body).Decode(&st); err != nil {
		c.t.Fatal(err)
	}
	if len(st.Jobs) == 0 {
		return j
	}
	return st.Jobs[0]
}

// why is what the lighthouse says of a replica, newest incarnation first.
func (c *cluster) why(replica int) string {
	c.t.Helper()
	var said []string
	for _, r := range c.status().Replicas {
		if strings.HasPrefix(r.ReplicaID, fmt.Sprintf("replica-%d:", replica)) {
			said = append(said, r.State+": "+r.Why)
		}
	}
	return strings.Join(said, " | ")
}

// events are the newest lines of the lighthouse's history, the oldest first.
func (c *cluster) events(n int) string {
	c.t.Helper()
	var b strings.Builder
	events := c.status().Events
	for _, e := range slices.Backward(events[:min(n, len(events))]) {
		fmt.Fprintf(&b, "    %s %s\n", time.UnixMilli(e.AtMs).Format("15:04:05.000"), e.Text)
	}
	return b.String()
}

func runs(p *spawn.Process) bool {
	if p == nil {
		return false
	}
	select {
	case <-p.Done():
		return false
	default:
		return true
	}
}

// load is the machine's load average of the last minute.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "?"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// pauses watches, until the test ends, for how long this process was not run though
// it had something to do: then none of the trainers may have been, either. The
// returned function gives the longest pause so far.
func (c *cluster) pauses() func() time.Duration {
	const tick = 5 * time.Millisecond
	var longest atomic.Int64
	ctx := c.t.Context()
	go func() {
		for last := time.Now(); ctx.Err() == nil; {
			time.Sleep(tick)
			now := time.Now()
			longest.Store(max(longest.Load(), int64(now.Sub(last)-tick)))
			last = now
		}
	}()
	return func() time.Duration { return time.Duration(longest.Load()) }
}

func ms(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }
