package cluster

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"
)

// raftLogger returns a logger for raft that writes to log. What raft calls an
// error we recovered from or report ourselves, so it is a warning here; its
// everyday chatter, warnings about elections included, is for debugging.
func raftLogger(log zerolog.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "raft", Output: io.Discard, Level: hclog.Debug})
	l.RegisterSink(&raftSink{log: log, said: make(map[string]time.Time)})
	return l
}

// raftSink passes raft's lines on.
type raftSink struct {
	log zerolog.Logger

	mu   sync.Mutex
	said map[string]time.Time // warnings, so that none is repeated all the time
}

const (
	// repeatAfter is how often raft may warn of the same.
	repeatAfter = 10 * time.Second

	// maxSaid bounds the warnings that are remembered.
	maxSaid = 256
)

// loud says whether a warning is to be seen: it is new, or has not been given
// for a while.
func (s *raftSink) loud(msg string, args []any) bool {
	key := msg
	for i := 0; i+1 < len(args); i += 2 {
		if name := fmt.Sprint(args[i]); name == "peer" || name == "target" || name == "id" {
			key += " " + fmt.Sprint(args[i+1])
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.said[key]) < repeatAfter {
		return false
	}
	if len(s.said) >= maxSaid {
		clear(s.said)
	}
	s.said[key] = time.Now()
	return true
}

// Accept writes one line.
func (s *raftSink) Accept(name string, level hclog.Level, msg string, args ...any) {
	event := s.log.Debug()
	if level >= hclog.Error && !slices.ContainsFunc(args, isClosed) && s.loud(msg, args) {
		event = s.log.Warn()
	}
	if !event.Enabled() {
		return
	}
	event = event.Str("source", name)
	for i := 0; i+1 < len(args); i += 2 {
		key := fmt.Sprint(args[i])
		if err, ok := args[i+1].(error); ok && key == "error" {
			event = event.Err(err)
			continue
		}
		event = event.Str(key, fmt.Sprint(args[i+1]))
	}
	event.Msg(msg)
}

// isClosed says whether an argument is the error of a connection that we closed.
func isClosed(arg any) bool {
	err, ok := arg.(error)
	return ok && (errors.Is(err, net.ErrClosed) || errors.Is(err, raft.ErrTransportShutdown))
}
