// What is collected while listening: takes to choose and rows to speak again.

const basket = {
  picks: new Map(), // id -> number of a take
  again: new Map(), // id -> the row's state when it was collected
  key: `tts-cli-report ${data.folder.path}`,

  pick(row, place) {
    const take = row.takes[place].take;
    if (place === row.chosen) this.picks.delete(row.id);
    else this.picks.set(row.id, take);
    this.changed();
    say(place === row.chosen ? `${row.id}: take ${take} stays` : `${row.id}: take ${take} is selected`);
  },

  // The place of the take that is chosen, here or in the folder.
  placeOf(row) {
    const place = row.takes.findIndex((take) => take.take === this.picks.get(row.id));
    return place < 0 ? row.chosen : place;
  },

  toggleAgain(row) {
    if (!isNamed(row)) {
      say(`${row.id} is an invalid row of the manifest: fix it there`);
      return;
    }
    if (!this.again.delete(row.id)) this.again.set(row.id, stateOf(row));
    this.changed();
    say(`${row.id} is ${this.again.has(row.id) ? "marked for more takes" : "no longer marked"}`);
  },

  clear() {
    this.picks.clear();
    this.again.clear();
    this.changed();
  },

  // Only what this page still has, and no row that was synthesized again since it was collected.
  restore() {
    const kept = memory.get(this.key) ?? {};
    const known = new Map(rows.map((row) => [row.id, row]));
    for (const [id, take] of Array.isArray(kept.picks) ? kept.picks : []) {
      const row = known.get(id);
      if (row && row.takes.some((one, place) => one.take === take && place !== row.chosen)) this.picks.set(id, take);
    }
    for (const [id, state] of Array.isArray(kept.again) ? kept.again : []) {
      if (known.has(id) && state === stateOf(known.get(id))) this.again.set(id, state);
    }
    this.show();
  },

  changed() {
    memory.set(this.key, { picks: [...this.picks], again: [...this.again] });
    this.show();
    list.refresh();
    detail.show();
  },

  show() {
    const texts = [];
    if (this.picks.size) texts.push(`${counted(this.picks.size, "take")} selected`);
    if (this.again.size) texts.push(`${counted(this.again.size, "row")} marked for more takes`);
    byId("basket").hidden = !texts.length;
    document.body.classList.toggle("has-basket", texts.length > 0);
    byId("basket-text").textContent = texts.join(", ");
  },

  openDialog() {
    const body = byId("commands-body");
    const byName = new Map(rows.map((row) => [row.id, row]));
    const pairs = [...this.picks].map(([id, take]) => [byName.get(id), take]);
    const chosen = [...this.again.keys()].map((id) => byName.get(id));
    body.replaceChildren();
    if (pairs.length) body.append(...commandBlock("Choose these takes", [pickCommand(pairs)]));
    if (chosen.length) {
      body.append(...commandBlock(`Synthesize ${MORE_TAKES} more takes of each of these rows`, againCommands(chosen)));
    }
    byId("commands").showModal();
  },
};

// Changes when a run adds takes to a row or replaces its file.
function stateOf(row) {
  const { take, seed } = takeOf(row);
  return [row.run ?? "", row.takes.length, take, seed ?? ""].join(" ");
}

function commandBlock(title, commands) {
  const nodes = [h("h3", { text: title })];
  for (const command of commands) {
    const button = h("button", { type: "button", class: "plain", onclick: () => copy(command, "the command") }, icon("copy"), "Copy");
    nodes.push(h("div", { class: "command" }, h("code", { text: command, tabindex: "0" }), button));
  }
  if (commands.some((command) => command.includes(` ${MANIFEST} `))) {
    nodes.push(h("p", { class: "hint", text: `Replace ${MANIFEST} with the path of your manifest; the folder does not record it.` }));
  }
  return nodes;
}
