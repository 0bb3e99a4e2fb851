package interop

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
)

// callLimit bounds every call: a hang is a failure with a name.
const callLimit = 60 * time.Second

// each runs a test once for every torchft module that SKERRY_TORCHFT names.
func each(t *testing.T, test func(t *testing.T, p *python)) {
	t.Helper()
	eachModule(t, func(t *testing.T, module string) { test(t, start(t, module)) })
}

// eachModule is each, without a Python process.
func eachModule(t *testing.T, test func(t *testing.T, module string)) {
	t.Helper()
	modules := filepath.SplitList(os.Getenv("SKERRY_TORCHFT"))
	if len(modules) == 0 {
		t.Skip("SKERRY_TORCHFT names no torchft module: run make interop")
	}
	for _, module := range modules {
		t.Run(filepath.Base(filepath.Dir(filepath.Dir(module))), func(t *testing.T) {
			t.Parallel()
			test(t, module)
		})
	}
}

// python is one Python process with a torchft module in it.
type python struct {
	t testing.TB

	mu     sync.Mutex
	in     io.WriteCloser
	number int
	calls  map[int]chan reply
}

// reply is what one call came to.
type reply struct {
	ID    int             `json:"id"`
	OK    json.RawMessage `json:"ok"`
	Error string          `json:"error"`
}

// start runs torchft.py until the test ends.
func start(t *testing.T, module string) *python {
	t.Helper()
	return startBy(t, module)
}

// interpreter is the Python that the tests run.
func interpreter() string { return cmp.Or(os.Getenv("SKERRY_TORCHFT_PYTHON"), "python3") }

// startBy is start by another command, which the interpreter and its arguments
// follow.
func startBy(t *testing.T, module string, by ...string) *python {
	t.Helper()
	command := append(by, interpreter(), "testdata/torchft.py", module)
	program, in, out := testkit.Talk(t, strings.Join(command, " "), nil, command...) // Rust logs each call
	p := &python{t: t, in: in, calls: make(map[int]chan reply)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.read(out)
	}()
	t.Cleanup(func() {
		p.mu.Lock()
		_ = p.in.Close() // the process ends with it
		p.mu.Unlock()
		err := program.Err()
		<-done
		if err != nil {
			t.Errorf("%s: %v", program.Name, err)
		}
	})
	return p
}

// read hands answers to those who wait, until the process ends.
func (p *python) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var r reply
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue // Rust logs to standard output too
		}
		p.mu.Lock()
		waiting := p.calls[r.ID]
		delete(p.calls, r.ID)
		p.mu.Unlock()
		if waiting != nil {
			waiting <- r
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, waiting := range p.calls {
		waiting <- reply{Error: "the Python process ended"}
	}
	p.calls = nil
}

// args are the arguments of a call by name.
type args map[string]any

// begin starts a call, which runs beside others.
func (p *python) begin(op string, a args) <-chan reply {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.number++
	waiting := make(chan reply, 1)
	command := args{"id": p.number, "op": op}
	maps.Copy(command, a)
	line, err := json.Marshal(command)
	if err == nil && p.calls == nil {
		err = errors.New("the Python process ended")
	}
	if err == nil {
		p.calls[p.number] = waiting
		_, err = p.in.Write(append(line, '\n'))
	}
	if err != nil {
		waiting <- reply{Error: err.Error()}
	}
	return waiting
}

// try makes a call and returns what it returned or raised.
func (p *python) try(op string, a args) (json.RawMessage, error) {
	return wait(p.begin(op, a))
}

func wait(call <-chan reply) (json.RawMessage, error) {
	select {
	case r := <-call:
		if r.Error != "" {
			return nil, errors.New(r.Error)
		}
		return r.OK, nil
	case <-time.After(callLimit):
		return nil, errors.New("no answer from the Python process")
	}
}

// do makes a call that must work.
func (p *python) do(op string, a args) json.RawMessage {
	p.t.Helper()
	out, err := p.try(op, a)
	if err != nil {
		p.t.Fatalf("%s %v: %v", op, a, err)
	}
	return out
}

// must waits for a call that must work and reads its result.
func must[T any](t testing.TB, call <-chan reply) T {
	t.Helper()
	out, err := wait(call)
	var v T
	if err == nil {
		err = json.Unmarshal(out, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// text is a call's result that is a string.
func text(t testing.TB, raw json.RawMessage) string {
	t.Helper()
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatalf("got %s, want a string", raw)
	}
	return strings.TrimSpace(s)
}
