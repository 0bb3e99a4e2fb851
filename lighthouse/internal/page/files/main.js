// The frame: what is asked for by the address, which jobs are open, when to draw.
//
//	#JOB            that job is open
//	#JOB/REPLICA    and that replica is shown
//
// Up to three jobs are all open. Of more, one is: the overview tells of the others.

import {busy, el, keyed, name, say, set, show} from "./dom.js";
import {get, eventsPath} from "./api.js";
import {Job} from "./job.js";
import {Servers} from "./servers.js";
import {link, run} from "./live.js";
import * as store from "./store.js";
import {age, causeText, gone, jobState, jobTone, natural, percent, plural, rate, short, whole} from "./words.js";

const allOpen = 3;
const at = id => document.getElementById(id);
const sections = new Map();
const servers = new Servers(at("servers"));
let chosen = ""; // the open one of many, until the address names another

/** asked is what the address asks for. */
function asked() {
  const [job, replica] = location.hash.slice(1).split("/").map(part => { try { return decodeURIComponent(part); } catch { return ""; } });
  return {job: job || "", replica: replica || ""};
}

/** open is which jobs have a section now. */
function open(doc) {
  const all = Object.keys(doc.jobs).sort(natural);
  if (all.length <= allOpen) return all;
  const want = asked().job;
  if (doc.jobs[want]) chosen = want;
  if (!doc.jobs[chosen]) chosen = [...all].sort((a, b) => urgency(doc.jobs[a]) - urgency(doc.jobs[b]))[0];
  return [chosen];
}

const urgency = job => ({bad: 0, warn: 1, good: 2, info: 2, done: 3, dim: 3})[jobTone(job)];

let due = false, drawn = false, draws = 0;

/** changed has the page drawn soon: once for many changes, and not under the user's finger. */
function changed() {
  if (due) return;
  due = true;
  requestAnimationFrame(function frame() {
    if (busy()) {
      say(at("link"), "held still for you");
      return setTimeout(() => requestAnimationFrame(frame), 200);
    }
    due = false;
    draw();
  });
}

function draw() {
  const began = performance.now();
  drawLink();
  if (store.doc) {
    drawHeader(store.doc);
    drawOverview(store.doc);
    drawJobs(store.doc);
    servers.update(store.doc);
    store.forget();
  }
  if (!drawn && store.doc) requestAnimationFrame(() => performance.mark("skerry first replicas")); // painted by then
  drawn = !!store.doc;
  // For the browser's own tools, and the test: the newest few.
  if (++draws % 200 === 0) performance.clearMeasures("skerry draw");
  performance.measure("skerry draw", {start: began, end: performance.now()});
}

function drawLink() {
  const doc = store.doc, trouble = at("trouble");
  const away = link.state === "away", headless = doc && !doc.leader;
  say(at("link"), away ? "away" : link.state);
  set(at("link"), "class", "pill " + {live: "good", polling: "warn", away: "bad"}[link.state]);
  let text = "";
  if (away) text = `No answer from the lighthouse for ${age(Date.now() - link.since)} (${link.why}). Standing quorums go on training without it; what is shown may be old.`;
  else if (headless) text = "No server leads. Standing quorums go on training; no new one is formed" + (doc.stale ? "; what is shown of the jobs may be old." : ".");
  say(trouble, text);
  show(trouble, text !== "");
  const waits = doc ? Object.values(doc.jobs).filter(j => jobTone(j) === "bad").length : 0;
  const title = (away ? "away · " : headless ? "no leader · " : waits ? plural(waits, "job") + " without a quorum · " : "") + "Skerry lighthouse";
  if (document.title !== title) document.title = title;
  document.body.classList.toggle("stale", away || !!(doc && doc.stale));
}

function drawHeader(doc) {
  say(at("who"), [doc.leader ? "leader " + doc.leader + ", term " + doc.term : "no leader", doc.cluster && "cluster " + doc.cluster.slice(0, 8),
    "ledger " + (doc.durable ? "on disk" : "in memory")].filter(Boolean).join(" · "));
  say(at("version"), "Skerry " + (doc.version || ""));
  const notes = [doc.open_joins && "Joins are open: replicas join without the token.", doc.certificate_warning].filter(Boolean)
    .concat((doc.refused || []).map(r => `${short(r.replica_id)} was refused${r.times > 1 ? `, ${r.times} times` : ""}: ${r.reason}`));
  keyed(at("notes"), notes.slice(0, 5), String, () => el("div", {class: "callout warn"}), say);
}

const heads = ["Job", "State", "Step", "Steps/s", "Goodput", "Replicas", "What"];
const rows = el("tbody");
at("overview").append(el("div", {class: "scroll wide", tabindex: 0, role: "region", "aria-label": "All jobs"},
  el("table", {class: "overview"}, el("thead", {}, el("tr", {}, ...heads.map(h => el("th", {scope: "col"}, h)))), rows)));

function drawOverview(doc) {
  const all = Object.keys(doc.jobs).sort(natural);
  show(at("overview"), all.length > 1);
  if (all.length < 2) return;
  const shown = open(doc);
  keyed(rows, all, String, key => {
    const e = el("tr");
    const p = e.skerry = {link: el("a", {class: "name clip", href: "#" + encodeURIComponent(key)}), text: el("bdi"), state: el("span", {class: "pill"}), cells: heads.slice(2).map((_, i) => el("td", {class: i < 4 ? "number" : ""}))};
    p.link.append(p.text);
    p.what = el("bdi", {class: "clip"});
    p.cells[4].append(p.what);
    e.append(el("td", {}, p.link), el("td", {}, p.state), ...p.cells);
    return e;
  }, (e, key) => {
    const job = doc.jobs[key], p = e.skerry, replicas = Object.entries(job.replicas).map(([id, r]) => { r.replica_id = id; return r; });
    name(p.text, key);
    say(p.state, jobState(job));
    set(p.state, "class", "pill " + jobTone(job));
    say(p.cells[0], whole(job.max_step || 0));
    say(p.cells[1], job.step_rate === undefined ? "" : rate(job.step_rate));
    say(p.cells[2], job.goodput === undefined ? "" : percent(job.goodput));
    say(p.cells[3], whole(replicas.filter(r => !gone(r)).length));
    name(p.what, what(job, replicas));
    set(e, "aria-current", shown.includes(key) && all.length > allOpen ? "true" : null);
  });
}

/** what says the one thing of a job that should be known from afar. */
function what(job, replicas) {
  const state = jobState(job);
  if (state === "waiting") return job.reason || "";
  if (state === "finished" || state === "idle") return "";
  if (state === "reforming") return job.fell ? (job.fell.replica ? job.fell.replica + ": " : "") + causeText(job.fell) : job.fell_by || "";
  const odd = replicas.filter(r => ["suspect", "stuck", "away", "straggler", "draining", "healing"].includes(r.state));
  const slow = replicas.filter(r => r.straggler).length;
  return [odd.length === 1 ? short(odd[0].replica_id) + " is " + odd[0].state : odd.length ? odd.length + " are not simply live" : "", slow ? plural(slow, "straggler") : "", job.wanted ? "change wanted: " + short(job.wanted) : ""].filter(Boolean).join(" · ");
}

function drawJobs(doc) {
  const names = open(doc);
  const {job: want, replica} = asked();
  for (const j of names) fetchEvents(j, doc.jobs[j]);
  if (!names.length) {
    sections.clear();
    at("jobs").skerryKids = undefined;
    return at("jobs").replaceChildren(el("p", {class: "dim quiet"}, doc.leader ? "No job has come yet. Start replicas with this lighthouse: " + location.host : "No job is known."));
  }
  if (!at("jobs").skerryKids) at("jobs").replaceChildren();
  keyed(at("jobs"), names, String, j => {
    const s = new Job(j);
    sections.set(j, s);
    return s.root;
  }, (_, j) => sections.get(j).update(doc.jobs[j], j === want || names.length === 1 && !want ? replica : ""));
  for (const j of sections.keys()) if (!names.includes(j)) sections.delete(j);
  go();
}

/** fetchEvents asks for what happened before the page came, or while it was away. */
async function fetchEvents(name, job) {
  const f = store.feed(name);
  const missing = job.last_seq !== undefined && job.last_seq > store.last(name);
  if (f.asking || f.asked && !missing || Date.now() - (f.askedAt || 0) < 2000) return;
  f.asking = true;
  f.askedAt = Date.now();
  try {
    store.tell(await get(eventsPath(name, f.asked ? store.last(name) : f.from || 0, 1000)), name);
    f.asked = true;
    changed();
  } catch {
    // It is asked again: the page says by itself when the lighthouse is away.
  }
  f.asking = false;
}

let wentTo = null; // the address that was gone to

/** go brings what the address asks for into view, once. */
function go() {
  if (wentTo === location.hash) return;
  wentTo = location.hash;
  const {job, replica} = asked();
  const s = sections.get(job);
  if (!s) return;
  const card = replica && s.root.querySelector(".card[aria-current=true]");
  const picked = replica && s.root.querySelector(".picked .card");
  (picked || card || s.root).scrollIntoView({block: picked || card ? "nearest" : "start"});
}

addEventListener("hashchange", changed);
setInterval(() => {
  if (document.hidden || busy()) return;
  drawLink();
  if (store.doc) for (const [j, s] of sections) if (store.doc.jobs[j]) s.tick(store.doc.jobs[j], store.now());
}, 1000);
run(changed);
