// The texts of a row: as written, as read, and as a recognizer transcribed it.

/** @import { Row, Take, Transcript } from "./types.js" */
import { counted, duration, h } from "./dom.js";
import { placeOf, takeOf } from "./model.js";
import { player } from "./player.js";

/** @typedef {{node: HTMLElement, start_s: number, end_s: number}} Word */

/** Return the texts, and the words with their times. @param {Row} row @param {Take} take */
export function textsOf(row, take) {
  /** @type {Word[]} */
  const words = [];
  /** @type {HTMLElement[]} */
  const nodes = [];
  /** @param {string} title @param {...(Node | string)} content */
  const add = (title, ...content) => nodes.push(h("h3", { text: title }), h("p", { class: "full", dir: "auto" }, ...content));
  const hint = (/** @type {string} */ text) => nodes.push(h("p", { class: "hint", text }));
  if (row.text !== undefined) add("Text", ...timedText(row, take, words));
  if (take.unsure) hint(`Word times may be wrong: ${take.unsure.join("; ")}`);
  if (row.spoken_text !== undefined) add("Read as", row.spoken_text);
  if (row.instruct !== undefined) add("Style", row.instruct);
  if (row.parts) nodes.push(parts(row, row.parts));
  if (take.asr) {
    add("Transcript", ...marked(take.asr));
    nodes[nodes.length - 1].classList.add("heard");
    hint(`${(100 * take.asr.error).toFixed(0)} % of ${take.asr.unit} wrong, ${take.asr.longest} in a row; ${take.asr.by}`);
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
    const play = () => player.seek(row, placeOf(row), start / 100 / (take.audio_s || 1));
    const node = h("span", { class: "word", text: letters.slice(first, end).join(""), onclick: play });
    nodes.push(letters.slice(place, first).join(""), node);
    words.push({ node, start_s: start / 100, end_s: stop / 100 });
    place = end;
  }
  return [...nodes, letters.slice(place).join("")];
}

/** Return the text: words that were not transcribed struck out, and those that were transcribed instead. @param {Transcript} asr */
function marked(asr) {
  const gap = asr.unit === "words" ? " " : "";
  return asr.heard.flatMap(([wanted, other]) => {
    if (other === undefined) return [wanted, gap];
    const nodes = [wanted && h("del", { text: wanted }), other && h("ins", { text: other })].filter(Boolean);
    return nodes.flatMap((node) => [node, gap]);
  });
}

/** Return the parts of a long row; each plays from its start. @param {Row} row @param {number[][]} spans */
function parts(row, spans) {
  const letters = [...(row.text ?? "")];
  const seconds = takeOf(row).audio_s || 1;
  const items = spans.map(([first, end, start_s], number) => h("li", {},
    h("button", {
      type: "button", class: "plain", "data-key": `part ${number}`, onclick: () => player.seek(row, placeOf(row), start_s / seconds),
    }, duration(start_s)),
    h("span", { dir: "auto", text: letters.slice(first, end).join("") })));
  return h("details", { class: "parts" }, h("summary", { text: counted(items.length, "part") }), h("ol", {}, ...items));
}
