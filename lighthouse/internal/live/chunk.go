package live

import (
	"bytes"
	"strconv"

	"github.com/skerry-ft/skerry/lighthouse/api"
)

// chunk is one message of a text/event-stream. JSON has no line breaks of its own.
func chunk(event, id string, data []byte) []byte {
	var b bytes.Buffer
	b.Grow(len(event) + len(id) + len(data) + 32)
	b.WriteString("event: " + event + "\n")
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	b.WriteString("data: ")
	b.Write(data)
	b.WriteString("\n\n")
	return b.Bytes()
}

// Told is an event as a message of a text/event-stream. Its id is where a client that
// comes again goes on: the seq among events of one job, and among those of all jobs the
// time, since each job counts for itself.
func Told(e api.Event, one bool) []byte {
	id := "t" + strconv.FormatInt(e.AtMs, 10)
	if one {
		id = strconv.FormatInt(e.Seq, 10)
	}
	return chunk("told", id, encoded(e))
}
