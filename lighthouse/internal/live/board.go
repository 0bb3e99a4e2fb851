package live

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/lighthouse/api"
)

// board tells all viewers of one filter. Its goroutine is run; the fields below mu are
// shared with those who come and go.
type board struct {
	source   Source
	job      string
	begun    chan struct{} // closed when the first document is there, or none comes
	cancel   context.CancelFunc
	watchers int              // guarded by the hub
	told     map[string]int64 // the newest seq that was told, by job; owned by run
	paced    time.Time        // when times of steps were last told; owned by run

	mu struct {
		sync.Mutex

		err     error // why there is no first document
		ended   bool
		doc     api.Document
		whole   []byte // doc, as a chunk; nil: to be made
		viewers map[*Viewer]struct{}
	}
}

// run tells the viewers what changes, until ctx ends or the source fails: a server that no
// longer leads knows nothing more. Then they are cut.
func (b *board) run(ctx context.Context) {
	defer b.end()
	told := b.source.Told()
	var doc api.Document
	newest, err := b.source.Newest()
	if err == nil {
		doc, err = b.source.Document(ctx, b.job)
	}
	b.told = newest
	b.begin(doc, err)
	if err != nil {
		return
	}
	looks, pings := time.NewTicker(look), time.NewTicker(pingEvery)
	defer looks.Stop()
	defer pings.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-told:
			told = b.source.Told()
			if b.tell() != nil {
				return
			}
		case <-looks.C:
			doc, err := b.source.Document(ctx, b.job)
			if err != nil {
				return
			}
			b.show(doc)
		case <-pings.C:
			b.send([]byte(": ping\n\n"))
		}
	}
}

// begin publishes the first document, or that there is none.
func (b *board) begin(doc api.Document, err error) {
	b.mu.Lock()
	b.mu.doc, b.mu.err = doc, err
	b.mu.Unlock()
	close(b.begun)
}

// end cuts all viewers.
func (b *board) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.ended = true
	for v := range b.mu.viewers {
		close(v.chunks)
	}
	b.mu.viewers = nil
}

// admit gives a new viewer the whole state, and what comes after it.
func (b *board) admit(v *Viewer) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.mu.err != nil:
		return b.mu.err
	case b.mu.ended:
		return ErrStopped
	}
	if b.mu.whole == nil {
		b.mu.whole = chunk("status", "", encoded(b.mu.doc))
	}
	v.chunks <- b.mu.whole // the first of a channel that holds more
	if b.mu.viewers == nil {
		b.mu.viewers = make(map[*Viewer]struct{})
	}
	b.mu.viewers[v] = struct{}{}
	return nil
}

// dismiss takes a viewer out; nil: it was never let in.
func (b *board) dismiss(v *Viewer) {
	if v == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cutLocked(v)
}

func (b *board) cutLocked(v *Viewer) {
	if _, ok := b.mu.viewers[v]; ok {
		delete(b.mu.viewers, v)
		close(v.chunks)
	}
}

// show makes doc the state, and tells what differs.
func (b *board) show(doc api.Document) {
	now := time.Now()
	due := !now.Before(b.paced.Add(paceEvery))
	if due {
		b.paced = now
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	doc = steady(b.mu.doc, doc, due)
	p := patch(b.mu.doc, doc)
	if len(p) == 0 {
		b.mu.doc.NowMs, b.mu.whole = doc.NowMs, nil // for who comes now
		return
	}
	b.mu.doc, b.mu.whole = doc, nil
	b.sendLocked(chunk("patch", "", encoded(p)))
}

// tell tells the events since the last time.
func (b *board) tell() error {
	newest, err := b.source.Newest()
	if err != nil {
		return err
	}
	if b.job != "" {
		newest = map[string]int64{b.job: newest[b.job]}
	}
	maps.DeleteFunc(b.told, func(job string, _ int64) bool { _, there := newest[job]; return !there })
	for job, seq := range newest {
		if seq < b.told[job] {
			b.told[job] = 0 // another job of the same name
		}
		for b.told[job] < seq {
			events, err := b.source.Events(job, b.told[job], batch)
			if err != nil {
				return err
			}
			if len(events) == 0 {
				break
			}
			var all []byte
			for _, e := range events {
				all = append(all, Told(e, b.job != "")...)
				b.told[job] = e.Seq
			}
			b.send(all)
		}
	}
	return nil
}

func (b *board) send(text []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sendLocked(text)
}

// sendLocked gives a chunk to all viewers, and cuts those that do not keep up.
func (b *board) sendLocked(text []byte) {
	for v := range b.mu.viewers {
		select {
		case v.chunks <- text:
		default:
			b.cutLocked(v)
		}
	}
}
