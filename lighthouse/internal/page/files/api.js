// Requests to the server that the page came from, but for the stream.

/** Refusal is an answer that is not a success. */
export class Refusal extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** get asks for a document. It throws a Refusal, or what fetch throws if there is no answer. */
export async function get(path, signal) {
  const within = AbortSignal.timeout(10e3);
  // Not from the browser's cache: what ticks is no part of an answer's tag.
  const answer = await fetch(path, {cache: "no-store", headers: {Accept: "application/json"}, signal: signal ? AbortSignal.any([signal, within]) : within});
  if (!answer.ok) throw await refusal(answer);
  return answer.json();
}

/** post acts. */
export async function post(path, body) {
  const answer = await fetch(path, {
    method: "POST", headers: {"Content-Type": "application/json", Accept: "application/json"},
    body: JSON.stringify(body), signal: AbortSignal.timeout(20e3),
  });
  if (!answer.ok) throw await refusal(answer);
}

/** refusal reads what an answer says: our JSON, or a line of text. */
export async function refusal(answer) {
  const text = await answer.text().catch(() => "");
  try {
    const {error} = JSON.parse(text);
    return new Refusal(answer.status, error.code, error.message);
  } catch {
    return new Refusal(answer.status, "", text.trim().slice(0, 500) || "the answer is " + answer.status);
  }
}

const part = encodeURIComponent;

/** path of a replica's action. */
export const replicaPath = (job, replica, verb) => `/api/v1/jobs/${part(job)}/replicas/${part(replica)}/${verb}`;

/** rulesPath is where a job's rules are changed. */
export const rulesPath = job => `/api/v1/jobs/${part(job)}/rules`;

/** eventsPath is a job's events after seq. */
export const eventsPath = (job, since, limit) => `/api/v1/events?job=${part(job)}&since=${since}&limit=${limit}`;
