// Which rows are shown: the controls above the list.

/** @import { Row } from "./types.js" */
import { emit, on } from "./bus.js";
import { byId, h, option, setIcon, whole } from "./dom.js";
import { placeIn, render } from "./list.js";
import { facets, GROUP_OF, hasKind, model, select, SORTS, STATUSES, takeOf, view } from "./model.js";

/** @type {("kind" | "sort" | "review")[]} */
const NAMES = ["kind", "sort", "review"];
const [kind, sort, review] = NAMES.map(name => /** @type {HTMLSelectElement} */ (byId(name)));
const search = /** @type {HTMLInputElement} */ (byId("search"));
const direction = byId("direction");

/** @param {string} all @param {[string, number][]} counts */
function options(all, counts) {
  const nodes = counts.map(([value, number]) => option(value, `${value} (${whole(number)})`));
  return [option("", all), ...nodes];
}

/** Fill the controls with the values that the rows have. */
function fill() {
  const { rows } = model;
  const statuses = Object.entries(STATUSES).map(([name, label]) => {
    const number = name === "all" ? rows.length : rows.filter(row => row.group === GROUP_OF[name]).length;
    const onclick = () => setView({ status: name });
    return h("button", { "data-status": name, onclick }, `${label} `, h("span.number", whole(number)));
  });
  byId("statuses").replaceChildren(...statuses);
  /** @type {[string, number][]} */
  const kinds = Object.keys(model.data.kinds).map(name => [name, rows.filter(row => hasKind(row, name)).length]);
  const found = kinds.filter(([, number]) => number);
  kind.replaceChildren(...options("any", found));
  const hidden = [rows.some(row => takeOf(row).asr) || "words", rows.some(row => takeOf(row).mos) || "mos"];
  hidden.push(rows.some(row => row.order !== row.index || row.chapter) || "order");
  const sorts = Object.entries(SORTS).filter(([name]) => !hidden.includes(name));
  sort.replaceChildren(...sorts.map(([name, { label }]) => option(name, label)));
  const fields = [...facets()].map(([name, counts]) => {
    const sorted = [...counts].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
    const field = h("select", { "data-facet": name }, options("all", sorted));
    field.onchange = () => setView({ facets: { ...view.facets, [name]: field.value } });
    return h("label", h("span", name), " ", field);
  });
  byId("facets").replaceChildren(...fields);
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
  const [bar, list] = [byId("bar"), byId("list")].map(node => node.getBoundingClientRect());
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
