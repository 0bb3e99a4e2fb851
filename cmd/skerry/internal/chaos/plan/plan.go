package plan

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Kind is a kind of fault.
type Kind string

// The kinds of fault.
const (
	Kill       Kind = "kill"       // a replica's process ends by SIGKILL
	Stop       Kind = "stop"       // a replica's process hangs for a while
	Rank       Kind = "rank"       // a process of a replica above rank 0 ends by SIGKILL
	Link       Kind = "link"       // the data connection between two replicas is cut
	Disk       Kind = "disk"       // a folder is full for a while
	Lighthouse Kind = "lighthouse" // the lighthouse has another leader
)

// Kinds are all of them.
func Kinds() []Kind { return []Kind{Kill, Stop, Rank, Link, Disk, Lighthouse} }

// Replica is what a plan needs to know of a replica.
type Replica struct {
	ID string
	// Trains says that it is a member whose gradients count.
	Trains bool
	// Busy says that a fault is under way with it.
	Busy bool
	// Local says that its process is on this host; Killable that it can be ended, here or
	// through its manager.
	Local, Killable bool
	// Ranks are those above 0 whose processes are on this host.
	Ranks []int
}

// World is the job's present state.
type World struct {
	Replicas    []Replica
	MinReplicas int
	// SuspectAfter is the silence from which a replica is suspect; LostAfter one for which
	// it is lost for certain.
	SuspectAfter, LostAfter time.Duration
	// Disk says that there is a folder to fill, which is not full already.
	Disk bool
	// Transfer says that the lighthouse's leadership can go to another server; KillLeader
	// that the leading server's process is on this host, and a majority of voters is there
	// without it.
	Transfer, KillLeader bool
}

// String is a fault in a few words.
func (f Fault) String() string {
	text := string(f.Kind)
	switch f.Kind {
	case Rank:
		text += fmt.Sprintf(" %d of %s", f.Rank, f.Victim)
	case Link:
		text += fmt.Sprintf(" %s – %s", f.Victim, f.Peer)
	case Lighthouse:
		text += " " + string(f.Leader)
	default:
		text = strings.TrimSpace(text + " " + f.Victim)
	}
	if f.For > 0 {
		text += fmt.Sprintf(" for %v", f.For.Round(time.Millisecond))
	}
	return text
}

// Plan is what a user wants.
type Plan struct {
	Seed     uint64
	Kinds    []Kind // at least one
	Every    time.Duration
	Hold     time.Duration // how long a disk is full, and the longest stop
	BelowMin bool
}

// Fault is one fault. The zero values of fields say that the kind has no such thing.
type Fault struct {
	Number int // from 1
	Kind   Kind
	Victim string        // replica
	Peer   string        // the other end of a link
	Rank   int           // of a process above rank 0
	For    time.Duration // how long a stop or a full disk lasts
	Leader Way           // how a leader goes
}

// Way is how the leader of a lighthouse goes.
type Way string

// The ways.
const (
	Transferred Way = "transfer"
	Killed      Way = "kill"
)

// marginOf is the share of Every by which a fault may come later than its time.
const marginOf = 8

// At is when a fault is due, from the beginning of the run. It is up to an eighth of
// Every late, by the seed: a step takes a whole number of seconds more often than by chance.
func (p Plan) At(number int) time.Duration {
	r := p.draws(number, 0)
	return time.Duration(number)*p.Every + time.Duration(r.Int64N(int64(p.Every/marginOf)+1))
}

// Count is how many faults are due before a moment of the run.
func (p Plan) Count(before time.Duration) int {
	n := int(before / p.Every)
	if n > 0 && p.At(n) >= before { // the one before it is due earlier for certain
		n--
	}
	return n
}

// Pass is the next fault at a moment of the run, from a number on: those whose time has passed
// by more than late are left out, so that none come in a burst.
func (p Plan) Pass(number int, now, late time.Duration) int {
	for p.At(number)+late < now {
		number++
	}
	return number
}

// draws are the random numbers of one fault. They depend on no other fault.
func (p Plan) draws(number, purpose int) *rand.Rand {
	return rand.New(rand.NewPCG(p.Seed, uint64(number)<<8|uint64(purpose)))
}

// Next is the fault of a number, in a world; or why there is none: one reason a kind.
func (p Plan) Next(number int, w World) (Fault, error) {
	slices.SortFunc(w.Replicas, func(a, b Replica) int { return cmp.Compare(a.ID, b.ID) })
	r := p.draws(number, 1)
	var can []Kind
	var reasons []string
	for _, k := range p.Kinds {
		if why := p.Refuses(k, w); why == "" {
			can = append(can, k)
		} else {
			reasons = append(reasons, fmt.Sprintf("%s: %s", k, why))
		}
	}
	if len(can) == 0 {
		return Fault{}, fmt.Errorf("%s", strings.Join(reasons, "; "))
	}
	f := Fault{Number: number, Kind: can[r.IntN(len(can))]}
	switch f.Kind {
	case Kill:
		f.Victim = pick(r, victims(w, killable)).ID
	case Stop:
		f.Victim = pick(r, victims(w, local)).ID
		f.For = p.stopFor(r, w)
	case Rank:
		v := pick(r, victims(w, hasRanks))
		f.Victim, f.Rank = v.ID, pick(r, v.Ranks)
	case Link:
		two := victims(w, local)
		r.Shuffle(len(two), func(i, j int) { two[i], two[j] = two[j], two[i] })
		f.Victim, f.Peer = two[0].ID, two[1].ID
	case Disk:
		f.For = p.Hold
	case Lighthouse:
		f.Leader = leaderWay(r, w)
	}
	return f, nil
}

// shortestPatience is a silence of which the data plane may take a replica for dead, whatever the
// lighthouse allows.
const shortestPatience = 500 * time.Millisecond

// stopFor is how long a stop lasts: half of them end before the replica is suspect, the
// others long after it is lost, where they may.
func (p Plan) stopFor(r *rand.Rand, w World) time.Duration {
	suspect := min(w.SuspectAfter, shortestPatience)
	brief := suspect/4 + time.Duration(r.Int64N(int64(suspect/2)+1))
	long := w.LostAfter*2 + time.Duration(r.Int64N(int64(w.LostAfter)+1))
	if r.IntN(2) == 0 || p.tooFew(w) != "" {
		return min(brief, p.Hold)
	}
	return min(long, p.Hold)
}

func leaderWay(r *rand.Rand, w World) Way {
	if w.KillLeader && (!w.Transfer || r.IntN(2) == 0) {
		return Killed
	}
	return Transferred
}

// Refuses says why a kind of fault may not come now, or "".
func (p Plan) Refuses(k Kind, w World) string {
	switch k {
	case Kill:
		return cmp.Or(noVictim(w, killable, 1, "no replica that trains can be killed, here or through its manager"), p.tooFew(w))
	case Stop: // a brief one costs no member
		return noVictim(w, local, 1, "no replica that trains has its process on this host")
	case Rank:
		return cmp.Or(noVictim(w, hasRanks, 1, "no replica that trains has processes above rank 0 on this host"), p.tooFew(w))
	case Link:
		return cmp.Or(noVictim(w, local, 2, "no two replicas that train have their processes on this host"), p.tooFew(w))
	case Disk:
		if !w.Disk {
			return "there is no folder to fill, or it is full"
		}
	case Lighthouse:
		if !w.Transfer && !w.KillLeader {
			return "no other server of the lighthouse can lead"
		}
	default:
		return "there is no such fault"
	}
	return ""
}

// tooFew says why no member may be lost now, or "".
func (p Plan) tooFew(w World) string {
	trains := len(victims(w, func(Replica) bool { return true }))
	switch {
	case trains == 0:
		return "no replica trains"
	case trains == 1:
		return "one replica trains, and holds the only copy of the state"
	case trains <= w.MinReplicas && !p.BelowMin:
		return fmt.Sprintf("%d replicas train, and min_replicas is %d", trains, w.MinReplicas)
	}
	return ""
}

func noVictim(w World, can func(Replica) bool, want int, why string) string {
	if len(victims(w, can)) < want {
		return why
	}
	return ""
}

// victims are the replicas that train, with which no fault is under way, and that can be
// hit in some way.
func victims(w World, can func(Replica) bool) []Replica {
	return slices.DeleteFunc(slices.Clone(w.Replicas), func(r Replica) bool { return !r.Trains || r.Busy || !can(r) })
}

func killable(r Replica) bool { return r.Killable }

func local(r Replica) bool { return r.Local }

func hasRanks(r Replica) bool { return len(r.Ranks) > 0 }

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }
