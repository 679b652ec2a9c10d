// The one audio element. A file is requested when it is played, never before.

/** @import { Row } from "./types.js" */
import { emit } from "./bus.js";
import { say } from "./dom.js";

export const player = {
  audio: new Audio(),
  /** The row that is loaded. @type {Row | null} */ row: null,
  place: 0, // of its take
  isLevelled: true, // takes of a row are equally loud

  get isPlaying() {
    return !this.audio.paused;
  },

  /** Share of the loaded take that was played, from 0 to 1. */
  get share() {
    return this.audio.duration > 0 ? this.audio.currentTime / this.audio.duration : 0;
  },

  /** Whether a take of a row is loaded. @param {Row} row */
  has(row) {
    return this.row?.id === row.id && this.place < row.takes.length;
  },

  /** Load a take. Return whether there is audio. @param {Row} row @param {number} place */
  load(row, place) {
    const { url } = row.takes[place];
    if (this.has(row) && this.place === place && this.row?.takes[place]?.url === url) return true;
    this.audio.pause();
    if (!url) {
      say(`${row.id} has no audio`);
      return false;
    }
    this.row = row;
    this.place = place;
    this.audio.src = url;
    this.level();
    emit("played");
    return true;
  },

  /** Make the takes of a row as loud as the quietest of them, or leave them as they are. @param {boolean} [isLevelled] */
  level(isLevelled) {
    this.isLevelled = isLevelled ?? this.isLevelled;
    if (!this.row) return;
    const known = this.row.takes.flatMap(take => (take.url && take.level_dbfs !== undefined ? [take.level_dbfs] : []));
    const own = this.isLevelled && this.row.takes[this.place].level_dbfs;
    this.audio.volume = own ? 10 ** ((Math.min(own, ...known) - own) / 20) : 1;
  },

  /** @param {Row} row @param {number} place */
  async play(row, place) {
    if (!this.load(row, place)) return;
    try {
      await this.audio.play();
    } catch (error) {
      const { name, message } = /** @type {Error} */ (error);
      if (name !== "AbortError" && !this.audio.error) say(`${row.id} cannot be played: ${message}`);
    }
  },

  /** Move to a share of a take, and play from there. @param {Row} row @param {number} place @param {number} share */
  seek(row, place, share) {
    if (!this.load(row, place)) return;
    const move = () => (this.audio.currentTime = Math.min(0.999, Math.max(0, share)) * this.audio.duration);
    if (this.audio.readyState >= 1) move();
    else this.audio.addEventListener("loadedmetadata", move, { once: true });
    this.play(row, place);
  },

  /** Play a take from a moment. @param {Row} row @param {number} place @param {number} at_s */
  playFrom(row, place, at_s) {
    this.seek(row, place, at_s / (row.takes[place].audio_s || 1));
  },
};

player.audio.preload = "none";
for (const name of ["play", "pause", "ended", "seeked", "loadedmetadata"]) {
  player.audio.addEventListener(name, () => emit("played"));
}
player.audio.addEventListener("play", function tick() {
  if (!player.isPlaying) return;
  emit("played");
  requestAnimationFrame(tick);
});
player.audio.addEventListener("error", () => {
  const why = "the file is missing, or the browser does not support its format";
  if (player.row) say(`${player.row.id} cannot be played: ${why}`);
});
