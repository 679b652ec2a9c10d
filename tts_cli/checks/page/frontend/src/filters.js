// Which rows are shown: the controls above the list.

/** @import { Row } from "./types.js" */
import { emit, on } from "./bus.js";
import { byId, h, option, setIcon, whole } from "./dom.js";
import { placeIn, render } from "./list.js";
import { facets, GROUP_OF, model, SORTS, STATUSES, takeOf, view } from "./model.js";
import { select } from "./selection.js";

const REVIEWS = {
  "": "any", open: "undecided", approved: "approved", rejected: "rejected", retake: "retake requested",
  changed: "changed since", comment: "with comments",
};
/** @type {("kind" | "sort" | "review")[]} */
const NAMES = ["kind", "sort", "review"];
const [kind, sort, review] = NAMES.map((name) => /** @type {HTMLSelectElement} */ (byId(name)));
const search = /** @type {HTMLInputElement} */ (byId("search"));
const direction = byId("direction");

/** @param {string} all @param {[string, number][]} counts */
const options = (all, counts) =>
  [option("", all), ...counts.map(([value, number]) => option(value, `${value} (${whole(number)})`))];

/** Fill the controls with the values that the rows have. */
function fill() {
  const { rows } = model;
  byId("statuses").replaceChildren(...Object.entries(STATUSES).map(([name, label]) => {
    const number = name === "all" ? rows.length : rows.filter((row) => row.group === GROUP_OF[name]).length;
    const choose = () => setView({ status: name });
    const text = h("span", { class: "number", text: whole(number) });
    return h("button", { type: "button", "data-status": name, onclick: choose }, `${label} `, text);
  }));
  /** @type {[string, number][]} */
  const kinds = Object.keys(model.data.kinds)
    .map((name) => [name, rows.filter((row) => row.reasons.some((reason) => reason[0] === name)).length]);
  kind.replaceChildren(...options("any", kinds.filter(([, number]) => number)));
  review.replaceChildren(...Object.entries(REVIEWS).map(([value, text]) => option(value, text)));
  const hidden = [rows.some((row) => takeOf(row).asr) || "words", rows.some((row) => takeOf(row).mos) || "mos"];
  hidden.push(rows.some((row) => row.order !== row.index || row.chapter) || "order");
  const sorts = Object.entries(SORTS).filter(([name]) => !hidden.includes(name));
  sort.replaceChildren(...sorts.map(([name, { label }]) => option(name, label)));
  byId("facets").replaceChildren(...[...facets()].map(([name, counts]) => {
    const sorted = [...counts].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
    const field = h("select", { "data-facet": name }, ...options("all", sorted));
    field.onchange = () => setView({ facets: { ...view.facets, [name]: field.value } });
    return h("label", {}, h("span", { text: name }), " ", field);
  }));
}

/** Change what is shown, and show it in the controls. @param {Partial<typeof view>} [changes] */
export function setView(changes = {}) {
  Object.assign(view, changes);
  for (const one of byId("statuses").querySelectorAll("button")) {
    one.setAttribute("aria-pressed", String(one.dataset.status === view.status));
  }
  for (const field of [kind, sort, review]) field.value = view[/** @type {"kind"} */ (field.id)];
  for (const field of byId("facets").querySelectorAll("select")) {
    field.value = view.facets[field.dataset.facet ?? ""] ?? "";
  }
  if (search.value !== view.search) search.value = view.search;
  setIcon(direction, view.isTurned ? "up" : "down");
  direction.setAttribute("aria-pressed", String(view.isTurned));
  emit("view");
  const [bar, list] = [byId("bar"), byId("list")].map((node) => node.getBoundingClientRect());
  if (bar.top < 1) window.scrollBy(0, list.top - bar.height - 8);
  render();
}

export const clearFilters = () => setView({ search: "", status: "all", kind: "", review: "", facets: {} });

/** Go to a row, also if the filters hide it. @param {Row} row */
export function showRow(row) {
  if (placeIn(row) < 0) clearFilters();
  select(row, { focus: true, scroll: true });
}

search.oninput = () => setView({ search: search.value });
kind.onchange = () => setView({ kind: kind.value });
review.onchange = () => setView({ review: review.value });
sort.onchange = () => setView({ sort: sort.value, isTurned: false });
direction.onclick = () => setView({ isTurned: !view.isTurned });
byId("clear").onclick = clearFilters;
on(["rows"], () => {
  fill();
  setView();
});
