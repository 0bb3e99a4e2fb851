package connect

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/lighthouse/api"
)

// Status reads what the lighthouse shows, and the JSON that it was. A server that knows
// no leader answers only if no other one knows one.
func (l *Flags) Status(ctx context.Context) (st api.Status, body []byte, err error) {
	type answer struct {
		status api.Status
		body   []byte
	}
	var leaderless *answer // the first that knew no leader
	err = l.first(ctx, func(ctx context.Context, g *guard.Guard, addr string) error {
		if body, err = l.fetch(ctx, g, addr, "/status.json", nil); err != nil {
			return err
		}
		st = api.Status{}
		if err := json.Unmarshal(body, &st); err != nil {
			return fmt.Errorf("lighthouse %s did not answer with its status: %w", addr, err)
		}
		if Leaderless(st) && leaderless == nil {
			leaderless = &answer{st, body}
			return ErrNoLeader // the next may know one
		}
		return nil
	})
	if err != nil && leaderless != nil {
		return leaderless.status, leaderless.body, nil
	}
	return st, body, err
}

// Leaderless tells the status of a server that knows no leader.
func Leaderless(st api.Status) bool { return !st.Leads && st.Leader == "" }

// Replica finds the one replica of a job that is meant: by its id, by the beginning of
// that, or by the name before its incarnation if only one of that name is there.
func (l *Flags) Replica(ctx context.Context, job, meant string) (string, error) {
	st, _, err := l.Status(ctx)
	if err != nil {
		return "", err
	}
	if Leaderless(st) {
		return "", ErrNoLeader
	}
	if all := jobNames(st); !slices.Contains(all, job) {
		return "", NoJob(job, all)
	}
	var found, there []string
	for _, j := range st.Jobs {
		if j.Job != job {
			continue
		}
		for _, r := range j.Replicas {
			there = append(there, Short(r.ReplicaID))
			if r.ReplicaID == meant {
				return meant, nil
			}
			if Means(meant, r.ReplicaID) && r.State != "lost" && r.State != "evicted" {
				found = append(found, r.ReplicaID)
			}
		}
	}
	switch len(found) {
	case 0:
		return "", cli.WithStatus(cli.StatusNotFound, fmt.Errorf("no replica %q is there in job %s; %s", meant, job, listed(there, "the job has none")))
	case 1:
		return found[0], nil
	}
	return "", cli.Usage(fmt.Errorf("%q is one of %s: say which", meant, strings.Join(found, ", ")))
}

// maxListed is how many names an error lists.
const maxListed = 8

// listed says which names there are, or what to do where there are none.
func listed(names []string, otherwise string) string {
	switch {
	case len(names) == 0:
		return otherwise
	case len(names) > maxListed:
		return fmt.Sprintf("there are %s and %d more", strings.Join(names[:maxListed], ", "), len(names)-maxListed)
	}
	return "there are: " + strings.Join(names, ", ")
}

// NoJob says that a job is not there, and which are.
func NoJob(name string, jobs []string) error {
	return cli.WithStatus(cli.StatusNotFound, fmt.Errorf("no job is called %q; %s", name, listed(jobs, "the lighthouse has no jobs")))
}

// Means tells whether a user who wrote meant may mean the replica id.
func Means(meant, id string) bool {
	return id == meant || strings.HasPrefix(id, meant+":") || strings.Contains(meant, ":") && strings.HasPrefix(id, meant)
}

// shortIncarnation is how much of an incarnation's UUID is shown.
const shortIncarnation = 8

// Short is a replica's id without the end of its incarnation's UUID. Commands take it as
// they take the whole.
func Short(id string) string {
	name, incarnation, ok := strings.Cut(id, ":")
	if ok && len(incarnation) == 36 && strings.Count(incarnation, "-") == 4 {
		return name + ":" + incarnation[:shortIncarnation]
	}
	return id
}
