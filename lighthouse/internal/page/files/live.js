// Keeps the document fresh: by the stream where there is one, else by asking again and again.
// One that does not answer is asked again soon, then less often; the page says that it is away.

import * as store from "./store.js";
import {get, refusal, Refusal} from "./api.js";

const quietAfter = 40e3;  // the server says something every 15 s
const firstWithin = 5e3;  // else something between us holds the stream back
const pollEvery = 1000;
const streamAgain = 60e3; // after polling for this long the stream is tried again

/** link is how the page hears of the lighthouse: connecting, live, polling, away. */
export const link = {state: "connecting", why: "", since: Date.now()};

/** run keeps the document fresh for ever, and calls changed after each change. */
export async function run(changed) {
  const turn = (state, why = "") => {
    if (link.state !== state) link.since = Date.now();
    link.state = state;
    link.why = why;
    changed();
  };
  for (let failures = 0; ;) {
    await seen();
    let polls = false, refused = false;
    try {
      await stream(() => { failures = 0; turn("live"); }, changed);
    } catch (e) {
      if (e instanceof Refusal && e.status === 401) return location.assign("/login");
      refused = e instanceof Refusal;
      polls = e instanceof Held || refused && e.status < 500; // an older server has no stream
    }
    if (!document.hidden) {
      try {
        await poll(polls ? streamAgain : 0, () => { failures = 0; turn(polls ? "polling" : "live"); });
      } catch (e) {
        failures++;
        if (failures > 1) turn("away", e.message);
      }
    }
    // Many pages must not come back in the same instant.
    await pause(Math.min(5000, (refused ? 1000 : 250) * 2 ** Math.min(failures, 6)) * (0.75 + Math.random() / 2));
  }
}

/** Held is a stream that says nothing at its begin. */
class Held extends Error {}

/** stream reads until the stream ends. It ends by itself when the page is hidden: nobody looks. */
async function stream(began, changed) {
  const stop = new AbortController();
  const hide = () => { if (document.hidden) stop.abort(new Error("the page is hidden")); };
  document.addEventListener("visibilitychange", hide);
  let first = true;
  let alarm = setTimeout(() => stop.abort(new Held("the stream says nothing")), firstWithin);
  const calm = () => {
    clearTimeout(alarm);
    alarm = setTimeout(() => stop.abort(new Error("the stream fell silent")), quietAfter);
  };
  try {
    const answer = await fetch("/api/v1/stream", {headers: {Accept: "text/event-stream"}, cache: "no-store", signal: stop.signal});
    if (!answer.ok) throw await refusal(answer);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const {value, done} = await reader.read();
      if (done) return;
      if (!first) calm();
      const blocks = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const {event, data} = parse(block);
        if (!data) continue;
        take(event, JSON.parse(data));
        if (first && event === "status") {
          first = false;
          calm();
          began();
        }
      }
      changed();
    }
  } finally {
    clearTimeout(alarm);
    stop.abort();
    document.removeEventListener("visibilitychange", hide);
  }
}

/** parse reads one event of a stream. */
export function parse(block) {
  let event = "message";
  const data = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "event") event = value;
    else if (field === "data") data.push(value);
  }
  return {event, data: data.join("\n")};
}

function take(event, body) {
  if (event === "status") store.replace(body);
  else if (event === "patch") store.patch(body);
  else if (event === "told") store.tell([body]);
}

/** poll asks once, and goes on for as long. */
async function poll(howLong, answered) {
  const until = Date.now() + howLong;
  for (let n = 0; ; n++) {
    store.replace(await get("/api/v1/status").catch(older));
    if (n % 5 === 0) store.servers(await get("/api/v1/servers").catch(() => ({servers: []})));
    answered();
    if (Date.now() >= until) return;
    await pause(pollEvery);
    await seen();
  }
}

/** older asks a leader that does not know of /api/v1 yet, as in the midst of an upgrade. */
function older(e) {
  if (e.status !== 404) throw e;
  return get("/status.json");
}

/** seen waits until the page is in view. */
function seen() {
  if (!document.hidden) return Promise.resolve();
  return new Promise(done => document.addEventListener("visibilitychange", done, {once: true}));
}

const pause = ms => new Promise(done => setTimeout(done, ms));
