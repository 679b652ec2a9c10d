// Waveforms from their letters: each stands for the root of a peak in one of 64 steps.

const stepOf = new Map([...data.letters].map((letter, step) => [letter, step]));
const outlines = new Map(); // letters -> heights from 0 to 1

function heights(letters) {
  let found = outlines.get(letters);
  if (!found) {
    found = Float32Array.from(letters, (letter) => stepOf.get(letter) / (data.letters.length - 1));
    if (outlines.size > 400) outlines.clear();
    outlines.set(letters, found);
  }
  return found;
}

const colours = {};
function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["wave", "played", "faint"]) colours[name] = style.getPropertyValue(`--${name}`).trim();
}

const sizeOf = (canvas) => ({ width: canvas.clientWidth, height: canvas.clientHeight });

// Draw a take into a canvas: bars, those before the playhead in another colour. Asking a canvas for
// its size lays the page out, so a list says what it knows.
function drawWaveform(canvas, take, played = 0, { width, height } = sizeOf(canvas)) {
  if (!width || !height) return;
  const scale = Math.min(window.devicePixelRatio || 1, 2);
  if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
  if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  const outline = take && take.waveform ? heights(take.waveform) : null;
  const middle = height / 2;
  if (!outline) {
    pen.fillStyle = colours.faint;
    for (let x = 0; x < width; x += 6) pen.fillRect(x, middle - 0.5, 3, 1);
    return;
  }
  const step = 3;
  const bars = Math.floor(width / step);
  for (let bar = 0; bar < bars; bar++) {
    const first = Math.floor((bar * outline.length) / bars);
    const behind = Math.max(first + 1, Math.floor(((bar + 1) * outline.length) / bars));
    let loudest = 0;
    for (let place = first; place < behind; place++) loudest = Math.max(loudest, outline[place]);
    const size = Math.max(1.5, loudest ** 1.4 * (height - 2));
    pen.fillStyle = (bar + 0.5) / bars <= played ? colours.played : colours.wave;
    pen.fillRect(bar * step, middle - size / 2, 2, size);
  }
  if (played > 0 && played < 1) {
    pen.fillStyle = colours.played;
    pen.fillRect(played * width - 0.75, 0, 1.5, height);
  }
}
