// The server of `review`: data, decisions, and what changes in the folder. Absent in a static page.

/** @import { Changes, Data, Job, Take } from "./types.js" */
import { emit } from "./bus.js";
import { complain, say } from "./dom.js";
import { ledger } from "./ledger.js";
import { canPick, load, picks } from "./model.js";

const POLL_MS = 1500;
const RELOAD_MS = 30000; // between two readings of a folder that a run fills

export const server = {
  isThere: false,
  /** The run that has locked the folder. @type {string | null} */ busy: null,
  /** @type {Job[]} */ jobs: [],
  revision: 0,
  stamp: "",
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
  server.stamp = /** @type {{stamp: string}} */ (data.server).stamp;
  server.loaded_ms = performance.now();
  load(data);
  for (const [id, take] of picks) if (!canPick(id, take)) picks.delete(id);
  emit("rows");
}

/** Ask for changes. */
export async function poll() {
  /** @type {Changes} */
  const found = await ask("changes", server.revision);
  if (found.revision < server.revision) ledger.stored = [];
  if (found.decisions.length) {
    ledger.stored.push(...found.decisions);
    ledger.rebuild();
    emit("decided");
  }
  server.revision = found.revision;
  const [wasBusy, before] = [server.busy, server.jobs];
  server.busy = found.busy;
  server.jobs = found.jobs;
  const known = before.filter((job) => job.error).map((job) => job.number);
  for (const job of found.jobs) if (job.error && !known.includes(job.number)) say(job.error);
  const isDue = !server.busy || performance.now() - server.loaded_ms > RELOAD_MS;
  if (found.stamp !== server.stamp && isDue) await reload();
  if (wasBusy !== server.busy || JSON.stringify(before) !== JSON.stringify(server.jobs)) emit("server");
}

/** Poll until the page is closed. */
export async function watch() {
  for (;;) {
    await new Promise((done) => setTimeout(done, POLL_MS));
    await poll().catch((error) => document.hidden || complain(error));
  }
}

/** Takes whose waveforms are wanted, with the ids of their rows. @type {[string, Take][]} */
let wanted = [];

/** Ask for the waveform of a take soon. @param {string} id @param {Take} take */
export function wantWaveform(id, take) {
  if (!server.isThere || !take.url || take.waveform !== undefined) return;
  take.waveform = null;
  if (!wanted.length) setTimeout(drawWanted, 60);
  wanted.push([id, take]);
}

async function drawWanted() {
  const some = wanted.slice(-200); // the last ones are in sight
  wanted = [];
  const found = await ask("outlines", some.map(([id, { take }]) => [id, take])).catch(() => []);
  some.forEach(([, take], place) => { take.waveform = found[place]; });
  emit("drawn");
}
