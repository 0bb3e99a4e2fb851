// What changes something: each asks for a reason in its own dialog, and then acts.

import {el, say, show} from "./dom.js";
import {post, replicaPath, rulesPath} from "./api.js";
import {short, span} from "./words.js";

const mostReason = 512; // bytes, as the server counts

const verbs = {
  undo: {title: "Undo the drain of", button: "Undo", means: "It stays, if the others have not gone on without it yet."},
  drain: {title: "Drain", means: "It finishes its step and leaves. The others go on without it; no step is lost."},
  evict: {title: "Evict", means: "It is put out at once and is not let in again; started anew it is another one, and may come. A step under way may be done anew.", grave: true},
  kill: {title: "Kill", means: "Its process ends at once. Whatever started it may start it again.", grave: true},
};

/** actReplica asks why, and drains, evicts or kills, or takes a drain back. */
export function actReplica(job, replica, verb) {
  const v = verbs[verb];
  ask({
    title: [v.title + " ", el("bdi", {title: replica}, short(replica)), "?"], means: v.means, button: v.button ?? v.title, grave: v.grave,
    about: "Job " + job,
    act: reason => post(replicaPath(job, replica, verb), {reason}),
    done: `${v.title} ${short(replica)}: asked for.`,
  });
}

/** transferLead asks why, and hands the lead to another server. */
export function transferLead(id, label) {
  ask({
    title: ["Hand the lead to ", el("bdi", {title: id}, label), "?"],
    means: "Standing quorums go on. No new one is formed until the other leads, which takes some milliseconds.",
    button: "Hand over",
    act: reason => post("/api/v1/leader/transfer", {to: id, reason}),
    done: `The lead was handed to ${label}.`,
  });
}

const rules = [
  {key: "min_replicas", label: "Min replicas", min: 1},
  {key: "max_replicas", label: "Max replicas", none: "no bound"},
  {key: "join_timeout_ms", label: "Join timeout", ms: true},
  {key: "heartbeat_timeout_ms", label: "Heartbeat timeout", ms: true},
  {key: "suspect_after_ms", label: "Suspect after", ms: true},
  {key: "grace_ms", label: "Grace", ms: true},
  {key: "stuck_after_ms", label: "Stuck after", ms: true, none: "never"},
  {key: "evict_stuck", label: "Evict the stuck", yes: true},
  {key: "probation_after", label: "Probation after", none: "never"},
];

/** ruleTexts says the rules in force, as pairs. */
export const ruleTexts = job => rules.map(r => [r.label, ruleText(r, job[r.key])])
  .concat([["A beat every", span(job.beat_interval_ms)]]);

function ruleText(r, v) {
  if (v === undefined) return "–";
  if (r.yes) return v ? "yes" : "no";
  if (r.none && !v) return r.none;
  return r.ms ? span(v) : String(v);
}

/** changeRules asks what and why, and changes a job's rules: only what was altered is sent. */
export function changeRules(job) {
  const inputs = rules.filter(r => job[r.key] !== undefined).map(r => ({
    r, was: job[r.key], input: r.yes
      ? el("input", {type: "checkbox", id: "rule-" + r.key, checked: job[r.key]})
      : el("input", {type: "number", id: "rule-" + r.key, min: r.min || 0, max: 2 ** 31, step: 1, value: job[r.key], required: true}),
  }));
  const fields = el("div", {class: "rule-fields"}, ...inputs.map(({r, input}) => el("div", {},
    el("label", {for: input.id}, r.label + (r.ms ? ", ms" : "") + (r.none ? ` (0: ${r.none})` : "")), input)));
  ask({
    title: ["Rules of ", el("bdi", {}, job.job)], means: "In force at once, for the next quorum; kept by all servers.", button: "Change", fields,
    act: reason => {
      const change = {reason};
      for (const {r, was, input} of inputs) {
        const v = r.yes ? input.checked : Number(input.value);
        if (v !== was) change[r.key] = v;
      }
      if (Object.keys(change).length === 1) throw new Error("No rule differs from what is in force.");
      return post(rulesPath(job.job), change);
    },
    done: "The rules were changed.",
  });
}

/** ask opens a dialog that wants a reason, and closes it when what was asked for is done. */
function ask({title, means, about, button, grave, fields, act, done}) {
  const reason = el("input", {id: "reason", name: "reason", required: true, maxlength: mostReason, autocomplete: "off", placeholder: "kept in the history, with who asked"});
  const error = el("div", {class: "error", role: "alert", hidden: true});
  const go = el("button", {class: grave ? "main grave" : "main", type: "submit"}, button);
  const form = el("form", {method: "dialog"}, el("h2", {id: "ask-title"}, ...title),
    about ? el("p", {class: "dim"}, el("bdi", {}, about)) : null, el("p", {id: "ask-means"}, means), fields,
    el("label", {for: "reason"}, "Reason"), reason, error,
    el("div", {class: "buttons"}, el("button", {type: "button", onclick: () => dialog.close()}, "Cancel"), go));
  const dialog = el("dialog", {"aria-labelledby": "ask-title", "aria-describedby": "ask-means", onclose: () => dialog.remove()}, form);
  form.addEventListener("submit", async event => {
    event.preventDefault();
    const why = reason.value.trim();
    const trouble = !why ? "A reason is wanted." : new TextEncoder().encode(why).length > mostReason ? `A reason has at most ${mostReason} bytes.` : "";
    if (trouble) return refuse(error, trouble);
    go.disabled = true;
    try {
      await act(why);
      dialog.close();
      toast(done);
    } catch (e) {
      refuse(error, e.message);
      if (e.status === 401) error.append(" ", el("a", {href: "/login"}, "Log in with the token"));
    }
    go.disabled = false;
  });
  document.body.append(dialog);
  dialog.showModal();
  reason.focus();
}

function refuse(error, message) {
  say(error, message);
  show(error, true);
}

/** toast says for some seconds that something was done. */
function toast(text) {
  const box = document.getElementById("toast");
  say(box, text);
  clearTimeout(box.skerryTimer);
  box.skerryTimer = setTimeout(() => say(box, ""), 6000);
}
