// Package spare is how a process that skerry run has started as a warm spare waits until it is given
// the place of a replica that has died. It is the library's side of what package launch describes
// under Spares; that one's side is launch/internal/gate.
//
// # Usage
//
//	func main() {
//		… // all that a replica needs and that does not depend on its index
//		if err := spare.Wait(ctx); errors.Is(err, spare.ErrNotNeeded) {
//			return // with status 0
//		} else if err != nil {
//			log.Fatal(err)
//		}
//		index := os.Getenv("REPLICA_GROUP_ID") // from here on
//
// manager.Config.FromEnv calls Wait, so that a program which reads its place by that alone need not.
//
// Wait is safe for concurrent use, and starts no goroutine that outlives it.
package spare

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Bounds of what a spare is told.
const (
	maxBytes     = 64 << 10
	maxVariables = 64
)

// ErrNotNeeded is returned by Wait when the job ends without the spare: end the process, with
// status 0.
var ErrNotNeeded = errors.New("spare: the job ends, and this spare was not needed: end with status 0")

// Order is what a spare is told, as one line of JSON.
type Order struct {
	Env  map[string]string `json:"env,omitempty"`  // variables of its place
	Over bool              `json:"over,omitempty"` // it gets none
}

// Line is the order as it is sent.
func (o Order) Line() ([]byte, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	line, err := json.Marshal(o)
	if err == nil && len(line) >= maxBytes {
		err = fmt.Errorf("an order of %d bytes, want less than %d", len(line), maxBytes)
	}
	return append(line, '\n'), err
}

// check wants what can be put into an environment.
func (o Order) check() error {
	if len(o.Env) > maxVariables {
		return fmt.Errorf("an order with %d variables, want %d at most", len(o.Env), maxVariables)
	}
	for name, value := range o.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return fmt.Errorf("an order with the variable %q = %q, want a name without '=', and no NUL", name, value)
		}
	}
	return nil
}

// read reads an order.
func read(r io.Reader) (o Order, err error) {
	line, err := bufio.NewReader(io.LimitReader(r, maxBytes)).ReadBytes('\n')
	switch {
	case errors.Is(err, io.EOF) && len(line) == 0:
		return o, errors.New("the launcher has ended")
	case errors.Is(err, io.EOF):
		return o, fmt.Errorf("%d bytes without an end, want a line of less than %d", len(line), maxBytes)
	case err != nil:
		return o, err
	}
	if err := json.Unmarshal(line, &o); err != nil {
		return o, err
	}
	if len(o.Env) == 0 && !o.Over {
		return o, fmt.Errorf("the order %q, want env or over", line)
	}
	return o, o.check()
}
