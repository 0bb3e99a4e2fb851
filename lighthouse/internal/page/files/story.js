// What happened in a job: its quorum changes with what each cost, and all its events.

import {el, say, name, hint, plain, set, show, keyed} from "./dom.js";
import {causeText, clock, clockMs, plural, quorumName, short, span} from "./words.js";

/**
 * changes reads a job's events, oldest first: each formed quorum with its cost, to which the
 * first commit in it adds what is known then. Of a round of the same members that followed,
 * only the commit is told, which is another one.
 */
export function changes(events) {
  const all = [], newest = new Map();
  const key = e => e.quorum_id + "." + (e.round || 1);
  for (const e of events) {
    if (e.kind === "formed") {
      const c = {formed: e, resumed: null, cost: {...e.cost}};
      all.push(c);
      newest.set(key(e), c);
    } else if (e.kind === "resumed") {
      const c = newest.get(key(e));
      if (!c) continue;
      c.resumed = e;
      Object.assign(c.cost, e.cost);
    }
  }
  return all;
}

const orderly = ["left", "drained", "evicted"]; // by a word, not by a failure

/** toneOf is a quorum change's colour: bad for a failure, warn where one went by a word, info where one was let in. */
export function toneOf(change) {
  const e = change.formed;
  const kinds = [e.cause, ...(e.gone || [])].map(c => c && c.kind).filter(k => k && k !== "unknown");
  return kinds.some(k => !orderly.includes(k)) ? "bad" : kinds.length ? "warn" : "info";
}

/** failed says that a quorum was formed because something went wrong, not because a replica was let in or let go. */
export const failed = change => toneOf(change) === "bad";

/** parts cuts a told sentence at its dots: the first part is the news, the others its cost. */
export const parts = text => plain(short(text || "")).split(" · ");

const numbers = /(\d[\d.,]*\s?(?:ms|s|min|h|[kMG]?B(?:\/s)?|steps?|members?)\b|\bstep \d+)/;

/** sentence shows a told sentence, with its numbers emphasised. */
export function sentence(e, text) {
  if (e.skerryText === text) return;
  e.skerryText = text;
  hint(e, text);
  const [news, ...rest] = parts(text);
  e.replaceChildren(el("bdi", {class: "news"}, news), ...rest.flatMap(part => [" · ", el("bdi", {},
    ...part.split(numbers).map((piece, i) => i % 2 ? el("b", {}, piece) : piece))]));
}

const fewChanges = 8;

/** Changes lists the quorum changes, newest first. */
export class Changes {
  constructor() {
    this.most = fewChanges;
    this.list = el("div", {class: "lines"});
    this.none = el("p", {class: "dim quiet"}, "No quorum was formed yet.");
    this.more = el("button", {type: "button", class: "small", hidden: true, onclick: () => { this.most += 50; this.update(this.all); }});
    this.root = el("div", {}, el("h3", {}, "Quorum changes, and what each cost"), this.list, this.none, this.more);
  }

  update(all) {
    this.all = all;
    show(this.none, !all.length);
    keyed(this.list, all.slice(-this.most).reverse(), c => c.formed.seq, makeChange, updateChange);
    show(this.more, all.length > this.most);
    say(this.more, "show more of " + all.length);
  }
}

function makeChange() {
  const e = el("div", {class: "line change"});
  const p = e.skerry = {at: el("time", {class: "dim number"}), id: el("span", {class: "mono"}), size: el("span", {class: "size number"}), text: el("div", {class: "told"}),
    who: el("div", {class: "dim clip"}), cost: el("div", {class: "cost number"}), lost: el("b"), costs: el("span", {class: "dim"})};
  p.cost.append(p.lost, p.costs);
  e.append(p.at, el("span", {class: "which"}, p.id, p.size), el("div", {}, p.text, p.who), p.cost);
  return e;
}

function updateChange(e, c) {
  const p = e.skerry, f = c.formed;
  say(p.at, clock(f.at_ms));
  hint(p.at, new Date(f.at_ms).toISOString());
  set(p.at, "datetime", new Date(f.at_ms).toISOString());
  name(p.id, quorumName(f.quorum_id, f.round, f.ordinal), `quorum ${f.quorum_id}, round ${f.round}`);
  say(p.size, f.before !== undefined && f.before !== f.members ? `${f.before} → ${f.members}` : f.members ? plural(f.members, "member") : "");
  sentence(p.text, f.text || causeText(f.cause));
  const who = [f.by ? "by " + f.by + (f.from && f.from !== f.by ? " from " + f.from : "") : "", f.reason ? "“" + f.reason + "”" : ""].filter(Boolean).join(": ");
  name(p.who, who);
  show(p.who, who !== "");
  set(e, "class", "line change " + toneOf(c));
  updateCost(p, c.cost);
}

function updateCost(p, cost) {
  // A change that took no longer than a step would have lost nothing, and says no number.
  const known = cost.lost_ms !== undefined || cost.resumed_ms !== undefined;
  say(p.lost, known ? span(cost.lost_ms || 0) + " lost" : "");
  const each = [["known", cost.known_ms], ["again", cost.reformed_ms], ["training", cost.resumed_ms]].filter(([, v]) => v !== undefined);
  say(p.costs, each.map(([k, v]) => k + " " + span(v)).join(" · "));
  hint(p.cost, each.length ? "After the first sign of it: the fault was known, members stood again, the first step was committed." : "");
  set(p.lost, "class", cost.lost_ms >= 0.05 ? "" : "none");
  show(p.cost, known || each.length > 0);
}

// The kinds of events, as they are filtered for.
const groups = {
  "all kinds": null,
  "quorums": ["formed", "resumed", "restored", "finished"],
  "deaths": ["lost", "stuck", "away", "moves", "kill"],
  "joins and goodbyes": ["returned", "left", "drained", "evicted", "draining", "stays"],
  "heals": ["healed"],
  "what was asked for": ["draining", "evicted", "kill", "configured", "stays", "transfer", "scaled"],
  "doubts": ["refused", "apart", "mended", "probation", "moves", "doubted", "diverged", "position_fell"],
  "the lead": ["leader", "transfer"],
};

const kindTones = {lost: "bad", stuck: "bad", away: "bad", kill: "bad", diverged: "bad", position_fell: "bad", evicted: "warn", draining: "warn", drained: "warn",
  refused: "warn", apart: "warn", probation: "warn", doubted: "warn", returned: "info", formed: "good", resumed: "good", finished: "done", healed: "good"};

const fewEvents = 100;

/** Events lists all events, newest first, filtered by kind and replica. */
export class Events {
  constructor() {
    this.most = fewEvents;
    this.list = el("div", {class: "lines events"});
    this.kind = el("select", {"aria-label": "Kind of event", onchange: () => this.again()}, ...Object.keys(groups).map(g => el("option", {}, g)));
    this.who = el("input", {type: "search", placeholder: "filter by replica", "aria-label": "Filter events by replica", oninput: () => this.again()});
    this.count = el("span", {class: "dim number"});
    this.more = el("button", {type: "button", class: "small", hidden: true, onclick: () => { this.most += 200; this.again(); }}, "show more");
    this.summary = el("summary", {}, "Events");
    this.root = el("details", {ontoggle: () => this.again()}, this.summary,
      el("div", {class: "tools"}, this.kind, this.who, this.count), this.list, this.more);
  }

  again() { if (this.all) this.update(this.all); }

  update(all) {
    this.all = all;
    say(this.summary, "Events (" + all.length + ")");
    if (!this.root.open) return; // they are made when somebody looks
    const kinds = groups[this.kind.value], who = this.who.value.trim().toLowerCase();
    const about = e => !who || (e.replica || "").toLowerCase().includes(who) || (e.text || "").toLowerCase().includes(who);
    const some = kinds || who ? all.filter(e => (!kinds || kinds.includes(e.kind)) && about(e)) : all;
    say(this.count, some.length === all.length ? "" : some.length + " of " + all.length);
    keyed(this.list, some.slice(-this.most).reverse(), e => e.seq, makeEvent, updateEvent);
    show(this.more, some.length > this.most);
  }
}

function makeEvent() {
  const e = el("div", {class: "line event"});
  const p = e.skerry = {at: el("time", {class: "dim number"}), kind: el("span", {class: "kind"}), text: el("div", {class: "told"})};
  e.append(p.at, p.kind, p.text);
  return e;
}

function updateEvent(e, told) {
  const p = e.skerry;
  say(p.at, clockMs(told.at_ms));
  hint(p.at, new Date(told.at_ms).toISOString());
  say(p.kind, String(told.kind).replaceAll("_", " "));
  set(p.kind, "class", "kind " + (kindTones[told.kind] || "dim"));
  const who = told.by ? ` · by ${told.by}${told.from && told.from !== told.by ? " from " + told.from : ""}${told.reason ? ": “" + told.reason + "”" : ""}` : "";
  const text = told.text || "";
  sentence(p.text, text.includes(told.by || "\0") ? text : text + who);
}
