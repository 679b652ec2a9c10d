// One row of the list.

/** @import { Reason, Row, Take } from "./types.js" */
import { chooseTake, seekAt, togglePlay } from "./actions.js";
import { button, counted, duration, h, icon, setIcon } from "./dom.js";
import { commentsOf, isNamed, placeOf, stateOf } from "./model.js";
import { player } from "./player.js";
import { isReadOnly, STATE_TEXT, toggleState } from "./review.js";
import { select, selection } from "./selection.js";
import { wantWaveform } from "./server.js";
import { drawWaveform } from "./waveform.js";

export const STATUS_TEXT = ["failed", "suspect", "ok"];

/** @param {Row} row @param {number} position @param {number} total */
export function makeItem(row, position, total) {
  /** @param {(event: any) => void} run */
  const act = (run) => (/** @type {Event} */ event) => {
    select(row);
    run(event);
  };
  /** @param {string} label @param {string} name @param {"approved" | "rejected" | "retake"} state */
  const small = (label, name, state) => h("button", {
    type: "button", class: `small ${name}`, title: label, "aria-label": label, "data-state": state,
    onclick: act(() => toggleState(row, state)),
  }, icon(name));
  const play = h("button", { type: "button", class: "round", onclick: act(() => togglePlay(row)) });
  const canvas = h("canvas", { class: "wave", "aria-hidden": "true", onclick: act((event) => seekAt(row, event)) });
  const length = h("span", { class: "length" });
  const review = h("span", { class: "review" });
  const marks = [small("Approve", "approve", "approved"), small("Reject", "reject", "rejected"),
    small("Request a retake", "again", "retake")];
  const takes = (row.takes.length > 1 ? row.takes : []).map(({ take }, place) => {
    const label = `Take ${take}${place === row.chosen ? ", current in the folder" : ""}`;
    const more = { class: place === row.chosen ? "take own" : "take", "aria-label": label, title: label };
    return button(String(take), null, () => chooseTake(row, place), more);
  });
  const second = row.error ?? row.spoken_text;
  const unknown = `The text is not in timings.jsonl (${counted(row.text_chars ?? 0, "character")})`;
  const node = h("li", {
    class: second ? "row two" : "row", "data-id": row.id, "data-group": row.group,
    "aria-posinset": position, "aria-setsize": total,
  },
  play, h("div", { class: "sound" }, canvas, length),
  h("div", { class: "words" },
    h("div", { class: "line" },
      h("span", { class: "status", text: STATUS_TEXT[row.group] }), review, h("bdi", { class: "id", text: row.id }),
      h("span", { class: "voice", text: [row.character, row.voice ?? "no voice"].filter(Boolean).join(" \u00b7 ") }),
      h("span", { class: "chips" }, ...row.reasons.slice(0, 3).map(chip))),
    h("p", { class: row.text === undefined ? "text unknown" : "text", dir: "auto", text: row.text ?? unknown }),
    second && h("p", { class: row.error ? "spoken wrong" : "spoken", dir: "auto", text: second })),
  h("div", { class: "side" },
    h("div", { class: "takes", role: "group", "aria-label": "Takes" }, ...takes), h("div", { class: "actions" }, ...marks)));
  node.addEventListener("pointerdown", (event) => {
    if (!(/** @type {Element} */ (event.target).closest("button, canvas"))) select(row, { focus: true });
  });
  /** Show what changes: playing, the current row, takes and decisions. @param {{width: number, height: number}} [size] */
  function refresh(size) {
    const [place, state, remarks] = [placeOf(row), stateOf(row), commentsOf(row).length];
    const isPlaying = player.row?.id === row.id && player.isPlaying;
    const isCurrent = selection.row === row;
    setIcon(play, isPlaying ? "pause" : "play");
    play.disabled = !row.takes[place].url;
    play.setAttribute("aria-label", `${isPlaying ? "Pause" : "Play"} ${row.id}`);
    node.classList.toggle("current", isCurrent);
    node.setAttribute("aria-current", String(isCurrent));
    for (const one of [node, play, ...marks, ...takes]) one.tabIndex = isCurrent ? 0 : -1;
    for (const one of marks) {
      one.setAttribute("aria-pressed", String(state === one.dataset.state));
      one.disabled = isReadOnly() || !isNamed(row);
    }
    takes.forEach((one, at) => one.setAttribute("aria-pressed", String(at === place)));
    node.dataset.state = state;
    review.textContent = [STATE_TEXT[state], remarks && counted(remarks, "comment")].filter(Boolean).join(" \u00b7 ");
    review.hidden = !review.textContent;
    length.textContent = lengthText(row, row.takes[place]);
    draw(size);
  }
  /** @param {{width: number, height: number}} [size] */
  function draw(size) {
    const isLoaded = player.row?.id === row.id;
    const take = row.takes[isLoaded && row.takes[player.place] ? player.place : placeOf(row)];
    wantWaveform(row.id, take);
    drawWaveform(canvas, take, isLoaded ? player.share : 0, size);
  }
  return { node, canvas, refresh, draw };
}

/** @param {Row} row @param {Take} take */
export function lengthText(row, take) {
  if (!take.url) return row.group === 0 && !take.audio_s ? "no audio" : "audio missing";
  return [duration(take.audio_s ?? 0), take.mos && `${take.mos[0].toFixed(1)} of 5`].filter(Boolean).join(" \u00b7 ");
}

/** A reason with its first figure. @param {Reason} reason */
function chip([kind, text]) {
  const figure = /[-\d][\d.]*( %| s\b| dBFS| letters per second)?/.exec(text)?.[0] ?? "";
  const short = figure.replace(" letters per second", "/s").replace(/^-/, "\u2212");
  return h("span", { class: "chip", title: text }, h("b", { text: kind }), h("span", { class: "figures", text: ` ${short}` }));
}
