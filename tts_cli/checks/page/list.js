// The list. Only rows in sight are elements; the others are an empty space of their height.

const BEYOND = 160; // pixels above and below the window that are made as well
const MOST_A_FRAME = 5; // rows made while the list scrolls
const NARROW = matchMedia("(max-width: 720px)");

const list = {
  node: byId("list"),
  items: [], // rows and headings, as `shownItems` has them
  tops: [], // pixels, one more than items
  places: new Map(), // row -> place in items
  made: new Map(), // place -> element of the list
  spare: [],
  current: null, // row
  awaited: 0, // the frame in which the other rows are made
  waveSize: null, // of a row's waveform, pixels; the same for all

  // Filter and sort anew.
  update() {
    this.items = shownItems();
    this.places = new Map();
    let number = 0;
    this.items.forEach((item, place) => {
      if (!item.row) return;
      item.number = ++number;
      this.places.set(item.row, place);
    });
    this.count = number;
    for (const place of [...this.made.keys()]) this.drop(place);
    this.measure();
    if (!this.places.has(this.current)) this.setCurrent(this.items.find((item) => item.row)?.row ?? null);
    const all = rows.length === number;
    byId("count").textContent = all ? counted(number, "row") : `${whole.format(number)} of ${counted(rows.length, "row")}`;
    byId("empty").hidden = number > 0;
  },

  measure() {
    const rowHeight = NARROW.matches ? 148 : 88;
    this.waveSize = null;
    this.tops = new Float64Array(this.items.length + 1);
    this.items.forEach((item, place) => {
      this.tops[place + 1] = this.tops[place] + (item.row ? rowHeight : 48);
    });
    this.node.style.height = `${this.tops[this.items.length]}px`;
    for (const [place, made] of this.made) made.node.style.transform = `translateY(${this.tops[place]}px)`;
    this.render();
  },

  // The place of the item at a height.
  at(top) {
    let low = 0;
    let high = this.items.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.tops[middle] <= top) low = middle;
      else high = middle - 1;
    }
    return low;
  },

  // Make the rows in sight. While the list scrolls only so many at once, the others in the next
  // frames, lest a slow machine stands still.
  render(most = Infinity) {
    if (!this.items.length) return;
    cancelAnimationFrame(this.awaited);
    const top = -this.node.getBoundingClientRect().top;
    const first = this.at(Math.max(0, top - BEYOND));
    const last = this.at(top + window.innerHeight + BEYOND);
    // The current row stays, lest the keyboard's focus is lost with it.
    const kept = this.places.get(this.current);
    for (const place of [...this.made.keys()]) {
      if ((place < first || place > last) && place !== kept) this.drop(place);
    }
    const made = [];
    let next = this.node.firstChild;
    const insert = (place) => {
      const there = this.made.get(place);
      if (there) {
        next = there.node.nextSibling;
        return;
      }
      this.node.insertBefore(this.make(place), next);
      const fresh = this.made.get(place);
      if (!fresh.row) return;
      fillItem(fresh, fresh.row, this.items[place].number, this.count);
      made.push(fresh);
    };
    if (kept !== undefined && kept < first) insert(kept);
    for (let place = first; place <= last; place++) {
      if (made.length >= most && !this.made.has(place)) continue;
      insert(place);
    }
    if (made.length >= most) this.awaited = requestAnimationFrame(() => this.render(most));
    if (kept !== undefined && kept > last) insert(kept);
    for (const item of made) refreshItem(item); // which asks for sizes, so all are there first
  },

  make(place) {
    const { row, heading, group, count } = this.items[place];
    const made = row
      ? this.spare.pop() ?? makeItem()
      : { node: h("li", { class: "group", "data-group": group }, h("h2", {}, `${heading} `, h("span", { class: "number", text: whole.format(count) }))) };
    made.row = row;
    made.node.style.transform = `translateY(${this.tops[place]}px)`;
    this.made.set(place, made);
    return made.node;
  },

  drop(place) {
    const made = this.made.get(place);
    made.node.remove();
    this.made.delete(place);
    if (made.row) this.spare.push(made);
  },

  refresh() {
    for (const made of this.made.values()) if (made.row) refreshItem(made);
  },

  redraw() {
    for (const made of this.made.values()) if (made.row) drawItem(made);
  },

  itemOf(row) {
    return this.made.get(this.places.get(row));
  },

  setCurrent(row, { focus = false, scroll = false } = {}) {
    const before = this.itemOf(this.current);
    const isNew = row !== this.current;
    this.current = row;
    if (isNew) detail.show();
    this.render();
    if (before && before.row !== row) refreshItem(before);
    const item = this.itemOf(row);
    if (!item) return;
    refreshItem(item);
    if (scroll) this.scrollTo(row);
    if (focus) item.node.focus({ preventScroll: true });
  },

  // Bring a row into sight, clear of the bars above and below.
  scrollTo(row) {
    const place = this.places.get(row);
    const top = this.node.getBoundingClientRect().top + this.tops[place];
    const bottom = this.node.getBoundingClientRect().top + this.tops[place + 1];
    const ceiling = byId("bar").getBoundingClientRect().bottom + 8;
    const floor = window.innerHeight - hiddenBelow() - 8;
    if (top < ceiling) window.scrollBy(0, top - ceiling);
    else if (bottom > floor) window.scrollBy(0, bottom - floor);
    this.render();
  },

  // Go some rows up or down.
  step(by) {
    const place = this.places.get(this.current);
    if (place === undefined) return;
    for (let at = place + by; at >= 0 && at < this.items.length; at += by) {
      if (!this.items[at].row) continue;
      this.setCurrent(this.items[at].row, { focus: true, scroll: true });
      return;
    }
  },

  next(row) {
    const place = this.places.get(row);
    return place === undefined ? null : this.items.slice(place + 1).find((item) => item.row)?.row ?? null;
  },
};

// What lies over the bottom of the window: the sheet of a narrow one, and the basket.
function hiddenBelow() {
  const nodes = [byId("detail"), byId("basket")];
  return Math.max(0, ...nodes
    .filter((node) => !node.hidden && getComputedStyle(node).position === "fixed")
    .map((node) => window.innerHeight - node.getBoundingClientRect().top));
}
