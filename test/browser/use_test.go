package browser

import (
	"fmt"
	"testing"
	"time"
)

// many is a job whose replicas are a table.
func many(n int) object {
	replicas := object{}
	for i := range n {
		replicas[fmt.Sprintf("replica-%d", i)] = replica(object{"step_ms": 100 + i})
	}
	replicas["replica-33"] = replica(object{"state": "stuck", "why": "no progress for 70 s"})
	return replicas
}

// The table: worst first, sorted by a press, filtered by name and by state; a link shows one replica.
func TestTable(t *testing.T) {
	t.Parallel()
	w, b := newWorld(t), openTab(t)
	w.patch(object{"jobs": object{"j": job(many(300), nil)}})
	b.open(w.url)
	first := `document.querySelector("table.rows tbody .name")?.innerText`
	b.until("the worst is first", first+` === "replica-33"`)
	b.click("table.rows", "Replica")
	b.until("by name, as people sort", first+` === "replica-0" && document.querySelectorAll("table.rows tbody .name")[2]?.innerText === "replica-2"`)
	b.click("table.rows", "Replica")
	b.until("and the other way", first+` === "replica-299"`)
	b.click(".chips", "1 stuck")
	b.until("one is stuck", `document.querySelectorAll("table.rows tbody .name").length === 1`)
	b.click(".chips", "1 stuck")
	eval[bool](b, `(f => { f.value = "REPLICA-29"; f.dispatchEvent(new Event("input")); return true })(document.querySelector(".replica-bar input"))`)
	b.says(".replica-bar", "11 of 300")
	b.click("table.rows", "replica-295")
	b.until("its card is shown", `location.hash === "#j/replica-295" && document.querySelector(".picked .card")?.innerText.includes("replica-295")`)
	b.axe()
	b.shoot("table")
	b.open(w.url + "#j/replica-7")
	b.until("a link shows one", `document.querySelector(".picked .card")?.innerText.includes("replica-7")`)
}

// What has the focus keeps it, what is selected stays, and what is pressed is not redrawn,
// while the page is patched.
func TestNothingIsTakenFromUnderTheUser(t *testing.T) {
	t.Parallel()
	w, b := newWorld(t), openTab(t)
	w.patch(object{"jobs": object{"j": job(fiveReplicas(), nil)}})
	b.open(w.url)
	b.says(".card", "replica-4")
	eval[bool](b, `(document.querySelector('[aria-label="kill replica-4"]').focus(), true)`)
	patch := func(step int, state string) {
		w.patch(object{"jobs": object{"j": object{"max_step": step, "replicas": object{"replica-4": object{"state": state}, "replica-3": object{"state": "stuck"}}}}})
	}
	patch(777, "suspect") // its card moves to the front
	b.says(".tile", "777")
	b.until("the focus is kept", `document.activeElement.getAttribute("aria-label") === "kill replica-4"`)
	eval[bool](b, `(getSelection().selectAllChildren(document.querySelector(".tile")), true)`)
	patch(778, "live")
	w.patch(object{"version": "v2"})
	b.until("drawing waits", `new Promise(done => setTimeout(() => done(document.querySelector(".tile").innerText.includes("777")), 600))`)
	eval[bool](b, `(getSelection().removeAllRanges(), true)`)
	b.says(".tile", "778")
}

// Without a stream the page polls; when the lighthouse is away it says so, and comes back
// by itself, with what happened meanwhile.
func TestFallsBackToPollingAndComesBack(t *testing.T) {
	t.Parallel()
	w, b := newWorld(t), openTab(t)
	b.forgive("404")
	b.forgive("503")
	w.patch(object{"jobs": object{"j": job(fiveReplicas(), nil)}})
	w.answerWith(404, 0)
	b.open(w.url)
	b.says("#link", "polling")
	b.says(".card", "replica-4")
	b.says("#servers", "answered by 10.0.0.2:29510")
	w.tell("j", object{"at_ms": time.Now().UnixMilli(), "kind": "formed", "quorum_id": 9, "members": 5, "text": "told while it polls"})
	b.says(".line.change", "told while it polls")
	w.answerWith(0, 0)
	b.open(w.url)
	b.says("#link", "live")
	w.answerWith(503, 503)
	w.cut()
	b.says("#trouble", "Standing quorums go on training")
	b.axe()
	b.shoot("away")
	w.tell("j", object{"at_ms": time.Now().UnixMilli(), "kind": "formed", "quorum_id": 10, "members": 5, "text": "told while it was away"})
	w.answerWith(0, 0)
	b.says("#link", "live")
	b.says(".line.change", "told while it was away")
	b.until("no trouble is left", `document.querySelector("#trouble").hidden`)
}

// The time axis can be used by pointer and by keys.
func TestTimeAxis(t *testing.T) {
	t.Parallel()
	w, b := newWorld(t), openTab(t)
	w.patch(object{"jobs": object{"j": job(fiveReplicas(), object{"last_seq": 60})}})
	w.story("j", 60, 5, 30*time.Minute)
	b.open(w.url)
	labels := `[...document.querySelectorAll(".timeline .when")].map(e => e.textContent).join(" ")`
	// The events come behind the state: there is an axis, from the quorum's age, before there are marks.
	b.until("the axis is drawn, with marks", labels+` !== "" && [...document.querySelectorAll(".timeline .tick")].some(e => e.getAttribute("d"))`)
	all := eval[string](b, labels)
	b.click(".time", "10 min")
	b.until("it shows less", labels+" !== "+fmt.Sprintf("%q", all))
	press := func(key string) {
		eval[bool](b, fmt.Sprintf(`(document.querySelector(".timeline").focus(), document.querySelector(".timeline").dispatchEvent(new KeyboardEvent("keydown", {key: %q, bubbles: true})), true)`, key))
	}
	press("Home")
	b.until("all is shown", `document.querySelector(".time button:last-child").getAttribute("aria-pressed") === "true"`)
	press("ArrowLeft")
	b.until("the last mark is read out", `/^\d\d:\d\d:\d\d\.\d{3} · (replica|lighthouse)-/.test(document.querySelector(".readout").textContent)`)
	for range 12 {
		press("+")
	}
	b.until("milliseconds are seen", labels+`.match(/\d\d:\d\d\.\d{3}/)`)
	b.shoot("zoomed")
}

// The list of all events is filtered by kind and by replica; a new one comes to its top.
func TestEvents(t *testing.T) {
	t.Parallel()
	w, b := newWorld(t), openTab(t)
	w.patch(object{"jobs": object{"j": job(fiveReplicas(), object{"last_seq": 200})}})
	w.story("j", 200, 5, 30*time.Minute)
	b.open(w.url)
	b.until("they have come", `document.querySelectorAll(".line.change").length > 0`)
	b.click("main", fmt.Sprintf("Events (%d)", len(w.mu.events["j"])))
	choose := func(group, replica string) {
		eval[bool](b, fmt.Sprintf(`(() => {
			const [kind, who] = [document.querySelector("details select"), document.querySelector("details input")];
			kind.value = %q; kind.dispatchEvent(new Event("change"));
			who.value = %q; who.dispatchEvent(new Event("input"));
			return true })()`, group, replica))
	}
	choose("deaths", "")
	b.until("deaths alone", `(k => k.length > 5 && k.every(e => e.textContent === "lost"))([...document.querySelectorAll(".event .kind")])`)
	choose("all kinds", "replica-3")
	b.until("of one replica", `(k => k.length > 5 && k.every(e => e.textContent.includes("replica-3")))([...document.querySelectorAll(".event .told")])`)
	choose("what was asked for", "")
	b.says(".event", "by alice from 10.0.0.7: “node maintenance”")
	w.tell("j", object{"at_ms": time.Now().UnixMilli(), "kind": "kill", "replica": "replica-1", "by": "bob", "from": "10.0.0.9", "reason": "a drill", "text": "replica-1 was killed by bob: a drill"})
	b.until("the newest is first", `document.querySelector(".event")?.innerText.includes("replica-1 was killed by bob: a drill")`)
	b.axe()
	b.shoot("events")
}
