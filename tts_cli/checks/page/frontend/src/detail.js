// Everything about the current row: next to the list, in narrow windows a sheet below it.

/** @import { Row, State, Take } from "./types.js" */
import { togglePlay } from "./actions.js";
import { on } from "./bus.js";
import { commentsNode } from "./comments.js";
import { button, byId, checkbox, copy, decibels, duration, h, setIcon } from "./dom.js";
import { lengthText, STATUS_TEXT } from "./item.js";
import { isNamed, model, placeOf, shownTake, stateOf } from "./model.js";
import { player } from "./player.js";
import { retakeNode } from "./retake.js";
import { isReadOnly, STATE_TEXT, toggleState } from "./review.js";
import { selection } from "./selection.js";
import { wantWaveform } from "./server.js";
import { againCommands, MORE_TAKES } from "./shell.js";
import { takesNode } from "./takes.js";
import { textsOf } from "./texts.js";
import { drawWaveform } from "./waveform.js";

const RATES = [0.75, 1, 1.25, 1.5, 2];
const pane = byId("detail");
const canvas = h("canvas", { class: "wave", "aria-hidden": "true" });
const play = h("button", { type: "button", class: "round big", "data-key": "play" });
const range = h("input", {
  type: "range", class: "seek", min: "0", max: "1000", value: "0", "aria-label": "Position", "data-key": "seek",
});
const time = h("span", { class: "time" });
const sheet = h("button", { type: "button", class: "plain icon sheet", "data-key": "sheet", "aria-label": "Details" });
/** @type {import("./texts.js").Word[]} */
let words = [];
let isOpen = false;

play.onclick = () => selection.row && togglePlay(selection.row);
range.oninput = () => selection.row && player.seek(selection.row, placeOf(selection.row), Number(range.value) / 1000);
sheet.onclick = () => {
  isOpen = !isOpen;
  refresh();
};

function show() {
  const { row } = selection;
  if (!row) return pane.replaceChildren();
  const focused = pane.contains(document.activeElement) && /** @type {HTMLElement} */ (document.activeElement);
  const key = (focused && focused.dataset.key) || "";
  const top = pane.scrollTop;
  const take = shownTake(row);
  const texts = textsOf(row, take);
  words = texts.words;
  const hint = (/** @type {string | false | undefined} */ text) => text && h("p", { class: "hint", text });
  const reasons = row.reasons.map(([kind, text]) => {
    const shown = ` ${text.replaceAll(/-(?=\d)/g, "\u2212")}`;
    return h("li", { title: model.data.kinds[kind] }, h("b", { text: kind }), shown);
  });
  const again = () => copy(againCommands([row]).join("\n"), "the command for more takes");
  const body = [
    decisions(row),
    takesNode(row),
    hint(take.is_older && "The row failed; this is its audio from an earlier run."),
    hint(take.is_other && take.said !== undefined && `Text of this take: ${take.said}`),
    row.error !== undefined && h("p", { class: "wrong", text: row.error }),
    reasons.length > 0 && h("ul", { class: "reasons" }, ...reasons),
    ...texts.nodes,
    isNamed(row) && commentsNode(row),
    isNamed(row) && retakeNode(row),
    h("div", { class: "buttons" }, button("Copy id", "copy", () => copy(row.id, "the id"), { "data-key": "id" }),
      take.seed !== undefined && button("Copy seed", "copy", () => copy(String(take.seed), "the seed"), { "data-key": "seed" }),
      isNamed(row) && button(`Copy the command for ${MORE_TAKES} more takes`, "copy", again, { "data-key": "again" })),
    figures(row, take),
  ];
  pane.replaceChildren(head(row), h("div", { class: "body" }, ...body));
  const same = [...pane.querySelectorAll("[data-key]")].find((node) => node.getAttribute("data-key") === key);
  if (same instanceof HTMLElement) same.focus({ preventScroll: true });
  pane.scrollTop = top;
  refresh();
}

/** @param {Row} row */
function head(row) {
  const rates = RATES.map((value) =>
    h("option", { value, text: `${value}\u00d7`, selected: value === player.audio.playbackRate }));
  const rate = h("select", { class: "rate", "aria-label": "Speed", "data-key": "rate" }, ...rates);
  rate.onchange = () => { player.audio.defaultPlaybackRate = player.audio.playbackRate = Number(rate.value); };
  const goesOn = checkbox("play on", "goes-on", player.goesOn, (isOn) => { player.goesOn = isOn; });
  const status = h("span", { class: "status", "data-group": row.group, text: STATUS_TEXT[row.group] });
  return h("div", { class: "head" },
    h("div", { class: "title" }, h("h2", {}, h("bdi", { text: row.id })), status, sheet),
    h("div", { class: "player" }, play, h("div", { class: "scrub" }, canvas, range)),
    h("div", { class: "under" }, time, goesOn, rate));
}

/** @param {Row} row */
function decisions(row) {
  const [state, disabled] = [stateOf(row), isReadOnly() || !isNamed(row)];
  /** @param {State} wanted @param {string} label @param {string} name */
  const one = (wanted, label, name) => button(label, name, () => toggleState(row, wanted), {
    class: `plain ${wanted}`, "data-key": wanted, "aria-pressed": String(state === wanted), disabled,
  });
  return h("div", { class: "buttons decide", role: "group", "aria-label": "Decision" },
    one("approved", "Approve", "approve"), one("rejected", "Reject", "reject"), one("retake", "Request retake", "again"),
    state === "changed" && h("span", { class: "review", text: STATE_TEXT.changed }));
}

/** @param {Row} row @param {Take} take */
function figures(row, take) {
  const run = model.data.runs[row.run ?? -1];
  const [mos, signal, background, p808] = (take.mos ?? []).map((score) => score.toFixed(1));
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
  const known = Object.entries(facts).filter(([, value]) => value);
  const nodes = known.flatMap(([name, value]) => [h("dt", { text: name }), h("dd", { text: value })]);
  return h("dl", { class: "facts" }, ...nodes);
}

/** Show what moves while audio plays. */
function refresh() {
  const { row } = selection;
  if (!row) return;
  const isLoaded = player.row?.id === row.id && player.place < row.takes.length;
  const take = row.takes[isLoaded ? player.place : placeOf(row)];
  const share = isLoaded ? player.share : 0;
  const seconds = take.audio_s ?? 0;
  setIcon(play, isLoaded && player.isPlaying ? "pause" : "play");
  play.setAttribute("aria-label", `${isLoaded && player.isPlaying ? "Pause" : "Play"} ${row.id}`);
  play.disabled = range.disabled = !take.url;
  pane.classList.toggle("open", isOpen);
  setIcon(sheet, isOpen ? "less" : "more");
  sheet.setAttribute("aria-expanded", String(isOpen));
  range.value = String(Math.round(1000 * share));
  range.setAttribute("aria-valuetext", `${(share * seconds).toFixed(1)} of ${seconds.toFixed(1)} seconds`);
  time.textContent = take.url ? `${(share * seconds).toFixed(1)} / ${duration(seconds)}` : lengthText(row, take);
  wantWaveform(row.id, take);
  drawWaveform(canvas, take, share);
  for (const { node, start_s, end_s } of words) {
    node.classList.toggle("now", isLoaded && start_s <= share * seconds && share * seconds < end_s);
  }
}

/** @type {Row | null} */
let shown = null;
on(["select"], () => {
  if (shown !== selection.row) show();
  shown = selection.row;
});
on(["rows", "decided", "picked", "server"], show);
on(["played", "drawn", "theme"], refresh);
