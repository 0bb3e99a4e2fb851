// How things are said: states and their colours, causes, times, sizes.

/** natural orders names as people do: replica-2 before replica-10. */
export const natural = new Intl.Collator("en", {numeric: true}).compare;

const clockFormat = new Intl.DateTimeFormat("en-GB", {hour: "2-digit", minute: "2-digit", second: "2-digit"});
const dayFormat = new Intl.DateTimeFormat("en-GB", {day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit"});

/** clock is the time of day, with the day if it is another one. */
export function clock(ms, now = Date.now()) {
  return (now - ms > 20 * 3600e3 ? dayFormat : clockFormat).format(ms);
}

/** clockMs is the time of day with milliseconds. */
export const clockMs = ms => clockFormat.format(ms) + "." + String(Math.floor(ms) % 1000).padStart(3, "0");

/** span is a duration: 4.1 ms, 153 ms, 2.3 s, 12 min, 3 h 5 min. */
export function span(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "–";
  if (ms < 0) ms = 0;
  if (ms < 10) return trim(ms.toFixed(1)) + " ms";
  if (ms < 1000) return Math.round(ms) + " ms";
  if (ms < 10e3) return trim((ms / 1000).toFixed(2)) + " s";
  if (ms < 60e3) return trim((ms / 1000).toFixed(1)) + " s";
  if (ms < 3600e3) return Math.floor(ms / 60e3) + " min" + (ms < 600e3 && ms % 60e3 >= 1e3 ? " " + Math.floor(ms % 60e3 / 1e3) + " s" : "");
  if (ms < 48 * 3600e3) return Math.floor(ms / 3600e3) + " h " + Math.floor(ms % 3600e3 / 60e3) + " min";
  return Math.floor(ms / 86400e3) + " d " + Math.floor(ms % 86400e3 / 3600e3) + " h";
}

/** age is span for what ticks: whole seconds only. */
export const age = ms => ms < 1000 ? "0 s" : span(Math.floor(ms / 1000) * 1000);

const trim = s => s.includes(".") ? s.replace(/\.?0+$/, "") : s;

/** bytes is a size. */
export function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let u = 0;
  while (n >= 1000 && u < units.length - 1) { n /= 1000; u++; }
  return (u && n < 100 ? n.toFixed(1) : Math.round(n)) + " " + units[u];
}

/** rate is steps a second. */
export const rate = v => v >= 100 ? v.toFixed(0) : v >= 1 ? v.toFixed(1) : v.toFixed(2);

/** percent is a share; it says 100 only where all is meant. */
export function percent(v) {
  const p = Math.floor(v * 1000) / 10;
  return (p === 100 || p < 10 ? p : p.toFixed(1)) + " %";
}

/** plural is a count with its noun. */
export const plural = (n, one, many) => n + " " + (n === 1 ? one : many || one + "s");

/** whole is a number with thin gaps between the thousands. */
export const whole = n => String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f");

/** short cuts an incarnation's UUID to eight digits: the tooltip has all of it. */
export const short = text => String(text).replace(/:([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, ":$1");

/** quorumName is #ordinal where it is known, else the last digits. */
export function quorumName(id, round, ordinal) {
  if (!id) return "none";
  const digits = String(id);
  return "#" + (ordinal || (digits.length > 5 ? "…" + digits.slice(-4) : digits)) + (round > 1 ? "." + round : "");
}

const replicaTones = {
  live: "good", healing: "info", joined: "info", heard: "dim", held: "warn", "kept apart": "warn", refused: "warn", "on probation": "warn",
  straggler: "warn", suspect: "warn", draining: "warn", stuck: "bad", away: "bad", lost: "bad", evicted: "warn", drained: "dim", left: "dim",
};

/** tone is a replica's colour. */
export const tone = r => replicaTones[r.state] || "dim";

/** gone says that a replica's state is its last. */
export const gone = r => r.state === "left" || r.state === "drained" || r.state === "evicted" || r.state === "lost";

/** weight orders replicas: who needs a look comes first. */
export const weight = r => ({bad: 0, warn: 1, info: 2, dim: 3, good: 4})[tone(r)] - (r.straggler ? 3.5 : 0);

const jobTones = {training: "good", reforming: "warn", waiting: "bad", finished: "done", idle: "dim"};

/** jobState is a job's state; a leader of an older version does not tell it. */
export function jobState(job) {
  if (job.state) return job.state;
  return !job.quorum_id ? "waiting" : job.stands ? "training" : "reforming";
}

/** jobTone is a job's colour. A first quorum that is waited for is no disaster. */
export function jobTone(job) {
  const state = jobState(job);
  return state === "waiting" && !job.quorum_id ? "warn" : jobTones[state] || "dim";
}

const causes = {
  unknown: "cause unknown", stream: "its connection broke", silent: "it fell silent", link: "its links were cut", accused: "a link to it broke",
  left: "by its own word", drained: "drained", evicted: "evicted", stuck: "stuck", away: "away", superseded: "started again", refused: "refused for a while",
  apart: "it and another do not reach each other", failed: "its own step failed", absent: "did not join in time",
};

/** causeText says a cause in one line, with who saw it, who asked for it, and why. */
export function causeText(c) {
  if (!c) return "";
  let s = causes[c.kind] || String(c.kind);
  if (c.witnesses && c.witnesses.length) s += ", seen by " + list(c.witnesses, 4);
  if (c.by) s += " by " + c.by;
  if (c.reason) s += ": “" + c.reason + "”";
  return s;
}

/** list names a few, and counts the rest. */
export function list(names, most = 3) {
  const some = names.slice(0, most).map(short);
  if (names.length > most) return some.join(", ") + " and " + (names.length - most) + " more";
  return some.length < 2 ? some.join("") : some.slice(0, -1).join(", ") + " and " + some[some.length - 1];
}
