// One job: its state in words, its numbers, its time axis, its replicas, its story, its rules.

import {el, say, name, hint, set, show, keyed} from "./dom.js";
import {changeRules, ruleTexts} from "./dialogs.js";
import {Replicas} from "./replicas.js";
import {Changes, Events, changes, failed, sentence} from "./story.js";
import {Timeline} from "./timeline.js";
import * as store from "./store.js";
import {age, causeText, gone, jobState, jobTone, percent, plural, quorumName, rate, short, span, whole} from "./words.js";

/** Job is a job's section. */
export class Job {
  constructor(job) {
    this.job = job;
    this.title = el("bdi", {class: "clip"});
    this.state = el("span", {class: "pill big"});
    this.since = el("span", {class: "dim"});
    this.client = el("span", {class: "dim"});
    this.rulesButton = el("button", {type: "button", class: "small", onclick: () => changeRules(store.doc.jobs[job])}, "change the rules");
    this.news = el("div", {class: "callout", hidden: true});
    this.tiles = el("div", {class: "tiles"});
    this.time = new Timeline();
    this.replicas = new Replicas(job);
    this.changes = new Changes();
    this.events = new Events();
    this.rules = el("dl", {class: "facts"});
    this.root = el("section", {class: "job", "data-job": job},
      el("div", {class: "head"}, el("h2", {}, this.title), this.state, this.since, this.client),
      this.news, this.tiles, this.time.root, this.replicas.root, this.changes.root, this.events.root,
      el("details", {}, el("summary", {}, "Rules in force"), this.rules, this.rulesButton));
    this.version = -1;
  }

  /** update shows the job as it is now. picked is the replica that the address asks for. */
  update(job, picked) {
    job.job = this.job;
    const feed = store.feed(this.job), now = store.now();
    if (this.version !== feed.version) {
      this.version = feed.version;
      this.all = changes(feed.list);
      this.changes.update(this.all);
      this.events.update(feed.list);
    }
    const tone = jobTone(job);
    name(this.title, job.job);
    say(this.state, jobState(job));
    set(this.state, "class", "pill big " + tone);
    say(this.client, job.client && job.client !== "skerry" ? job.client + " clients" : "");
    set(this.root, "data-state", jobState(job));
    this.tell(job, tone);
    this.replicas.update(job, picked);
    keyed(this.rules, ruleTexts(job), r => r[0], () => {
      const e = el("div");
      e.append(el("dt"), el("dd", {class: "number"}));
      return e;
    }, (e, [k, v]) => { say(e.firstChild, k); say(e.lastChild, v); });
    this.tick(job, now);
  }

  /** tick moves what goes on by itself. */
  tick(job, now) {
    say(this.since, job.state_since_ms ? "for " + age(now - job.state_since_ms) : "");
    keyed(this.tiles, this.facts(job, now), t => t.key, () => {
      const e = el("div", {class: "tile"});
      e.append(el("b", {class: "number"}), el("span"));
      return e;
    }, (e, t) => {
      say(e.firstChild, t.value);
      say(e.lastChild, t.key);
      hint(e, t.hint || null);
      set(e, "class", "tile " + (t.tone || ""));
    });
    // Of the version that this.all was made of: the feed may be newer when a second has passed.
    this.time.update(job, this.all, {version: this.version, list: store.feed(this.job).list}, now);
  }

  /** tell says in a sentence what a user must know of a job that does not simply train. */
  tell(job, tone) {
    const state = jobState(job);
    const last = this.all[this.all.length - 1];
    let text = "";
    if (state === "waiting") text = "No quorum can be formed: " + (job.reason || "the lighthouse does not say why") + ".";
    else if (state === "reforming") text = "The quorum fell: " + (job.fell ? causeOf(job.fell) : job.fell_by || "cause unknown") + " · " + (job.reason || "the next one is being formed");
    else if (state === "finished") text = finishedText(job);
    else if (state === "idle") text = "No replica is here." + (job.fell ? " The last quorum fell: " + causeOf(job.fell) : "");
    else if (job.wanted) text = "A change is wanted: " + short(job.wanted) + ". The quorum stands until its members have asked for the next.";
    else if (last && failed(last) && store.now() - last.formed.at_ms < 60e3) text = last.formed.text + (last.cost.lost_ms !== undefined ? " · " + span(last.cost.lost_ms) + " lost" : "");
    show(this.news, text !== "");
    if (text) sentence(this.news, text);
    set(this.news, "class", "callout " + (state === "training" ? "info" : tone));
  }

  facts(job, now) {
    const done = jobState(job) === "finished" || jobState(job) === "idle";
    const tiles = done && !job.max_step ? [] : [{key: job.steps_total ? "of " + whole(job.steps_total) + " steps" : jobState(job) === "finished" ? "steps done" : "step", value: whole(job.max_step || 0)}];
    if (!done && job.step_rate !== undefined) tiles.push({key: "steps/s", value: rate(job.step_rate), hint: "over the last ten seconds"});
    if (job.goodput !== undefined) tiles.push({key: "goodput", value: percent(job.goodput), tone: job.goodput >= 0.95 ? "good" : job.goodput >= 0.8 ? "warn" : "bad",
      hint: "the share of the time since the first quorum that was not lost to changes"});
    if (job.lost_ms !== undefined) tiles.push({key: "lost to changes", value: span(job.lost_ms)});
    const left = job.eta_ms;
    if (!done && left > 0) tiles.push({key: "to go", value: age(left), hint: "done at " + new Date(now + left).toLocaleString("en-GB") + ", at the rate of the last minutes"});
    if (job.quorum_id && !done) {
      const stands = job.stands || jobState(job) === "training";
      tiles.push({key: stands ? "take part" : "stand", value: stands ? job.participants + " of " + job.members : "0 of " + job.members, tone: stands ? "" : "bad"});
    }
    const times = this.all.filter(failed).map(c => c.cost.reformed_ms).filter(v => v !== undefined).slice(-20).sort((a, b) => a - b);
    if (times.length) tiles.push({key: "to stand again, median", value: span(times[Math.floor(times.length / 2)]), hint: "of the newest " + plural(times.length, "failure") + ": from the first sign to the next quorum"});
    if (job.step_time_ms && !done) tiles.push({key: "a step", value: span(job.step_time_ms)});
    if (job.quorum_id) tiles.push({key: "quorum", value: quorumName(job.quorum_id, job.round, job.ordinal), hint: `quorum ${job.quorum_id}, round ${job.round}, formed ${new Date(job.created_ms).toISOString()}`});
    return tiles;
  }
}

const causeOf = c => (c.replica ? c.replica + " " : "") + "(" + causeText(c) + ")";

function finishedText(job) {
  const all = Object.values(job.replicas).filter(gone);
  const n = all.length ? plural(all.length, "replica") + " went in good order" : "all went in good order";
  return "Finished" + (job.max_step ? " at step " + whole(job.max_step) : "") + `: ${n}.`;
}
