// Which rows are shown: the controls above the list.

import { emit, on } from "./bus.js";
import { byId, h, option, setIcon, whole } from "./dom.js";
import { list } from "./list.js";
import { facets, GROUP_OF, model, SORTS, STATUSES, takeOf, view } from "./model.js";
import { select } from "./selection.js";

/** @import { Row } from "./types.js" */

const REVIEWS = {
  "": "any", open: "undecided", approved: "approved", rejected: "rejected", retake: "retake requested",
  changed: "changed since", comment: "with comments",
};
const [search, voice, kind, sort, review, direction] = ["search", "voice", "kind", "sort", "review", "direction"].map((id) => byId(id));
const fields = /** @type {Record<"voice" | "kind" | "sort" | "review", HTMLSelectElement>} */ ({ voice, kind, sort, review });

/** @param {(string | undefined)[]} values */
function tally(values) {
  /** @type {Map<string, number>} */
  const found = new Map();
  for (const value of values) if (value) found.set(value, (found.get(value) ?? 0) + 1);
  return found;
}

/** @param {string} all @param {[string, number][]} counts */
const options = (all, counts) => [option("", all), ...counts.map(([value, number]) => option(value, `${value} (${whole(number)})`))];

/** Fill the controls with the values that the rows have. */
function fill() {
  const { rows } = model;
  byId("statuses").replaceChildren(...Object.entries(STATUSES).map(([name, label]) => {
    const number = name === "all" ? rows.length : rows.filter((row) => row.group === GROUP_OF[name]).length;
    return h("button", { type: "button", "data-status": name, onclick: () => setView({ status: name }) }, `${label} `, h("span", { class: "number", text: whole(number) }));
  }));
  const voices = [...tally(rows.map((row) => row.voice))].sort(([a], [b]) => (a < b ? -1 : 1));
  fields.voice.replaceChildren(...options("all", voices));
  const kinds = tally(rows.flatMap((row) => [...new Set(row.reasons.map((reason) => reason[0]))]));
  const known = Object.keys(model.data.kinds).filter((one) => kinds.has(one));
  fields.kind.replaceChildren(...options("any", known.map((one) => [one, kinds.get(one) ?? 0])));
  fields.review.replaceChildren(...Object.entries(REVIEWS).map(([value, text]) => option(value, text)));
  const hidden = [rows.some((row) => takeOf(row).asr) || "words", rows.some((row) => takeOf(row).mos) || "mos"];
  hidden.push(rows.some((row) => row.order !== row.index || row.chapter) || "order");
  fields.sort.replaceChildren(...Object.entries(SORTS).filter(([name]) => !hidden.includes(name)).map(([name, { label }]) => option(name, label)));
  byId("facets").replaceChildren(...[...facets()].map(([name, counts]) => {
    const sorted = [...counts].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
    const field = h("select", { "data-facet": name, onchange: () => setView({ facets: { ...view.facets, [name]: field.value } }) }, ...options("all", sorted));
    return h("label", {}, h("span", { text: name }), " ", field);
  }));
}

/** Change what is shown, and show it in the controls. @param {Partial<typeof view>} [changes] */
export function setView(changes = {}) {
  Object.assign(view, changes);
  for (const one of byId("statuses").children) one.setAttribute("aria-pressed", String(/** @type {HTMLElement} */ (one).dataset.status === view.status));
  for (const name of /** @type {const} */ (["voice", "kind", "sort", "review"])) fields[name].value = view[name];
  for (const field of byId("facets").querySelectorAll("select")) field.value = view.facets[field.dataset.facet ?? ""] ?? "";
  const input = /** @type {HTMLInputElement} */ (search);
  if (input.value !== view.search) input.value = view.search;
  setIcon(direction, view.isTurned ? "up" : "down");
  direction.setAttribute("aria-pressed", String(view.isTurned));
  emit("view");
  const top = byId("bar").getBoundingClientRect().top + window.scrollY;
  if (window.scrollY > top) window.scrollTo(0, list.node.getBoundingClientRect().top + window.scrollY - byId("bar").offsetHeight - 8);
  list.render();
}

export const clearFilters = () => setView({ search: "", status: "all", voice: "", kind: "", review: "", facets: {} });

/** Go to a row, also if the filters hide it. @param {Row} row */
export function showRow(row) {
  if (!list.places.has(row)) clearFilters();
  select(row, { focus: true, scroll: true });
}

search.oninput = () => setView({ search: /** @type {HTMLInputElement} */ (search).value });
for (const name of /** @type {const} */ (["voice", "kind", "review"])) fields[name].onchange = () => setView({ [name]: fields[name].value });
fields.sort.onchange = () => setView({ sort: fields.sort.value, isTurned: false });
direction.onclick = () => setView({ isTurned: !view.isTurned });
byId("clear").onclick = clearFilters;
on(["rows"], () => {
  fill();
  setView();
});
