// Retakes on the spot: edit a row, make takes of it, and write an edited text into the manifest.

/** @import { Row } from "./types.js" */
import { button, byId, complain, counted, h, option, say } from "./dom.js";
import { model, placeOf, shownTake } from "./model.js";
import { isReadOnly, useTake } from "./review.js";
import { ask, poll, server } from "./server.js";

/** What is being edited, by row. @type {Map<string, Record<string, string>>} */
const drafts = new Map();
/** The fields, with their labels. @type {Record<string, string>} */
const FIELDS = { voice: "Voice", instruct: "Style", lexicon: "Lexicon" };

/** @param {Row} row @returns {Record<string, string>} */
const original = (row) => ({ text: row.text ?? "", voice: row.voice ?? "", instruct: row.instruct ?? "", lexicon: "", takes: "1" });

/** @param {Row} row */
export function retakeNode(row) {
  if (!server.isThere) return null;
  const draft = drafts.get(row.id) ?? original(row);
  /** @template {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} T @param {string} name @param {T} node @returns {T} */
  const bound = (name, node) => {
    node.value = draft[name];
    node.dataset.key = `retake ${name}`;
    node.oninput = () => {
      draft[name] = node.value;
      drafts.set(row.id, draft);
    };
    return node;
  };
  const text = bound("text", h("textarea", { rows: "3", dir: "auto", "aria-label": "Text of the retake", id: "retake-text" }));
  const fields = Object.entries(FIELDS).map(([name, label]) =>
    h("label", {}, h("span", { text: label }), bound(name, h("input", { type: "text", autocomplete: "off", list: name === "voice" ? "voices" : null, placeholder: name === "lexicon" ? "lead=led; read=red" : null }))));
  const voices = [...new Set(model.rows.map((one) => one.voice ?? ""))].filter(Boolean).slice(0, 100);
  const takes = bound("takes", h("select", { "aria-label": "Number of takes" }, ...["1", "2", "3", "5"].map((one) => option(one))));
  const job = server.jobs.findLast((one) => one.id === row.id);
  const isRunning = job !== undefined && ["waiting", "running"].includes(job.state);
  return h("details", { class: "retake", open: drafts.has(row.id) || isRunning },
    h("summary", { text: "Retake" }), text, ...fields, h("datalist", { id: "voices" }, ...voices.map((one) => option(one))),
    h("div", { class: "buttons" }, takes,
      button(isRunning ? "Making takes \u2026" : "Make takes", "again", () => start(row, draft), { "data-key": "retake", disabled: isReadOnly() || isRunning })),
    job && h("p", { class: job.error ? "wrong" : "hint", role: "status", text: job.error || `${job.state}: ${job.num_done} of ${counted(job.takes, "take")}` }));
}

/** @param {Row} row @param {Record<string, string>} draft */
function start(row, draft) {
  const before = original(row);
  const changed = ["text", ...Object.keys(FIELDS)].filter((name) => draft[name] !== before[name]);
  request(row, Number(draft.takes), Object.fromEntries(changed.map((name) => [name, draft[name]])));
}

/** Ask for takes of a row. @param {Row} row @param {number} takes @param {object} [edits] */
export async function request(row, takes, edits = {}) {
  await ask("retake", { id: row.id, takes, edits }).then(poll).catch(complain);
}

/** Use the selected take. If it has another text, show what would change in the manifest. @param {Row} row */
export async function use(row) {
  const { is_other: isOther, written } = shownTake(row);
  const isReworded = placeOf(row) !== row.chosen && isOther && written !== undefined && written !== row.text;
  if (!(await useTake(row))) return;
  drafts.delete(row.id);
  if (isReworded) await showChange(row.id, written).catch(complain);
  else if (isOther) say("Give the row in the manifest the same fields, or the next run of synth makes it again");
}

/** @param {string} id @param {string} text */
async function showChange(id, text) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("change"));
  const diff = await ask("manifest", { id, text });
  if (!diff) return;
  byId("change-diff").textContent = diff;
  byId("change-write").onclick = () => {
    dialog.close();
    ask("manifest", { id, text, diff }).then(() => say("The manifest has the new text")).catch(complain);
  };
  dialog.showModal();
}

export const editText = () => {
  const field = byId("retake-text");
  const details = field?.closest("details");
  if (details) details.open = true;
  field?.focus();
};
