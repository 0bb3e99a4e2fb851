// The status document and the events of jobs, and how they change.

/** doc is the status document as the stream tells it: jobs, replicas and servers are by name. */
export let doc = null;

/** skew is how much the server's clock is ahead of ours, in milliseconds. */
export let skew = 0;

/** now is the server's time. */
export const now = () => Date.now() + skew;

/** mostEvents is how many events of a job the page keeps: as many as the server does. */
const mostEvents = 1000;

const feeds = new Map();

/**
 * feed is what is known of a job's events: list, oldest first; version, which rises with each
 * change; asked, once those after from (the start, if there is none) were asked for.
 */
export function feed(job) {
  let f = feeds.get(job);
  if (!f) feeds.set(job, f = {list: [], version: 0, asked: false});
  return f;
}

/** last is the highest seq that is known of a job. */
export const last = job => { const l = feed(job).list; return l.length ? l[l.length - 1].seq : 0; };

/**
 * replace takes a whole document. A server that knows no leader knows no jobs either: those
 * that were known stay in view, and doc.stale says so.
 */
export function replace(next) {
  next = merge(undefined, next);
  next.jobs = byName(next.jobs, "job");
  for (const job of Object.values(next.jobs)) job.replicas = byName(job.replicas, "replica_id");
  if (next.servers && !isMap(next.servers) && next.servers.length && typeof next.servers[0] === "object") next.servers = byName(next.servers, "id");
  if (next.now_ms) skew = next.now_ms - Date.now();
  // A job whose events count from the start again is another one of that name.
  for (const [job, f] of feeds) if (next.jobs[job] && next.jobs[job].last_seq < last(job)) Object.assign(f, {list: [], version: f.version + 1, asked: false});
  // What was told while no stream was open is asked for, from here on.
  for (const [job, f] of feeds) Object.assign(f, {from: last(job), asked: false});
  if (doc && !next.leader && !Object.keys(next.jobs).length) {
    next.jobs = doc.jobs;
    next.stale = true;
  }
  if (doc && (!next.servers || Array.isArray(next.servers))) next.servers = doc.servers;
  if (doc && next.asked === undefined) { next.asked = doc.asked; next.answered = doc.answered; }
  doc = next;
}

/** patch applies an RFC 7386 merge patch. */
export function patch(p) {
  if (!doc) return;
  doc = merge(doc, p);
  if (p.now_ms) skew = p.now_ms - Date.now();
  if (doc.leader) delete doc.stale;
}

/** servers takes what /api/v1/servers says. */
export function servers(answer) {
  if (!doc) return;
  doc.servers = byName(answer.servers, "id");
  doc.asked = answer.asked;
  doc.answered = answer.answered;
}

/** tell adds events of one job, or of theirs. Those that are known are left alone. */
export function tell(events, job) {
  for (const e of events) {
    const f = feed(e.job || job || "default"), l = f.list;
    let at = l.length;
    while (at > 0 && l[at - 1].seq > e.seq) at--;
    if (at > 0 && l[at - 1].seq === e.seq) continue;
    l.splice(at, 0, e);
    if (l.length > mostEvents) l.splice(0, l.length - mostEvents);
    f.version++;
  }
}

/** forget drops the events of jobs that are gone. */
export function forget() {
  for (const job of feeds.keys()) if (!doc.jobs[job]) feeds.delete(job);
}

const isMap = v => v !== null && typeof v === "object" && !Array.isArray(v);

/** byName makes a list a map. A name may be anything, "__proto__" too: these maps inherit nothing. */
function byName(list, key) {
  if (isMap(list)) return list;
  const map = Object.create(null);
  for (const one of list || []) map[one[key]] = one;
  return map;
}

function merge(old, p) {
  if (Array.isArray(p)) return p.map(v => isMap(v) ? merge(undefined, v) : v);
  if (!isMap(p)) return p;
  const to = isMap(old) ? old : Object.create(null);
  for (const k of Object.keys(p)) {
    if (p[k] === null) delete to[k];
    else to[k] = merge(to[k], p[k]);
  }
  return to;
}
