package live

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerry-ft/skerry/lighthouse/api"
)

// pacing is a lighthouse with one replica, whose row a test changes.
type pacing struct {
	fakeSource

	row api.Replica
}

func (p *pacing) Document(context.Context, string) (api.Document, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return api.Document{Jobs: map[string]api.JobDocument{"j": {Replicas: map[string]api.Replica{"a": p.row}}}}, nil
}

func (p *pacing) set(step, wait float64, state string) {
	p.change(func() { p.row.StepMs, p.row.WaitMs, p.row.State = step, wait, state })
}

// How long steps take is told when it is first known and when it is news, once in a while; with
// a change of the replica's state at once.
func TestTimesOfStepsAreToldOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pacing{}
		p.row.State = "live"
		h := NewHub(p)
		v := watch(t, h, "")
		_, _ = waiting(v)
		told := func() string {
			<-time.After(look)
			chunks, _ := waiting(v)
			return strings.ReplaceAll(strings.Join(chunks, ""), ": ping\n\n", "")
		}
		expect := func(what, want string) {
			t.Helper()
			if want != "" {
				want = `event: patch` + "\n" + `data: {"jobs":{"j":{"replicas":{"a":` + want + "}}}}\n\n"
			}
			if got := told(); got != want {
				t.Errorf("%s: told %q, want %q", what, got, want)
			}
		}
		<-time.After(look / 2) // between two looks
		p.set(150, 50, "live")
		expect("first known", `{"step_ms":150,"wait_ms":50}`)
		p.set(160, 41, "live")
		expect("as good as the same", "")
		p.set(190, 11, "live")
		expect("news, a moment after the first", "")
		<-time.After(paceEvery)
		chunks, _ := waiting(v)
		if got := strings.Join(chunks, ""); !strings.Contains(got, `{"step_ms":190,"wait_ms":11}`) || len(chunks) != 1 {
			t.Errorf("told %q in a while, want the news, once", got)
		}
		p.set(150, 51, "suspect")
		expect("with another state", `{"state":"suspect","step_ms":150,"wait_ms":51}`)
		<-time.After(paceEvery)
		p.set(155, 45, "suspect")
		<-time.After(paceEvery)
		expect("as good as the same, later", "")
		later := watch(t, h, "")
		if got, _ := waiting(later); len(got) != 1 || !strings.Contains(got[0], `"step_ms":150`) {
			t.Errorf("a viewer that comes later is told %q, want what the patches lead to", got)
		}
		v.Close()
		later.Close()
		h.Stop()
		h.Wait()
	})
}
