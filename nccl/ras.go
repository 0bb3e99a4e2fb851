package nccl

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// DefaultRASAddress is where the library's RAS service listens, unless
// NCCL_RAS_ADDR says otherwise.
const DefaultRASAddress = "localhost:28028"

// Bounds of what RAS is asked.
const (
	rasLead       = 2 * time.Second        // before a deadline, or half of an op's time
	rasGrace      = 200 * time.Millisecond // the abort waits so long after an error of the library
	maxRASBytes   = 64 << 10               // of its answer
	maxRASInError = 2 << 10                // of that in an error
	maxRASLine    = 1 << 10                // of the handshake
)

// RASFromEnv is where to ask RAS: NCCL_RAS_ADDR, or DefaultRASAddress, or nothing
// if NCCL_RAS_ENABLE is 0.
func RASFromEnv() string {
	if os.Getenv("NCCL_RAS_ENABLE") == "0" {
		return ""
	}
	return cmp.Or(os.Getenv("NCCL_RAS_ADDR"), DefaultRASAddress)
}

// AskRAS asks the RAS service of a job of NCCL 2.24 or later how the job is: its
// communicators, and the ranks that are missing, late or in error. It ends with
// ctx; what came until then, at most 64 KiB, is returned beside the error.
//
// Source: NVIDIA's NCCL user guide, "RAS", and the protocol of its ncclras
// client: lines of text; the answer ends with the connection.
func AskRAS(ctx context.Context, address string) (string, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return "", fmt.Errorf("ask RAS: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) }) //nolint:errcheck // it is being closed
	defer stop()
	text, err := askRAS(ctx, conn)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		err = fmt.Errorf("ask RAS at %s: %w", address, err)
	}
	return text, err
}

func askRAS(ctx context.Context, conn net.Conn) (string, error) {
	r := bufio.NewReaderSize(conn, maxRASLine)
	say := func(line, want string) error {
		if _, err := io.WriteString(conn, line+"\n"); err != nil {
			return err
		}
		got, err := r.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("after %q: %w", line, err)
		}
		if !strings.HasPrefix(strings.ToUpper(string(got)), want) {
			return fmt.Errorf("answer to %q is %.80q, want %q", line, got, want)
		}
		return nil
	}
	if err := say("CLIENT PROTOCOL 2", "SERVER PROTOCOL "); err != nil {
		return "", err
	}
	seconds := 1 // that the service waits for other processes; 0 would be for ever
	if deadline, ok := ctx.Deadline(); ok {
		seconds = max(seconds, int(time.Until(deadline)/time.Second))
	}
	if err := say("TIMEOUT "+strconv.Itoa(seconds), "OK"); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, "VERBOSE STATUS\n"); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxRASBytes))
	return strings.ToValidUTF8(string(text), "?"), err
}

// An inquiry is what RAS says of one epoch, asked once.
type inquiry struct {
	done chan struct{} // closed once text and err are there; nil: not asked
	text string
	err  error
}

// inquire asks RAS, if it was not asked for this epoch yet and can be.
func (e *engine) inquire(limit time.Duration) {
	if e.opt.RAS == "" || !e.opt.Library.Has(RAS) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.ras.done != nil || e.ctx.Err() != nil {
		return
	}
	done := make(chan struct{})
	e.mu.ras.done = done
	e.listening.Go(func() { // under the lock: tidy waits for none that comes later
		ctx, cancel := context.WithTimeout(e.ctx, limit)
		defer cancel()
		text, err := AskRAS(ctx, e.opt.RAS)
		e.mu.Lock()
		e.mu.ras.text, e.mu.ras.err = text, err
		e.mu.Unlock()
		close(done)
	})
}

// inquireBefore asks RAS when an op may miss its deadline: at the deadline itself
// nobody has the time any more.
func (e *engine) inquireBefore(now time.Time) {
	if e.opt.RAS == "" {
		return
	}
	e.mu.Lock()
	var left time.Duration
	late := false
	for _, t := range e.mu.flying {
		left = t.deadline.Sub(now)
		if late = left < min(rasLead, t.deadline.Sub(t.began)/2); late {
			break
		}
	}
	e.mu.Unlock()
	if late {
		e.inquire(max(left-deadlineEvery, deadlineEvery))
	}
}

// inquireAfter asks RAS if cause is an error of the library. It does not wait.
func (e *engine) inquireAfter(cause error) {
	if _, ok := errors.AsType[*ResultError](cause); ok {
		e.inquire(rasGrace)
	}
}

// heardRAS waits a moment for the answer, if RAS was asked: the abort ends what it
// knows.
func (e *engine) heardRAS() {
	e.mu.Lock()
	done := e.mu.ras.done
	e.mu.Unlock()
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-time.After(rasGrace):
	}
}

// rasSays is RAS's answer, if it came.
func (e *engine) rasSays() (text string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.ras.text, e.mu.ras.err
}

// withRAS adds to a cause what RAS says.
func (e *engine) withRAS(cause error) error {
	text, _ := e.rasSays()
	if text == "" {
		return cause
	}
	return fmt.Errorf("%w; RAS says: %s", cause, text[:min(len(text), maxRASInError)])
}

// Attachments implements trace.Attacher: what RAS said when the group broke, and the
// end of the library's own log (NCCL_DEBUG_FILE), for the flight recorder.
func (b *Backend) Attachments() map[string]string {
	all := make(map[string]string)
	if e, err := b.current(); err == nil {
		e.heardRAS()
		text, err := e.rasSays()
		if err != nil {
			text += "\n" + err.Error()
		}
		if text != "" {
			all["nccl-ras"] = text
		}
	}
	if text := tail(b.opt.DebugFile); text != "" {
		all["nccl-debug"] = text
	}
	return all
}

// maxDebugBytes bounds what is attached of the library's log.
const maxDebugBytes = 64 << 10

// DebugFileFromEnv is where the library of this process logs: NCCL_DEBUG_FILE,
// with the host's name for %h and the process id for %p. Source: NVIDIA's NCCL
// user guide, "Environment Variables".
func DebugFileFromEnv() string {
	name := os.Getenv("NCCL_DEBUG_FILE")
	if name == "" || strings.HasPrefix(name, "/dev/") {
		return ""
	}
	host, err := os.Hostname()
	if err != nil {
		return ""
	}
	host, _, _ = strings.Cut(host, ".")
	return strings.NewReplacer("%h", host, "%p", strconv.Itoa(os.Getpid()), "%%", "%").Replace(name)
}

// tail is the end of a file, or nothing.
func tail(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return "" // the library has written nothing, or nowhere
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	b, err := io.ReadAll(io.NewSectionReader(f, max(info.Size()-maxDebugBytes, 0), maxDebugBytes))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(string(b), "?")
}
