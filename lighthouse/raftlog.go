package lighthouse

import (
	"fmt"
	"io"

	"github.com/hashicorp/go-hclog"
	"github.com/rs/zerolog"
)

// raftLogger returns a logger for raft that writes to log. What raft calls an
// error we recovered from or report ourselves, so it is a warning here; its
// everyday chatter, warnings about elections included, is for debugging.
func raftLogger(log zerolog.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "raft", Output: io.Discard, Level: hclog.Debug})
	l.RegisterSink(&raftSink{log})
	return l
}

// raftSink passes raft's lines on.
type raftSink struct {
	log zerolog.Logger
}

// Accept writes one line.
func (s *raftSink) Accept(name string, level hclog.Level, msg string, args ...any) {
	event := s.log.Debug()
	if level >= hclog.Error {
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
