// One job's time axis: how many members there were, and what happened, in one drawing.

import {el, svg, say, set, show} from "./dom.js";
import {clockMs, plural, short} from "./words.js";
import {failed} from "./story.js";

const top = 10, plot = 96, between = 9, lane = 15, axis = 20, left = 66, right = 14;
const lanesAt = top + plot + between;
const least = 100; // ms: a change of some milliseconds is to be seen, too

// What has ticks, each in a lane of its own: colours alone tell nothing to many.
const lanes = [
  {key: "death", title: "deaths", kinds: ["lost", "stuck"]},
  {key: "join", title: "joins", kinds: ["returned"]},
  {key: "drain", title: "drains", kinds: ["drained", "left", "evicted"]},
  {key: "heal", title: "heals", kinds: ["healed"]},
  {key: "lead", title: "leaders", kinds: ["leader"]},
];

const height = lanesAt + lanes.length * lane + axis;

/** Timeline is the drawing, with its buttons. */
export class Timeline {
  constructor() {
    this.width = 0;
    this.range = {last: 0}; // the last so many ms, 0: all; or {from, to}
    this.model = {points: [], marks: [], outages: [], begin: 0};
    this.make();
    this.listen();
  }

  make() {
    this.grid = svg("g", {class: "grid"});
    this.labels = svg("g", {class: "labels"});
    this.area = svg("path", {class: "area"});
    this.outage = svg("path", {class: "outage"});
    this.minimum = svg("path", {class: "minimum"});
    this.line = svg("path", {class: "size"});
    this.ticks = Object.fromEntries(lanes.map(l => [l.key, svg("path", {class: "tick " + l.key})]));
    this.cursor = svg("path", {class: "cursor"});
    this.selection = svg("rect", {class: "selection", y: top, height: plot + between + lanes.length * lane, visibility: "hidden"});
    const titles = lanes.map((l, i) => svg("text", {x: left - 8, y: lanesAt + i * lane + 12, class: "lane"}, l.title));
    const rules = svg("path", {class: "rules", d: ""});
    this.rules = rules;
    this.drawing = svg("svg", {height, class: "timeline", role: "img", tabindex: 0}, this.grid, rules, this.outage, this.area, this.minimum, this.line,
      ...Object.values(this.ticks), this.labels, ...titles, this.selection, this.cursor);
    const pick = (title, last) => el("button", {type: "button", class: "small", onclick: () => this.follow(last)}, title);
    this.presets = [[600e3, pick("10 min", 600e3)], [3600e3, pick("1 h", 3600e3)], [0, pick("all", 0)]];
    this.readout = el("div", {class: "readout number"});
    this.root = el("div", {class: "box time"}, el("div", {class: "time-head"}, el("h3", {}, "Members over time"),
      el("span", {class: "legend dim"}, "drag to look closer, double-click for all"),
      el("span", {class: "buttons"}, el("button", {type: "button", class: "small", "aria-label": "Zoom in", onclick: () => this.zoom(0.5)}, "+"),
        el("button", {type: "button", class: "small", "aria-label": "Zoom out", onclick: () => this.zoom(2)}, "−"), ...this.presets.map(p => p[1]))),
    this.drawing, this.readout);
  }

  listen() {
    const d = this.drawing;
    new ResizeObserver(() => {
      if (d.clientWidth === this.width) return;
      this.width = d.clientWidth;
      this.draw();
    }).observe(this.root);
    const x = event => event.clientX - d.getBoundingClientRect().left;
    let from = null;
    d.addEventListener("pointerdown", event => { if (event.button === 0 && event.pointerType !== "touch") { from = x(event); d.setPointerCapture(event.pointerId); } });
    d.addEventListener("pointermove", event => {
      if (from === null) return this.read(x(event));
      const [a, b] = [Math.min(from, x(event)), Math.max(from, x(event))];
      set(this.selection, "x", Math.max(left, a));
      set(this.selection, "width", Math.max(0, b - Math.max(left, a)));
      set(this.selection, "visibility", b - a > 4 ? "visible" : "hidden");
    });
    d.addEventListener("pointerup", event => {
      if (from === null) return;
      const [a, b] = [Math.min(from, x(event)), Math.max(from, x(event))];
      from = null;
      set(this.selection, "visibility", "hidden");
      if (b - a > 4) this.look(this.at(Math.max(left, a)), this.at(b));
      else this.read(b);
    });
    d.addEventListener("pointercancel", () => { from = null; set(this.selection, "visibility", "hidden"); });
    d.addEventListener("pointerleave", () => { if (from === null) this.read(null); });
    d.addEventListener("dblclick", () => this.follow(0));
    d.addEventListener("wheel", event => {
      if (!event.ctrlKey && !event.altKey) return; // else the page scrolls
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.at(x(event)));
    }, {passive: false});
    d.addEventListener("keydown", event => this.key(event));
  }

  /** key makes the drawing usable without a pointer: arrows go from mark to mark. */
  key(event) {
    const does = {"+": () => this.zoom(0.5), "-": () => this.zoom(2), Home: () => this.follow(0), End: () => this.follow(600e3),
      ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1)}[event.key];
    if (!does) return;
    event.preventDefault();
    does();
  }

  step(by) {
    const marks = this.model.marks;
    if (!marks.length) return;
    const i = marks.indexOf(this.picked);
    this.picked = marks[i < 0 ? (by < 0 ? marks.length - 1 : 0) : Math.max(0, Math.min(marks.length - 1, i + by))];
    const [from, to] = this.view();
    if (this.picked.t < from || this.picked.t > to) this.look(this.picked.t - (to - from) / 2, this.picked.t + (to - from) / 2);
    this.read(this.x(this.picked.t), this.picked);
  }

  follow(last) { this.range = {last}; this.draw(); }

  look(from, to) {
    if (to - from < least) { const mid = (from + to) / 2; from = mid - least / 2; to = mid + least / 2; }
    this.range = {from, to};
    this.draw();
  }

  /** zoom shows by times as much time around at, which is the middle if it is not given. */
  zoom(by, at) {
    const [from, to] = this.view();
    if (at === undefined) at = this.picked ? this.picked.t : (from + to) / 2;
    at = Math.max(from, Math.min(to, at));
    if (by > 1 && (to - from) * by >= this.now - this.model.begin) return this.follow(0);
    this.look(at - (at - from) * by, at + (to - at) * by);
  }

  view() {
    const m = this.model;
    if (this.range.to) return [this.range.from, this.range.to];
    const from = this.range.last ? Math.max(m.begin, this.now - this.range.last) : m.begin;
    const to = Math.max(this.end, from + 10e3);
    return [from, to + (to - from) / 50];
  }

  x(t) { const [from, to] = this.view(); return left + (t - from) / (to - from) * (this.width - left - right); }
  at(x) { const [from, to] = this.view(); return from + (x - left) / Math.max(1, this.width - left - right) * (to - from); }

  /** update takes the job, its quorum changes and its events; now is the server's time. */
  update(job, changes, events, now) {
    this.now = now;
    const state = job.state || "";
    this.ended = state === "finished" || state === "idle";
    this.end = this.ended && job.state_since_ms ? job.state_since_ms : now;
    if (events.version !== this.version || state !== this.state || job.min_replicas !== this.least || job.created_ms !== this.created) {
      this.version = events.version;
      this.state = state;
      this.least = job.min_replicas;
      this.created = job.created_ms;
      this.model = model(job, changes, events.list, now);
    }
    set(this.drawing, "aria-label", `Members of job ${job.job} over time: now ${job.stands ? job.members : 0}; ${plural(changes.length, "quorum change")}. Arrow keys go from mark to mark.`);
    show(this.root, this.model.points.length + this.model.marks.length > 0);
    this.draw();
  }

  draw() {
    if (!this.width || this.now === undefined) return;
    const [from, to] = this.view();
    for (const [last, b] of this.presets) set(b, "aria-pressed", String(!this.range.to && this.range.last === last));
    const most = Math.max(1, this.least || 0, ...[this.model.most]);
    const y = n => top + plot - n / most * (plot - 6);
    this.drawSize(from, to, y);
    this.drawTicks(from, to);
    this.drawGrid(from, to, most, y);
    this.read(this.readAt === undefined ? null : this.readAt, this.picked);
  }

  drawSize(from, to, y) {
    const m = this.model, end = Math.min(this.end, to);
    let line = "", size = 0, px = left, first = true;
    for (const p of m.points) {
      if (p.t > end) break;
      if (p.t <= from) { size = p.n; first = false; continue; }
      const x = this.x(p.t);
      if (line === "") line = first ? `M${f(x)} ${f(y(0))}` : `M${left} ${f(y(size))}`;
      line += `H${f(x)}V${f(y(p.n))}`;
      size = p.n;
      px = x;
    }
    if (line === "" && m.points.length && !first) line = `M${left} ${f(y(size))}`;
    if (line) line += `H${f(Math.max(px, Math.min(this.x(end), this.width - right)))}`;
    set(this.line, "d", line);
    const start = /^M(\S+)/.exec(line);
    set(this.area, "d", start ? `${line}V${f(y(0))}H${start[1]}Z` : "");
    let out = "";
    for (const o of m.outages) {
      const until = o.to || this.end;
      if (until < from || o.from > to) continue;
      const a = Math.max(left, this.x(o.from)), b = Math.min(this.width - right, Math.max(a + 1, this.x(until)));
      out += `M${f(a)} ${top}H${f(b)}V${top + plot}H${f(a)}Z`;
    }
    set(this.outage, "d", out);
    set(this.minimum, "d", this.least ? `M${left} ${f(y(this.least))}H${this.width - right}` : "");
  }

  drawTicks(from, to) {
    const d = Object.fromEntries(lanes.map(l => [l.key, ""])), last = {};
    for (const mark of this.model.marks) {
      if (mark.t < from || mark.t > to) continue;
      const x = Math.round(this.x(mark.t));
      if (last[mark.lane] === x) continue; // one tick a pixel
      last[mark.lane] = x;
      const y = lanesAt + lanes.findIndex(l => l.key === mark.lane) * lane + 4;
      d[mark.lane] += `M${x} ${y}V${y + lane - 5}`;
    }
    for (const l of lanes) set(this.ticks[l.key], "d", d[l.key]);
    set(this.rules, "d", lanes.map((_, i) => `M${left} ${lanesAt + i * lane + 0.5}H${this.width - right}`).join(""));
  }

  drawGrid(from, to, most, y) {
    const step = niceStep((to - from) / Math.max(2, (this.width - left) / 110)), bottom = height - axis;
    const key = [from, to, this.width, most].map(Math.round).join();
    if (this.gridKey === key) return;
    this.gridKey = key;
    const grid = [], labels = [];
    for (let t = Math.ceil((from - zone(from)) / step) * step + zone(from); t <= to; t += step) {
      const x = f(this.x(t));
      grid.push(svg("path", {d: `M${x} ${top}V${bottom}`}));
      if (x < this.width - 30) labels.push(svg("text", {x, y: bottom + 15, class: "when"}, label(t, step)));
    }
    for (const n of most > 2 ? [0, Math.round(most / 2), most] : [0, most]) {
      labels.push(svg("text", {x: left - 8, y: f(y(n)) + 4, class: "lane"}, n));
      grid.push(svg("path", {d: `M${left} ${f(y(n))}H${this.width - right}`}));
    }
    this.grid.replaceChildren(...grid);
    this.labels.replaceChildren(...labels);
  }

  /** read says what is at a place: the nearest mark, else how many members there were. */
  read(x, mark) {
    this.readAt = x === null ? undefined : x;
    if (!mark && x !== null) {
      let near = 9;
      for (const m of this.model.marks) {
        const far = Math.abs(this.x(m.t) - x);
        if (far < near) { near = far; mark = m; }
      }
    }
    if (x === null || x < left) {
      this.picked = document.activeElement === this.drawing ? this.picked : undefined;
      set(this.cursor, "d", "");
      return say(this.readout, summary(this.model, this.state));
    }
    this.picked = mark;
    const t = mark ? mark.t : this.at(x);
    set(this.cursor, "d", `M${f(this.x(t))} ${top}V${height - axis}`);
    let n = 0;
    for (const p of this.model.points) { if (p.t > t) break; n = p.n; }
    say(this.readout, `${clockMs(t)} · ${mark ? short(mark.text) : plural(n, "member")}`);
  }
}

const f = v => Math.round(v * 10) / 10;

/** model makes what is drawn: sizes, marks in order of time, outages. */
function model(job, changes, events, now) {
  const points = [], marks = [], outages = [];
  for (const c of changes) {
    const e = c.formed, at = e.at_ms, cost = c.cost;
    const began = cost.reformed_ms !== undefined ? at - cost.reformed_ms : at;
    if (failed(c) && cost.reformed_ms !== undefined) {
      points.push({t: began, n: Math.max(0, (e.before || 0) - (e.gone || []).length)});
      outages.push({from: began, to: cost.resumed_ms !== undefined ? began + cost.resumed_ms : at});
    }
    if (e.members) points.push({t: at, n: e.members});
    if (e.joined && e.joined.length) marks.push({lane: "join", t: at, text: e.text || "joined: " + e.joined.join(", ")});
  }
  for (const e of events) {
    const l = lanes.find(l => l.kinds.includes(e.kind));
    if (l) marks.push({lane: l.key, t: e.at_ms, text: e.text || e.kind + " " + (e.replica || "")});
  }
  // The events of a quorum that is old may be gone: it is known when it was formed.
  if (job.quorum_id && job.created_ms && !points.some(p => p.t >= job.created_ms - 1)) points.push({t: job.created_ms, n: job.members});
  const since = job.state_since_ms;
  if (since && points.length && ["reforming", "waiting", "finished", "idle"].includes(job.state)) {
    points.push({t: since, n: 0});
    if (job.state === "reforming" || job.state === "waiting") outages.push({from: since});
  }
  points.sort((a, b) => a.t - b.t);
  marks.sort((a, b) => a.t - b.t);
  const begin = points.length ? points[0].t : now - 60e3;
  return {points, marks, outages, begin: Math.min(begin, now), most: points.reduce((m, p) => Math.max(m, p.n), job.members || 1)};
}

/** summary says in words what the drawing shows. */
function summary(m) {
  const n = Object.fromEntries(lanes.map(l => [l.key, 0]));
  for (const mark of m.marks) n[mark.lane]++;
  const said = lanes.filter(l => n[l.key]).map(l => n[l.key] + " " + (n[l.key] === 1 ? l.title.replace(/s$/, "") : l.title));
  return m.points.length ? "Since " + clockMs(m.begin).slice(0, 8) + ": " + (said.join(" · ") || "nothing has happened") : "No quorum yet.";
}

const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 900e3, 1800e3, 3600e3, 7200e3, 10800e3, 21600e3, 43200e3, 86400e3];

const niceStep = want => steps.find(s => s >= want) || Math.ceil(want / 86400e3) * 86400e3;

/** zone is how far local midnight is from UTC's, so that labels fall on full hours. */
const zone = t => new Date(t).getTimezoneOffset() * 60e3;

function label(t, step) {
  const s = clockMs(t);
  if (step < 1000) return s.slice(3);
  return step < 60e3 ? s.slice(0, 8) : step < 86400e3 ? s.slice(0, 5) : new Date(t).toLocaleDateString("en-GB", {day: "numeric", month: "short"});
}
