package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/cmd/internal/guardflags"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse"
)

// lighthouseFlags say which lighthouse a command asks.
type lighthouseFlags struct {
	Lighthouse string // a list
	Guard      guard.Options
}

// add gives a command the flags.
func (l *lighthouseFlags) add(cmd *cobra.Command) {
	def := os.Getenv(envLighthouse)
	if def == "" {
		def = fmt.Sprintf("127.0.0.1:%d", lighthouse.DefaultPort)
	}
	f := cmd.Flags()
	f.StringVar(&l.Lighthouse, "lighthouse", def,
		"addresses of lighthouse servers, host:port or URLs, a,b,c; the first that answers is asked; "+envLighthouse+" sets the default")
	guardflags.Add(f, &l.Guard)
}

// addresses splits the list.
func (l *lighthouseFlags) addresses() []string {
	var all []string
	for addr := range strings.SplitSeq(l.Lighthouse, ",") {
		if addr = strings.TrimSpace(addr); addr != "" {
			all = append(all, addr)
		}
	}
	if len(all) == 0 {
		all = append(all, "") // is refused with the flag's name
	}
	return all
}

// first tries the addresses in turn until one is answered; the error is that of
// all, and once one server has refused what is asked, no other is.
func (l *lighthouseFlags) first(ctx context.Context, try func(ctx context.Context, g *guard.Guard, addr string) error) error {
	g, err := guardflags.Open(&l.Guard)
	if err != nil {
		return err
	}
	var problems []string
	for _, addr := range l.addresses() {
		once, cancel := context.WithTimeout(ctx, statusTimeout)
		err := try(once, g, addr)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if _, refused := errors.AsType[*wire.RefusedError](err); refused && !errors.Is(err, wire.ErrNoLeader) {
			return err
		}
		problems = append(problems, err.Error())
	}
	return errors.New(strings.Join(problems, "; "))
}

// call makes one call of an operator.
func (l *lighthouseFlags) call(ctx context.Context, f func(ctx context.Context, c skerrypb.LighthouseClient) error) error {
	return l.first(ctx, func(ctx context.Context, g *guard.Guard, addr string) error {
		host := strings.TrimSuffix(addr[strings.Index(addr, "://")+1:], "/")
		host = strings.TrimPrefix(host, "//")
		conn, err := grpc.NewClient("passthrough:///"+host, append(wire.DialOptions(), g.DialOptions(guard.Party{Role: guard.Lighthouse}, "")...)...)
		if err != nil {
			return fmt.Errorf("--lighthouse = %q, want host:port or a URL", addr)
		}
		defer conn.Close() //nolint:errcheck // nothing is lost with it
		err = wire.FromStatus(f(ctx, skerrypb.NewLighthouseClient(conn)))
		if status.Code(err) == codes.Unavailable || errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("lighthouse %s cannot be reached: %s", addr, status.Convert(err).Message())
		}
		if s, ok := status.FromError(err); ok && err != nil {
			return fmt.Errorf("lighthouse %s: %s", addr, s.Message())
		}
		return err
	})
}

// status reads what the lighthouse shows.
func (l *lighthouseFlags) status(ctx context.Context) (st lighthouse.Status, body []byte, err error) {
	type answer struct {
		status lighthouse.Status
		body   []byte
	}
	var leaderless *answer // the first that knew no leader
	err = l.first(ctx, func(ctx context.Context, g *guard.Guard, addr string) error {
		if body, err = fetchStatus(ctx, g, addr); err != nil {
			return err
		}
		st = lighthouse.Status{}
		if err := json.Unmarshal(body, &st); err != nil {
			return fmt.Errorf("lighthouse %s did not answer with its status: %w", addr, err)
		}
		if !st.Leads && st.Leader == "" && leaderless == nil {
			leaderless = &answer{st, body}
			return errNoLeader // the next may know one
		}
		return nil
	})
	if err != nil && leaderless != nil {
		return leaderless.status, leaderless.body, nil
	}
	return st, body, err
}

// replica finds the one replica of a job that is meant: by its id, or by the name
// before its incarnation if only one of that name is there.
func (l *lighthouseFlags) replica(ctx context.Context, job, meant string) (string, error) {
	st, _, err := l.status(ctx)
	if err != nil {
		return "", err
	}
	var found []string
	for _, j := range st.Jobs {
		for _, r := range j.Replicas {
			switch {
			case j.Job != job:
			case r.ReplicaID == meant:
				return meant, nil
			case strings.HasPrefix(r.ReplicaID, meant+":") && r.State != "lost" && r.State != "evicted":
				found = append(found, r.ReplicaID)
			}
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("no replica %q is there in job %s", meant, job)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("%q is one of %s: say which", meant, strings.Join(found, ", "))
}

// span shows milliseconds as people say them.
func span(ms uint32) time.Duration { return time.Duration(ms) * time.Millisecond }
