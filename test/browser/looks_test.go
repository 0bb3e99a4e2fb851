package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// views are how people see a page.
var views = []struct {
	name          string
	dark          bool
	width, height int64
}{{"light", false, 1280, 900}, {"dark", true, 1280, 900}, {"phone", false, 390, 844}}

// fiveReplicas are in the states that one sees at a glance.
func fiveReplicas() object {
	all := object{}
	for i := range 5 {
		all[fmt.Sprintf("replica-%d", i)] = replica(object{"address": fmt.Sprintf("10.1.0.%d:7001", i), "step_ms": 118 + i})
	}
	return all
}

// A job that trains, with all that may be the matter with a replica: in light, dark and on a phone.
func TestLooksOfAJobThatTrains(t *testing.T) {
	t.Parallel()
	w, b := newWorld(t), openTab(t)
	replicas := fiveReplicas()
	replicas["replica-3"] = replica(object{"straggler": true, "step_ms": 410, "wait_ms": 0})
	replicas["replica-5:0f3f0a5c-1111-2222-3333-444455556666"] = replica(object{"state": "healing", "participant": false, "heals": true, "behind": 12, "step_ms": nil,
		"heal": object{"bytes": 812_000_000, "total_bytes": 1_240_000_000, "from": []string{"replica-1", "replica-2"}, "mb_per_s": 2412.0}})
	replicas["replica-6"] = replica(object{"state": "draining", "why": "drained by alice: node maintenance"})
	replicas["replica-7"] = replica(object{"state": "suspect", "silence_ms": 2000})
	replicas["replica-8"] = object{"state": "held", "why": "an older incarnation is not silent yet", "waiting_ms": 3000}
	replicas["replica-2:dead"] = object{"state": "lost", "cause": object{"kind": "link", "witnesses": []string{"replica-3", "replica-4"}, "evidence": "connection reset"}}
	replicas["replica-9"] = object{"state": "evicted", "cause": object{"kind": "evicted", "by": "alice@10.0.0.7", "reason": "its GPU is hot"}}
	w.patch(object{"jobs": object{"gpt-7b": job(replicas, object{"last_seq": 120})}})
	w.story("gpt-7b", 120, 5, 14*time.Minute)
	b.open(w.url)
	b.says("section.job h2", "gpt-7b")
	b.says(".line.change", "known after 4 ms")
	b.says(".cost", "ms lost")
	b.says(".card", "812 MB of 1.2 GB · 2412 MB/s · from replica-1 and replica-2")
	b.says(".card", "straggler")
	b.says(".departed", "evicted by alice@10.0.0.7: “its GPU is hot”")
	b.says("#servers", "answered by 10.0.0.2:29510")
	b.until("the axis has deaths", `document.querySelector(".tick.death").getAttribute("d").length > 20`)
	for _, v := range views {
		b.dress(v.dark, v.width, v.height)
		b.until("the axis fits", `document.documentElement.scrollWidth <= innerWidth`)
		b.axe()
		b.shoot(v.name)
	}
}

// Names and evidence are text, whatever is in them: no element, no other direction, no flood.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	w, b := newWorld(t), openTab(t)
	names := []string{`<img src=x onerror="document.title='owned'">`, "<script>document.title='owned'</script>", "\u202eevil-rtl", "__proto__", "constructor", "a/b?c#d", strings.Repeat("long", 60), "'\"`${1}"}
	replicas := object{}
	for _, name := range names {
		replicas[name] = replica(object{"why": "<b>why</b> \u202ebackwards", "phase": "<i>phase</i>", "address": "<u>nowhere</u>"})
	}
	w.patch(object{"jobs": object{"<h1>job</h1>": job(replicas, object{"wanted": "<b>a change</b>"}), "__proto__": job(object{"x": replica(nil)}, nil)}})
	w.tell("<h1>job</h1>", object{"at_ms": time.Now().UnixMilli(), "kind": "<b>odd</b>", "replica": names[0], "text": names[0] + " · " + names[1]})
	w.tell("<h1>job</h1>", object{"at_ms": time.Now().UnixMilli(), "kind": "formed", "quorum_id": 5, "members": 1, "text": names[1], "by": names[0], "reason": names[2]})
	b.open(w.url)
	b.until("all are there", fmt.Sprintf(`document.querySelectorAll(".card").length === %d`, len(names)+1))
	b.says(".line.change", "<script>")
	if got := eval[string](b, `document.title + [...document.querySelectorAll("main img, main script, main b b, main h1, main i i, main u")].map(e => e.outerHTML).join()`); got != "Skerry lighthouse" {
		t.Errorf("a name became more than text: %s", got)
	}
	if got := eval[string](b, `[...document.querySelectorAll(".card .name")].filter(e => e.getBoundingClientRect().height > 46).map(e => e.textContent.slice(0, 20)).join()`); got != "" {
		t.Errorf("names take more than two lines: %s", got)
	}
	b.axe()
	b.shoot("names")
}

// Why there is no quorum is said in words; a run that is over is not red; without a leader the
// page says what goes on; and what is away is said to be away.
func TestLooksOfOtherStates(t *testing.T) {
	t.Parallel()
	w, b := newWorld(t), openTab(t)
	gone := object{}
	for i := range 3 {
		gone[fmt.Sprintf("replica-%d", i)] = object{"state": "left", "cause": object{"kind": "left", "reason": "done"}}
	}
	since := time.Now().Add(-90 * time.Second).UnixMilli()
	w.patch(object{"jobs": object{
		"1-waits": job(object{"replica-0": object{"state": "joined", "waiting_ms": 42000}}, object{"state": "waiting", "stands": false, "quorum_id": 0, "state_since_ms": since, "max_step": 0, "goodput": nil, "lost_ms": nil,
			"step_rate": nil, "reason": "1 joined, min-replicas = 2: one more is wanted"}),
		"2-fell":     job(fiveReplicas(), object{"state": "reforming", "stands": false, "state_since_ms": since, "fell": object{"kind": "silent", "replica": "replica-4"}, "reason": "waits for replica-3 to join"}),
		"3-finished": job(gone, object{"state": "finished", "stands": false, "max_step": 60000, "state_since_ms": since}),
	}})
	w.story("3-finished", 20, 3, 20*time.Minute)
	b.open(w.url)
	b.says(`[data-state=waiting] .callout`, "No quorum can be formed: 1 joined, min-replicas = 2: one more is wanted")
	b.says(`[data-state=reforming] .callout`, "replica-4 (it fell silent)")
	b.says(`[data-state=finished] .callout`, "Finished at step 60\u202f000: 3 replicas went in good order.")
	if red := eval[int](b, `document.querySelectorAll("[data-state=finished] :is(.pill.bad, .callout.bad, .tile.bad, .card.bad)").length`); red != 0 {
		t.Errorf("a finished run has %d red things", red)
	}
	b.axe()
	b.shoot("states")
	w.patch(object{"leader": "", "term": 8})
	b.says("#trouble", "No server leads")
	b.shoot("no-leader")
}

// Each action asks for a reason, sends it, and says what came of it.
func TestActions(t *testing.T) {
	t.Parallel()
	w, b := newWorld(t), openTab(t)
	b.forgive("409")
	w.patch(object{"jobs": object{"gpt-7b": job(object{"replica-0": replica(nil), "busy": replica(nil), "d": replica(object{"state": "draining"}), "e": object{"state": "evicted"}}, nil)}})
	b.open(w.url)
	b.says(".card", "replica-0")
	for _, press := range []string{"drain replica-0", "evict replica-0", "kill replica-0", "hand the lead to 10.0.0.1:29510"} {
		b.click("main", press)
		b.until("a dialog asks", `document.querySelector("dialog[open]") && document.activeElement.id === "reason"`)
		b.reason("because of " + press)
		b.until("it is closed", `!document.querySelector("dialog")`)
	}
	b.click("main", "Rules in force")
	b.click("main", "change the rules")
	b.axe()
	b.shoot("rules")
	b.fill("#rule-min_replicas", "4")
	b.reason("more of them")
	b.until("it is closed", `!document.querySelector("dialog")`)
	b.click("main", "kill busy")
	b.reason("it hangs")
	b.says("dialog .error", "busy takes no kills: set Config.OnKill")
	b.shoot("refused")
	want := []string{
		`/api/v1/jobs/gpt-7b/replicas/replica-0/drain {"reason":"because of drain replica-0"}`,
		`/api/v1/jobs/gpt-7b/replicas/replica-0/evict {"reason":"because of evict replica-0"}`,
		`/api/v1/jobs/gpt-7b/replicas/replica-0/kill {"reason":"because of kill replica-0"}`,
		`/api/v1/leader/transfer {"reason":"because of hand the lead to 10.0.0.1:29510","to":"s1"}`,
		`/api/v1/jobs/gpt-7b/rules {"min_replicas":4,"reason":"more of them"}`,
		`/api/v1/jobs/gpt-7b/replicas/busy/kill {"reason":"it hangs"}`,
	}
	if got := strings.Join(w.asked(), "\n"); got != strings.Join(want, "\n") {
		t.Errorf("asked for:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}
