// The server of `review`: data, decisions, and what changes in the folder. Absent in a static page.

/** @import { Changes, Data, Job } from "./types.js" */
import { emit } from "./bus.js";
import { complain, say } from "./dom.js";
import { ledger } from "./ledger.js";
import { canPick, load, model, picks } from "./model.js";

const POLL_MS = 1500;
const RELOAD_MS = 30000; // between two readings of a folder that a run fills

export const server = {
  isThere: false,
  /** The run that has locked the folder. @type {string | null} */ busy: null,
  /** @type {Job[]} */ jobs: [],
  loaded_ms: 0,
};

/** Return the answer of the server. Throws an Error with its message. @param {string} name @param {unknown} [values] */
export async function ask(name, values = null) {
  const headers = { "Content-Type": "application/json" };
  const answer = await fetch(`api/${name}`, { method: "POST", headers, body: JSON.stringify(values) }).catch(() => {
    throw new Error("The server of this page has ended: start `tts-cli review` again");
  });
  const found = await answer.json().catch(() => ({ error: answer.statusText }));
  if (!answer.ok) throw new Error([found.error, found.remedy].filter(Boolean).join("; "));
  return found;
}

/** Read the folder again. */
export async function reload() {
  /** @type {Data} */
  const data = await ask("folder");
  server.loaded_ms = performance.now();
  load(data);
  for (const [id, take] of picks) if (!canPick(id, take)) picks.delete(id);
  emit("rows");
}

/** The last request for changes. @type {Promise<void>} */
let polled = Promise.resolve();
/** Ask for changes, after all earlier requests for them have an answer. */
export const poll = () => (polled = polled.catch(() => {}).then(askForChanges));

async function askForChanges() {
  /** @type {Changes} */
  const found = await ask("changes", ledger.stored.length);
  if (found.revision < ledger.stored.length) ledger.stored = [];
  if (found.decisions.length) {
    ledger.stored.push(...found.decisions);
    ledger.rebuild();
    emit("decided");
  }
  const before = { ...server };
  Object.assign(server, { busy: found.busy, jobs: found.jobs });
  const known = before.jobs.filter(job => job.error).map(job => job.number);
  for (const job of found.jobs) if (job.error && !known.includes(job.number)) say(job.error);
  const isDue = !server.busy || performance.now() - server.loaded_ms > RELOAD_MS;
  if (found.stamp !== model.data.server?.stamp && isDue) await reload();
  const hasChanged = before.busy !== server.busy || JSON.stringify(before.jobs) !== JSON.stringify(server.jobs);
  if (hasChanged) emit("server");
}

/** Poll until the page is closed. */
export async function watch() {
  for (;;) {
    await new Promise(done => setTimeout(done, POLL_MS));
    await poll().catch(error => document.hidden || complain(error));
  }
}
