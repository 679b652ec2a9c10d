// Three questions, drawn. Each chart states its answer in words, and has its figures in a table.

/** @import { Charts, Figures, RunTime } from "./types.js" */
import { byId, counted, duration, h, svg, whole } from "./dom.js";
import { showRow } from "./filters.js";
import { model } from "./model.js";

const LABEL_WIDTH = 92;
const LINE = 26;

/** @param {number} share */
function percent(share) {
  return share > 0 && share < 0.01 ? "< 1 %" : `${Math.round(100 * share)} %`;
}

/** @param {string} text */
function short(text, length = 12) {
  const letters = [...text];
  return letters.length <= length ? text : `${letters.slice(0, length - 1).join("")}\u2026`;
}

/** @param {string} title @param {string} answer @param {(width: number) => Element[]} draw @param {HTMLElement} table */
function card(title, answer, draw, table) {
  const figure = h("div", { class: "drawing" });
  const node = h("section", { class: "card" }, h("h2", { text: title }), h("p", { class: "answer", text: answer }), figure,
    h("details", { class: "figures" }, h("summary", { text: "Figures" }), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${title} Figures` }, table)));
  let drawn = 0;
  const redraw = () => {
    const width = Math.floor(figure.clientWidth);
    if (!width || width === drawn) return;
    drawn = width;
    figure.replaceChildren(...draw(width));
  };
  new ResizeObserver(redraw).observe(figure);
  return node;
}

/** @param {string[]} heads @param {string[][]} lines */
export function tableOf(heads, lines) {
  /** @param {string[]} cells @param {"th" | "td"} tag */
  const row = (cells, tag) => h("tr", {}, ...cells.map((cell, at) => h(at ? tag : "th", { text: cell, scope: tag === "th" ? "col" : at ? null : "row" })));
  return h("table", {}, h("thead", {}, row(heads, "th")), h("tbody", {}, ...lines.map((cells) => row(cells, "td"))));
}

/** @param {Charts} charts */
function timeCard({ stages, time }) {
  /** @param {RunTime} entry */
  const sums = (entry) => entry.seconds.reduce((sum, value) => sum + value, 0) || 1;
  const first = time[0];
  const shares = first.seconds.map((value) => value / sums(first));
  const most = shares.indexOf(Math.max(...shares));
  /** @type {Record<string, string>} */
  const NAMES = { decode: "decoding", other: "waiting and retries", write: "writing" };
  /** @param {string} stage */
  const nameOf = (stage) => NAMES[stage] ?? stage;
  const answer = `${percent(shares[most])} of the time of ${first.name} was spent in ${nameOf(stages[most])}.`;
  const draw = (/** @type {number} */ width) => {
    const right = 64;
    const room = Math.max(40, width - LABEL_WIDTH - right);
    const height = time.length * LINE;
    const marks = time.flatMap((entry, line) => {
      const total = sums(entry);
      let x = LABEL_WIDTH;
      const bars = entry.seconds.map((seconds, stage) => {
        const size = (seconds / total) * room;
        const bar = size < 0.5 ? null : svg("rect", { x, y: line * LINE + 5, width: Math.max(0.5, size - 1), height: LINE - 10, class: `stage s${stage}` }, svg("title", { text: `${nameOf(stages[stage])}: ${duration(seconds)}, ${percent(seconds / total)}` }));
        x += size;
        return bar;
      });
      const y = line * LINE + LINE / 2 + 4;
      return [svg("text", { x: 0, y, text: short(entry.name) }), ...bars, svg("text", { x: width, y, class: "end", text: duration(total) })];
    });
    const legend = h("ul", { class: "legend" }, ...stages.map((stage, at) => shares[at] > 0 ? h("li", {}, svg("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, svg("rect", { width: 10, height: 10, rx: 2, class: `stage s${at}` })), `${nameOf(stage)} ${percent(shares[at])}`) : null));
    return [svg("svg", { role: "img", "aria-label": answer, width, height, viewBox: `0 0 ${width} ${height}` }, ...marks), legend];
  };
  const table = tableOf(["", ...stages.map((stage) => `${nameOf(stage)}, s`)], time.map((entry) => [entry.name, ...entry.seconds.map((value) => value.toFixed(1))]));
  return card("Time per stage", answer, draw, table);
}

/** @param {string} title @param {string} unit @param {Figures} figures @param {string[]} kinds */
function voiceCard(title, unit, { voices, left_out: leftOut }, kinds) {
  const all = voices.flatMap(({ marks, outliers }) => [...marks, ...outliers.map(([value]) => value)]);
  const low = Math.min(...all);
  const high = Math.max(...all);
  const text = (/** @type {number} */ value) => value.toFixed(1).replace("-", "\u2212");
  const byMedian = [...voices].sort((a, b) => a.marks[2] - b.marks[2]);
  const [least, most] = [byMedian[0], byMedian[byMedian.length - 1]];
  const answer = voices.length === 1
    ? `${least.voice}: usually ${text(least.marks[2])} ${unit}.`
    : `From ${text(least.marks[2])} (${least.voice}) to ${text(most.marks[2])} ${unit} (${most.voice}).`;
  const draw = (/** @type {number} */ width) => {
    const right = 40;
    const room = Math.max(40, width - LABEL_WIDTH - right);
    const ticks = niceTicks(low, high, Math.max(2, Math.floor(room / 70)));
    const start = Math.min(low, ticks[0]);
    const end = Math.max(high, ticks[ticks.length - 1]);
    const x = (/** @type {number} */ value) => LABEL_WIDTH + ((value - start) / (end - start || 1)) * room;
    const bottom = voices.length * LINE;
    const grid = ticks.flatMap((tick) => [
      svg("line", { x1: x(tick), x2: x(tick), y1: 0, y2: bottom, class: "grid" }),
      svg("text", { x: x(tick), y: bottom + 15, class: "tick", text: text(tick).replace(/\.0+$/, "") }),
    ]);
    const lines = voices.flatMap(({ voice, rows: number, marks: [p5, p25, p50, p75, p95], outliers }, line) => {
      const y = line * LINE + LINE / 2;
      return [
        svg("text", { x: 0, y: y + 4 }, svg("title", { text: voice }), short(voice)),
        svg("line", { x1: x(p5), x2: x(p95), y1: y, y2: y, class: "whisker" }),
        svg("rect", { x: x(p25), y: y - 6, width: Math.max(1, x(p75) - x(p25)), height: 12, rx: 2, class: "box" }),
        svg("line", { x1: x(p50), x2: x(p50), y1: y - 8, y2: y + 8, class: "median" }),
        ...outliers.map(([value, place]) => svg("circle", { cx: x(value), cy: y, r: 3, class: model.rows[place].reasons.some(([kind]) => kinds.includes(kind)) ? "dot odd" : "dot", onclick: () => showRow(model.rows[place]) }, svg("title", { text: `${model.rows[place].id}: ${text(value)} ${unit}` }))),
        svg("text", { x: width, y: y + 4, class: "end", text: whole(number) }),
      ];
    });
    const caption = `Line: 90 % of the rows; box: half of them; mark: median; dots: other rows, filled if suspect; number of rows at the right${leftOut ? `. ${counted(leftOut, "more voice")} not shown` : ""}.`;
    return [svg("svg", { role: "img", "aria-label": answer, width, height: bottom + 20, viewBox: `0 0 ${width} ${bottom + 20}` }, ...grid, ...lines), h("p", { class: "hint", text: caption })];
  };
  const table = tableOf(["Voice", "Rows", "5 %", "25 %", "Median", "75 %", "95 %"], voices.map(({ voice, rows: number, marks }) => [voice, whole(number), ...marks.map(text)]));
  return card(title, answer, draw, table);
}

/** Return round numbers inside a range, about so many, at least two. @param {number} low @param {number} high @param {number} about @returns {number[]} */
function niceTicks(low, high, about) {
  if (high <= low) return [low];
  const raw = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 5].find((factor) => factor * power >= raw) ?? 10) * power;
  /** @type {number[]} */
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step / 1e6; tick += step) ticks.push(tick);
  return ticks.length > 1 ? ticks : niceTicks(low, high, 2 * about);
}

export function showCharts() {
  const { charts } = model.data;
  /** @type {HTMLElement[]} */
  const cards = [];
  if (charts.time.length) cards.push(timeCard(charts));
  if (charts.rate.voices.length) cards.push(voiceCard("Speed of each voice", "letters per second", charts.rate, ["fast", "slow"]));
  if (charts.level.voices.length) cards.push(voiceCard("Loudness of each voice", "dBFS", charts.level, ["loud", "quiet"]));
  if (charts.mos.voices.length) cards.push(voiceCard("Predicted quality of each voice", "of 5", charts.mos, ["quality"]));
  byId("cards").replaceChildren(...cards);
  byId("charts").hidden = !cards.length;
}
