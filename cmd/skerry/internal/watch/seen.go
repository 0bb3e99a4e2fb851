package watch

import (
	"time"

	"github.com/skerry-ft/skerry/lighthouse/api"
)

// The bounds of what is remembered of each job.
const (
	rateOver   = 10 * time.Second // the step rate is over so long
	maxSamples = 512              // of a job; more than a terminal has columns
)

// sample is a job at one moment.
type sample struct {
	at      time.Time
	step    int64
	members int // that take part in a quorum that stands
}

// seen is what was seen so far. It is owned by one goroutine.
type seen struct {
	status api.Overview
	at     time.Time // of the last answer; zero: none yet
	err    error     // what came instead of the next one
	jobs   map[string][]sample

	changes map[string]api.Event // each job's last
}

// take remembers an answer, or that there was none.
func (s *seen) take(now time.Time, st api.Overview, err error) {
	s.err = err
	if err != nil {
		return
	}
	before := s.jobs
	s.status, s.at, s.jobs = st, now, make(map[string][]sample, len(st.Jobs))
	for _, j := range st.Jobs { // a job that is gone is forgotten
		one := sample{at: now, step: j.MaxStep}
		if j.Stands {
			one.members = j.Members
		}
		all := append(before[j.Job], one)
		s.jobs[j.Job] = all[max(len(all)-maxSamples, 0):]
	}
}

// rate is a job's steps a second of late; false: not known yet.
func (s *seen) rate(job string) (float64, bool) {
	all := s.jobs[job]
	if len(all) < 2 {
		return 0, false
	}
	last := all[len(all)-1]
	first := last
	for i := len(all) - 2; i >= 0 && last.at.Sub(all[i].at) <= rateOver; i-- {
		first = all[i]
	}
	took := last.at.Sub(first.at).Seconds()
	if took <= 0 || last.step < first.step {
		return 0, false
	}
	return float64(last.step-first.step) / took, true
}

// tell remembers each job's last change.
func (s *seen) tell(changes []api.Event) {
	if changes == nil {
		return
	}
	s.changes = make(map[string]api.Event)
	for _, e := range changes {
		s.changes[e.Job] = e
	}
}
