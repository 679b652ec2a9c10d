// What a reviewer decides: through the server, or in this browser, to be saved as a file.

/** @import { Decision, Row, State } from "./types.js" */
import { emit } from "./bus.js";
import { byId, complain, counted, h, memory, say } from "./dom.js";
import { ledger } from "./ledger.js";
import { canPick, isNamed, model, picks, placeOf, ratedTake, shownTake, stateOf, takeOf } from "./model.js";
import { ask, poll, reload, server } from "./server.js";

/** @type {Record<string, string>} */
export const STATE_TEXT = {
  open: "",
  approved: "approved",
  rejected: "rejected",
  retake: "retake requested",
  changed: "changed since",
};

const storeName = () => `tts-cli-report ${model.data.folder.path}`;

/** Whether nothing can be decided now. */
export const isReadOnly = () => server.isThere && server.busy !== null;

/** Record a decision about a row's take; to approve a selected take is to use it. @param {Row} row @param {State} state @param {string} [comment] @param {number | null} [at_s] */
export async function decide(row, state, comment = "", at_s = null) {
  if (!isNamed(row)) return say(`${row.id} is an invalid row of the manifest: fix it there`);
  if (isReadOnly()) return say("A run is in progress: wait until it ends");
  if (state === "approved" && server.isThere && placeOf(row) !== row.chosen && !(await use(row))) return;
  const current = model.byName.get(row.id) ?? row;
  const { take, sha256 = null } = state === "comment" ? shownTake(current) : ratedTake(current);
  /** @type {Decision} */
  const decision = { id: row.id, take, sha256, state, comment, at_s };
  ledger.own.add(decision);
  ledger.rebuild();
  emit("decided");
  if (!server.isThere) {
    decision.time = new Date().toISOString();
    return remember();
  }
  const notSaved = (/** @type {Error} */ error) => say(`Not saved: ${error.message}`);
  await ask("decide", decision).then(poll).catch(notSaved);
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
  emit("picked");
  if (server.isThere) return;
  remember();
  say(`${row.id}: take ${take} ${place === row.chosen ? "stays" : "is selected"}`);
}

/** Use the selected take. Return whether it is the row's now. @param {Row} row */
export async function use(row) {
  const { take, is_other: isOther, written } = shownTake(row);
  try {
    await ask("pick", [row.id, take]);
    picks.delete(row.id);
    await reload();
    say(`${row.id}: take ${take} is the row's take now`);
    if (isOther && written !== undefined && written !== row.text) await showChange(row.id, written);
    else if (isOther) say("Give the row in the manifest the same fields, or the next run of synth makes it again");
    return true;
  } catch (error) {
    complain(/** @type {Error} */ (error));
    return takeOf(model.byName.get(row.id) ?? row).take === take;
  }
}

/** Show what a text would change in the manifest, and write it if the user agrees. @param {string} id @param {string} text */
async function showChange(id, text) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("change"));
  const diff = await ask("manifest", { id, text });
  if (!diff) return;
  byId("change-diff").textContent = diff;
  byId("change-write").onclick = () => {
    dialog.close();
    const written = () => say("The manifest has the new text");
    ask("manifest", { id, text, diff }).then(written).catch(complain);
  };
  dialog.showModal();
}

/** Rows that were marked for another take. */
export const retakeRows = () => model.rows.filter(row => isNamed(row) && stateOf(row) === "retake");

/** Restore what this browser has stored for a static page. */
export function restore() {
  ledger.stored = model.data.decisions;
  const { decisions = [], takes = [] } = memory.get(storeName()) ?? {};
  for (const one of decisions) if (model.byName.has(one.id)) ledger.own.add(one);
  for (const [id, take] of takes) if (canPick(id, take)) picks.set(id, take);
  ledger.rebuild();
}

/** Store what was decided in this browser. */
const remember = () => memory.set(storeName(), { decisions: [...ledger.own], takes: [...picks] });

/** Forget what was decided in this browser and not stored in the folder. */
export function clear() {
  picks.clear();
  ledger.own.clear();
  ledger.rebuild();
  remember();
  emit("picked");
  emit("decided");
}

/** Save the decisions of this browser as a file for `review --import`. */
export function saveFile() {
  const text = [...ledger.own].map(one => `${JSON.stringify(one)}\n`).join("");
  const url = URL.createObjectURL(new Blob([text], { type: "application/jsonl" }));
  h("a", { href: url, download: `${model.data.folder.name || "folder"}.reviews.jsonl` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
  say(`Saved ${counted(ledger.own.size, "decision")}`);
}
