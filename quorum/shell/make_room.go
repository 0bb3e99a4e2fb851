package shell

import (
	"cmp"
	"slices"
)

// maxInvented bounds the jobs without a quorum that were named by clients that proved
// nothing. Each costs some 45 KiB with its session.
const maxInvented = 256

// Founder is the client that named a job first.
type Founder struct {
	Host  string
	Known bool // it proved who it is
}

// NamedJob is a job of a server, as far as it may have to make room for another.
type NamedJob struct {
	Name    string
	Began   int64 // Unix milliseconds, by the server's clock
	Formed  bool  // it has come to a quorum
	Founder Founder
}

// MakeRoom says whether a server of at most so many jobs takes one more, named by a
// founder, and which job it gives up for that; "": none.
//
// A job that came to a quorum is never given up, nor is one of a known founder for an
// unknown one. Of the others one of the host that has most of them goes, so that a client
// which makes up names takes the place of its own (L1); of these the oldest. Of a full server,
// where one job trains:
//
//	a and b of one unknown host, c of another    the older of a and b goes, for a known founder
//	                                             and an unknown one alike
//	p of a known founder, c of an unknown one    c goes, likewise
//	p of a known founder alone                   p goes for a known one; no room for an unknown one
func MakeRoom(jobs []NamedJob, by Founder, most int) (old string, room bool) {
	// First what may go at all. Only those are counted by host: one whose jobs train has not the
	// most of what can be given up.
	invented := 0
	var may []NamedJob
	of := make(map[string]int) // by host
	for _, j := range jobs {
		// Replicas train there; or a stranger would put out one who proved who it is.
		if j.Formed || j.Founder.Known && !by.Known {
			continue
		}
		if !j.Founder.Known {
			invented++
		}
		may = append(may, j)
		of[j.Founder.Host]++
	}
	full := len(jobs) >= most
	switch {
	// Strangers' jobs are bounded below the server's, so that there is room for those who prove
	// who they are.
	case !full && (by.Known || invented < maxInvented):
		return "", true
	// All the others train, or are of founders that proved who they are.
	case len(may) == 0:
		return "", !full
	}
	return slices.MinFunc(may, func(a, b NamedJob) int {
		// Of a known founder only for a known one, and only where no stranger's is left.
		if a.Founder.Known != b.Founder.Known {
			if a.Founder.Known {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(of[b.Founder.Host], of[a.Founder.Host]), cmp.Compare(a.Began, b.Began), cmp.Compare(a.Name, b.Name))
	}).Name, true
}
