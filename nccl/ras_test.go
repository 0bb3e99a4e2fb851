package nccl

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/pg/trace"
	"github.com/skerry-ft/skerry/tensor"
)

// rasServer answers as the library's RAS service does, with answer to a status;
// silent never answers one.
func rasServer(t *testing.T, answer string, silent bool) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			answerRAS(c, answer, silent)
		}
	}()
	return l.Addr().String()
}

func answerRAS(c net.Conn, answer string, silent bool) {
	defer c.Close()
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		reply := "ERROR: unknown command\n"
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "CLIENT PROTOCOL "):
			reply = "SERVER PROTOCOL 2\n"
		case strings.HasPrefix(line, "TIMEOUT ") && line != "TIMEOUT 0":
			reply = "OK\n"
		case line == "VERBOSE STATUS" && silent:
			continue
		case line == "VERBOSE STATUS":
			c.Write([]byte(answer)) //nolint:errcheck // the other side sees the end
			return
		}
		if _, err := c.Write([]byte(reply)); err != nil {
			return
		}
	}
}

var _ trace.Attacher = (*Backend)(nil)

// RAS's answer is read to its end, or as far as it may be long; a service that is
// silent, or none, ends with the context.
func TestAskRAS(t *testing.T) {
	t.Parallel()
	const says = "NCCL version 2.29.3\nERRORS\n  rank 1 unresponsive\n"
	got, err := AskRAS(t.Context(), rasServer(t, says, false))
	if err != nil || got != says {
		t.Errorf("got %q, %v; want %q", got, err, says)
	}
	got, err = AskRAS(t.Context(), rasServer(t, strings.Repeat("x", 2*maxRASBytes), false))
	if err != nil || len(got) != maxRASBytes {
		t.Errorf("got %d bytes, %v; want %d", len(got), err, maxRASBytes)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := AskRAS(ctx, rasServer(t, "", true)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent service: %v, want the deadline", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	greeting := make(chan struct{})
	go func() {
		defer close(greeting)
		if c, err := l.Accept(); err == nil {
			c.Write([]byte("HTTP/1.1 400 Bad Request\r\n")) //nolint:errcheck // the other side sees the end
			c.Close()
		}
	}()
	if _, err := AskRAS(t.Context(), l.Addr().String()); err == nil || !strings.Contains(err.Error(), "400") {
		t.Errorf("another service: %v, want an error with its answer", err)
	}
	<-greeting
}

// An op that hangs, and an error of the library, carry what RAS says, in the error
// and in the dump of the flight recorder, with the end of the library's log.
func TestErrorsCarryRAS(t *testing.T) {
	f := open(t)
	log := filepath.Join(t.TempDir(), "nccl.log")
	if err := os.WriteFile(log, []byte(strings.Repeat("old\n", maxDebugBytes)+"NET/IB : link down\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		fault   int32
		inError bool
	}{"hang": {collectiveNeverEnds, true}, "async error": {asyncError, false}} {
		t.Run(name, func(t *testing.T) {
			ras := rasServer(t, "rank 1 is missing", false)
			b, err := New(Options{Library: f.lib, Device: f.device(t, 0), RAS: ras, DebugFile: log, AbortLimit: pgtest.PromptBound})
			if err != nil {
				t.Fatal(err)
			}
			dumps := make(chan trace.Dump, 1)
			traced := trace.NewRecorder(b, trace.Config{Dump: func(d trace.Dump) error {
				dumps <- d
				return nil
			}})
			w := pgtest.NewWorld(t, pgtest.StartStore(t))
			w.Configure(pgtest.Member{ID: "solo", Backend: traced})
			x := onDevice(t, b, tensor.New(tensor.Float32, 16))
			f.fault(c.fault)
			work := w.Groups[0].Submit(&pg.Op{
				Kind: pg.KindAllReduce, In: []tensor.Tensor{x}, Out: []tensor.Tensor{x}, Deadline: time.Now().Add(2 * shortLimit),
			})
			<-work.Done()
			f.fault(wellBehaved)
			if err := work.Err(); err == nil || c.inError != strings.Contains(err.Error(), "RAS says: rank 1 is missing") {
				t.Errorf("op: %v, want what RAS says in it: %v", err, c.inError)
			}
			if c.inError && !errors.Is(work.Err(), context.DeadlineExceeded) {
				t.Errorf("op: %v, want a deadline", work.Err())
			}
			select {
			case d := <-dumps:
				if got := d.Attachments["nccl-ras"]; got != "rank 1 is missing" {
					t.Errorf("the dump says of RAS %q", got)
				}
				if got := d.Attachments["nccl-debug"]; len(got) != maxDebugBytes || !strings.HasSuffix(got, "link down\n") {
					t.Errorf("the dump has %d bytes of the log, want %d with its end", len(got), maxDebugBytes)
				}
			case <-time.After(pgtest.Bound):
				t.Error("no dump")
			}
			if err := traced.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// NCCL_* variables reach the library in a child: the child asks the RAS service
// that this process's environment names, and its answer comes back with the op.
func TestVariablesReachBaby(t *testing.T) {
	f := open(t)
	t.Setenv("NCCL_RAS_ADDR", rasServer(t, "rank 1 is missing", false))
	dev := f.device(t, 0)
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	x := onDeviceOf(t, dev, tensor.New(tensor.Float32, 16))
	mem, _ := x.Memory()
	err := oneEpoch(t, w, babyOf(t, f, collectiveNeverEnds), mem.(*Buffer))
	if err == nil || !strings.Contains(err.Error(), "RAS says: rank 1 is missing") {
		t.Errorf("op: %v, want what RAS says in it", err)
	}
}
