// Three questions, drawn. Each chart states its answer in words, and has its figures in a table.

/** @import { Charts, Figures } from "./types.js" */
import { byId, counted, duration, h, signed, whole } from "./dom.js";
import { showRow } from "./filters.js";
import { model } from "./model.js";

/** @type {Record<string, string>} */
const STAGES = { decode: "decoding", other: "waiting and retries", write: "writing" };

/** @param {number} share */
const percent = share => (share > 0 && share < 0.01 ? "< 1 %" : `${Math.round(100 * share)} %`);

/** A box that covers a part of its line. @param {string} kind @param {number} from @param {number} to @param {string} [title] */
function box(kind, from, to, title) {
  const node = h("span", { class: kind, title });
  node.style.left = `${100 * from}%`;
  node.style.width = `${100 * (to - from)}%`;
  return node;
}

/** @param {string} name @param {HTMLElement[]} boxes @param {string} end */
const line = (name, boxes, end) =>
  h("div.bars", h("span", { title: name }, name), h("span.track", boxes), h("span.end", end));

/** A table that may be wider than its place. @param {string} label @param {string[]} heads @param {string[][]} lines */
export function tableOf(label, heads, lines) {
  const head = heads.map(text => h("th", { scope: "col" }, text));
  const body = lines.map(([name, ...cells]) => {
    const nodes = cells.map(text => h("td", text));
    return h("tr", h("th", { scope: "row" }, name), nodes);
  });
  const table = h("table", h("thead", h("tr", head)), h("tbody", body));
  return h("div.scroll", { tabindex: "0", role: "region", "aria-label": label }, table);
}

/** @param {string} title @param {string} answer @param {HTMLElement[]} lines @param {HTMLElement} note @param {HTMLElement} table */
function card(title, answer, lines, note, table) {
  const chart = h("div", { "aria-hidden": "true" }, lines);
  const figures = h("details.figures", h("summary", "Figures"), table);
  return h("section.card", h("h2", title), h("p.answer", answer), chart, note, figures);
}

/** @param {Charts} charts */
function timeCard({ stages, time }) {
  const names = stages.map(stage => STAGES[stage] ?? stage);
  const totals = time.map(run => run.seconds.reduce((sum, value) => sum + value, 0) || 1);
  const shares = time[0].seconds.map(value => value / totals[0]);
  const most = shares.indexOf(Math.max(...shares));
  const lines = time.map((run, at) => {
    let end = 0;
    const boxes = run.seconds.map((seconds, stage) => {
      const start = end;
      end += seconds / totals[at];
      return box(`stage s${stage}`, start, end, `${names[stage]}: ${duration(seconds)}, ${percent(end - start)}`);
    });
    return line(run.name, boxes, duration(totals[at]));
  });
  const texts = names.map((name, at) => `${name} ${percent(shares[at])}`);
  const parts = texts.map((text, at) => shares[at] > 0 && h("li", { class: `s${at}` }, text));
  const answer = `${percent(shares[most])} of the time of ${time[0].name} was spent in ${names[most]}.`;
  const cells = time.map(run => [run.name, ...run.seconds.map(value => value.toFixed(1))]);
  const table = tableOf("Seconds per stage", ["", ...names.map(name => `${name}, s`)], cells);
  return card("Time per stage", answer, lines, h("ul.legend", parts), table);
}

/** @param {string} title @param {string} unit @param {Figures} figures @param {string[]} kinds */
function voiceCard(title, unit, { voices, left_out: leftOut }, kinds) {
  const all = voices.flatMap(({ marks, outliers }) => [...marks, ...outliers.map(([value]) => value)]);
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const share = (/** @type {number} */ value) => (value - low) / (high - low || 1);
  const sorted = [...voices].sort((a, b) => a.marks[2] - b.marks[2]);
  const [least, most] = [sorted[0], sorted[sorted.length - 1]];
  const answer =
    voices.length === 1
      ? `${least.voice}: usually ${signed(least.marks[2])} ${unit}.`
      : `From ${signed(least.marks[2])} (${least.voice}) to ${signed(most.marks[2])} ${unit} (${most.voice}).`;
  const lines = voices.map(({ voice, rows, marks, outliers }) => {
    const [p5, p25, p50, p75, p95] = marks.map(share);
    const dots = outliers.map(([value, place]) => {
      const row = model.rows[place];
      const isOdd = row.reasons.some(([kind]) => kinds.includes(kind));
      const dot = box(isOdd ? "dot odd" : "dot", share(value), share(value), `${row.id}: ${signed(value)} ${unit}`);
      dot.onclick = () => showRow(row);
      return dot;
    });
    return line(voice, [box("whisker", p5, p95), box("box", p25, p75), box("median", p50, p50), ...dots], whole(rows));
  });
  const more = leftOut ? `. ${counted(leftOut, "more voice")} not shown` : "";
  const note =
    `${signed(low)} to ${signed(high)} ${unit}. Line: 90 % of the rows; box: half of them; mark: median; ` +
    `dots: other rows, filled if suspect; number of rows at the right${more}.`;
  const cells = voices.map(({ voice, rows, marks }) => [voice, whole(rows), ...marks.map(signed)]);
  const table = tableOf(title, ["Voice", "Rows", "5 %", "25 %", "Median", "75 %", "95 %"], cells);
  return card(title, answer, lines, h("p.hint", note), table);
}

export function showCharts() {
  const { time, rate, level, mos } = model.data.charts;
  const cards = [
    time.length && timeCard(model.data.charts),
    rate.voices.length && voiceCard("Speed of each voice", "letters per second", rate, ["fast", "slow"]),
    level.voices.length && voiceCard("Loudness of each voice", "dBFS", level, ["loud", "quiet"]),
    mos.voices.length && voiceCard("Predicted quality of each voice", "of 5", mos, ["quality"]),
  ].filter(one => one instanceof HTMLElement);
  byId("cards").replaceChildren(...cards);
  byId("charts").hidden = !cards.length;
}
