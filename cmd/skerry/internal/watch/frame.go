package watch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/internal/connect"
	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/lighthouse/api"
)

// staleAfter is for how long an answer is as good as new.
const staleAfter = 5 * time.Second

// leastOfJob are the rows of a job of which nothing but its head fits: a gap, the head,
// and how much more there is.
const leastOfJob = 3

// frame is the picture in no more than that many rows: what is wrong comes first, and
// what does not fit is counted.
func (s *seen) frame(now time.Time, rows int, wide bool) []line {
	head := s.header(now)
	if s.at.IsZero() {
		return head
	}
	var bodies [][]line // of each job: its lines, and then its replicas
	for _, j := range s.status.Jobs {
		bodies = append(bodies, s.job(j, now, wide))
	}
	left := rows - len(head) - 1 // for the last line
	all := head
	for i, body := range bodies {
		// What the jobs after this one need at the least is kept for them.
		share := left - leastOfJob*(len(bodies)-1-i)
		if share < leastOfJob {
			all = append(all, plain(fmt.Sprintf("… and %s", cli.Plural(len(bodies)-i, "more job"))))
			break
		}
		shown := body
		if len(body) > share {
			shown = append(slices.Clone(body[:share-1]), plain(fmt.Sprintf("  … and %d more", len(body)-share+1)))
		}
		all = append(all, shown...)
		left -= len(shown)
	}
	if len(s.status.Jobs) == 0 && !connect.Leaderless(s.status.Leads, s.status.Leader) {
		all = append(all, plain(""), plain("no jobs"))
	}
	return all[:min(len(all), rows)]
}

// header is which lighthouse this is, and whether it answers.
func (s *seen) header(now time.Time) []line {
	if s.at.IsZero() {
		text := "asking the lighthouse…"
		if s.err != nil {
			return []line{plain(text), {{printable.Line(cli.Plain(s.err.Error())), bad}}}
		}
		return []line{plain(text)}
	}
	st := s.status
	what := fmt.Sprintf("  leads in term %d", st.Term)
	how := normal
	if connect.Leaderless(st.Leads, st.Leader) {
		what, how = "  no server leads: quorums that stand go on, and none changes", bad
	}
	all := []line{{
		{"lighthouse " + printable.Line(st.Addr), bold}, {what, how},
		{fmt.Sprintf("  %s, %s, up %v", cli.Plural(max(len(st.Servers), 1), "server"), cli.Plural(int(st.Sessions), "session"),
			span(st.UptimeMs).Truncate(time.Second)), dim},
		{"  " + s.at.Format(time.TimeOnly), dim},
	}}
	if age := now.Sub(s.at); s.err != nil && age > 0 {
		all = append(all, line{{fmt.Sprintf("as of %v ago: %s", age.Truncate(time.Second), printable.Line(cli.Plain(s.err.Error()))), bad}})
	} else if age > staleAfter {
		all = append(all, line{{fmt.Sprintf("as of %v ago", age.Truncate(time.Second)), warn}})
	}
	if st.CertificateWarning != "" {
		all = append(all, line{{printable.Line(st.CertificateWarning), warn}})
	}
	return all
}

func span(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// job is a job's lines: how it is, its members over time, what comes next, what changed
// last, and its replicas, those first with which something is wrong.
func (s *seen) job(j api.Job, now time.Time, wide bool) []line {
	state, how := jobState(j)
	facts := "  " + Step(j)
	if rate, ok := s.rate(j.Job); ok && j.StepRate == 0 {
		facts += fmt.Sprintf(" · %.1f steps/s", rate)
	} else if j.StepRate > 0 {
		facts += fmt.Sprintf(" · %.1f steps/s", j.StepRate)
	}
	if j.Goodput > 0 {
		facts += fmt.Sprintf(" · goodput %.1f %%", 100*j.Goodput)
	}
	if left := Left(j); left != "" {
		facts += " · " + left
	}
	if j.QuorumID != 0 {
		facts += fmt.Sprintf(" · %d of %s take part", j.Participants, cli.Plural(j.Members, "member"))
	}
	all := []line{plain(""), {{"job " + printable.Line(j.Job), bold}, {"  " + state, how}, {facts, normal}}}
	if history := s.overTime(j); history != nil {
		all = append(all, history)
	}
	if !j.Stands && j.FellBy != "" {
		all = append(all, line{{"  fell: " + Called(j.FellBy, wide), bad}})
	}
	if !j.Stands || j.Wanted != "" {
		all = append(all, line{{"  next: " + Called(cmp.Or(j.Wanted, j.Reason), wide), warn}})
	}
	if wanted := WantedReplicas(j); wanted != "" {
		all = append(all, plain("  replicas wanted: "+wanted))
	}
	if e, ok := s.changes[j.Job]; ok {
		text := fmt.Sprintf("  last change %v ago · %s", now.Sub(time.UnixMilli(e.AtMs)).Truncate(time.Second), Told(e, wide))
		all = append(all, line{{text, dim}})
	}
	return append(all, replicas(j, wide)...)
}

// jobState is how a job is, in a word or two: the lighthouse's, or, of a build of before,
// what its quorum says.
func jobState(j api.Job) (string, style) {
	if j.State != "" {
		how, known := map[string]style{"training": good, "finished": good, "reforming": warn, "waiting": bad, "idle": dim}[j.State]
		if !known {
			how = warn
		}
		return printable.Line(j.State), how
	}
	switch {
	case j.QuorumID == 0:
		return "no quorum yet", warn
	case j.Stands && j.Wanted != "":
		return "about to change", warn
	case j.Stands:
		return "quorum stands", good
	}
	return "no quorum", bad
}

// overTime is the job's members since the watch began, one bar an answer.
func (s *seen) overTime(j api.Job) line {
	samples := s.jobs[j.Job]
	if len(samples) < 2 {
		return nil
	}
	most := 1
	values := make([]int, len(samples))
	for i, one := range samples {
		values[i] = one.members
		most = max(most, one.members)
	}
	const columns = 60
	values = values[max(len(values)-columns, 0):]
	since := samples[len(samples)-1].at.Sub(samples[len(samples)-len(values)].at)
	return line{
		{fmt.Sprintf("  members %d ", values[len(values)-1]), normal}, {bars(values, most, columns), good},
		{fmt.Sprintf("  %v, at most %d", since.Round(time.Second), most), dim},
	}
}

// replicas are a table, those first with which something is wrong.
func replicas(j api.Job, wide bool) []line {
	all, here := slices.Clone(j.Replicas), Here(j.Replicas)
	slices.SortStableFunc(all, func(a, b api.Replica) int {
		return cmp.Or(cmp.Compare(severity(b, here), severity(a, here)), natural(a.ReplicaID, b.ReplicaID))
	})
	rows := [][]string{{"REPLICA", "STATE", "STEP", "OWN TIME", "WAITS", "PHASE", "SILENT", "WHY"}}
	for _, r := range all {
		id := r.ReplicaID
		if !wide {
			id = connect.Short(id)
		}
		rows = append(rows, []string{printable.Line(id), printable.Line(r.State), fmt.Sprint(r.Step), Took(r.StepMs), Took(r.WaitMs),
			printable.Line(r.Phase), span(r.SilenceMs).String(), why(r, wide)})
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	table := make([]line, len(rows))
	for i, row := range rows {
		l := line{{"  ", normal}}
		for k, cell := range row {
			how := normal
			switch {
			case i == 0:
				how = dim
			case k == 1:
				how = stateStyle(all[i-1])
			}
			l = append(l, piece{pad(cell, widths[k]+2), how})
		}
		table[i] = l
	}
	return table
}

// severity is how bad a replica's state is: one that went, and whose name another has
// by now, is the least of all.
func severity(r api.Replica, here map[string]bool) int {
	if Gone(r.State) && here[name(r.ReplicaID)] {
		return -1
	}
	switch stateStyle(r) {
	case bad:
		return 2
	case warn:
		return 1
	}
	return 0
}

// stateStyle is how a replica's state is shown.
func stateStyle(r api.Replica) style {
	switch r.State {
	case "live":
		return good
	case "suspect", "lost", "stuck", "evicted", "refused":
		return bad
	case "left", "drained":
		return dim
	}
	return warn
}

// natural has replica-2 before replica-10.
func natural(a, b string) int {
	for a != "" && b != "" {
		an, bn := digits(a), digits(b)
		if an > 0 && bn > 0 {
			x, y := strings.TrimLeft(a[:an], "0"), strings.TrimLeft(b[:bn], "0")
			if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
				return c
			}
			a, b = a[an:], b[bn:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// digits is how many a text begins with.
func digits(s string) int {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return i
		}
	}
	return len(s)
}

// why is why a replica is as it is: its heal's progress, that the others wait for it, or
// what became of it.
func why(r api.Replica, wide bool) string {
	switch {
	case r.Heal != nil && r.Heal.TotalBytes > 0:
		return fmt.Sprintf("%d of %d MiB", r.Heal.Bytes>>20, r.Heal.TotalBytes>>20)
	case r.Straggler && r.Why == "":
		return "the others wait for it"
	}
	return Called(r.Why, wide)
}
