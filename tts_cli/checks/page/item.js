// One row of the list. Elements are made once and filled anew as the list moves.

const STATUS_TEXT = ["failed", "suspect", "ok"];

function makeItem() {
  const item = {};
  item.play = h("button", { type: "button", class: "round", tabindex: "-1", onclick: () => act((row) => togglePlay(row)) });
  item.canvas = h("canvas", { class: "wave", "aria-hidden": "true", onclick: (event) => act((row) => seekAt(row, event)) });
  item.name = h("bdi", { class: "id" });
  item.voice = h("span", { class: "voice" });
  item.length = h("span", { class: "length" });
  item.status = h("span", { class: "status" });
  item.chips = h("span", { class: "chips" });
  item.text = h("p", { class: "text", dir: "auto" });
  item.spoken = h("p", { class: "spoken", dir: "auto" });
  item.takes = h("div", { class: "takes", role: "group", "aria-label": "Takes" });
  item.copyId = actionButton("Copy the id", "copy", "id", (row) => copy(row.id, "the id"));
  item.copySeed = actionButton("Copy the seed", "copy", "seed", (row) => copySeed(row));
  item.again = actionButton("Copy the command for more takes", "again", "again", (row) => copyAgain(row));
  item.node = h("li", { class: "row", tabindex: "-1" },
    item.play,
    h("div", { class: "sound" }, item.canvas, item.length),
    h("div", { class: "words" },
      h("div", { class: "line" }, item.status, item.name, item.voice, item.chips),
      item.text, item.spoken),
    h("div", { class: "side" }, item.takes, h("div", { class: "actions" }, item.copyId, item.copySeed, item.again)));
  item.node.addEventListener("pointerdown", (event) => {
    if (!event.target.closest("button, canvas") && item.row) list.setCurrent(item.row, { focus: true });
  });

  function act(run) {
    list.setCurrent(item.row);
    run(item.row);
  }

  function actionButton(label, name, text, run) {
    return h("button", { type: "button", class: "small", title: label, "aria-label": label, tabindex: "-1", onclick: () => act(run) }, icon(name), text);
  }
  return item;
}

function fillItem(item, row, position, total) {
  item.row = row;
  const { node } = item;
  node.dataset.id = row.id;
  node.setAttribute("aria-posinset", position);
  node.setAttribute("aria-setsize", total);
  node.dataset.group = row.group;
  item.name.textContent = row.id;
  item.voice.textContent = row.voice ?? "no voice";
  item.status.textContent = STATUS_TEXT[row.group];
  item.text.textContent = row.text ?? `The text is not in timings.jsonl (${counted(row.text_chars ?? 0, "character")})`;
  item.text.classList.toggle("unknown", row.text === undefined);
  item.spoken.textContent = row.error ?? row.spoken_text ?? "";
  item.spoken.className = row.error ? "spoken wrong" : "spoken";
  item.spoken.hidden = !item.spoken.textContent;
  item.node.classList.toggle("two", !item.spoken.hidden);
  item.chips.replaceChildren(...row.reasons.slice(0, 3).map(chip));
  item.copySeed.disabled = takeOf(row).seed === undefined && row.takes.length === 1;
  item.again.disabled = !isNamed(row);
  item.takes.replaceChildren(...(row.takes.length > 1 ? row.takes.map((_, place) => takeButton(row, place)) : []));
}

// What changes while a row is shown: playing, the current row, collected takes.
function refreshItem(item) {
  const { row, node } = item;
  if (!row) return;
  const place = basket.placeOf(row);
  const isPlaying = player.row === row && player.isPlaying;
  const url = row.takes[place].url;
  setIcon(item.play, isPlaying ? "pause" : "play");
  item.play.disabled = !url;
  item.play.setAttribute("aria-label", `${isPlaying ? "Pause" : "Play"} ${row.id}`);
  const isCurrent = list.current === row;
  node.classList.toggle("current", isCurrent);
  if (isCurrent) node.setAttribute("aria-current", "true");
  else node.removeAttribute("aria-current");
  node.tabIndex = isCurrent ? 0 : -1;
  for (const button of [item.play, item.copyId, item.copySeed, item.again]) button.tabIndex = isCurrent ? 0 : -1;
  node.classList.toggle("again", basket.again.has(row.id));
  item.length.textContent = lengthText(row, row.takes[place]);
  [...item.takes.children].forEach((button, at) => {
    button.setAttribute("aria-pressed", at === place);
    button.tabIndex = isCurrent ? 0 : -1;
  });
  drawItem(item);
}

function drawItem(item) {
  const place = player.row === item.row ? player.place : basket.placeOf(item.row);
  list.waveSize ??= sizeOf(item.canvas);
  drawWaveform(item.canvas, item.row.takes[place], player.row === item.row ? player.share : 0, list.waveSize);
}

function lengthText(row, take) {
  if (!take.url) return row.group === 0 && !take.audio_s ? "no audio" : "audio missing";
  return [duration(take.audio_s ?? 0), take.mos === undefined ? null : `${take.mos[0].toFixed(1)} of 5`].filter(Boolean).join(" \u00b7 ");
}

function chip([kind, text]) {
  return h("span", { class: "chip", title: text }, h("b", { text: kind }), h("span", { class: "figures", text: ` ${shortFigures(text)}` }));
}

// The first figure of a reason; the rest stands beside the row.
function shortFigures(text) {
  const found = /[-\d][\d.]*( %| s\b| dBFS| letters per second)?/.exec(text);
  return found ? found[0].replace(" letters per second", "/s").replace(/^-/, "\u2212") : "";
}

function takeButton(row, place) {
  const { take } = row.takes[place];
  const label = `Take ${take}${place === row.chosen ? ", current in the folder" : ""}`;
  return h("button", { type: "button", class: "take", "aria-label": label, title: label, "aria-pressed": "false", onclick: () => chooseTake(row, place) }, String(take));
}

function chooseTake(row, place) {
  list.setCurrent(row);
  basket.pick(row, place);
  player.play(row, place);
}

function togglePlay(row) {
  const place = player.row === row && player.isPlaying ? player.place : basket.placeOf(row);
  player.toggle(row, place);
}

function seekAt(row, event) {
  const box = event.currentTarget?.getBoundingClientRect() ?? event.target.getBoundingClientRect();
  player.seek(row, basket.placeOf(row), Math.min(0.999, Math.max(0, (event.clientX - box.left) / box.width)));
}

function copySeed(row) {
  const { seed, take } = row.takes[basket.placeOf(row)];
  if (seed === undefined) say(`${row.id} was not synthesized, so it has no seed`);
  else copy(String(seed), row.takes.length > 1 ? `the seed of take ${take}` : "the seed");
}

function copyAgain(row) {
  copy(againCommands([row]).join("\n"), "the command for more takes");
}
