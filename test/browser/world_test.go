package browser

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// object is a part of a document.
type object = map[string]any

// world is a server that speaks /api/v1 as a lighthouse does, and is in whatever state a
// test puts it. The page's own files come from a real lighthouse. Safe for concurrent use.
type world struct {
	url string

	mu struct {
		sync.Mutex

		doc     object // as the stream has it
		events  map[string][]object
		viewers map[chan string]bool
		acted   []string // what the page asked for, as "path body"

		// What it answers to a stream, and to all else, if that is not 0: as an older server
		// does, or one that knows no leader.
		streamCode, code int
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{}
	w.mu.doc = object{
		"cluster": "1f2e3d4c-aaaa-bbbb-cccc-0123456789ab", "version": "v1.4.0", "addr": "10.0.0.2:29510", "leader": "10.0.0.2:29510",
		"leads": false, "term": 7, "durable": true, "sessions": 0, "now_ms": time.Now().UnixMilli(), "jobs": object{}, "servers": object{
			"s1": object{"addr": "10.0.0.1:29510", "raft_addr": "10.0.0.1:29511", "version": "v1.4.0", "voter": true, "alive": true, "last_index": 4180, "lag": 2, "state": "follower"},
			"s2": object{"addr": "10.0.0.2:29510", "raft_addr": "10.0.0.2:29511", "version": "v1.4.0", "voter": true, "alive": true, "leader": true, "last_index": 4182, "lag": 0, "state": "leader"},
			"s3": object{"addr": "10.0.0.3:29510", "raft_addr": "10.0.0.3:29511", "version": "v1.4.0", "voter": true, "lag": 0, "state": "away", "silence_ms": 4200},
		},
	}
	w.mu.events = make(map[string][]object)
	w.mu.viewers = make(map[chan string]bool)
	real := lighthousetest.Start(t, nil)
	files, err := url.Parse(real.URL("/"))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(files) }})
	mux.HandleFunc("GET /api/v1/stream", w.stream)
	mux.HandleFunc("GET /api/v1/status", w.status)
	mux.HandleFunc("GET /api/v1/servers", w.servers)
	mux.HandleFunc("GET /api/v1/events", w.told)
	mux.HandleFunc("POST /api/v1/", w.act)
	s := httptest.NewServer(mux)
	t.Cleanup(func() {
		w.cut()
		s.Close()
	})
	w.url = s.URL
	return w
}

// sse is one event of a stream.
func sse(event string, body any) string {
	data, err := json.Marshal(body)
	if err != nil {
		panic(err) // it is made of maps and numbers
	}
	return "event: " + event + "\ndata: " + string(data) + "\n\n"
}

func (w *world) stream(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	if code := w.mu.streamCode; code != 0 {
		w.mu.Unlock()
		http.Error(out, "no stream here", code)
		return
	}
	feed := make(chan string, 256) // a viewer that lags behind so far is cut
	w.mu.viewers[feed] = true
	first := sse("status", w.mu.doc)
	w.mu.Unlock()
	out.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(out)
	for text := first; ; {
		if _, err := out.Write([]byte(text)); err != nil {
			break
		}
		if control.Flush() != nil {
			break
		}
		var ok bool
		select {
		case text, ok = <-feed:
		case <-r.Context().Done():
		}
		if !ok {
			break
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.mu.viewers, feed)
}

// answerWith sets the status codes of streams and of all else; 0 is in good order.
func (w *world) answerWith(stream, code int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.streamCode, w.mu.code = stream, code
}

// cut ends all streams.
func (w *world) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for feed := range w.mu.viewers {
		close(feed)
		delete(w.mu.viewers, feed)
	}
}

func (w *world) sendLocked(text string) {
	for feed := range w.mu.viewers {
		select {
		case feed <- text:
		default:
			close(feed)
			delete(w.mu.viewers, feed)
		}
	}
}

// patch changes the document by a merge patch, and tells the viewers.
func (w *world) patch(p object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	merge(w.mu.doc, p)
	w.sendLocked(sse("patch", p))
}

func merge(to, p object) {
	for k, v := range p {
		sub, ok := v.(object)
		if !ok {
			if v == nil {
				delete(to, k)
			} else {
				to[k] = v
			}
			continue
		}
		old, ok := to[k].(object)
		if !ok {
			old = object{}
			to[k] = old
		}
		merge(old, sub)
	}
}

// tell adds an event of a job, and tells the viewers.
func (w *world) tell(job string, e object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e["job"], e["seq"] = job, len(w.mu.events[job])+1
	w.mu.events[job] = append(w.mu.events[job], e)
	if doc, ok := w.mu.doc["jobs"].(object)[job].(object); ok {
		doc["last_seq"] = e["seq"]
	}
	w.sendLocked(sse("told", e))
}

// rows makes a map of the stream's document a list, as GET has it.
func rows(m any, key string) []object {
	all := []object{}
	for _, name := range slices.Sorted(maps.Keys(m.(object))) {
		row := maps.Clone(m.(object)[name].(object))
		row[key] = name
		if replicas, ok := row["replicas"]; ok {
			row["replicas"] = rows(replicas, "replica_id")
		}
		all = append(all, row)
	}
	return all
}

func (w *world) status(out http.ResponseWriter, _ *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.code != 0 {
		http.Error(out, "no leader", w.mu.code)
		return
	}
	doc := maps.Clone(w.mu.doc)
	delete(doc, "servers")
	doc["jobs"] = rows(w.mu.doc["jobs"], "job")
	answer(out, doc)
}

func (w *world) servers(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	answer(out, object{"servers": rows(w.mu.doc["servers"], "id"), "asked": r.Host, "answered": w.mu.doc["addr"]})
}

func (w *world) told(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	since, err := strconv.Atoi(r.FormValue("since"))
	if err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	all := w.mu.events[r.FormValue("job")]
	answer(out, all[min(since, len(all)):])
}

func answer(out http.ResponseWriter, body any) {
	out.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(out).Encode(body) // a reader who has gone needs no error
}

// act notes what the page asks for. One replica, called "busy", refuses.
func (w *world) act(out http.ResponseWriter, r *http.Request) {
	var body object
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	text, _ := json.Marshal(body) // it came as JSON
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.acted = append(w.mu.acted, r.URL.EscapedPath()+" "+string(text))
	if r.PathValue("") == "" && slices.Contains([]string{"/api/v1/jobs/gpt-7b/replicas/busy/kill"}, r.URL.Path) {
		out.Header().Set("Content-Type", "application/json")
		out.WriteHeader(http.StatusConflict)
		fmt.Fprint(out, `{"error":{"code":"takes no kills","message":"busy takes no kills: set Config.OnKill, or end its process"}}`)
		return
	}
	out.WriteHeader(http.StatusNoContent)
}

// asked is what the page has asked for.
func (w *world) asked() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.mu.acted)
}

// replica is a member in good order, as changed.
func replica(changed object) object {
	r := object{"state": "live", "member": true, "participant": true, "session": true, "address": "10.1.0.1:7001", "behind": 0, "step_ms": 120, "wait_ms": 14}
	maps.Copy(r, changed)
	return r
}

// job is a job that trains with those replicas, as changed.
func job(replicas object, changed object) object {
	members := 0
	for _, r := range replicas {
		if r.(object)["member"] == true {
			members++
		}
	}
	j := object{
		"client": "skerry", "quorum_id": 1795313220661, "round": 1, "created_ms": time.Now().Add(-20 * time.Minute).UnixMilli(), "stands": true,
		"state": "training", "state_since_ms": time.Now().Add(-4 * time.Minute).UnixMilli(), "wanted": "", "reason": "", "max_step": 48211, "steps_total": 60000, "eta_ms": 1_600_000,
		"members": members, "participants": members, "step_rate": 7.4, "goodput": 0.9941, "lost_ms": 3210,
		"min_replicas": 2, "max_replicas": 0, "join_timeout_ms": 5000, "heartbeat_timeout_ms": 1000, "suspect_after_ms": 300, "grace_ms": 2000,
		"stuck_after_ms": 60000, "evict_stuck": false, "probation_after": 3, "step_time_ms": 134, "beat_interval_ms": 100, "replicas": replicas,
	}
	maps.Copy(j, changed)
	return j
}

// told makes a story of n events that ends now: deaths with their cost, joins, heals,
// drains, now and then a new leader.
func (w *world) story(name string, n, size int, length time.Duration) {
	began := time.Now().Add(-length)
	at := func(i int) int64 { return began.Add(length * time.Duration(i) / time.Duration(n)).UnixMilli() }
	id := int64(1795313200000)
	for i := 0; len(w.mu.events[name]) < n; i++ {
		t := at(len(w.mu.events[name]))
		who := fmt.Sprintf("replica-%d", i*7%size)
		id += 2
		switch {
		case i == 0:
			w.tell(name, object{"at_ms": t, "kind": "formed", "quorum_id": id, "round": 1, "members": size, "before": 0, "joined": []string{}, "text": fmt.Sprintf("%d members stand", size)})
		case i%9 == 4:
			w.tell(name, object{"at_ms": t, "kind": "leader", "text": fmt.Sprintf("lighthouse-%d leads from now on, in term %d", i%3, i)})
		case i%5 == 3:
			cause := object{"kind": "drained", "replica": who, "by": "alice", "reason": "node maintenance"}
			w.tell(name, object{"at_ms": t, "kind": "draining", "replica": who, "by": "alice", "from": "10.0.0.7", "reason": "node maintenance", "text": who + " is to drain"})
			w.tell(name, object{"at_ms": t + 140, "kind": "formed", "quorum_id": id, "round": 1, "members": size - 1, "before": size, "gone": []object{cause}, "cause": cause, "cost": object{"lost_ms": 0},
				"text": who + " was drained by alice: node maintenance · no step lost"})
			w.tell(name, object{"at_ms": t + 150, "kind": "drained", "replica": who, "cause": cause, "text": who + " has drained"})
		default:
			w.death(name, t, id, who, size)
		}
	}
}

// death tells how one replica dies, comes back and heals.
func (w *world) death(name string, t, id int64, who string, size int) {
	cause := object{"kind": "link", "replica": who, "witnesses": []string{"replica-3", "replica-4"}}
	known, again, lost := 4.1, 11.3, 90+t%97
	w.tell(name, object{"at_ms": t, "kind": "lost", "replica": who, "cause": cause, "text": who + " died: link cut, seen by 3 and 4"})
	w.tell(name, object{"at_ms": t + 7, "kind": "formed", "quorum_id": id, "round": 1, "members": size - 1, "before": size, "gone": []object{cause}, "cause": cause,
		"cost": object{"known_ms": known, "reformed_ms": again, "step": 661, "outcome": "discard"},
		"text": who + " died: link cut, seen by 3 and 4 · known after 4 ms · four members again after 11 ms · step 661 done anew"})
	w.tell(name, object{"at_ms": t + 150, "kind": "resumed", "quorum_id": id, "round": 1, "cost": object{"resumed_ms": 20.2 + float64(lost), "lost_ms": lost}, "text": fmt.Sprintf("step 661 committed · %d ms lost", lost)})
	w.tell(name, object{"at_ms": t + 2400, "kind": "formed", "quorum_id": id + 1, "round": 1, "members": size, "before": size - 1, "joined": []string{who},
		"text": who + " joined · heals from replica-1"})
	w.tell(name, object{"at_ms": t + 2900, "kind": "healed", "replica": who, "text": who + " healed: 1.2 GB at 2,400 MB/s from replica-1 and replica-2"})
}
