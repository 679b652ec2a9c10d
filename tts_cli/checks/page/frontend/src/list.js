// The list. Only rows in sight are elements; the others are an empty space of their height.

/** @import { Row } from "./types.js" */
import { on } from "./bus.js";
import { byId, counted, h, whole } from "./dom.js";
import { drawItem, fillItem, makeItem, refreshItem } from "./item.js";
import { model, shownItems, stateOf } from "./model.js";
import { player } from "./player.js";
import { select, selection } from "./selection.js";
import { sizeOf } from "./waveform.js";

const BEYOND = 160; // pixels above and below the window that are made as well
const MOST_A_FRAME = 5; // rows made while the list scrolls
const HEADING = 48; // pixels
export const NARROW = matchMedia("(max-width: 720px)");

/** @typedef {import("./item.js").Item | {row: null, node: HTMLElement}} Made */

export const list = {
  node: byId("list"),
  /** @type {ReturnType<typeof shownItems>} */ items: [],
  tops: new Float64Array(1), // pixels, one more than items
  /** @type {Map<Row, number>} */ places: new Map(), // in items
  /** @type {Map<number, Made>} */ made: new Map(), // by place
  /** @type {import("./item.js").Item[]} */ spare: [],
  num_rows: 0,
  awaited: 0, // the frame in which the other rows are made
  /** @type {{width: number, height: number} | undefined} */ waveSize: undefined, // the same for all rows

  /** Filter and sort anew. */
  update() {
    this.items = shownItems();
    this.places = new Map();
    this.items.forEach((item, place) => item.row && this.places.set(item.row, place));
    this.num_rows = this.places.size;
    for (const place of [...this.made.keys()]) this.drop(place);
    this.measure();
    if (!selection.row || !this.places.has(selection.row)) select(this.items.find((item) => item.row)?.row ?? null);
    const all = model.rows.length;
    byId("count").textContent = all === this.num_rows ? counted(all, "row") : `${whole(this.num_rows)} of ${counted(all, "row")}`;
    byId("empty").hidden = this.num_rows > 0;
  },

  measure() {
    const rowHeight = NARROW.matches ? 148 : 88;
    this.waveSize = undefined;
    this.tops = new Float64Array(this.items.length + 1);
    this.items.forEach((item, place) => {
      this.tops[place + 1] = this.tops[place] + (item.row ? rowHeight : HEADING);
    });
    this.node.style.height = `${this.tops[this.items.length]}px`;
    for (const [place, made] of this.made) made.node.style.transform = `translateY(${this.tops[place]}px)`;
    this.render();
  },

  /** Return the place of the item at a height. @param {number} top */
  at(top) {
    return Math.max(0, this.tops.subarray(0, this.items.length).findLastIndex((one) => one <= top));
  },

  /** Make the rows in sight. While the list scrolls only some per frame, so that a slow machine keeps up. */
  render(most = Infinity) {
    if (!this.items.length) return;
    cancelAnimationFrame(this.awaited);
    const top = -this.node.getBoundingClientRect().top;
    const first = this.at(Math.max(0, top - BEYOND));
    const last = this.at(top + window.innerHeight + BEYOND);
    // The current row stays, or the keyboard would lose its focus.
    const current = selection.row ? this.places.get(selection.row) : undefined;
    for (const place of [...this.made.keys()]) if ((place < first || place > last) && place !== current) this.drop(place);
    /** @type {import("./item.js").Item[]} */
    const fresh = [];
    let next = this.node.firstChild;
    /** @param {number} place */
    const insert = (place) => {
      const known = this.made.get(place);
      if (known) {
        next = known.node.nextSibling;
        return;
      }
      const made = this.make(place);
      this.node.insertBefore(made.node, next);
      const item = this.items[place];
      if (!item.row || !("play" in made)) return;
      fillItem(made, item.row, item.number, this.num_rows);
      fresh.push(made);
    };
    if (current !== undefined && current < first) insert(current);
    for (let place = first; place <= last; place++) {
      if (fresh.length < most || this.made.has(place)) insert(place);
    }
    if (fresh.length >= most) this.awaited = requestAnimationFrame(() => this.render(most));
    if (current !== undefined && current > last) insert(current);
    for (const item of fresh) this.refreshOne(item); // asks for sizes, so all are there first
  },

  /** @param {number} place @returns {Made} */
  make(place) {
    const item = this.items[place];
    const made = item.row ? this.spare.pop() ?? makeItem() : { row: null, node: this.heading(item) };
    made.node.style.transform = `translateY(${this.tops[place]}px)`;
    this.made.set(place, made);
    return made;
  },

  /** @param {{heading: string, group: number | null, members: Row[]}} item */
  heading({ heading, group, members }) {
    const approved = members.filter((row) => stateOf(row) === "approved").length;
    const number = approved ? `${whole(approved)} of ${whole(members.length)} approved` : whole(members.length);
    return h("li", { class: "group", "data-group": group }, h("h2", {}, `${heading} `, h("span", { class: "number", text: number })));
  },

  /** @param {number} place */
  drop(place) {
    const made = /** @type {Made} */ (this.made.get(place));
    made.node.remove();
    this.made.delete(place);
    if ("play" in made) this.spare.push(made);
  },

  /** @param {Made | undefined} made */
  refreshOne(made) {
    if (made && "play" in made) refreshItem(made, (this.waveSize ??= sizeOf(made.canvas)));
  },

  refresh() {
    for (const [place, made] of this.made) {
      const item = this.items[place];
      if ("play" in made) this.refreshOne(made);
      else if (!item.row) made.node.replaceChildren(...this.heading(item).childNodes);
    }
  },

  redraw() {
    for (const made of this.made.values()) if ("play" in made) drawItem(made, this.waveSize);
  },

  /** @param {Row | null} row */
  itemOf(row) {
    return row ? this.made.get(this.places.get(row) ?? -1) : undefined;
  },

  /** Bring a row into sight, clear of the bars above and below. @param {Row} row */
  scrollTo(row) {
    const place = this.places.get(row) ?? 0;
    const start = this.node.getBoundingClientRect().top;
    const [top, bottom] = [start + this.tops[place], start + this.tops[place + 1]];
    const ceiling = byId("bar").getBoundingClientRect().bottom + 8;
    const floor = window.innerHeight - hiddenBelow() - 8;
    if (top < ceiling) window.scrollBy(0, top - ceiling);
    else if (bottom > floor) window.scrollBy(0, bottom - floor);
    this.render();
  },

  /** Return the next row in a direction. @param {Row | null} row @param {number} by 1 or -1 */
  next(row, by = 1) {
    for (let at = (row && this.places.get(row)) ?? NaN; (at += by) >= 0 && at < this.items.length;) {
      const found = this.items[at].row;
      if (found) return found;
    }
    return null;
  },

  /** Go up or down. @param {number} by */
  step(by) {
    const row = this.next(selection.row, by);
    if (row) select(row, { focus: true, scroll: true });
  },
};

/** Return the pixels that lie over the bottom of the window: the sheet of a narrow one, and the basket. */
function hiddenBelow() {
  return Math.max(0, ...[byId("detail"), byId("basket")]
    .filter((node) => !node.hidden && getComputedStyle(node).position === "fixed")
    .map((node) => window.innerHeight - node.getBoundingClientRect().top));
}

/** The row that was current before. @type {Row | null} */
let before = null;
on(["select"], ({ focus, scroll }) => {
  list.render();
  list.refreshOne(list.itemOf(before));
  before = selection.row;
  const item = list.itemOf(before);
  list.refreshOne(item);
  if (scroll && before) list.scrollTo(before);
  if (focus) item?.node.focus({ preventScroll: true });
});
on(["view", "rows"], () => list.update());
on(["decided", "picked", "server"], () => list.refresh());
on(["drawn", "theme"], () => list.redraw());
/** @type {string | undefined} */
let loaded;
on(["played"], () => {
  for (const id of new Set([loaded, player.row?.id])) if (id) list.refreshOne(list.itemOf(model.byName.get(id) ?? null));
  loaded = player.row?.id;
});
