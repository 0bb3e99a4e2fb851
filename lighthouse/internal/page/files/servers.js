// The lighthouse's servers: who leads, in which term, who is how far.

import {el, say, name, set, show, keyed} from "./dom.js";
import {transferLead} from "./dialogs.js";
import {age, natural, plural, whole} from "./words.js";

/** Servers is the panel. */
export class Servers {
  constructor(root) {
    this.root = root;
    this.asked = el("p", {class: "dim"});
    this.body = el("tbody");
    root.append(el("h2", {}, "Lighthouse servers"), this.asked, el("div", {class: "scroll wide", tabindex: 0, role: "region", "aria-label": "Lighthouse servers"},
      el("table", {class: "servers"}, el("thead", {}, el("tr", {}, ...["Address", "Server", "Role", "Log", "Lag", "Heard", "Version", "Do"].map(t => el("th", {scope: "col"}, t)))), this.body)));
  }

  update(doc) {
    const all = Object.entries(doc.servers && !Array.isArray(doc.servers) ? doc.servers : {}).map(([id, s]) => ({...s, id}));
    show(this.root, all.length > 0);
    say(this.asked, askedText(doc));
    all.sort((a, b) => natural(a.addr || a.id, b.addr || b.id));
    keyed(this.body, all, s => s.id, makeServer, (e, s) => updateServer(e, s, all));
  }
}

/** askedText says whose view this is. */
export function askedText(doc) {
  const asked = doc.asked || location.host, answered = doc.answered || doc.addr;
  if (!doc.leader) return `You look at ${asked}. No server leads: standing quorums go on training, no new one is formed.`;
  return answered && answered !== asked ? `You look at ${asked}, answered by ${answered}, the leader of term ${doc.term}.` : `You look at ${asked}, the leader of term ${doc.term}.`;
}

const states = {leader: ["leader", "good"], follower: ["follower", "dim"], spare: ["spare, no voter", "dim"], joining: ["joining", "info"], away: ["away", "bad"]};

function makeServer() {
  const e = el("tr");
  const p = e.skerry = {id: el("bdi", {class: "mono"}), addr: el("bdi", {class: "mono"}), role: el("span", {class: "pill"}), log: el("td", {class: "number"}), lag: el("td", {class: "number"}),
    silence: el("td", {class: "number"}), version: el("td")};
  p.hand = el("button", {type: "button", class: "small", onclick: () => transferLead(p.to, p.label)}, "hand the lead");
  e.append(el("td", {}, p.addr), el("td", {}, p.id), el("td", {}, p.role), p.log, p.lag, p.silence, p.version, el("td", {}, p.hand));
  return e;
}

function updateServer(e, s, all) {
  const p = e.skerry;
  const [role, tone] = states[s.state] || [s.state || (s.leader ? "leader" : "follower"), "dim"];
  p.to = s.id;
  p.label = s.addr || s.id;
  name(p.id, s.id.slice(0, 8), s.id + (s.raft_addr ? ", raft at " + s.raft_addr : ""));
  name(p.addr, s.addr || "");
  say(p.role, role);
  set(p.role, "class", "pill " + tone);
  say(p.log, s.last_index ? whole(s.last_index) : "");
  say(p.lag, s.leader || s.state === "away" ? "" : s.lag ? plural(s.lag, "entry", "entries") : "none");
  say(p.silence, s.silence_ms >= 1000 ? age(s.silence_ms) + " silent" : s.state === "away" ? "silent" : "");
  say(p.version, s.version || "");
  show(p.hand, !s.leader && !!s.voter && s.state !== "away" && all.length > 1);
  set(p.hand, "aria-label", "hand the lead to " + p.label);
}
