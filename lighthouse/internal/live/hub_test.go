package live

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerry-ft/skerry/internal/monitor"
	"github.com/skerry-ft/skerry/lighthouse/api"
)

// fakeSource is a lighthouse that a test changes.
type fakeSource struct {
	mu struct {
		monitor.Monitor

		looks  int
		step   int64
		events []api.Event
		err    error
	}
}

func (f *fakeSource) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	f.mu.Broadcast()
}

func (f *fakeSource) looks() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.looks
}

func (f *fakeSource) Document(_ context.Context, job string) (api.Document, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.looks++
	var d api.Document
	d.Jobs = map[string]api.JobDocument{}
	if job == "" || job == "j" {
		var j api.JobDocument
		j.MaxStep = f.mu.step
		d.Jobs["j"] = j
	}
	return d, f.mu.err
}

func (f *fakeSource) Events(_ string, since int64, limit int) ([]api.Event, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rest := f.mu.events[min(since, int64(len(f.mu.events))):]
	return rest[:min(len(rest), limit)], f.mu.err
}

func (f *fakeSource) Newest() (map[string]int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return map[string]int64{"j": int64(len(f.mu.events))}, f.mu.err
}

func (f *fakeSource) Told() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.Changed()
}

func (f *fakeSource) tell(n int) {
	f.change(func() {
		for range n {
			seq := int64(len(f.mu.events) + 1)
			f.mu.events = append(f.mu.events, api.Event{Job: "j", Seq: seq, AtMs: seq * 10, Kind: "formed"})
		}
	})
}

// waiting are the chunks that wait for a viewer, and whether it is still let have more.
func waiting(v *Viewer) (chunks []string, open bool) {
	synctest.Wait()
	for {
		select {
		case c, ok := <-v.Chunks():
			if !ok {
				return chunks, false
			}
			chunks = append(chunks, string(c))
		default:
			return chunks, true
		}
	}
}

func watch(t *testing.T, h *Hub, job string) *Viewer {
	t.Helper()
	v, err := h.Watch(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A viewer is told the state, what changes of it, and events; and after a while without
// either that the stream lives.
func TestViewerIsToldWhatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeSource{}
		f.tell(3) // before the viewer came
		h := NewHub(f)
		all, one := watch(t, h, ""), watch(t, h, "j")
		expect := func(what string, v *Viewer, want ...string) {
			t.Helper()
			got, open := waiting(v)
			if fmt.Sprint(got) != fmt.Sprint(want) || !open {
				t.Errorf("%s: told %q, open %v; want %q", what, got, open, want)
			}
		}
		first, _ := waiting(all)
		if len(first) != 1 || !strings.HasPrefix(first[0], "event: status\ndata: {") || !strings.Contains(first[0], `"max_step":0`) {
			t.Errorf("first told %q, want the state", first)
		}
		_, _ = waiting(one)
		<-time.After(10 * look)
		expect("nothing changed", all)
		f.change(func() { f.mu.step = 7 })
		<-time.After(look)
		expect("a step", all, "event: patch\ndata: {\"jobs\":{\"j\":{\"max_step\":7}}}\n\n")
		f.tell(1)
		_, _ = waiting(one)
		expect("an event of all jobs", all, "event: told\nid: t40\ndata: {\"job\":\"j\",\"seq\":4,\"at_ms\":40,\"kind\":\"formed\",\"replica\":\"\",\"text\":\"\"}\n\n")
		f.tell(1)
		expect("an event of one job", one, "event: told\nid: 5\ndata: {\"job\":\"j\",\"seq\":5,\"at_ms\":50,\"kind\":\"formed\",\"replica\":\"\",\"text\":\"\"}\n\n")
		_, _ = waiting(all)
		<-time.After(pingEvery)
		expect("a ping", all, ": ping\n\n")
		later := watch(t, h, "")
		if got, _ := waiting(later); len(got) != 1 || !strings.Contains(got[0], `"max_step":7`) {
			t.Errorf("who comes later is first told %q, want the state as it is", got)
		}
		for _, v := range []*Viewer{all, one, later} {
			v.Close()
			v.Close() // again
		}
		h.Stop()
		h.Wait()
	})
}

// A hundred viewers cost one look, and the board ends with the last of them.
func TestViewersShareABoard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeSource{}
		h := NewHub(f)
		var all []*Viewer
		for range 100 {
			all = append(all, watch(t, h, ""))
		}
		before := f.looks()
		<-time.After(look)
		synctest.Wait()
		if n := f.looks() - before; n != 1 {
			t.Errorf("looked %d times for 100 viewers, want once", n)
		}
		f.change(func() { f.mu.step++ })
		<-time.After(look)
		synctest.Wait()
		var first []byte
		for _, v := range all {
			<-v.Chunks() // the state
			c := <-v.Chunks()
			if first == nil {
				first = c
			} else if &first[0] != &c[0] {
				t.Fatal("a patch was made again for another viewer")
			}
			v.Close()
		}
		before = f.looks()
		<-time.After(10 * look)
		synctest.Wait()
		if f.looks() != before {
			t.Error("the board looks on without viewers")
		}
		h.Stop()
		h.Wait()
	})
}

// One that does not read is cut, and the others are not held up.
func TestSlowViewerIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeSource{}
		h := NewHub(f)
		slow, good := watch(t, h, ""), watch(t, h, "")
		var reading sync.WaitGroup
		n := 0
		reading.Go(func() {
			for c := range good.Chunks() {
				if !strings.HasPrefix(string(c), ": ping") {
					n++
				}
			}
		})
		<-time.After(look / 2) // between two looks
		for range 2 * queued {
			f.change(func() { f.mu.step++ })
			<-time.After(look)
		}
		if got, open := waiting(slow); len(got) != queued || open {
			t.Errorf("the slow viewer has %d chunks, open %v; want %d, and that it was cut", len(got), open, queued)
		}
		h.Stop()
		h.Wait()
		reading.Wait()
		if n != 2*queued+1 {
			t.Errorf("the other was told %d times, want %d", n, 2*queued+1)
		}
		slow.Close()
		good.Close()
	})
}

// What watches a server that no longer leads is cut, and comes again in vain.
func TestViewersEndWithTheirSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeSource{}
		h := NewHub(f)
		v := watch(t, h, "")
		gone := errors.New("no leader")
		f.change(func() { f.mu.err = gone })
		if _, open := waiting(v); open {
			t.Error("not cut")
		}
		v.Close()
		if _, err := h.Watch(t.Context(), ""); !errors.Is(err, gone) {
			t.Errorf("watch again: %v, want %v", err, gone)
		}
		f.change(func() { f.mu.err = nil })
		again := watch(t, h, "")
		h.Stop()
		if _, open := waiting(again); open {
			t.Error("not cut by Stop")
		}
		again.Close()
		if _, err := h.Watch(t.Context(), ""); !errors.Is(err, ErrStopped) {
			t.Errorf("watch after Stop: %v, want ErrStopped", err)
		}
		h.Wait()
	})
}

// 300 events at once are told in order, each once.
func TestManyEventsAreToldInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeSource{}
		h := NewHub(f)
		v := watch(t, h, "j")
		f.tell(batch + 44)
		chunks, _ := waiting(v)
		text := strings.Join(chunks[1:], "")
		for i := range batch + 44 {
			id := fmt.Sprintf("event: told\nid: %d\n", i+1)
			at := strings.Index(text, id)
			if at < 0 {
				t.Fatalf("event %d is missing, or out of order", i+1)
			}
			text = text[at+len(id):]
		}
		if strings.Contains(text, "id: ") {
			t.Error("more was told than happened")
		}
		v.Close()
		h.Stop()
		h.Wait()
	})
}
