// Package live tells viewers what changes of a lighthouse while they look: the whole
// state once, then patches of it, and events. What all viewers of one filter are told is
// made once, whatever their number.
//
//	h := live.NewHub(source)
//	v, err := h.Watch(job) // "" for all jobs
//	defer v.Close()
//	for chunk := range v.Chunks() { … } // parts of a text/event-stream; ends when the viewer is cut
//
// # Goroutines
//
// A board, of each filter that has viewers: it looks at the source four times a second and
// when there is an event, and ends with its last viewer, with the source, and with the hub.
// Wait returns when all have ended.
package live
