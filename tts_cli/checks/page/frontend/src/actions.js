// What buttons and keys do with a row.

/** @import { Row } from "./types.js" */
import { say } from "./dom.js";
import { placeOf } from "./model.js";
import { player } from "./player.js";
import { pick } from "./review.js";
import { select } from "./selection.js";

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
  const first = row.takes.findIndex((take, at) => at !== place && take.url);
  const next = known ?? (place === row.chosen ? first : row.chosen);
  if (next < 0) return say(`${row.id} has no other take`);
  other = { id: row.id, place };
  const at_s = player.row?.id === row.id ? player.audio.currentTime : 0;
  pick(row, next);
  player.seek(row, next, at_s / (row.takes[next].audio_s || 1));
}
