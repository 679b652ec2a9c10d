// The keyboard: what hands need while ears listen.

/** @import { Row } from "./types.js" */
import { chooseTake, compare, togglePlay } from "./actions.js";
import { writeComment } from "./comments.js";
import { byId, h, say } from "./dom.js";
import { step } from "./list.js";
import { placeOf, select, selection } from "./model.js";
import { player } from "./player.js";
import { editText } from "./retake.js";
import { toggleState, use } from "./review.js";
import { server } from "./server.js";

const SEEK_S = 2;
const search = /** @type {HTMLInputElement} */ (byId("search"));
const help = /** @type {HTMLDialogElement} */ (byId("help"));

/** Keys, their names and meanings, and what they do with the current row. @type {[string[], string, string, ((row: Row, key: string) => unknown)?][]} */
const KEYS = [
  [[" "], "Space", "play or pause the current row", togglePlay],
  [["j"], "j", "next row", () => step(1)],
  [["k"], "k", "previous row", () => step(-1)],
  [["a"], "a", "approve the row, or undo it", row => toggleState(row, "approved")],
  [["x"], "x", "reject the row, or undo it", row => toggleState(row, "rejected")],
  [["r"], "r", "request a retake of the row, or undo it", row => toggleState(row, "retake")],
  [["c"], "c", "comment on the moment that is played", writeComment],
  [[..."123456789"], "1 \u2013 9", "select that take, and play it", playTake],
  [["b"], "b", "switch between two takes at the same moment", compare],
  [["u"], "u", "use the selected take", row => server.isThere && placeOf(row) !== row.chosen && use(row)],
  [["e"], "e", "edit the text for a retake", editText],
  [["ArrowLeft", "ArrowRight"], "\u2190 \u2192", "skip two seconds back or forward, while a row is loaded", skip],
  [[], "/", "search"],
  [[], "Esc", "leave the field"],
  [[], "?", "this list"],
];

/** @param {Row} row @param {string} key */
function playTake(row, key) {
  const place = row.takes.findIndex(take => take.take === Number(key));
  if (place < 0) say(`${row.id} has no take ${key}`);
  else chooseTake(row, place);
}

/** @param {Row} row @param {string} key */
function skip(row, key) {
  if (player.has(row)) player.audio.currentTime += key === "ArrowLeft" ? -SEEK_S : SEEK_S;
}

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
  const run = KEYS.find(([keys]) => keys.includes(key))?.[3];
  if (key === "?") help.showModal();
  else if (key === "/") [search.focus(), search.select()];
  else if (selection.row && run) run(selection.row, key);
  else return;
  event.preventDefault();
}

const names = KEYS.flatMap(([, name, meaning]) => [h("dt", h("kbd", name)), h("dd", meaning)]);
byId("keys").replaceChildren(...names);
byId("help-open").onclick = () => help.showModal();
document.addEventListener("keydown", onKey);
