package facts

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/quorum"
)

// crowd is a job of a thousand replicas that trains, of whom each was heard at another
// moment.
func crowd(step int64, jitter func(i int) int) Job {
	m := quorum.Status{State: quorum.JobTraining, Stands: true, StepTime: 20 * time.Millisecond, Last: &quorum.Quorum{ID: 7}}
	phases := []quorum.Phase{quorum.PhaseIdle, quorum.PhaseTraining, quorum.PhaseBalloting}
	for i := range 1000 {
		behind := int64(jitter(i) % 12)
		m.Replicas = append(m.Replicas, quorum.ReplicaStatus{
			ReplicaID: quorum.ReplicaID(fmt.Sprint("r", i)), State: quorum.StateLive, Member: true, Session: true,
			Silence: time.Duration(jitter(i)%900) * time.Millisecond, Idle: time.Duration(jitter(i)) * time.Millisecond,
			Position: quorum.Position{Step: step - behind, QuorumID: 7},
			Beat: quorum.Beat{
				Phase: phases[jitter(i)%3], Progress: uint64(jitter(i)),
				Own: 15*time.Millisecond + time.Duration(jitter(i)%100)*time.Microsecond,
			},
		})
	}
	return Job{Name: "j", Rules: m, BeatInterval: 100 * time.Millisecond, Now: time.UnixMilli(step)}
}

// TestStandingJobStandsStill: of a job that trains the document changes by its step alone,
// and one that falls behind, or silent, is seen.
func TestStandingJobStandsStill(t *testing.T) {
	t.Parallel()
	document := func(j Job) api.JobDocument {
		return Document(api.Overview{Jobs: []api.Job{j.Overview()}}, api.Servers{}).Jobs["j"]
	}
	before := document(crowd(1000, func(i int) int { return i * 7919 % 1009 }))
	j := crowd(1013, func(i int) int { return i * 104729 % 1013 })
	after := document(j)
	if before.MaxStep == after.MaxStep {
		t.Fatal("no step was made")
	}
	after.MaxStep = before.MaxStep
	if d := cmp.Diff(before, after); d != "" {
		t.Errorf("more than the step has changed:\n%s", d)
	}
	j.Rules.Replicas[3].Position.Step -= 100
	j.Rules.Replicas[4].Silence = 3700 * time.Millisecond
	j.Rules.Replicas[5].Beat.Phase = quorum.PhaseHealing
	rows := document(j).Replicas
	if rows["r3"].Behind < 90 || rows["r4"].SilenceMs != 3000 || rows["r5"].Phase != "healing" {
		t.Errorf("what matters is not shown: %+v, %+v, %+v", rows["r3"], rows["r4"], rows["r5"])
	}
}
