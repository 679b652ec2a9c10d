// The list. Only rows in sight are elements; the others are an empty space of their height.

/** @import { Row } from "./types.js" */
import { on } from "./bus.js";
import { byId, counted, h, whole } from "./dom.js";
import { makeItem } from "./item.js";
import { model, select, selection, shownItems, stateOf } from "./model.js";
import { player } from "./player.js";
import { sizeOf } from "./waveform.js";

const BEYOND = 240; // pixels above and below the window that are made as well
const HEADING = 48; // pixels
export const NARROW = matchMedia("(max-width: 720px)");

/** @typedef {ReturnType<typeof makeItem> | ReturnType<typeof makeHeading>} Made */

const node = byId("list");
/** @type {ReturnType<typeof shownItems>} */
let items = [];
let tops = new Float64Array(1); // pixels, one more than items
/** Places in `items`. @type {Map<Row, number>} */
let places = new Map();
/** Elements by their place. @type {Map<number, Made>} */
const made = new Map();
/** Of the waveforms, the same for all rows. @type {{width: number, height: number} | undefined} */
let waveSize;

/** Filter and sort anew. */
function update() {
  items = shownItems();
  places = new Map();
  items.forEach((item, place) => item.row && places.set(item.row, place));
  for (const place of made.keys()) drop(place);
  measure();
  if (!selection.row || !places.has(selection.row)) select(items.find(item => item.row)?.row ?? null);
  const [all, found] = [model.rows.length, places.size];
  byId("count").textContent = all === found ? counted(all, "row") : `${whole(found)} of ${counted(all, "row")}`;
  byId("empty").hidden = found > 0;
}

export function measure() {
  const rowHeight = NARROW.matches ? 148 : 88;
  waveSize = undefined;
  tops = new Float64Array(items.length + 1);
  items.forEach((item, place) => (tops[place + 1] = tops[place] + (item.row ? rowHeight : HEADING)));
  node.style.height = `${tops[items.length]}px`;
  for (const place of made.keys()) move(place);
  render();
}

/** Return the place of the item at a height. @param {number} top */
const at = top => tops.subarray(0, items.length).findLastIndex(one => one <= Math.max(0, top));

/** Make the rows in sight, and remove the others. @param {number} [most] rows to make now, so that scrolling is smooth */
export function render(most = Infinity) {
  if (!items.length) return;
  const top = -node.getBoundingClientRect().top;
  const [first, last] = [at(top - BEYOND), at(top + window.innerHeight + BEYOND)];
  const wanted = Array.from({ length: last - first + 1 }, (_, number) => first + number);
  // The current row stays, or the keyboard would lose its focus.
  const current = placeIn(selection.row);
  if (current >= 0 && current < first) wanted.unshift(current);
  if (current > last) wanted.push(current);
  for (const place of made.keys()) if (!wanted.includes(place)) drop(place);
  const missing = wanted.filter(place => !made.has(place));
  const fresh = missing.slice(0, most);
  if (fresh.length < missing.length) requestAnimationFrame(() => render(most));
  /** @type {HTMLElement | undefined} */
  let before;
  for (const place of wanted) {
    if (fresh.includes(place)) {
      const item = items[place];
      const one = item.row ? makeItem(item.row, item.number, places.size) : makeHeading(item);
      made.set(place, one);
      move(place);
      if (before) before.after(one.node);
      else node.prepend(one.node);
    }
    before = made.get(place)?.node ?? before;
  }
  for (const place of fresh) refresh(place); // asks for sizes, so all are there first
}

/** @param {import("./model.js").Heading} item */
function makeHeading({ heading, group, members }) {
  const number = h("span.number");
  return {
    node: h("li.group", { "data-group": group }, h("h2", `${heading} `, number)),
    refresh() {
      const approved = members.filter(row => stateOf(row) === "approved").length;
      const all = whole(members.length);
      number.textContent = approved ? `${whole(approved)} of ${all} approved` : all;
    },
    draw() {},
  };
}

/** @param {number} place */
function move(place) {
  const one = made.get(place);
  if (one) one.node.style.transform = `translateY(${tops[place]}px)`;
}

/** @param {number} place */
function drop(place) {
  made.get(place)?.node.remove();
  made.delete(place);
}

/** @param {number} place */
function refresh(place) {
  const one = made.get(place);
  if (one && "canvas" in one) waveSize ??= sizeOf(one.canvas);
  one?.refresh(waveSize);
}

/** Return the place of a row, or -1. @param {Row | null | undefined} row */
export const placeIn = row => (row && places.get(row)) ?? -1;

/** Return the next row in a direction. @param {Row | null} row @param {number} by 1 or -1 */
export function nextRow(row, by = 1) {
  for (let place = row ? placeIn(row) + by : -1; place in items; place += by) {
    const found = items[place].row;
    if (found) return found;
  }
  return null;
}

/** Go up or down. @param {number} by */
export function step(by) {
  const row = nextRow(selection.row, by);
  if (row) select(row, { focus: true, scroll: true });
}

on(["select"], ({ before, focus, scroll }) => {
  render();
  refresh(placeIn(before));
  refresh(placeIn(selection.row));
  const current = made.get(placeIn(selection.row))?.node;
  if (scroll) current?.scrollIntoView({ block: "nearest" }); // clear of the bars: `scroll-margin`
  if (focus) current?.focus({ preventScroll: true });
});
on(["view", "rows"], update);
on(["decided", "picked", "server"], () => made.forEach((_, place) => refresh(place)));
on(["drawn", "theme"], () => made.forEach(one => one.draw(waveSize)));
/** @type {string | undefined} */
let loaded;
on(["played"], () => {
  for (const id of new Set([loaded, player.row?.id])) if (id) refresh(placeIn(model.byName.get(id)));
  loaded = player.row?.id;
});
