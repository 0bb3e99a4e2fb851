package watch

import (
	"fmt"
	"io"
	"time"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/internal/connect"
	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/lighthouse/api"
)

// teller writes a line for each change, where no terminal is. It is owned by one
// goroutine.
type teller struct {
	w        io.Writer
	wide     bool
	jobs     map[string]string    // each job's last line
	replicas map[[2]string]string // each replica's, by job and id
	trouble  string
}

// tell writes what differs from the last answer.
func (t *teller) tell(now time.Time, st api.Overview, err error) error {
	at := now.Format("15:04:05.000")
	trouble := ""
	if err != nil {
		trouble = cli.Plain(err.Error())
	} else if connect.Leaderless(st.Leads, st.Leader) {
		trouble = connect.ErrNoLeader.Error()
	}
	if trouble != t.trouble {
		t.trouble = trouble
		if trouble == "" {
			trouble = "the lighthouse answers"
		}
		if _, err := fmt.Fprintf(t.w, "%s %s\n", at, printable.Line(trouble)); err != nil {
			return err
		}
	}
	if err != nil {
		return nil
	}
	jobs, replicas := map[string]string{}, map[[2]string]string{}
	for _, j := range st.Jobs {
		jobs[j.Job] = t.jobLine(j)
		if jobs[j.Job] != t.jobs[j.Job] {
			if _, err := fmt.Fprintf(t.w, "%s job %s: %s, %s\n", at, printable.Line(j.Job), Step(j), jobs[j.Job]); err != nil {
				return err
			}
		}
		for _, r := range j.Replicas {
			key := [2]string{j.Job, r.ReplicaID}
			replicas[key] = r.State
			if replicas[key] != t.replicas[key] {
				if _, err := fmt.Fprintf(t.w, "%s job %s: %s\n", at, printable.Line(j.Job), t.replicaLine(r)); err != nil {
					return err
				}
			}
		}
	}
	t.jobs, t.replicas = jobs, replicas
	return nil
}

// jobLine is what is worth a line when it changes.
func (t *teller) jobLine(j api.Job) string {
	state := ""
	if j.State != "" {
		state = printable.Line(j.State) + ", "
	}
	wanted := ""
	if w := WantedReplicas(j); w != "" {
		wanted = "; replicas wanted: " + w
	}
	switch {
	case j.QuorumID == 0:
		return state + "no quorum yet: " + Called(j.Reason, t.wide) + wanted
	case j.Stands:
		return fmt.Sprintf("%squorum %s round %d stands, %d of %s take part", state, Quorum(j, t.wide), j.Round, j.Participants, cli.Plural(j.Members, "member")) + wanted
	}
	return fmt.Sprintf("%squorum %s fell: %s", state, Quorum(j, t.wide), Called(j.FellBy, t.wide)) + wanted
}

func (t *teller) replicaLine(r api.Replica) string {
	id := r.ReplicaID
	if !t.wide {
		id = connect.Short(id)
	}
	text := printable.Line(id) + " " + printable.Line(r.State)
	if r.Why != "" {
		text += ": " + Called(r.Why, t.wide)
	}
	return text
}
