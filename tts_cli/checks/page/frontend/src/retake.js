// Retakes on the spot: edit a row, and make takes of it.

/** @import { Row } from "./types.js" */
import { button, byId, complain, counted, h, option } from "./dom.js";
import { model, selection } from "./model.js";
import { isReadOnly } from "./review.js";
import { ask, poll, server } from "./server.js";

/** What is being edited, by row. @type {Map<string, Record<string, string>>} */
const drafts = new Map();
/** Rows whose form is open: it stays so when the row is shown anew. @type {Set<string>} */
const opened = new Set();
/** The fields: label, name of a list of values, example. @type {Record<string, (string | undefined)[]>} */
const FIELDS = {
  voice: ["Voice", "voices"],
  instruct: ["Style"],
  lexicon: ["Lexicon", undefined, "lead=led; read=red"],
};

/** @param {Row} row @returns {Record<string, string>} */
const original = ({ text = "", voice = "", instruct = "" }) => ({ text, voice, instruct, lexicon: "", takes: "1" });

/** @param {string[]} values */
const options = values => values.map(value => option(value));

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
  const text = h("textarea", { rows: "3", dir: "auto", "aria-label": "Text of the retake", id: "retake-text" });
  const fields = Object.entries(FIELDS).map(([name, [label, list, placeholder]]) => {
    const input = h("input", { type: "text", autocomplete: "off", list, placeholder });
    return h("label", h("span", label), bound(name, input));
  });
  const voices = [...new Set(model.rows.map(one => one.voice ?? ""))].filter(Boolean).slice(0, 100);
  const count = h("select", { "aria-label": "Number of takes" }, options(["1", "2", "3", "5"]));
  const job = server.jobs.findLast(one => one.id === row.id);
  const isRunning = job !== undefined && ["waiting", "running"].includes(job.state);
  const label = isRunning ? "Making takes \u2026" : "Make takes";
  const facts = { "data-key": "retake", disabled: isReadOnly() || isRunning };
  const make = button(label, "again", () => start(row, draft), facts);
  const state = job && (job.error || `${job.state}: ${job.num_done} of ${counted(job.takes, "take")}`);
  const nodes = [h("summary", "Retake"), bound("text", text), ...fields];
  const list = h("datalist", { id: "voices" }, options(voices));
  const status = job && h(job.error ? "p.wrong" : "p.hint", { role: "status" }, state);
  const open = opened.has(row.id) || isRunning;
  const form = h("details.retake", { open }, nodes, list, h("div.buttons", bound("takes", count), make), status);
  form.ontoggle = () => (form.open ? opened.add(row.id) : opened.delete(row.id));
  return form;
}

/** @param {Row} row @param {Record<string, string>} draft */
function start(row, draft) {
  const { takes, ...before } = original(row);
  const changed = Object.entries(draft).filter(([name, value]) => name in before && value !== before[name]);
  request(row, Number(draft.takes), Object.fromEntries(changed));
}

/** Ask for takes of a row. @param {Row} row @param {number} takes @param {object} [edits] */
export async function request(row, takes, edits = {}) {
  await ask("retake", { id: row.id, takes, edits }).then(poll).catch(complain);
}

export const editText = () => {
  if (selection.row) opened.add(selection.row.id);
  const field = byId("retake-text");
  field?.closest("details")?.setAttribute("open", "");
  field?.focus();
};
