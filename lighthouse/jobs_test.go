package lighthouse_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/quorum"
)

// A job's rules are changed while it runs: members are told at once what
// concerns them, another job's stay as they are, and what is out of bounds is
// refused as a whole.
func TestJobRulesAreChangedWhileItRuns(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, nil)
		members, q := form(t, l.Addr, "a", "b")
		other := hello("z")
		other.Job = "other"
		open(t, dial(t, l.Addr), other)
		operator := skerrypb.NewLighthouseClient(dial(t, l.Addr))
		resp, err := operator.Configure(t.Context(), &skerrypb.ConfigureRequest{
			MinReplicas: proto.Uint32(2), HeartbeatTimeoutMs: proto.Uint32(3000), StuckAfterMs: proto.Uint32(90_000),
			EvictStuck: proto.Bool(true), ProbationAfter: proto.Uint32(4)})
		if err != nil {
			t.Fatal(err)
		}
		want := &skerrypb.JobRules{MinReplicas: 2, JoinTimeoutMs: 10_000, HeartbeatTimeoutMs: 3000, SuspectAfterMs: 500,
			GraceMs: 1000, StuckAfterMs: 90_000, EvictStuck: true, ProbationAfter: 4, Own: true}
		if !proto.Equal(resp.GetRules(), want) {
			t.Errorf("rules %v, want %v", resp.GetRules(), want)
		}
		for _, m := range members {
			m.next("the new timing", func(d *skerrypb.Down) bool { return d.GetTiming().GetHeartbeatTimeoutMs() == 3000 })
			m.next("change wanted", func(d *skerrypb.Down) bool { return d.GetChangeWanted().GetQuorumId() == q.ID })
		}
		for name, bad := range map[string]*skerrypb.ConfigureRequest{
			"SuspectAfter": {SuspectAfterMs: proto.Uint32(9000)},
			"MaxReplicas":  {MaxReplicas: proto.Uint32(1)},
			"min_replicas": {MinReplicas: proto.Uint32(0)},
		} {
			_, err := operator.Configure(t.Context(), bad)
			if err := wire.FromStatus(err); !errors.Is(err, quorum.ErrInvalid) || !strings.Contains(err.Error(), name) {
				t.Errorf("%v: %v, want it refused with %s named", bad, err, name)
			}
		}
		jobs := jobsOf(t, operator)
		if got := jobs["default"]; !proto.Equal(got.GetRules(), want) || got.GetMembers() != 2 || !got.GetStands() {
			t.Errorf("job %v, want its rules, two members, standing", got)
		}
		if got := jobs["other"].GetRules(); got.GetOwn() || got.GetMinReplicas() != 1 || got.GetHeartbeatTimeoutMs() != 1000 {
			t.Errorf("the other job has rules %v, want the server's", got)
		}
		resp, err = operator.Configure(t.Context(), &skerrypb.ConfigureRequest{Reset_: true})
		if err != nil || resp.GetRules().GetOwn() || resp.GetRules().GetHeartbeatTimeoutMs() != 1000 {
			t.Errorf("after a reset: %v, %v; want the server's rules", resp, err)
		}
	})
}

func jobsOf(t testing.TB, operator skerrypb.LighthouseClient) map[string]*skerrypb.JobInfo {
	t.Helper()
	resp, err := operator.Jobs(t.Context(), &skerrypb.JobsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]*skerrypb.JobInfo)
	for _, j := range resp.GetJobs() {
		all[j.GetJob()] = j
	}
	return all
}

// Rules outlive the server that took them, and so does their end.
func TestJobRulesAreReplicated(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		c := startCluster(t, 3, lighthousetest.Options{})
		old, _, _ := formIn(t, c, "a", "b")
		operator := skerrypb.NewLighthouseClient(dial(t, c.Servers[c.Followers()[0]].Addr))
		if _, err := operator.Configure(t.Context(), &skerrypb.ConfigureRequest{MinReplicas: proto.Uint32(2)}); err != nil {
			t.Fatal(err)
		}
		c.Stop(old)
		next := skerrypb.NewLighthouseClient(dial(t, c.Servers[c.Leader()].Addr))
		if got := jobsOf(t, next)["default"].GetRules(); !got.GetOwn() || got.GetMinReplicas() != 2 {
			t.Errorf("the next leader has rules %v, want at least 2 replicas", got)
		}
	})
}

// A job is deleted once nobody is there; one that takes its name later has ids
// above all that there were.
func TestDeleteJob(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, func(c *lighthouse.Config) { c.Rules.MinReplicas = 2 })
		members, first := form(t, l.Addr, "a", "b")
		operator := skerrypb.NewLighthouseClient(dial(t, l.Addr))
		_, err := operator.DeleteJob(t.Context(), &skerrypb.DeleteJobRequest{})
		if err := wire.FromStatus(err); !errors.Is(err, quorum.ErrInvalid) || !strings.Contains(err.Error(), "replicas") {
			t.Errorf("delete of a job in use: %v, want it refused", err)
		}
		for _, m := range members {
			m.send(&skerrypb.Up{Message: &skerrypb.Up_Leaving{Leaving: &skerrypb.Leaving{}}})
			m.kill()
		}
		testkit.Eventually(t, "the job is deleted", func() bool {
			_, err := operator.DeleteJob(t.Context(), &skerrypb.DeleteJobRequest{})
			return err == nil
		})
		if jobs := jobsOf(t, operator); len(jobs) != 0 {
			t.Errorf("jobs %v, want none", jobs)
		}
		_, err = operator.DeleteJob(t.Context(), &skerrypb.DeleteJobRequest{})
		if !errors.Is(wire.FromStatus(err), quorum.ErrUnknown) {
			t.Errorf("second delete: %v, want quorum.ErrUnknown", err)
		}
		if _, again := form(t, l.Addr, "c", "d"); again.ID <= first.ID {
			t.Errorf("quorum %d of the new job, want it above %d of the old one", again.ID, first.ID)
		}
	})
}

// Jobs that clients only named are forgotten, and those that trained once are
// kept much longer.
func TestIdleJobsAreForgotten(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, func(c *lighthouse.Config) { c.Rules.MinReplicas = 2 })
		members, _ := form(t, l.Addr, "a", "b")
		named := hello("z")
		named.Job = "named"
		z, _ := open(t, dial(t, l.Addr), named)
		operator := skerrypb.NewLighthouseClient(dial(t, l.Addr))
		look := func(later time.Duration) []string {
			if err := l.Lighthouse.ForgetIdle(t.Context(), later); err != nil {
				t.Fatal(err)
			}
			var names []string
			for name := range jobsOf(t, operator) {
				names = append(names, name)
			}
			return names
		}
		if got := look(240 * time.Hour); len(got) != 2 {
			t.Fatalf("jobs %v, want both: both have sessions", got)
		}
		for _, r := range append(members, z) {
			r.send(&skerrypb.Up{Message: &skerrypb.Up_Leaving{Leaving: &skerrypb.Leaving{}}})
			r.kill()
		}
		testkit.Eventually(t, "the job that was only named is forgotten", func() bool { return len(look(time.Hour)) == 1 })
		testkit.Eventually(t, "the other one too, much later", func() bool { return len(look(240*time.Hour)) == 0 })
	})
}
