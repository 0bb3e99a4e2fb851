package lighthouse_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/lighthouse/api"
)

// A run that has finished looks finished at the next leader, which goes on with its story: who left
// is not waited for, none is called lost, and the numbers of entries rise.
func TestAFinishedRunSurvivesItsLeader(t *testing.T) {
	t.Parallel()
	old, others := leader(t, inProcess(t, 3))
	members, _ := form(t, old.Addr, "a", "b")
	var before []api.Event
	get := func(url string, into any) {
		t.Helper()
		_, body := fetch(t, "GET", url, nil)
		if err := json.Unmarshal([]byte(body), into); err != nil {
			t.Fatalf("%s: %v in %.300s", url, err, body)
		}
	}
	for _, r := range members {
		r.leave()
	}
	kept := func() bool {
		get(old.URL("/api/v1/events?job=default"), &before)
		return len(before) > 0 && before[len(before)-1].Kind == "finished"
	}
	testkit.Eventually(t, "the run is told as finished", kept)
	// What was told may still be on its way to the ledger: a leader that dies by then may lose it.
	testkit.Eventually(t, "it is in the ledger", func() bool {
		told := old.Lighthouse.Told("default")
		return len(told) > 0 && told[len(told)-1].Kind == "finished"
	})
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
	for _, r := range st.Jobs[0].Replicas {
		if r.State != "left" {
			t.Errorf("%s is %s, want left", r.ReplicaID, r.State)
		}
	}
	if at := before[len(before)-1].AtMs; st.Jobs[0].StateSinceMs != at {
		t.Errorf("finished since %d, want %d", st.Jobs[0].StateSinceMs, at)
	}
}
