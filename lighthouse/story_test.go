package lighthouse_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/quorum"
)

// toldAsFinished waits until a run is told as finished, and then until that is in the ledger: what
// is still on its way there may be lost by a leader that dies.
func toldAsFinished(t testing.TB, l *lighthousetest.Server) {
	t.Helper()
	testkit.Eventually(t, "the run is told as finished", func() bool {
		told := events(t, l, "?job=default")
		return len(told) > 0 && told[len(told)-1].Kind == "finished"
	})
	testkit.Eventually(t, "it is in the ledger", func() bool {
		told := l.Lighthouse.Told("default")
		return len(told) > 0 && told[len(told)-1].Kind == "finished"
	})
}

// A run that has finished looks finished at the next leader, which goes on with its story: who left
// is not waited for, none is called lost, and the numbers of entries rise.
func TestAFinishedRunSurvivesItsLeader(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		old, others := leader(t, inProcess(t, 3))
		members, q := form(t, old.Addr, "a", "b")
		var before []api.Event
		get := func(url string, into any) {
			t.Helper()
			_, body := fetch(t, "GET", url, nil)
			if err := json.Unmarshal([]byte(body), into); err != nil {
				t.Fatalf("%s: %v in %.300s", url, err, body)
			}
		}
		for _, r := range members {
			r.mu.Lock()
			r.beat.Position = quorum.Position{QuorumID: q.ID, Step: 7}
			r.mu.Unlock()
		}
		step := func(l *lighthousetest.Server) int64 {
			t.Helper()
			j, err := l.Lighthouse.Overview(t.Context(), "default")
			if err != nil {
				t.Fatal(err)
			}
			return j.MaxStep
		}
		testkit.Eventually(t, "step 7 is heard of", func() bool { return step(old) == 7 })
		for _, r := range members {
			r.leave()
		}
		toldAsFinished(t, old)
		get(old.URL("/api/v1/events?job=default"), &before)
		if err := old.Stop(); err != nil {
			t.Fatal(err)
		}
		next, _ := leader(t, others)
		var after []api.Event
		get(next.URL("/api/v1/events?job=default"), &after)
		if len(after) != len(before)+1 || after[len(after)-1].Kind != "leader" || after[len(after)-1].Seq <= before[len(before)-1].Seq {
			t.Errorf("the next leader tells %+v, want what was told, and that it leads", after)
		}
		for i, e := range before {
			if after[i].Seq != e.Seq || after[i].Text != e.Text || strings.Contains(e.Text, "died") {
				t.Errorf("entry %d is %+v, was %+v", i, after[i], e)
			}
		}
		var st api.Overview
		get(next.URL("/api/v1/status"), &st)
		if len(st.Jobs) != 1 || st.Jobs[0].State != "finished" || len(st.Jobs[0].Replicas) != 2 {
			t.Fatalf("the job is %+v, want finished", st.Jobs)
		}
		if got := step(next); got != 7 {
			t.Errorf("it finished at step %d, want 7", got)
		}
		for _, r := range st.Jobs[0].Replicas {
			if r.State != "left" {
				t.Errorf("%s is %s, want left", r.ReplicaID, r.State)
			}
		}
		if at := before[len(before)-1].AtMs; st.Jobs[0].StateSinceMs != at {
			t.Errorf("finished since %d, want %d", st.Jobs[0].StateSinceMs, at)
		}
	})
}

// The number of a quorum among those of its job goes on at the next leader. Where members brought
// back one that the ledger had lost, there is none.
func TestAQuorumHasANumber(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		old, others := leader(t, inProcess(t, 3))
		members, _ := form(t, old.Addr, "a", "b")
		number := func(l *lighthousetest.Server) int64 {
			t.Helper()
			j, err := l.Lighthouse.Overview(t.Context(), "default")
			if err != nil {
				t.Fatal(err)
			}
			return j.Ordinal
		}
		if got := number(old); got != 1 {
			t.Errorf("the first quorum is number %d", got)
		}
		members[1].leave()
		fell := func(l *lighthousetest.Server) func() bool {
			return func() bool {
				j, err := l.Lighthouse.Overview(t.Context(), "default")
				return err == nil && !j.Stands
			}
		}
		testkit.Eventually(t, "the quorum falls", fell(old))
		d, _ := open(t, dial(t, old.Addr), hello("d"))
		n := members[0].join(quorum.JoinFall, nil)
		d.join(quorum.JoinFall, nil)
		members[0].answer(n)
		if got := number(old); got != 2 {
			t.Errorf("the second quorum is number %d", got)
		}
		told := answered[[]api.Event](t, call(t, "GET", old.URL("/api/v1/events?job=default"), ""), http.StatusOK)
		var formed []int64
		for _, e := range told {
			if e.Kind == "formed" {
				formed = append(formed, e.Ordinal)
			}
		}
		if !slices.Equal(formed, []int64{1, 2}) {
			t.Errorf("quorums %v were told of, want 1 and 2", formed)
		}
		if err := old.Stop(); err != nil {
			t.Fatal(err)
		}
		next, _ := leader(t, others)
		if got := number(next); got != 2 {
			t.Errorf("at the next leader it is number %d, want 2", got)
		}

		fresh := start(t, minReplicas(1))
		h := hello("c")
		h.Last = &quorum.LastAnswer{Cluster: "lost", QuorumID: time.Now().UnixMilli(), Round: 1, Members: []quorum.Member{{ReplicaID: "c", GroupWorldSize: 1}}}
		c, _ := open(t, dial(t, fresh.Addr), h)
		if got := number(fresh); got != 0 {
			t.Errorf("a quorum that was brought back is number %d", got)
		}
		e, _ := open(t, dial(t, fresh.Addr), hello("e"))
		c.leave()
		testkit.Eventually(t, "the quorum that was brought back falls", fell(fresh))
		e.answer(e.join(quorum.JoinFall, nil))
		if j, err := fresh.Lighthouse.Overview(t.Context(), "default"); err != nil || j.Ordinal != 0 || j.QuorumID <= h.Last.QuorumID {
			t.Errorf("quorum %d behind it is number %d, want none; %v", j.QuorumID, j.Ordinal, err)
		}
	})
}
