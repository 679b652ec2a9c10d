// What a reviewer decides: through the server, or in this browser, to be saved as a file.

/** @import { Decision, Row, State } from "./types.js" */
import { emit } from "./bus.js";
import { complain, counted, h, memory, say } from "./dom.js";
import { ledger } from "./ledger.js";
import { isNamed, model, picks, placeOf, ratedTake, shownTake, stateOf } from "./model.js";
import { ask, poll, reload, server } from "./server.js";

/** @type {Record<string, string>} */
export const STATE_TEXT = { open: "", approved: "approved", rejected: "rejected", retake: "retake requested", changed: "changed since" };

const storeKey = () => `tts-cli-reviews ${model.data.folder.path}`;

/** Whether nothing can be decided now. */
export const isReadOnly = () => server.isThere && server.busy !== null;

/** Record a decision about a row's take; to approve a selected take is to use it. @param {Row} row @param {State} state @param {string} [comment] @param {number | null} [at_s] */
export async function decide(row, state, comment = "", at_s = null) {
  if (!isNamed(row)) return say(`${row.id} is an invalid row of the manifest: fix it there`);
  if (isReadOnly()) return say("A run is in progress: wait until it ends");
  if (state === "approved" && server.isThere && placeOf(row) !== row.chosen && !(await useTake(row))) return;
  const current = model.byName.get(row.id) ?? row;
  const { take, sha256 = null } = state === "comment" ? shownTake(current) : ratedTake(current);
  /** @type {Decision} */
  const decision = { id: row.id, take, sha256, state, comment, at_s };
  ledger.own.add(decision);
  ledger.rebuild();
  emit("decided");
  if (!server.isThere) {
    decision.time = new Date().toISOString();
    memory.set(storeKey(), [...ledger.own]);
    return;
  }
  await ask("decide", decision).then(poll).catch((error) => say(`Not saved: ${error.message}`));
  ledger.own.delete(decision);
  ledger.rebuild();
  emit("decided");
}

/** Decide, or undo the same decision. @param {Row} row @param {State} state */
export function toggleState(row, state) {
  const isUndone = stateOf(row) === state;
  decide(row, isUndone ? "open" : state);
  if (!isReadOnly() && isNamed(row)) say(isUndone ? `${row.id} is undecided` : `${row.id}: ${STATE_TEXT[state]}`);
}

/** Select a take to listen to; in a static page it is collected for a command. @param {Row} row @param {number} place */
export function pick(row, place) {
  const { take } = row.takes[place];
  if (place === row.chosen) picks.delete(row.id);
  else picks.set(row.id, take);
  if (!server.isThere) memory.set(`tts-cli-report ${model.data.folder.path}`, [...picks]);
  emit("picked", row);
  if (!server.isThere) say(place === row.chosen ? `${row.id}: take ${take} stays` : `${row.id}: take ${take} is selected`);
}

/** Make the selected take the row's current one. Return whether it is. @param {Row} row */
export async function useTake(row) {
  const { take } = shownTake(row);
  const use = async () => {
    await ask("pick", [row.id, take]);
    picks.delete(row.id);
    await reload();
    say(`${row.id}: take ${take} is the row's take now`);
    return true;
  };
  return use().catch((error) => (complain(error), false));
}

/** Rows that were marked for another take. */
export const retakeRows = () => model.rows.filter((row) => isNamed(row) && stateOf(row) === "retake");

/** Restore what this browser has stored for a static page. */
export function restore() {
  if (server.isThere) return;
  ledger.stored = model.data.decisions;
  const known = memory.get(storeKey());
  for (const one of Array.isArray(known) ? known : []) if (model.byName.has(one?.id)) ledger.own.add(one);
  ledger.rebuild();
  const selected = memory.get(`tts-cli-report ${model.data.folder.path}`);
  for (const [id, take] of Array.isArray(selected) ? selected : []) {
    const row = model.byName.get(id);
    if (row && row.takes.some((one, place) => one.take === take && place !== row.chosen)) picks.set(id, take);
  }
}

/** Forget what was decided in this browser and not stored in the folder. */
export function clear() {
  picks.clear();
  ledger.own.clear();
  ledger.rebuild();
  memory.set(storeKey(), []);
  memory.set(`tts-cli-report ${model.data.folder.path}`, []);
  emit("picked");
  emit("decided");
}

/** Save the decisions of this browser as a file for `review --import`. */
export function saveFile() {
  const text = [...ledger.own].map((one) => `${JSON.stringify(one)}\n`).join("");
  const url = URL.createObjectURL(new Blob([text], { type: "application/jsonl" }));
  h("a", { href: url, download: `${model.data.folder.name || "folder"}.reviews.jsonl` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
  say(`Saved ${counted(ledger.own.size, "decision")}`);
}
