package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/lighthouse/api"
)

// Overview reads what the lighthouse shows, and the JSON that it was: of a server of
// before the API (November 2026) what /status.json has of it. A server that knows no
// leader answers only if no other one knows one.
func (l *Flags) Overview(ctx context.Context) (api.Overview, []byte, error) {
	return asked(ctx, l, nil, func(o api.Overview) bool { return Leaderless(o.Leads, o.Leader) }, "/api/v1/status", "/status.json")
}

// OverviewOf reads what the lighthouse shows of one job. Of a job that is not there it shows
// no jobs. A server of before the API has no such page.
func (l *Flags) OverviewOf(ctx context.Context, job string) (api.Overview, error) {
	o, _, err := asked(ctx, l, url.Values{"job": {job}}, func(o api.Overview) bool { return Leaderless(o.Leads, o.Leader) }, "/api/v1/status")
	return o, tooOld(err)
}

// Status reads /status.json in the same way: the overview, and each job's history.
func (l *Flags) Status(ctx context.Context) (api.Status, []byte, error) {
	return asked(ctx, l, nil, func(s api.Status) bool { return Leaderless(s.Leads, s.Leader) }, "/status.json")
}

// asked reads the first of some pages that a server has. A server that knows no leader
// answers only if no other one knows one.
func asked[T any](ctx context.Context, l *Flags, query url.Values, leaderless func(T) bool, paths ...string) (T, []byte, error) {
	type answer struct {
		page T
		body []byte
	}
	var got, first *answer // first: of those that knew no leader
	err := l.first(ctx, func(ctx context.Context, g *guard.Guard, addr string) error {
		var body []byte
		var err error
		for _, path := range paths {
			body, err = l.fetch(ctx, g, addr, path, query)
			if e, ok := errors.AsType[*answerError](err); !ok || !e.noPage() {
				break
			}
		}
		if err != nil {
			return err
		}
		a := answer{body: body}
		if err := json.Unmarshal(body, &a.page); err != nil {
			return fmt.Errorf("lighthouse %s did not answer with its status: %w", addr, err)
		}
		if leaderless(a.page) {
			if first == nil {
				first = &a
			}
			return ErrNoLeader // the next may know one
		}
		got = &a
		return nil
	})
	switch {
	case err == nil && got != nil:
		return got.page, got.body, nil
	case first != nil:
		return first.page, first.body, nil
	}
	var none T
	return none, nil, err
}

// Leaderless tells the status of a server that knows no leader: it does not lead, and
// names none.
func Leaderless(leads bool, leader string) bool { return !leads && leader == "" }

// Replica finds the one replica of a job that is meant: by its id, by the beginning of
// that, or by the name before its incarnation if only one of that name is there.
func (l *Flags) Replica(ctx context.Context, job, meant string) (string, error) {
	st, _, err := l.Overview(ctx)
	if err != nil {
		return "", err
	}
	if Leaderless(st.Leads, st.Leader) {
		return "", ErrNoLeader
	}
	if all := jobNames(st); !slices.Contains(all, job) {
		return "", NoJob(job, all)
	}
	var found, there []string
	var went string // of those that are meant: what became of the last one
	for _, j := range st.Jobs {
		if j.Job != job {
			continue
		}
		for _, r := range j.Replicas {
			isGone := slices.Contains(gone, r.State)
			if !isGone {
				there = append(there, Short(r.ReplicaID))
			}
			switch {
			case r.ReplicaID == meant:
				return meant, nil
			case !Means(meant, r.ReplicaID):
			case isGone:
				went = fmt.Sprintf("%s is %s; ", Short(r.ReplicaID), r.State)
			default:
				found = append(found, r.ReplicaID)
			}
		}
	}
	switch len(found) {
	case 0:
		return "", cli.WithStatus(cli.StatusNotFound, fmt.Errorf("no replica %q is there in job %s; %s%s", meant, job, went, listed(there, "the job has none")))
	case 1:
		return found[0], nil
	}
	return "", cli.Usage(fmt.Errorf("%q is one of %s: say which", meant, strings.Join(found, ", ")))
}

// gone are the states of replicas that are shown still, and that nothing can be done to.
var gone = []string{"lost", "left", "drained", "evicted"}

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

// incarnation is what follows a replica's name in its id.
var incarnation = regexp.MustCompile(`:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// Named is a text in which replicas are called by their names, without incarnations.
func Named(text string) string { return incarnation.ReplaceAllString(text, "") }
