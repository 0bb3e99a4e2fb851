package capi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/internal/monitor"
)

// WishKind is what a Manager may want of the program around it. Nothing calls back: threads of
// that program wait, each for one kind.
type WishKind int64

// The kinds. Their numbers do not change.
const (
	WishGroup WishKind = iota + 1 // make a group beside the Manager's own, see outside
	WishEnd                       // end that group: its epoch is over. Wants no answer
	WishState                     // tell what a part of the state is: somebody wants to read it
)

// wish is one of a Manager, as the program hears it.
type wish struct {
	ID    int64      `json:"id"`
	Part  string     `json:"part,omitempty"`
	Group *groupWish `json:"group,omitempty"`
}

// groupWish is the group that is wanted, or over.
type groupWish struct {
	Cluster  string `json:"cluster"`
	QuorumID int64  `json:"quorum_id"`
	Rank     int    `json:"rank"`
	Size     int    `json:"size"`
	Store    int64  `json:"store"` // the handle of a store of this epoch's own, which is closed as it ends
}

// errWishesOver is of wishes of a Manager that is closed.
var errWishesOver = errors.New("the manager is closed")

// wishes are those that the program has not heard, and those that it has yet to grant.
type wishes struct {
	mu struct {
		monitor.Monitor

		last    int64
		unheard map[WishKind][]wish
		asked   map[int64]chan error // capacity 1
		over    bool
	}
}

func newWishes() *wishes {
	w := &wishes{}
	w.mu.unheard = make(map[WishKind][]wish)
	w.mu.asked = make(map[int64]chan error)
	return w
}

// tell puts up a wish that wants no answer.
func (w *wishes) tell(kind WishKind, x wish) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.putLocked(kind, x)
}

func (w *wishes) putLocked(kind WishKind, x wish) int64 {
	w.mu.last++
	x.ID = w.mu.last
	w.mu.unheard[kind] = append(w.mu.unheard[kind], x)
	w.mu.Broadcast()
	return x.ID
}

// ask puts up a wish and waits until it is granted, refused, or broken off: then the program may
// still hear of it, and what it answers is nobody's.
func (w *wishes) ask(ctx context.Context, kind WishKind, x wish, brokenOff <-chan struct{}) error {
	answer := make(chan error, 1)
	w.mu.Lock()
	if w.mu.over {
		w.mu.Unlock()
		return errWishesOver
	}
	id := w.putLocked(kind, x)
	w.mu.asked[id] = answer
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.mu.asked, id)
	}()
	select {
	case err := <-answer:
		return err
	case <-brokenOff:
		return errBrokenOff
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errBrokenOff is of a wish that nobody has any more.
var errBrokenOff = errors.New("broken off")

// next is the oldest wish of a kind, which is waited for, for timeout at most; ok is false
// without.
func (w *wishes) next(kind WishKind, timeout time.Duration) (x wish, ok bool, err error) {
	look := func() bool {
		if all := w.mu.unheard[kind]; len(all) > 0 {
			x, ok = all[0], true
			w.mu.unheard[kind] = all[1:]
		}
		return ok || w.mu.over
	}
	if timeout <= 0 {
		timeout = time.Nanosecond
	}
	if w.mu.Await(context.Background(), timeout, look) == nil && !ok {
		return x, false, errWishesOver
	}
	return x, ok, nil
}

// grant answers a wish; one that nobody waits for any more is left alone.
func (w *wishes) grant(id int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if answer, ok := w.mu.asked[id]; ok {
		answer <- err
		delete(w.mu.asked, id)
	}
}

// close refuses all wishes from now on.
func (w *wishes) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.over = true
	for id, answer := range w.mu.asked {
		answer <- errWishesOver
		delete(w.mu.asked, id)
	}
	w.mu.Broadcast()
}

// Wish waits until a Manager has a wish of a kind, for timeout at most, and gives it as JSON; "":
// it has none. An error says that there will be none any more.
func (l *Library) Wish(h int64, kind WishKind, timeout time.Duration) (string, error) {
	t, err := get[*trainer](l.t, h)
	if err != nil {
		return "", err
	}
	if kind < WishGroup || kind > WishState {
		return "", invalid("wish = %d, want %d to %d", kind, WishGroup, WishState)
	}
	x, ok, err := t.wishes.next(kind, timeout)
	if err != nil || !ok {
		return "", err
	}
	return text(x)
}

// Grant answers a wish; why, if there is one, refuses it.
func (l *Library) Grant(h, id int64, why string) error {
	t, err := get[*trainer](l.t, h)
	if err != nil {
		return err
	}
	if why != "" {
		err = fmt.Errorf("refused by the program: %s", why)
	}
	t.wishes.grant(id, err)
	return nil
}
