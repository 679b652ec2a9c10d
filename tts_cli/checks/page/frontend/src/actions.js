// What buttons and keys do with a row.

/** @import { Row } from "./types.js" */
import { say, setIcon } from "./dom.js";
import { placeOf } from "./model.js";
import { player } from "./player.js";
import { pick } from "./review.js";

/** @param {Row} row */
export function togglePlay(row) {
  if (player.has(row) && player.isPlaying) player.audio.pause();
  else player.play(row, placeOf(row));
}

/** Show in a button whether a row plays. @param {HTMLButtonElement} button @param {Row} row */
export function showPlaying(button, row) {
  const isPlaying = player.has(row) && player.isPlaying;
  setIcon(button, isPlaying ? "pause" : "play");
  button.setAttribute("aria-label", `${isPlaying ? "Pause" : "Play"} ${row.id}`);
}

/** @param {Row} row @param {number} place */
export function chooseTake(row, place) {
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
  const at_s = player.has(row) ? player.audio.currentTime : 0;
  pick(row, next);
  player.playFrom(row, next, at_s);
}
