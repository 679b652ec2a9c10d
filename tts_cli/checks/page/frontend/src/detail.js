// Everything about the current row: next to the list, in narrow windows a sheet below it.

/** @import { Row, State, Take } from "./types.js" */
import { showPlaying, togglePlay } from "./actions.js";
import { on } from "./bus.js";
import { commentsNode } from "./comments.js";
import { button, byId, copy, decibels, duration, h, setIcon } from "./dom.js";
import { lengthText } from "./item.js";
import { isNamed, model, placeOf, selection, shownTake, STATUS_TEXT, stateOf } from "./model.js";
import { player } from "./player.js";
import { retakeNode } from "./retake.js";
import { isReadOnly, STATE_TEXT, toggleState } from "./review.js";
import { againCommands, MORE_TAKES } from "./shell.js";
import { takesNode } from "./takes.js";
import { textsOf } from "./texts.js";
import { drawWaveform } from "./waveform.js";

const [pane, head, body] = ["detail", "detail-head", "detail-body"].map(id => byId(id));
const canvas = /** @type {HTMLCanvasElement} */ (byId("wave"));
const [play, sheet] = ["play", "sheet"].map(id => /** @type {HTMLButtonElement} */ (byId(id)));
const range = /** @type {HTMLInputElement} */ (byId("position"));
const rate = /** @type {HTMLSelectElement} */ (byId("rate"));
/** @type {import("./texts.js").Word[]} */
let words = [];

play.onclick = () => selection.row && togglePlay(selection.row);
range.oninput = () => selection.row && player.seek(selection.row, placeOf(selection.row), Number(range.value) / 1000);
rate.onchange = () => (player.audio.defaultPlaybackRate = player.audio.playbackRate = Number(rate.value));
sheet.onclick = () => {
  sheet.setAttribute("aria-expanded", String(pane.classList.toggle("open")));
  refresh();
};

function show() {
  const { row } = selection;
  head.hidden = !row;
  if (!row) return body.replaceChildren();
  byId("detail-id").textContent = row.id;
  byId("detail-status").textContent = STATUS_TEXT[row.group];
  byId("detail-status").dataset.group = String(row.group);
  const active = body.contains(document.activeElement) ? document.activeElement : null;
  const key = active?.getAttribute("data-key");
  const top = pane.scrollTop;
  const take = shownTake(row);
  const texts = textsOf(row, take);
  words = texts.words;
  const reasons = row.reasons.map(([kind, text]) => {
    const shown = ` ${text.replaceAll(/-(?=\d)/g, "\u2212")}`;
    return h("li", { title: model.data.kinds[kind] }, h("b", kind), shown);
  });
  const nodes = [
    decisions(row),
    takesNode(row),
    take.is_older && h("p.hint", "The row failed; this is its audio from an earlier run."),
    take.is_other && take.said !== undefined && h("p.hint", `Text of this take: ${take.said}`),
    row.error !== undefined && h("p.wrong", row.error),
    reasons.length > 0 && h("ul.reasons", reasons),
    ...texts.nodes,
    isNamed(row) && commentsNode(row),
    isNamed(row) && retakeNode(row),
    copies(row, take),
    figures(row, take),
  ];
  body.replaceChildren(...nodes.filter(node => node instanceof Node));
  const same = [...body.querySelectorAll("[data-key]")].find(node => node.getAttribute("data-key") === key);
  if (same instanceof HTMLElement) same.focus({ preventScroll: true });
  if (isTyped(active) && isTyped(same)) same.setSelectionRange(active.selectionStart, active.selectionEnd);
  pane.scrollTop = top;
  refresh();
}

/** @param {unknown} node @returns {node is HTMLInputElement | HTMLTextAreaElement} */
const isTyped = node =>
  node instanceof HTMLTextAreaElement || (node instanceof HTMLInputElement && node.type === "text");

/** @param {Row} row */
function decisions(row) {
  const [state, disabled] = [stateOf(row), isReadOnly() || !isNamed(row)];
  /** @param {State} wanted @param {string} label @param {string} name */
  const one = (wanted, label, name) => {
    const facts = { class: `plain ${wanted}`, "data-key": wanted, "aria-pressed": String(state === wanted), disabled };
    return button(label, name, () => toggleState(row, wanted), facts);
  };
  return h("div.buttons.decide", { role: "group", "aria-label": "Decision" }, [
    one("approved", "Approve", "approve"),
    one("rejected", "Reject", "reject"),
    one("retake", "Request retake", "again"),
    state === "changed" && h("span.review", STATE_TEXT.changed),
  ]);
}

/** @param {Row} row @param {Take} take */
function copies(row, take) {
  const [id, seed] = [() => copy(row.id, "the id"), () => copy(String(take.seed), "the seed")];
  const again = () => copy(againCommands([row]).join("\n"), "the command for more takes");
  const label = `Copy the command for ${MORE_TAKES} more takes`;
  return h("div.buttons", [
    button("Copy id", "copy", id, { "data-key": "id" }),
    take.seed !== undefined && button("Copy seed", "copy", seed, { "data-key": "seed" }),
    isNamed(row) && button(label, "copy", again, { "data-key": "again" }),
  ]);
}

/** @param {Row} row @param {Take} take */
function figures(row, take) {
  const run = model.data.runs[row.run ?? -1];
  const [mos, signal, background, p808] = (take.mos ?? []).map(score => score.toFixed(1));
  const [start, inside, end] = row.silences_s ?? [];
  /** @type {Record<string, string | null | undefined | false>} */
  const facts = {
    Character: row.character,
    Voice: row.voice ?? "none",
    ...row.extra,
    Duration: take.url && duration(take.audio_s ?? 0),
    Rate: row.rate !== undefined && `${row.rate.toFixed(1)} letters per second`,
    Level: take.level_dbfs !== undefined && decibels(take.level_dbfs),
    Opinion: take.mos && `${mos} of 5; speech ${signal}, background ${background}; P.808 ${p808}`,
    Peak: row.peak_dbfs !== undefined && decibels(row.peak_dbfs),
    Clipped: row.clipped_share !== undefined && `${(100 * row.clipped_share).toFixed(2)} % of samples`,
    Silence: row.silences_s && `${start} s at the start, ${inside} s inside, ${end} s at the end`,
    Seed: take.seed !== undefined && String(take.seed),
    Attempts: row.attempts !== undefined && String(row.attempts),
    Ended: row.finish_reason,
    Language: row.language,
    Model: run?.model,
    Run: run?.started && `${run.started.slice(0, 16).replace("T", " ")} UTC`,
  };
  const nodes = Object.entries(facts).flatMap(([name, value]) => (value ? [h("dt", name), h("dd", value)] : []));
  return h("dl.facts", nodes);
}

/** Show what moves while audio plays. */
function refresh() {
  const { row } = selection;
  if (!row) return;
  const isLoaded = player.has(row);
  const take = row.takes[isLoaded ? player.place : placeOf(row)];
  const share = isLoaded ? player.share : 0;
  const seconds = take.audio_s ?? 0;
  const played_s = share * seconds;
  showPlaying(play, row);
  play.disabled = range.disabled = !take.url;
  setIcon(sheet, pane.classList.contains("open") ? "less" : "more");
  range.value = String(Math.round(1000 * share));
  range.setAttribute("aria-valuetext", `${played_s.toFixed(1)} of ${seconds.toFixed(1)} seconds`);
  byId("time").textContent = take.url ? `${played_s.toFixed(1)} / ${duration(seconds)}` : lengthText(row, take);
  drawWaveform(canvas, row.id, take, share);
  for (const { node, start_s, end_s } of words) {
    node.classList.toggle("now", isLoaded && start_s <= played_s && played_s < end_s);
  }
}

on(["select"], ({ before }) => before !== selection.row && show());
on(["rows", "decided", "picked", "server"], show);
on(["played", "drawn", "theme"], refresh);
