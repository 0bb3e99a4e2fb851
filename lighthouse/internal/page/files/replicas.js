// A job's replicas: cards while they are few, a table when they are many.

import {el, say, name, hint, set, show, keyed} from "./dom.js";
import {actReplica} from "./dialogs.js";
import {age, bytes, causeText, gone, list, natural, plural, short, span, tone, weight, whole} from "./words.js";

/** mostCards is how many replicas are shown as cards; more are a table. */
export const mostCards = 12;

const rowHeight = 34; // as in style.css: the table makes only the rows that are in view

/** Replicas is the part of a job's section that shows its replicas. */
export class Replicas {
  constructor(job) {
    this.job = job;
    this.state = "";      // that is filtered for
    this.sort = {column: "weight", down: false};
    this.chips = el("div", {class: "chips", role: "group", "aria-label": "Filter by state"});
    this.filter = el("input", {type: "search", placeholder: "filter by name", "aria-label": "Filter replicas by name", oninput: () => this.again()});
    this.shown = el("span", {class: "dim number"});
    this.bar = el("div", {class: "replica-bar"}, el("h3", {}, "Replicas"), this.chips, this.filter, this.shown);
    this.picked = el("div", {class: "cards picked"});
    this.cards = el("div", {class: "cards"});
    this.none = el("p", {class: "dim quiet", hidden: true}, "No replica is here.");
    this.makeTable();
    this.departed = new Departed();
    this.root = el("div", {class: "replicas"}, this.bar, this.picked, this.cards, this.scroll, this.none, this.departed.root);
  }

  makeTable() {
    this.body = el("tbody");
    this.heads = columns.map(c => el("th", {scope: "col", class: c.cls}, c.sort
      ? el("button", {type: "button", onclick: () => this.sortBy(c.key)}, c.title) : c.title));
    this.table = el("table", {class: "rows"}, el("thead", {}, el("tr", {}, ...this.heads)), this.body);
    this.scroll = el("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": "Replicas of the job", onscroll: () => this.window()}, this.table);
  }

  sortBy(column) {
    this.sort = {column, down: this.sort.column === column && !this.sort.down};
    this.again();
  }

  again() { if (this.last) this.update(...this.last); }

  /** update shows the job's replicas; picked is the name of the one that the address asks for. */
  update(job, picked) {
    this.last = [job, picked];
    const all = Object.entries(job.replicas).map(([id, r]) => { r.replica_id = id; return r; });
    const here = all.filter(r => !gone(r));
    const many = here.length > mostCards;
    this.counts(all);
    this.root.classList.toggle("many", many);
    show(this.filter, many);
    show(this.scroll, many);
    show(this.cards, !many);
    show(this.none, !here.length);
    const wanted = this.filter.value.trim().toLowerCase();
    let some = this.state ? here.filter(r => r.state === this.state) : here;
    if (many && wanted) some = some.filter(r => r.replica_id.toLowerCase().includes(wanted));
    say(this.shown, some.length === here.length ? "" : some.length + " of " + here.length);
    const it = job.replicas[picked];
    keyed(this.picked, many && it ? [it] : [], r => r.replica_id, () => makeCard(this.job, true), (e, r) => updateCard(e, job, r));
    if (many) {
      this.rows = this.sorted(some);
      this.heads.forEach((h, i) => set(h, "aria-sort", this.sort.column === columns[i].key ? this.sort.down ? "descending" : "ascending" : null));
      this.window();
      keyed(this.cards, [], String);
    } else {
      some.sort((a, b) => weight(a) - weight(b) || natural(a.replica_id, b.replica_id));
      keyed(this.cards, some, r => r.replica_id, () => makeCard(this.job, false), (e, r) => {
        updateCard(e, job, r);
        set(e, "aria-current", r.replica_id === picked ? "true" : null);
      });
    }
    this.departed.update(job, all.filter(gone));
  }

  sorted(rows) {
    const c = columns.find(c => c.key === this.sort.column);
    const by = c ? c.sort : weight;
    const order = (a, b) => { const x = by(a), y = by(b); return typeof x === "string" ? natural(x, y) : x - y; };
    rows.sort((a, b) => (this.sort.down ? -1 : 1) * order(a, b) || natural(a.replica_id, b.replica_id));
    return rows;
  }

  /** window makes the rows that are in view, and keeps the one that has the focus. */
  window() {
    if (!this.rows || !this.last) return;
    const [job, picked] = this.last;
    const from = Math.max(0, Math.floor(this.scroll.scrollTop / rowHeight) - 10);
    const to = Math.min(this.rows.length, from + Math.ceil((this.scroll.clientHeight || 600) / rowHeight) + 20);
    const focused = this.rows.findIndex(r => this.body.skerryKids && this.body.skerryKids.get("r" + r.replica_id)?.contains(document.activeElement));
    const parts = [];
    let at = 0;
    const upTo = i => { if (i > at) parts.push({gap: i - at, key: "gap" + parts.length}); at = i; };
    const put = i => { upTo(i); parts.push({r: this.rows[i], i, key: "r" + this.rows[i].replica_id}); at = i + 1; };
    if (focused >= 0 && focused < from) put(focused);
    for (let i = from; i < to; i++) put(i);
    if (focused >= to) put(focused);
    upTo(this.rows.length);
    set(this.table, "aria-rowcount", this.rows.length + 1);
    keyed(this.body, parts, p => p.key, p => p.r ? makeRow(this.job) : el("tr", {class: "gap", "aria-hidden": "true"}, el("td", {colspan: columns.length})), (e, p) => {
      if (p.r) {
        updateRow(e, job, p.r, p.i);
        set(e, "aria-current", p.r.replica_id === picked ? "true" : null);
      } else if (e.skerryGap !== p.gap) {
        e.skerryGap = p.gap;
        e.firstChild.style.height = p.gap * rowHeight + "px";
      }
    });
  }

  /** counts shows how many are in each state; a press filters for it. */
  counts(all) {
    const n = new Map();
    for (const r of all) n.set(r.state, (n.get(r.state) || 0) + 1);
    const slow = all.filter(r => r.straggler && r.state !== "straggler").length;
    const states = [...n].map(([state, count]) => ({state, count, tone: tone({state}), gone: gone({state})}));
    states.sort((a, b) => a.gone - b.gone || weight(a) - weight(b) || natural(a.state, b.state));
    if (slow) states.unshift({state: "slow", count: slow, tone: "warn", gone: true});
    if (this.state && !n.has(this.state)) this.state = "";
    keyed(this.chips, states, s => s.state + s.gone, s => s.gone ? el("span", {class: "pill"}) : el("button", {type: "button", class: "pill", onclick: () => {
      this.state = this.state === s.state ? "" : s.state;
      this.again();
    }}), (e, s) => {
      say(e, s.count + " " + s.state);
      set(e, "class", "pill " + s.tone);
      if (!s.gone) set(e, "aria-pressed", String(this.state === s.state));
    });
  }
}

/** role says what a replica is in the quorum. */
const role = r => r.participant ? "participant" : r.member ? r.heals && r.state === "healing" ? "heals" : "spare" : "not a member";

/** doing says what a card has a line for: why it is not simply live. */
function doing(r) {
  const parts = [];
  if (r.why) parts.push(r.why);
  else if (r.cause) parts.push(causeText(r.cause));
  if (r.waiting_ms > 1000 && !r.member) parts.push("waits for a quorum for " + age(r.waiting_ms));
  if (r.silence_ms > 1000) parts.push("silent for " + age(r.silence_ms));
  return parts.join(" · ");
}

/** verbsOf is what can be done to a replica. */
const verbsOf = r => r.state === "draining" ? ["undo", "evict", "kill"] : gone(r) ? [] : ["drain", "evict", "kill"];

const verbTexts = {undo: "undo drain", drain: "drain", evict: "evict", kill: "kill"};

function makeButtons(e, job) {
  return Object.fromEntries(Object.keys(verbTexts).map(verb => [verb, el("button", {
    type: "button", class: verb === "drain" || verb === "undo" ? "small" : "small grave", hidden: true, onclick: () => actReplica(job, e.skerryReplica, verb),
  }, verbTexts[verb])]));
}

function updateButtons(e, r) {
  const may = verbsOf(r);
  for (const [verb, b] of Object.entries(e.skerryButtons)) {
    show(b, may.includes(verb));
    set(b, "aria-label", verbTexts[verb] + " " + short(r.replica_id));
  }
}

const hashOf = (job, id) => "#" + encodeURIComponent(job) + (id ? "/" + encodeURIComponent(id) : "");

function makeCard(job, closes) {
  const e = el("article", {class: "card"});
  const p = e.skerry = {
    name: el("a", {class: "name clip"}), nameText: el("bdi"), state: el("span", {class: "pill"}), slow: el("span", {class: "pill warn", hidden: true}, "straggler"),
    what: el("div", {class: "what clip"}), facts: el("div", {class: "facts-line number"}), own: el("i", {class: "own"}), wait: el("i", {class: "wait"}),
    times: el("div", {class: "times number"}), heal: el("div", {class: "heal number", hidden: true}), progress: el("progress", {"aria-label": "Heal"}), healText: el("span"),
    address: el("div", {class: "mono dim clip"}),
  };
  p.name.append(p.nameText);
  p.bar = el("div", {class: "split", "aria-hidden": "true"}, p.own, p.wait);
  p.heal.append(p.progress, p.healText);
  e.skerryButtons = makeButtons(e, job);
  e.append(el("div", {class: "card-head"}, p.name, el("span", {class: "pills"}, p.slow, p.state),
    closes ? el("a", {class: "close", href: hashOf(job), "aria-label": "Close"}, "×") : ""),
  p.what, p.facts, p.bar, p.times, p.heal, p.address, el("div", {class: "buttons"}, ...Object.values(e.skerryButtons)));
  return e;
}

function updateCard(e, job, r) {
  const p = e.skerry;
  e.skerryReplica = r.replica_id;
  set(e, "class", "card " + tone(r));
  name(p.nameText, short(r.replica_id), r.replica_id);
  set(p.name, "href", hashOf(job.job, r.replica_id));
  say(p.state, r.state);
  set(p.state, "class", "pill " + tone(r));
  show(p.slow, !!r.straggler && r.state !== "straggler");
  const what = doing(r);
  name(p.what, what);
  show(p.what, what !== "");
  say(p.facts, [role(r), r.behind > 0 ? plural(r.behind, "step") + " behind" : r.member ? "level" : "", r.phase].filter(Boolean).join(" · "));
  updateTimes(p, r);
  updateHeal(p, r);
  name(p.address, r.address || "");
  updateButtons(e, r);
}

/** updateTimes shows what of a step is a replica's own, and what it waits for the others. */
function updateTimes(p, r) {
  const known = r.step_ms !== undefined && r.step_ms > 0 && r.member;
  show(p.bar, known);
  show(p.times, known);
  if (!known) return;
  const wait = r.wait_ms || 0;
  p.own.style.flexGrow = r.step_ms;
  p.wait.style.flexGrow = wait;
  say(p.times, "own step " + span(r.step_ms) + " · waits " + span(wait));
  hint(p.times, "what of a step is its own, and how long it waits for the others");
}

function updateHeal(p, r) {
  const h = r.heal;
  show(p.heal, !!h);
  if (!h) return;
  set(p.progress, "max", h.total_bytes || null);
  set(p.progress, "value", h.total_bytes ? Math.min(h.bytes, h.total_bytes) : null);
  say(p.healText, healText(h));
  hint(p.heal, "from " + (h.from || []).join(", "));
}

const healText = h => [bytes(h.bytes || 0) + (h.total_bytes ? " of " + bytes(h.total_bytes) : ""), h.mb_per_s ? Math.round(h.mb_per_s) + " MB/s" : "",
  h.from && h.from.length ? "from " + list(h.from, 2) : ""].filter(Boolean).join(" · ");

// The columns of the table. sort gives what a column is ordered by.
const columns = [
  {key: "name", title: "Replica", sort: r => r.replica_id, cls: "c-name"},
  {key: "weight", title: "State", sort: weight, cls: "c-state"},
  {key: "role", title: "Role", sort: role, cls: "c-role"},
  {key: "behind", title: "Behind", sort: r => -(r.behind || 0), cls: "c-num"},
  {key: "own", title: "Own step", sort: r => -(r.step_ms || 0), cls: "c-num"},
  {key: "wait", title: "Waits", sort: r => -(r.wait_ms || 0), cls: "c-num"},
  {key: "what", title: "What", cls: "c-what"},
  {key: "act", title: "Do", cls: "c-act"},
];

function makeRow(job) {
  const e = el("tr");
  const p = e.skerry = {name: el("a", {class: "name"}), nameText: el("bdi"), state: el("span", {class: "pill"}), slow: el("span", {class: "pill warn", hidden: true}, "slow"),
    role: el("td", {class: "c-role"}), behind: el("td", {class: "c-num"}), own: el("td", {class: "c-num"}), wait: el("td", {class: "c-num"}), what: el("td", {class: "c-what"})};
  p.name.append(p.nameText);
  e.skerryButtons = makeButtons(e, job);
  e.append(el("td", {class: "c-name"}, p.name), el("td", {class: "c-state"}, p.state, " ", p.slow), p.role, p.behind, p.own, p.wait, p.what,
    el("td", {class: "c-act"}, ...Object.values(e.skerryButtons)));
  return e;
}

function updateRow(e, job, r, i) {
  const p = e.skerry;
  e.skerryReplica = r.replica_id;
  set(e, "aria-rowindex", i + 2);
  name(p.nameText, short(r.replica_id), r.replica_id);
  set(p.name, "href", hashOf(job.job, r.replica_id));
  say(p.state, r.state);
  set(p.state, "class", "pill " + tone(r));
  show(p.slow, !!r.straggler && r.state !== "straggler");
  say(p.role, role(r));
  say(p.behind, r.behind ? whole(r.behind) : "");
  say(p.own, r.step_ms ? span(r.step_ms) : "");
  say(p.wait, r.wait_ms ? span(r.wait_ms) : "");
  name(p.what, r.heal ? healText(r.heal) : doing(r));
  updateButtons(e, r);
}

const fewGone = 8;

/** Departed lists the replicas that have gone: who lost which word on the way, and why. */
class Departed {
  constructor() {
    this.list = el("div", {class: "lines"});
    this.most = fewGone;
    this.more = el("button", {type: "button", class: "small", hidden: true, onclick: () => { this.most += 50; this.update(...this.last); }});
    this.root = el("div", {class: "departed", hidden: true}, el("h3", {}, "Gone"), this.list, this.more);
  }

  update(job, all) {
    this.last = [job, all];
    show(this.root, all.length > 0);
    all.sort((a, b) => weight(a) - weight(b) || (a.silence_ms || 0) - (b.silence_ms || 0) || natural(a.replica_id, b.replica_id));
    keyed(this.list, all.slice(0, this.most), r => r.replica_id, () => {
      const e = el("div", {class: "line gone"});
      const p = e.skerry = {name: el("bdi", {class: "name clip"}), state: el("span", {class: "pill"}), what: el("bdi", {class: "clip"})};
      e.skerryButtons = makeButtons(e, job.job);
      e.append(p.name, el("span", {}, p.state), p.what, el("span", {class: "buttons"}, ...Object.values(e.skerryButtons)));
      return e;
    }, (e, r) => {
      e.skerryReplica = r.replica_id;
      name(e.skerry.name, short(r.replica_id), r.replica_id);
      say(e.skerry.state, r.state);
      set(e.skerry.state, "class", "pill " + tone(r));
      name(e.skerry.what, r.cause ? causeText(r.cause) : r.why || "");
      updateButtons(e, r);
    });
    show(this.more, all.length > this.most);
    say(this.more, "show more of " + all.length);
  }
}
