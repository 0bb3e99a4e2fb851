package reach

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// way is a fake way to a host: what becomes of each try, in order.
type way struct {
	mu    sync.Mutex
	tries int
	calls []func(ctx context.Context) (net.Conn, error)
	made  []net.Conn // the far ends of the connections
}

func (w *way) dial(ctx context.Context) (net.Conn, error) {
	w.mu.Lock()
	w.tries++
	call := w.calls[min(w.tries, len(w.calls))-1]
	w.mu.Unlock()
	return call(ctx)
}

func silent(ctx context.Context) (net.Conn, error) {
	<-ctx.Done()
	return nil, &net.OpError{Op: "dial", Err: ctx.Err()}
}

func refused(context.Context) (net.Conn, error) {
	return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
}

func (w *way) answers(after time.Duration) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		<-time.After(after)
		near, far := net.Pipe()
		w.mu.Lock()
		w.made = append(w.made, far)
		w.mu.Unlock()
		return near, nil
	}
}

// TestOutOfReach: a host that does not answer is out of reach after the
// limit, and is tried all the while.
func TestOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := way{calls: []func(context.Context) (net.Conn, error){silent}}
		began := time.Now()
		c, err := Dial(t.Context(), time.Second, w.dial)
		_, dialled := errors.AsType[*net.OpError](err)
		if c != nil || !errors.Is(err, ErrUnreachable) || dialled || time.Since(began) != time.Second || w.tries != maxTries {
			t.Errorf("%v, %v after %v and %d tries; want ErrUnreachable after 1s and %d", c, err, time.Since(began), w.tries, maxTries)
		}
	})
}

// TestMended: a try that is lost holds up none that comes after it, so a
// link that is mended is found soon; of two that succeed one is closed.
func TestMended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w way
		w.calls = []func(context.Context) (net.Conn, error){silent, silent, w.answers(300 * time.Millisecond), w.answers(50 * time.Millisecond)}
		began := time.Now()
		c, err := Dial(t.Context(), time.Second, w.dial)
		if err != nil || time.Since(began) != 800*time.Millisecond {
			t.Fatalf("%v after %v, want a connection after 800ms", err, time.Since(began))
		}
		synctest.Wait()
		closed := 0
		for _, far := range w.made {
			far.SetReadDeadline(time.Now().Add(time.Millisecond)) //nolint:errcheck // a pipe's
			var ne net.Error
			if _, err := far.Read(make([]byte, 1)); !errors.As(err, &ne) {
				closed++
			}
		}
		if len(w.made) != 2 || closed != 1 {
			t.Errorf("%d connections were made, %d of them closed; want 2 and 1", len(w.made), closed)
		}
		c.Close()
	})
}

// TestRefused: an answer that is no connection comes back at once.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := way{calls: []func(context.Context) (net.Conn, error){silent, refused}}
		_, err := Dial(t.Context(), time.Second, w.dial)
		if !errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, ErrUnreachable) || w.tries != 2 {
			t.Errorf("%v after %d tries, want refused after 2", err, w.tries)
		}
	})
}

// TestLateClock: a process whose own clock is late says of no host that it is
// out of reach, before it has tried again.
func TestLateClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w way
		stopped := func(ctx context.Context) (net.Conn, error) {
			<-time.After(5 * time.Second) // nothing of this process ran
			return silent(ctx)
		}
		w.calls = []func(context.Context) (net.Conn, error){stopped, stopped, stopped, stopped, w.answers(0)}
		c, err := Dial(t.Context(), time.Second, w.dial)
		if err != nil {
			t.Fatalf("%v, want a connection at the second look", err)
		}
		c.Close()
	})
}

// dozing is a ctx at whose first look this process stands still for a while.
type dozing struct {
	context.Context

	doze func()
}

// Deadline implements context.Context.
func (d dozing) Deadline() (time.Time, bool) {
	d.doze()
	return d.Context.Deadline()
}

// TestLateTries: the same where the clock is hardly late: it stood still until the limit,
// and no connection was tried in time.
func TestLateTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := way{calls: []func(context.Context) (net.Conn, error){silent}}
		w.calls = append(w.calls, w.answers(0))
		doze := sync.OnceFunc(func() { <-time.After(time.Second + 10*time.Millisecond) })
		c, err := Dial(dozing{t.Context(), doze}, time.Second, w.dial)
		if err != nil {
			t.Fatalf("%v, want a connection at the second look", err)
		}
		c.Close()
	})
}

// TestCancelled: a call whose context ends does not say that the host is out of reach.
func TestCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		w := way{calls: []func(context.Context) (net.Conn, error){silent}}
		if _, err := Dial(ctx, time.Second, w.dial); err == nil || errors.Is(err, ErrUnreachable) {
			t.Errorf("%v, want an error that is not ErrUnreachable", err)
		}
	})
}

// TestCalledOffAfterTheLimit: that a host gave no answer within the limit stays true where
// the caller gives up a moment later, and before it hears of it.
func TestCalledOffAfterTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second+10*time.Millisecond, cancel)
		slow := func(ctx context.Context) (net.Conn, error) {
			c, err := silent(ctx)
			<-time.After(20 * time.Millisecond)
			return c, err
		}
		w := way{calls: []func(context.Context) (net.Conn, error){slow, slow, slow, slow}}
		if _, err := Dial(ctx, time.Second, w.dial); !errors.Is(err, ErrUnreachable) {
			t.Errorf("%v, want ErrUnreachable", err)
		}
	})
}

// A dialler whose timer is before its ctx's says that its time is over while ctx has not
// ended yet: that is the caller's deadline, and says nothing of the host.
func TestCallersDeadlineSeenFirstByTheDialler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		deadline, _ := ctx.Deadline()
		_, err := Dial(unended{ctx}, time.Second, func(context.Context) (net.Conn, error) {
			<-time.After(time.Until(deadline))
			return nil, os.ErrDeadlineExceeded
		})
		if errors.Is(err, ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial until the caller's deadline: %v, want that deadline", err)
		}
	})
}

// unended is a ctx that has not noticed its deadline.
type unended struct{ context.Context }

func (unended) Done() <-chan struct{} { return nil }
func (unended) Err() error            { return nil }
