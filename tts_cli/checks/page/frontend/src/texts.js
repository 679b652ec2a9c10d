// The texts of a row: as written, as read, and as a recognizer transcribed it.

/** @import { Row, Take, Transcript } from "./types.js" */
import { button, counted, duration, h } from "./dom.js";
import { errorText, placeOf, takeOf } from "./model.js";
import { player } from "./player.js";

/** @typedef {{node: HTMLElement, start_s: number, end_s: number}} Word */

/** Return the texts, and the words with their times. @param {Row} row @param {Take} take */
export function textsOf(row, take) {
  const nodes = /** @type {HTMLElement[]} */ ([]);
  const words = /** @type {Word[]} */ ([]);
  /** @param {string} title @param {(Node | string)[]} content */
  const add = (title, content) => nodes.push(h("h3", title), h("p.full", { dir: "auto" }, content));
  if (row.text !== undefined) add("Text", timedText(row, take, words));
  if (take.unsure) nodes.push(h("p.hint", `Word times may be wrong: ${take.unsure.join("; ")}`));
  if (row.spoken_text !== undefined) add("Read as", [row.spoken_text]);
  if (row.instruct !== undefined) add("Style", [row.instruct]);
  if (row.parts) nodes.push(parts(row, row.parts));
  if (take.asr) {
    add("Transcript", marked(take.asr));
    nodes[nodes.length - 1].classList.add("heard");
    nodes.push(h("p.hint", `${errorText(take.asr)}, ${take.asr.longest} in a row; ${take.asr.by}`));
  }
  return { nodes, words };
}

/** Return the text; words with known times play from there. @param {Row} row @param {Take} take @param {Word[]} words */
function timedText(row, take, words) {
  const letters = [...(row.text ?? "")]; // places count characters, not halves of surrogate pairs
  const times = take.words ?? [];
  const nodes = [];
  let place = 0;
  for (let at = 0; at < times.length; at += 4) {
    const [first, end, start, stop] = times.slice(at, at + 4);
    const onclick = () => player.playFrom(row, placeOf(row), start / 100);
    const node = h("span.word", { onclick }, letters.slice(first, end).join(""));
    nodes.push(letters.slice(place, first).join(""), node);
    words.push({ node, start_s: start / 100, end_s: stop / 100 });
    place = end;
  }
  return [...nodes, letters.slice(place).join("")];
}

/** Return the text: words that were not transcribed struck out, and those that were transcribed instead. @param {Transcript} asr */
function marked({ heard, unit }) {
  const gap = unit === "words" ? " " : "";
  return heard.flatMap(([wanted, other]) => {
    if (other === undefined) return [wanted, gap];
    return [...(wanted ? [h("del", wanted), gap] : []), ...(other ? [h("ins", other), gap] : [])];
  });
}

/** Return the parts of a long row; each plays from its start. @param {Row} row @param {number[][]} spans */
function parts(row, spans) {
  const letters = [...(row.text ?? "")];
  const items = spans.map(([first, end, start_s], number) => {
    const play = () => player.seek(row, placeOf(row), start_s / (takeOf(row).audio_s || 1));
    const start = button(duration(start_s), null, play, { "data-key": `part ${number}` });
    return h("li", start, h("span", { dir: "auto" }, letters.slice(first, end).join("")));
  });
  return h("details.parts", h("summary", counted(items.length, "part")), h("ol", items));
}
