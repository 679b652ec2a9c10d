// Retakes on the spot: edit a row, make takes of it, and write an edited text into the manifest.

/** @import { Row } from "./types.js" */
import { button, byId, counted, h, option, say } from "./dom.js";
import { model, placeOf, shownTake } from "./model.js";
import { isReadOnly, useTake } from "./review.js";
import { ask, poll, server } from "./server.js";

/** @typedef {{text: string, voice: string, instruct: string, takes: string}} Draft */
/** What is being edited, by row. @type {Map<string, Draft>} */
const drafts = new Map();

/** @param {Row} row @returns {Draft} */
const original = (row) => ({ text: row.text ?? "", voice: row.voice ?? "", instruct: row.instruct ?? "", takes: "1" });

/** @param {Row} row */
export function retakeNode(row) {
  if (!server.isThere) return null;
  const draft = drafts.get(row.id) ?? original(row);
  /** @param {keyof Draft} name */
  const note = (name) => (/** @type {Event} */ event) => {
    draft[name] = /** @type {HTMLInputElement} */ (event.target).value;
    drafts.set(row.id, draft);
  };
  const text = h("textarea", { rows: "3", dir: "auto", "aria-label": "Text of the retake", "data-key": "retake text", id: "retake-text", oninput: note("text") });
  text.value = draft.text;
  /** @param {"voice" | "instruct"} name @param {string} label @param {Record<string, any>} [more] */
  const field = (name, label, more = {}) => h("label", {}, h("span", { text: label }), " ",
    h("input", { type: "text", value: draft[name], "data-key": `retake ${name}`, autocomplete: "off", oninput: note(name), ...more }));
  const voices = [...new Set(model.rows.map((one) => one.voice ?? ""))].filter(Boolean).slice(0, 100);
  const takes = h("select", { "aria-label": "Number of takes", "data-key": "retake takes", onchange: note("takes") }, ...["1", "2", "3", "5"].map((one) => option(one)));
  takes.value = draft.takes;
  const jobs = server.jobs.filter((job) => job.id === row.id);
  const isRunning = jobs.some((job) => job.state === "waiting" || job.state === "running");
  return h("details", { class: "retake", open: drafts.has(row.id) || isRunning },
    h("summary", { text: "Retake" }),
    text,
    field("voice", "Voice", { list: "voices" }), h("datalist", { id: "voices" }, ...voices.map((one) => option(one))),
    field("instruct", "Style"),
    h("div", { class: "buttons" }, takes,
      button(isRunning ? "Making takes \u2026" : "Make takes", "again", () => start(row, draft), { "data-key": "retake", disabled: isReadOnly() || isRunning })),
    ...jobs.slice(-1).map((job) => h("p", { class: job.error ? "wrong" : "hint", role: "status", text: job.error || `${job.step || job.state}: ${job.num_done} of ${counted(job.takes, "take")}` })));
}

/** @param {Row} row @param {Draft} draft */
async function start(row, draft) {
  const before = original(row);
  /** @type {Record<string, string>} */
  const edits = {};
  for (const name of /** @type {const} */ (["text", "voice", "instruct"])) if (draft[name] !== before[name]) edits[name] = draft[name];
  await request(row, Number(draft.takes), edits);
}

/** Ask for takes of a row. @param {Row} row @param {number} takes @param {Record<string, string>} [edits] */
export async function request(row, takes, edits = {}) {
  try {
    await ask("retake", { id: row.id, takes, edits });
    say(`${row.id}: ${counted(takes, "take")} requested`);
    await poll();
  } catch (error) {
    say(/** @type {Error} */ (error).message);
  }
}

/** Use the selected take; if it has another text, show first what would change in the manifest. @param {Row} row */
export async function use(row) {
  const text = wording(row);
  if (!(await useTake(row)) || text === null) return;
  drafts.delete(row.id);
  await showChange(row, text);
}

/** Return the written text of the selected take if it is not that of the row. @param {Row} row */
function wording(row) {
  const take = shownTake(row);
  const isOther = placeOf(row) !== row.chosen && take.is_other && take.written !== undefined && take.written !== row.text;
  return isOther ? /** @type {string} */ (take.written) : null;
}

/** @param {Row} row @param {string} text */
async function showChange(row, text) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("change"));
  try {
    const { diff, digest } = await ask("manifest", { id: row.id, text });
    if (!diff) return;
    byId("change-diff").textContent = diff;
    byId("change-write").onclick = async () => {
      dialog.close();
      try {
        await ask("manifest", { id: row.id, text, digest });
        say("The manifest has the new text");
      } catch (error) {
        say(/** @type {Error} */ (error).message);
      }
    };
    dialog.showModal();
  } catch (error) {
    say(/** @type {Error} */ (error).message);
  }
}

export const editText = () => {
  const field = byId("retake-text");
  const details = field?.closest("details");
  if (details) details.open = true;
  field?.focus();
};
