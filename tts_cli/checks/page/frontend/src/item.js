// One row of the list. Elements are made once and filled anew as the list moves.

/** @import { Reason, Row, Take } from "./types.js" */
import { chooseTake, seekAt, togglePlay } from "./actions.js";
import { counted, duration, h, icon, setIcon } from "./dom.js";
import { commentsOf, isNamed, placeOf, stateOf } from "./model.js";
import { player } from "./player.js";
import { isReadOnly, STATE_TEXT, toggleState } from "./review.js";
import { select, selection } from "./selection.js";
import { wantWaveform } from "./server.js";
import { drawWaveform } from "./waveform.js";

export const STATUS_TEXT = ["failed", "suspect", "ok"];

/** @typedef {ReturnType<typeof makeItem>} Item */

export function makeItem() {
  /** @param {(row: Row) => void} run */
  const act = (run) => () => {
    if (!item.row) return;
    select(item.row);
    run(item.row);
  };
  /** @param {string} label @param {string} name @param {(row: Row) => void} run @param {string} kind */
  const small = (label, name, run, kind) =>
    h("button", { type: "button", class: `small ${kind}`, title: label, "aria-label": label, tabindex: "-1", onclick: act(run) }, icon(name));
  const item = {
    /** @type {Row | null} */ row: null,
    play: h("button", { type: "button", class: "round", tabindex: "-1", onclick: act(togglePlay) }),
    canvas: h("canvas", {
      class: "wave", "aria-hidden": "true",
      onclick: (/** @type {MouseEvent} */ event) => act((row) => seekAt(row, event))(),
    }),
    name: h("bdi", { class: "id" }),
    voice: h("span", { class: "voice" }),
    length: h("span", { class: "length" }),
    status: h("span", { class: "status" }),
    review: h("span", { class: "review" }),
    chips: h("span", { class: "chips" }),
    text: h("p", { class: "text", dir: "auto" }),
    spoken: h("p", { class: "spoken", dir: "auto" }),
    takes: h("div", { class: "takes", role: "group", "aria-label": "Takes" }),
    approve: small("Approve", "approve", (row) => toggleState(row, "approved"), "approve"),
    reject: small("Reject", "reject", (row) => toggleState(row, "rejected"), "reject"),
    retake: small("Request a retake", "again", (row) => toggleState(row, "retake"), "retake"),
    node: h("li", { class: "row", tabindex: "-1" }),
  };
  item.node.append(
    item.play,
    h("div", { class: "sound" }, item.canvas, item.length),
    h("div", { class: "words" },
      h("div", { class: "line" }, item.status, item.review, item.name, item.voice, item.chips), item.text, item.spoken),
    h("div", { class: "side" }, item.takes, h("div", { class: "actions" }, item.approve, item.reject, item.retake)));
  item.node.addEventListener("pointerdown", (event) => {
    if (item.row && !(/** @type {Element} */ (event.target).closest("button, canvas"))) select(item.row, { focus: true });
  });
  return item;
}

/** Fill an element with a row. @param {Item} item @param {Row} row @param {number} position @param {number} total */
export function fillItem(item, row, position, total) {
  item.row = row;
  const { node } = item;
  node.dataset.id = row.id;
  node.setAttribute("aria-posinset", String(position));
  node.setAttribute("aria-setsize", String(total));
  node.dataset.group = String(row.group);
  item.name.textContent = row.id;
  item.voice.textContent = [row.character, row.voice ?? "no voice"].filter(Boolean).join(" \u00b7 ");
  item.status.textContent = STATUS_TEXT[row.group];
  item.text.textContent = row.text ?? `The text is not in timings.jsonl (${counted(row.text_chars ?? 0, "character")})`;
  item.text.classList.toggle("unknown", row.text === undefined);
  item.spoken.textContent = row.error ?? row.spoken_text ?? "";
  item.spoken.className = row.error ? "spoken wrong" : "spoken";
  item.spoken.hidden = !item.spoken.textContent;
  node.classList.toggle("two", !item.spoken.hidden);
  item.chips.replaceChildren(...row.reasons.slice(0, 3).map(chip));
  item.takes.replaceChildren(...(row.takes.length > 1 ? row.takes.map((_, place) => takeButton(row, place)) : []));
}

/** Show what changes while a row is shown: playing, the current row, takes and decisions. @param {Item} item @param {{width: number, height: number}} [size] */
export function refreshItem(item, size) {
  const { row, node } = item;
  if (!row) return;
  const place = placeOf(row);
  const isPlaying = player.row?.id === row.id && player.isPlaying;
  setIcon(item.play, isPlaying ? "pause" : "play");
  item.play.disabled = !row.takes[place].url;
  item.play.setAttribute("aria-label", `${isPlaying ? "Pause" : "Play"} ${row.id}`);
  const isCurrent = selection.row === row;
  node.classList.toggle("current", isCurrent);
  if (isCurrent) node.setAttribute("aria-current", "true");
  else node.removeAttribute("aria-current");
  node.tabIndex = isCurrent ? 0 : -1;
  const state = stateOf(row);
  for (const [one, wanted] of /** @type {const} */ ([[item.approve, "approved"], [item.reject, "rejected"], [item.retake, "retake"]])) {
    one.setAttribute("aria-pressed", String(state === wanted));
    one.disabled = isReadOnly() || !isNamed(row);
    one.tabIndex = isCurrent ? 0 : -1;
  }
  item.play.tabIndex = isCurrent ? 0 : -1;
  const remarks = commentsOf(row).length;
  node.dataset.state = state;
  item.review.textContent = [STATE_TEXT[state], remarks && counted(remarks, "comment")].filter(Boolean).join(" \u00b7 ");
  item.review.hidden = !item.review.textContent;
  item.length.textContent = lengthText(row, row.takes[place]);
  [...item.takes.children].forEach((child, at) => {
    child.setAttribute("aria-pressed", String(at === place));
    /** @type {HTMLElement} */ (child).tabIndex = isCurrent ? 0 : -1;
  });
  drawItem(item, size);
}

/** @param {Item} item @param {{width: number, height: number}} [size] */
export function drawItem({ row, canvas }, size) {
  if (!row) return;
  const isLoaded = player.row?.id === row.id;
  const take = row.takes[isLoaded && row.takes[player.place] ? player.place : placeOf(row)];
  wantWaveform(row.id, take);
  drawWaveform(canvas, take, isLoaded ? player.share : 0, size);
}

/** @param {Row} row @param {Take} take */
export function lengthText(row, take) {
  if (!take.url) return row.group === 0 && !take.audio_s ? "no audio" : "audio missing";
  return [duration(take.audio_s ?? 0), take.mos && `${take.mos[0].toFixed(1)} of 5`].filter(Boolean).join(" \u00b7 ");
}

/** @param {Reason} reason */
function chip([kind, text]) {
  return h("span", { class: "chip", title: text }, h("b", { text: kind }), h("span", { class: "figures", text: ` ${shortFigures(text)}` }));
}

/** Return the first figure of a reason. @param {string} text */
function shortFigures(text) {
  const found = /[-\d][\d.]*( %| s\b| dBFS| letters per second)?/.exec(text);
  return found ? found[0].replace(" letters per second", "/s").replace(/^-/, "\u2212") : "";
}

/** @param {Row} row @param {number} place */
function takeButton(row, place) {
  const { take } = row.takes[place];
  const label = `Take ${take}${place === row.chosen ? ", current in the folder" : ""}`;
  return h("button", {
    type: "button", class: place === row.chosen ? "take own" : "take", "aria-label": label, title: label, "aria-pressed": "false",
    onclick: () => chooseTake(row, place),
  }, String(take));
}
