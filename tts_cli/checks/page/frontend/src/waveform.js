// Waveforms from their letters: each stands for the root of a peak in one of 64 steps.

/** @import { Take } from "./types.js" */
import { emit, on } from "./bus.js";
import { model } from "./model.js";
import { ask, server } from "./server.js";

/** Letters -> heights from 0 to 1. @type {Map<string, Float32Array>} */
const outlines = new Map();
/** @type {Record<string, string>} */
const colours = {};

on(["theme"], () => {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["wave", "played", "faint"]) colours[name] = style.getPropertyValue(`--${name}`).trim();
});

/** @param {string} letters */
function heights(letters) {
  const known = outlines.get(letters);
  if (known) return known;
  const steps = model.data.letters;
  const found = Float32Array.from(letters, letter => steps.indexOf(letter) / (steps.length - 1));
  if (outlines.size > 400) outlines.clear();
  outlines.set(letters, found);
  return found;
}

/** Takes whose waveforms are wanted, with the ids of their rows. @type {[string, Take][]} */
let wanted = [];

/** Ask for the waveform of a take soon. @param {string} id @param {Take} take */
function want(id, take) {
  if (!server.isThere || !take.url || take.waveform !== undefined) return;
  take.waveform = null;
  if (!wanted.length) setTimeout(askForWanted, 60);
  wanted.push([id, take]);
}

async function askForWanted() {
  const some = wanted.slice(-200); // the last ones are in sight
  wanted = [];
  const pairs = some.map(([id, { take }]) => [id, take]);
  const found = await ask("outlines", pairs).catch(() => []);
  some.forEach(([, take], place) => (take.waveform = found[place]));
  emit("drawn");
}

/** @param {HTMLCanvasElement} canvas */
export const sizeOf = canvas => ({ width: canvas.clientWidth, height: canvas.clientHeight });

/**
 * Draw a take: bars, those before the playhead in another colour. Asking a canvas for its size lays
 * the page out, so a list passes it.
 * @param {HTMLCanvasElement} canvas @param {string} id of the row @param {Take} take @param {number} played share from 0 to 1
 */
export function drawWaveform(canvas, id, take, played, { width, height } = sizeOf(canvas)) {
  want(id, take);
  if (!width || !height) return;
  const scale = Math.min(window.devicePixelRatio || 1, 2);
  if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
  if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  const middle = height / 2;
  if (!take.waveform) {
    pen.fillStyle = colours.faint;
    for (let x = 0; x < width; x += 6) pen.fillRect(x, middle - 0.5, 3, 1);
    return;
  }
  const outline = heights(take.waveform);
  const bars = Math.floor(width / 3);
  for (let bar = 0; bar < bars; bar++) {
    const first = Math.floor((bar * outline.length) / bars);
    const end = Math.max(first + 1, Math.floor(((bar + 1) * outline.length) / bars));
    const size = Math.max(1.5, Math.max(...outline.subarray(first, end)) ** 1.4 * (height - 2));
    pen.fillStyle = (bar + 0.5) / bars <= played ? colours.played : colours.wave;
    pen.fillRect(bar * 3, middle - size / 2, 2, size);
  }
  if (played <= 0 || played >= 1) return;
  pen.fillStyle = colours.played;
  pen.fillRect(played * width - 0.75, 0, 1.5, height);
}
