package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/lighthouse"
)

const (
	// envLighthouse names the lighthouse when no flag does.
	envLighthouse = "SKERRY_LIGHTHOUSE"
	// maxReason bounds what is read of an answer that is no status.
	maxReason = 1 << 10
	// maxStatusBytes bounds what a lighthouse may answer.
	maxStatusBytes = 64 << 20
	// statusTimeout bounds the whole question.
	statusTimeout = 5 * time.Second
	// tlsTimeout bounds a TLS connection, handshake included.
	tlsTimeout = 5 * time.Second
)

func newStatusCommand() *cobra.Command {
	var l lighthouseFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what a lighthouse knows",
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			st, body, err := l.status(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", printable.JSON(bytes.TrimSpace(body)))
			} else {
				err = printStatus(cmd.OutOrStdout(), st)
			}
			if err == nil && !st.Leads && st.Leader == "" {
				err = cli.WithStatus(cli.StatusNoLeader, errNoLeader)
			}
			return err
		},
	}
	l.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the lighthouse's own JSON")
	return cmd
}

var errNoLeader = errors.New("no lighthouse server leads; quorums that stand go on, and none changes until a majority of the servers is there")

// fetchStatus reads /status.json of the lighthouse at addr.
func fetchStatus(ctx context.Context, g *guard.Guard, addr string) ([]byte, error) {
	transport := &http.Transport{DisableKeepAlives: true} // it carries one request
	scheme := "http"
	if g.TLS != nil {
		scheme = "https"
		transport.DialTLSContext = g.TLS.DialContext(guard.Party{Role: guard.Lighthouse}, tlsTimeout)
	}
	base := addr
	if !strings.Contains(base, "://") {
		base = scheme + "://" + base
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("--lighthouse = %q, want host:port or a URL", addr)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.JoinPath("/status.json").String(), nil)
	if err != nil {
		return nil, fmt.Errorf("--lighthouse = %q, want host:port or a URL", addr)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, fmt.Errorf("lighthouse %s cannot be reached: %w", addr, networkCause(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("lighthouse %s answers %s%s", addr, resp.Status, reason(resp.Body))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxStatusBytes))
	if err != nil {
		return nil, fmt.Errorf("lighthouse %s broke off its answer: %w", addr, networkCause(err))
	}
	return body, nil
}

// reason is what an answer that is no status says of why, behind ": ".
func reason(body io.Reader) string {
	text, _ := io.ReadAll(io.LimitReader(body, maxReason)) // what came of it is said
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if line == "" {
		return ""
	}
	return ": " + line
}

// networkCause takes off what repeats the address and the URL.
func networkCause(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		err = e.Err
	}
	return err
}

func printStatus(w io.Writer, s lighthouse.Status) error {
	role := "knows no leader"
	switch {
	case s.Leads:
		role = fmt.Sprintf("leads in term %d", s.Term)
	case s.Leader != "":
		role = fmt.Sprintf("leads in term %d (the server that was asked follows)", s.Term)
	}
	fmt.Fprintf(w, "lighthouse %s %s, up %v, %s, cluster %s\n",
		printable.Line(s.Addr), role, time.Duration(s.UptimeMs)*time.Millisecond, cli.Plural(s.Sessions, "session"), printable.Line(s.Cluster))
	if s.OpenJoins {
		fmt.Fprintln(w, "joins are open: they need no token (--open-joins)")
	}
	if s.CertificateWarning != "" {
		fmt.Fprintln(w, printable.Line(s.CertificateWarning))
	}
	if len(s.Jobs) == 0 && role != "knows no leader" { // who does not lead knows none
		fmt.Fprintln(w, "no jobs")
	}
	for _, j := range s.Jobs {
		printJob(w, j)
	}
	return nil
}

func printJob(w io.Writer, j lighthouse.JobStatus) {
	fmt.Fprintf(w, "\njob %s: step %d, ", printable.Line(j.Job), j.MaxStep)
	switch {
	case j.QuorumID == 0:
		fmt.Fprint(w, "no quorum yet")
	case j.Stands:
		fmt.Fprintf(w, "quorum %d round %d stands, %s, %s", j.QuorumID, j.Round,
			cli.Plural(j.Members, "member"), cli.Plural(j.Participants, "participant"))
	default:
		fmt.Fprintf(w, "quorum %d fell: %s", j.QuorumID, printable.Line(j.FellBy))
	}
	fmt.Fprintln(w)
	if !j.Stands || j.Wanted != "" {
		fmt.Fprintf(w, "next: %s\n", printable.Line(j.Reason))
	}
	if j.Wanted != "" {
		fmt.Fprintf(w, "change wanted: %s\n", printable.Line(j.Wanted))
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "REPLICA\tSTATE\tPART\tSTEP\tPHASE\tSILENT\tWHY")
	for _, r := range j.Replicas {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%v\t%s\n", printable.Line(r.ReplicaID), printable.Line(r.State), partOf(r, j.QuorumID), r.Step,
			printable.Line(r.Phase), time.Duration(r.SilenceMs)*time.Millisecond, printable.Line(r.Why))
	}
	_ = t.Flush() // as any other write to w
}

// partOf is how a replica takes part in the last quorum. A member that was
// behind heals until it has committed a step in that quorum.
func partOf(r lighthouse.ReplicaStatus, quorumID int64) string {
	switch {
	case r.Heals && r.StepQuorum != quorumID:
		return "heals"
	case r.Participant:
		return "participant"
	case r.Member:
		return "spare"
	}
	return "-"
}
