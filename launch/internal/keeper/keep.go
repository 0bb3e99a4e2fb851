package keeper

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/launch/internal/sweep"
)

// patience is how long the keeper tries to kill what does not end.
const patience = time.Minute

// keep reads which sessions there are until the launcher is gone, and kills what is left.
func keep(pipe io.Reader, mark string) error {
	t := sweep.Target{Mark: mark, Sessions: make(sweep.Sessions)}
	var wrong error
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		wrong = errors.Join(wrong, note(t.Sessions, lines.Text()))
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, fmt.Errorf("given up after %v", patience))
	defer cancel()
	_, err := sweep.End(ctx, t, 0)
	return errors.Join(wrong, err)
}

// note takes a line: a session that has begun, with when its leader has, "+7 4711", or one
// that is over, "-7 0".
func note(sessions sweep.Sessions, line string) error {
	number, when, _ := strings.Cut(line, " ")
	session, err := strconv.Atoi(strings.TrimLeft(number, "+-"))
	began, werr := strconv.ParseUint(when, 10, 64)
	switch {
	case err != nil || werr != nil || session <= 1:
		return fmt.Errorf("%q, want a session behind + or -, and when it began", line)
	case strings.HasPrefix(line, "+"):
		sessions[session] = began
	default:
		delete(sessions, session)
	}
	return nil
}
