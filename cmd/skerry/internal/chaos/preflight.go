package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/internal/connect"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/chaos/plan"
	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/internal/procs"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse/api"
)

// ready is what was found before the first fault.
type ready struct {
	kinds []plan.Kind // that can be done
	left  []string    // those that cannot, and why
	world plan.World
}

// patience is how long a job is waited for that does not train, or of which a replica does
// not: it may be in the middle of a change.
const patience = 3 * time.Second

// preflight finds out what can be done, and refuses what is asked for and cannot.
func (c *config) preflight(ctx context.Context) (ready, error) {
	o, job, err := c.there(ctx)
	if err != nil {
		return ready{}, err
	}
	if err := c.mayOperate(ctx); err != nil {
		return ready{}, err
	}
	c.Know(o.Servers)
	if least := 3 * time.Duration(job.StepTimeMs) * time.Millisecond; c.stallAfter < least {
		return ready{}, cli.Usagef("--stall-after = %v, want %v or more: the job's steps take %v", c.stallAfter, least.Round(time.Second), least/3)
	}
	for began := time.Now(); ; {
		r, problems, err := c.check(ctx, o, job)
		if err == nil && len(problems) == 0 {
			return r, nil
		}
		if time.Since(began) > patience {
			switch {
			case err != nil:
				return ready{}, err
			case len(r.kinds) == 0 || c.named:
				return ready{}, errors.New("cannot do " + strings.Join(problems, "; ") + others(r.kinds))
			}
			return r, nil
		}
		if err := backoff.Sleep(ctx, lookEvery); err != nil {
			return ready{}, err
		}
		if o, job, err = c.look(ctx); err != nil {
			return ready{}, err
		}
	}
}

// check finds out what can be done with a job as it is, and what is wrong with the rest.
func (c *config) check(ctx context.Context, o api.Overview, job api.Job) (r ready, problems []string, err error) {
	if job.State != "training" || !job.Stands {
		return r, nil, fmt.Errorf("job %s does not train now, it is %s: %s; see skerry why --job %s", printable.Line(c.job), job.State,
			printable.Line(connect.Named(job.Reason)), printable.Line(c.job))
	}
	members := slices.Contains(c.kinds(), plan.Lighthouse)
	s, err := c.survey(ctx, o, job, members)
	if err != nil {
		if members {
			err = fmt.Errorf("--faults lighthouse: %w", err)
		}
		return r, nil, err
	}
	r.world = c.world(s, job, nil)
	for _, k := range c.kinds() {
		why := c.plan(nil).Refuses(k, r.world)
		if why == "" && k == plan.Link {
			why = cmp.Or(mayTrace(s), unlinked(s))
		}
		if why == "" {
			r.kinds = append(r.kinds, k)
			continue
		}
		r.left = append(r.left, fmt.Sprintf("%s: %s", k, why))
		problems = append(problems, fmt.Sprintf("%s: %s%s", k, why, todo(k, why)))
	}
	return r, problems, nil
}

// others says which faults there are without those that cannot be done.
func others(kinds []plan.Kind) string {
	if len(kinds) == 0 {
		return ""
	}
	return "; these can be done: --faults " + strings.Join(words(kinds), ",")
}

// there finds the job, or says which there are.
func (c *config) there(ctx context.Context) (api.Overview, api.Job, error) {
	o, job, err := c.look(ctx)
	if s := cli.StatusOf(err); err == nil || s != cli.StatusFailed && s != cli.StatusNotFound {
		return o, job, err
	}
	all, _, oerr := c.Overview(ctx)
	if oerr != nil {
		return o, job, err
	}
	var names []string
	for _, j := range all.Jobs {
		names = append(names, j.Job)
	}
	if slices.Contains(names, c.job) {
		return o, job, err
	}
	return o, job, connect.NoJob(c.job, names)
}

// noReplica is what no replica is called.
const noReplica = "skerry-chaos:asks"

// mayOperate asks the lighthouse whether this is an operator: a kill of a replica that is not
// there is refused for that alone.
func (c *config) mayOperate(ctx context.Context) error {
	err := c.Call(ctx, func(ctx context.Context, l skerrypb.LighthouseClient) error {
		_, err := l.KillReplica(ctx, &skerrypb.KillReplicaRequest{Job: c.job, ReplicaId: noReplica, Reason: c.reason()})
		return err
	})
	if cli.StatusOf(err) == cli.StatusNotFound {
		return nil
	}
	if err == nil {
		return fmt.Errorf("a replica is called %s: rename it", noReplica)
	}
	return err
}

// mayTrace says why links cannot be cut, or "".
func mayTrace(s *site) string {
	for _, p := range s.replica {
		if p.pid == 0 {
			continue
		}
		h, err := procs.Open(p.pid)
		if err != nil {
			return err.Error()
		}
		err = h.MayTrace()
		h.Close()
		if err != nil {
			return err.Error()
		}
	}
	return ""
}

// unlinked says that no two replicas have a connection that could be cut, or "".
func unlinked(s *site) string {
	for a, p := range s.replica {
		for b, q := range s.replica {
			if a < b && p.pid != 0 && q.pid != 0 && len(links(s, p, q)) > 0 {
				return ""
			}
		}
	}
	return "no two replicas have a TCP connection for data between them"
}

// todo says what to do about a fault that cannot be done.
func todo(k plan.Kind, why string) string {
	switch {
	case strings.Contains(why, "min_replicas is"):
		return " (start more, or --below-min)"
	case k == plan.Stop || k == plan.Link && strings.Contains(why, "on this host"):
		return " (run skerry chaos where they are, as their user, in their network namespace; process 1 of a container takes no signals from inside)"
	case k == plan.Rank && strings.Contains(why, "on this host"):
		return " (its launcher says by RANK and REPLICA_GROUP_ID which they are)"
	case k == plan.Lighthouse:
		return " (it takes two voters at least)"
	}
	return ""
}
