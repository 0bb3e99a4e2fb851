package feed

import (
	"slices"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/lighthouse/api"
)

// maxRefused bounds the refused joins that are shown.
const maxRefused = 32

// Refusals are the newest refused joins, each reason of a replica once. The zero
// value is ready, and safe for concurrent use.
type Refusals struct {
	mu  sync.Mutex
	all []api.RefusedJoin // newest last
}

// Note keeps a refusal.
func (r *Refusals) Note(now time.Time, id, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := api.RefusedJoin{ReplicaID: id, Reason: reason}
	if at := slices.IndexFunc(r.all, func(o api.RefusedJoin) bool { return o.ReplicaID == id && o.Reason == reason }); at >= 0 {
		one.Times = r.all[at].Times
		r.all = slices.Delete(r.all, at, at+1)
	}
	one.AtMs = now.UnixMilli()
	one.Times++
	r.all = append(r.all, one)
	r.all = r.all[max(len(r.all)-maxRefused, 0):]
}

// List returns them, newest first.
func (r *Refusals) List() []api.RefusedJoin {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Clone(r.all)
	slices.Reverse(all)
	return all
}
