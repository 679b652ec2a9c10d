// The keyboard: what hands need while ears listen.

/** @import { Row } from "./types.js" */
import { chooseTake, compare, togglePlay } from "./actions.js";
import { writeComment } from "./comments.js";
import { byId, h, say } from "./dom.js";
import { list } from "./list.js";
import { placeOf } from "./model.js";
import { player } from "./player.js";
import { editText, use } from "./retake.js";
import { toggleState } from "./review.js";
import { select, selection } from "./selection.js";
import { server } from "./server.js";

/** @type {[string, string][]} */
const KEYS = [
  ["Space", "play or pause the current row"],
  ["j", "next row"],
  ["k", "previous row"],
  ["a", "approve the row, or undo it"],
  ["x", "reject the row, or undo it"],
  ["r", "request a retake of the row, or undo it"],
  ["c", "comment on the moment that is played"],
  ["1 \u2013 9", "select that take, and play it"],
  ["b", "switch between two takes at the same moment"],
  ["u", "use the selected take"],
  ["e", "edit the text for a retake"],
  ["\u2190 \u2192", "skip two seconds back or forward, while a row is loaded"],
  ["/", "search"],
  ["Esc", "leave the field"],
  ["?", "this list"],
];
const SEEK_S = 2;
const search = /** @type {HTMLInputElement} */ (byId("search"));
const help = /** @type {HTMLDialogElement} */ (byId("help"));

/** @type {Record<string, (row: Row) => unknown>} */
const ROW_KEYS = {
  " ": togglePlay,
  j: () => list.step(1),
  k: () => list.step(-1),
  a: (row) => toggleState(row, "approved"),
  x: (row) => toggleState(row, "rejected"),
  r: (row) => toggleState(row, "retake"),
  c: writeComment,
  b: compare,
  u: (row) => server.isThere && placeOf(row) !== row.chosen && use(row),
  e: editText,
};

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const target = /** @type {HTMLElement} */ (event.target);
  const { key } = event;
  if (target.matches("input[type=search], input[type=text], textarea")) {
    if (key === "Escape") target.blur();
    if (key === "Enter" && target === search) select(selection.row, { focus: true, scroll: true });
    return;
  }
  if (target.matches("select")) return;
  // A button in focus is pressed by the space bar.
  if (key === " " && target.closest("button, summary, a, input[type=checkbox]")) return;
  if (key.startsWith("Arrow") && target.closest("input, [tabindex='0'].scroll, code")) return;
  if (press(key)) event.preventDefault();
}

/** Do what a key means. Return whether it means anything. @param {string} key */
function press(key) {
  const { row } = selection;
  if (key === "?") {
    help.showModal();
  } else if (key === "/") {
    search.focus();
    search.select();
  } else if (!row) {
    return false;
  } else if (ROW_KEYS[key]) {
    ROW_KEYS[key](row);
  } else if (/^[1-9]$/.test(key)) {
    const place = row.takes.findIndex((take) => take.take === Number(key));
    if (place < 0) say(`${row.id} has no take ${key}`);
    else chooseTake(row, place);
  } else if ((key === "ArrowLeft" || key === "ArrowRight") && player.row?.id === row.id) {
    player.audio.currentTime = Math.max(0, player.audio.currentTime + (key === "ArrowLeft" ? -SEEK_S : SEEK_S));
  } else {
    return false;
  }
  return true;
}

byId("keys").replaceChildren(...KEYS.flatMap(([key, meaning]) => [h("dt", {}, h("kbd", { text: key })), h("dd", { text: meaning })]));
byId("help-open").onclick = () => help.showModal();
byId("help-close").onclick = () => help.close();
document.addEventListener("keydown", onKey);
