package dist

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/store"
)

// How ranks agree on the life that a store is used for. One store may serve
// several in turn: Init, Destroy, Init again, perhaps with other processes. Each
// rank but 0 asks under a number of its own; rank 0 answers with the name of
// its life, which is drawn at random, and stops when all are there. What was
// asked too early, or too late, is left for rank 0 of the next life.
const (
	keyJoins  = "skerry/init/joins"   // counts questions
	keyServed = "skerry/init/served"  // counts answers
	keyWant   = "skerry/init/want/"   // + number: "nonce rank world size"
	keyAnswer = "skerry/init/answer/" // + nonce: the life, or "!" and why not
	keyIn     = "skerry/init/in/"     // + life + "/" + rank: it is configured
)

// life is one use of a store.
type life struct {
	name  string
	store store.Store
	rank  int
	size  int

	cancel  context.CancelFunc
	serving errgroup.Group
}

// joinLife finds out which life this rank is to be part of.
func joinLife(ctx context.Context, st store.Store, rank, size int) (*life, error) {
	l := &life{store: st, rank: rank, size: size, cancel: func() {}}
	if rank == 0 {
		l.name = strings.ToLower(rand.Text()[:16])
		if size > 1 {
			serve, cancel := context.WithCancel(ctx)
			l.cancel = cancel
			l.serving.Go(func() error { return l.serve(serve) })
		}
		return l, nil
	}
	nonce := rand.Text()
	n, err := st.Add(ctx, keyJoins, 1)
	if err == nil {
		err = st.Set(ctx, fmt.Sprint(keyWant, n), fmt.Appendf(nil, "%s %d %d", nonce, rank, size))
	}
	if err != nil {
		return nil, fmt.Errorf("ask rank 0: %w", err)
	}
	answer, err := st.Get(ctx, keyAnswer+nonce)
	if err != nil {
		return nil, fmt.Errorf("wait for rank 0: %w", err)
	}
	if why, refused := strings.CutPrefix(string(answer), "!"); refused {
		return nil, fmt.Errorf("%w: rank 0 says: %s", pg.ErrMismatch, why)
	}
	l.name = string(answer)
	return l, nil
}

// serve answers until ctx ends or a rank asks that is in already.
func (l *life) serve(ctx context.Context) error {
	for {
		served, err := l.store.Add(ctx, keyServed, 0)
		if err != nil {
			return l.unlessOver(ctx, err)
		}
		key := fmt.Sprint(keyWant, served+1)
		want, err := l.store.Get(ctx, key)
		if err != nil {
			return l.unlessOver(ctx, err)
		}
		nonce, answer, next := l.answer(ctx, string(want))
		if next {
			return nil
		}
		if err := l.store.Set(ctx, keyAnswer+nonce, []byte(answer)); err != nil {
			return l.unlessOver(ctx, err)
		}
		if _, err := l.store.Add(ctx, keyServed, 1); err != nil {
			return l.unlessOver(ctx, err)
		}
		_, _ = l.store.Delete(ctx, key) // files cannot; it is only waste
	}
}

func (l *life) unlessOver(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("answer the other ranks: %w", err)
}

// answer is what to tell a rank; next means that it asks for the next life.
func (l *life) answer(ctx context.Context, want string) (nonce, answer string, next bool) {
	var rank, size int
	if n, err := fmt.Sscanf(want, "%s %d %d", &nonce, &rank, &size); n != 3 || err != nil {
		return nonce, fmt.Sprintf("!%q is no question", want), false
	}
	switch {
	case size != l.size:
		return nonce, fmt.Sprintf("!rank %d says the world size is %d, rank 0 says %d", rank, size, l.size), false
	case rank < 1 || rank >= l.size:
		return nonce, fmt.Sprintf("!rank is %d, want 1 to %d", rank, l.size-1), false
	}
	if in, err := l.store.Check(ctx, l.inKey(rank)); err == nil && in {
		return nonce, "", true
	}
	return nonce, l.name, false
}

func (l *life) inKey(rank int) string { return fmt.Sprintf("%s%s/%d", keyIn, l.name, rank) }

// begun tells that this rank is configured, and ends serving.
func (l *life) begun(ctx context.Context) error {
	if l.rank == 0 {
		l.cancel()
		return l.serving.Wait()
	}
	if err := l.store.Set(ctx, l.inKey(l.rank), nil); err != nil {
		return fmt.Errorf("tell rank 0: %w", err)
	}
	return nil
}

// failed ends serving; err is why Init fails.
func (l *life) failed(err error) error {
	l.cancel()
	return errors.Join(err, l.serving.Wait())
}
