// The one audio element. A file is asked for when it is to be played, never before.

const player = {
  audio: new Audio(),
  row: null, // what is loaded
  place: 0, // of its take
  goesOn: false, // with the next row, at the end
  listeners: [],

  get isPlaying() {
    return !this.audio.paused;
  },

  // Of the loaded take, from 0 to 1.
  get share() {
    const seconds = this.audio.duration;
    return Number.isFinite(seconds) && seconds > 0 ? this.audio.currentTime / seconds : 0;
  },

  isAt(row, place) {
    return this.row === row && this.place === place;
  },

  // Load a take; whether there is audio.
  load(row, place) {
    if (this.isAt(row, place)) return true;
    const url = row.takes[place].url;
    this.audio.pause();
    if (!url) {
      say(`${row.id} has no audio`);
      return false;
    }
    this.row = row;
    this.place = place;
    this.audio.src = url;
    this.changed();
    return true;
  },

  async play(row, place) {
    if (!this.load(row, place)) return;
    try {
      await this.audio.play();
    } catch (error) {
      if (error.name !== "AbortError") say(`${row.id} cannot be played: ${reasonOf(this.audio, error)}`);
    }
  },

  toggle(row, place) {
    if (this.isAt(row, place) && this.isPlaying) this.audio.pause();
    else this.play(row, place);
  },

  // Move to a share of a take, and play from there.
  seek(row, place, share) {
    if (!this.load(row, place)) return;
    const move = () => { this.audio.currentTime = share * this.audio.duration; };
    if (this.audio.readyState >= 1) move();
    else this.audio.addEventListener("loadedmetadata", move, { once: true });
    this.play(row, place);
  },

  changed() {
    for (const listener of this.listeners) listener();
  },
};

function reasonOf(audio, error) {
  return audio.error ? "the file is missing, or the browser does not support its format" : error.message;
}

player.audio.preload = "none";
for (const event of ["play", "pause", "ended", "seeked", "loadedmetadata"]) {
  player.audio.addEventListener(event, () => player.changed());
}
player.audio.addEventListener("play", function tick() {
  if (!player.isPlaying) return;
  player.changed();
  requestAnimationFrame(tick);
});
