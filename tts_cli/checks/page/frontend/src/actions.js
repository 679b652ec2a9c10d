// What buttons and keys do with a row.

/** @import { Row } from "./types.js" */
import { copy, say } from "./dom.js";
import { placeOf, shownTake } from "./model.js";
import { player } from "./player.js";
import { pick } from "./review.js";
import { select } from "./selection.js";
import { againCommands } from "./shell.js";

/** @param {Row} row */
export function togglePlay(row) {
  player.toggle(row, player.row?.id === row.id && player.isPlaying ? player.place : placeOf(row));
}

/** Play a row from where its waveform was clicked. @param {Row} row @param {MouseEvent} event */
export function seekAt(row, event) {
  const box = /** @type {HTMLElement} */ (event.currentTarget).getBoundingClientRect();
  player.seek(row, placeOf(row), (event.clientX - box.left) / box.width);
}

/** @param {Row} row @param {number} place */
export function chooseTake(row, place) {
  select(row);
  pick(row, place);
  player.play(row, place);
}

/** @type {{id: string, place: number} | null} */
let other = null;

/** Switch between the two takes that were played last, at the same moment. @param {Row} row */
export function compare(row) {
  const place = placeOf(row);
  const known = other?.id === row.id && other.place !== place ? other.place : undefined;
  const next = known ?? (place === row.chosen ? row.takes.findIndex((take, at) => at !== place && take.url) : row.chosen);
  if (next < 0) return say(`${row.id} has no other take`);
  other = { id: row.id, place };
  const at_s = player.row?.id === row.id ? player.audio.currentTime : 0;
  pick(row, next);
  player.seek(row, next, at_s / (row.takes[next].audio_s || 1));
}

/** @param {Row} row */
export function copySeed(row) {
  const { seed, take } = shownTake(row);
  if (seed === undefined) say(`${row.id} was not synthesized, so it has no seed`);
  else copy(String(seed), row.takes.length > 1 ? `the seed of take ${take}` : "the seed");
}

/** @param {Row} row */
export const copyAgain = (row) => copy(againCommands([row]).join("\n"), "the command for more takes");
