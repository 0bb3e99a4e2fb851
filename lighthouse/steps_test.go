package lighthouse_test

import (
	"testing"
	"time"

	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/quorum"
)

// A trainer's word on how many steps its run has is shown, and how long the rest of them takes at
// the rate of the last minutes. A replica that does not know takes nothing away.
func TestTotalSteps(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l, all := start(t, minReplicas(2)), []*replica(nil)
		shown := func() api.Job {
			t.Helper()
			j, err := l.Lighthouse.Overview(t.Context(), "default")
			if err != nil {
				t.Fatal(err)
			}
			return j
		}
		conn := dial(t, l.Addr)
		for id, total := range map[quorum.ReplicaID]int64{"a": 600, "b": 0, "c": 590} {
			h := hello(id)
			h.TotalSteps = total
			r, _ := open(t, conn, h)
			r.join(quorum.JoinFall, nil)
			all = append(all, r)
		}
		q := all[0].answer(1)
		if j := shown(); j.StepsTotal != 600 || j.EtaMs != 0 {
			t.Errorf("before a step: %d steps in all, %d ms to go, want 600, and that none knows", j.StepsTotal, j.EtaMs)
		}
		for step := int64(1); step <= 100; step++ { // five a second
			<-time.After(200 * time.Millisecond)
			for _, r := range all {
				r.mu.Lock()
				r.beat.Position = quorum.Position{Cluster: q.Cluster, Step: step, QuorumID: q.ID}
				r.mu.Unlock()
			}
		}
		<-time.After(200 * time.Millisecond) // the last beats are heard
		j := shown()
		if left := time.Duration(j.EtaMs) * time.Millisecond; j.MaxStep != 100 || left < 95*time.Second || left > 105*time.Second {
			t.Errorf("at step %d: %v to go, want about 100 s from step 100", j.MaxStep, left)
		}
		for _, r := range all {
			r.leave()
		}
		<-time.After(5 * time.Second)
		if j := shown(); j.State != "finished" || j.StepsTotal != 600 || j.EtaMs != 0 {
			t.Errorf("it is %s, of %d steps, %d ms to go, want finished, 600 and none", j.State, j.StepsTotal, j.EtaMs)
		}
	})
}
