// One row of the list.

/** @import { Reason, Row, State, Take } from "./types.js" */
import { chooseTake, showPlaying, togglePlay } from "./actions.js";
import { button, counted, dotted, duration, h, icon } from "./dom.js";
import { commentsOf, isNamed, placeOf, scoreText, select, selection, STATUS_TEXT, stateOf } from "./model.js";
import { player } from "./player.js";
import { isReadOnly, STATE_TEXT, toggleState } from "./review.js";
import { drawWaveform } from "./waveform.js";

/** @param {Row} row @param {number} position @param {number} total */
export function makeItem(row, position, total) {
  /** @param {string} label @param {string} name @param {State} state */
  const small = (label, name, state) => {
    const facts = { class: `small ${name}`, title: label, "aria-label": label, "data-state": state };
    return h("button", { ...facts, onclick: () => toggleState(row, state) }, icon(name));
  };
  const play = h("button.round", { onclick: () => togglePlay(row) });
  const canvas = h("canvas.wave", { "aria-hidden": "true" });
  canvas.onclick = ({ clientX }) => {
    const { left, width } = canvas.getBoundingClientRect();
    player.seek(row, placeOf(row), (clientX - left) / width);
  };
  const [length, review] = [h("span.length"), h("span.review")];
  const marks = [
    small("Approve", "approve", "approved"),
    small("Reject", "reject", "rejected"),
    small("Request a retake", "again", "retake"),
  ];
  const takes = (row.takes.length > 1 ? row.takes : []).map(({ take }, place) => {
    const label = `Take ${take}${place === row.chosen ? ", current in the folder" : ""}`;
    const more = { class: place === row.chosen ? "take own" : "take", "aria-label": label, title: label };
    return button(String(take), null, () => chooseTake(row, place), more);
  });
  const second = row.error ?? row.spoken_text;
  const unknown = `The text is not in timings.jsonl (${counted(row.text_chars ?? 0, "character")})`;
  const [status, id] = [h("span.status", STATUS_TEXT[row.group]), h("bdi.id", row.id)];
  const voice = h("span.voice", dotted([row.character, row.voice ?? "no voice"]));
  const chips = h("span.chips", row.reasons.slice(0, 3).map(chip));
  const facts = { "data-id": row.id, "data-group": row.group, "aria-posinset": position, "aria-setsize": total };
  const node = h(
    second ? "li.row.two" : "li.row",
    facts,
    play,
    h("div.sound", canvas, length),
    h("div.words", [
      h("div.line", status, review, id, voice, chips),
      h(row.text === undefined ? "p.text.unknown" : "p.text", { dir: "auto" }, row.text ?? unknown),
      second && h(row.error ? "p.spoken.wrong" : "p.spoken", { dir: "auto" }, second),
    ]),
    h("div.side", h("div.takes", { role: "group", "aria-label": "Takes" }, takes), h("div.actions", marks)),
  );
  node.addEventListener("click", () => select(row), { capture: true });
  node.addEventListener("pointerdown", event => {
    if (!(/** @type {Element} */ (event.target).closest("button, canvas"))) select(row, { focus: true });
  });
  /** Show what changes: playing, the current row, takes and decisions. @param {{width: number, height: number}} [size] */
  function refresh(size) {
    const [place, state, remarks] = [placeOf(row), stateOf(row), commentsOf(row).length];
    const isCurrent = selection.row === row;
    showPlaying(play, row);
    play.disabled = !row.takes[place].url;
    node.classList.toggle("current", isCurrent);
    node.setAttribute("aria-current", String(isCurrent));
    for (const one of [node, play, ...marks, ...takes]) one.tabIndex = isCurrent ? 0 : -1;
    for (const one of marks) {
      one.setAttribute("aria-pressed", String(state === one.dataset.state));
      one.disabled = isReadOnly() || !isNamed(row);
    }
    takes.forEach((one, at) => one.setAttribute("aria-pressed", String(at === place)));
    node.dataset.state = state;
    review.textContent = dotted([STATE_TEXT[state], remarks && counted(remarks, "comment")]);
    review.hidden = !review.textContent;
    length.textContent = lengthText(row, row.takes[place]);
    draw(size);
  }
  /** @param {{width: number, height: number}} [size] */
  function draw(size) {
    const [place, share] = player.has(row) ? [player.place, player.share] : [placeOf(row), 0];
    drawWaveform(canvas, row.id, row.takes[place], share, size);
  }
  return { node, canvas, refresh, draw };
}

/** @param {Row} row @param {Take} take */
export function lengthText(row, take) {
  if (!take.url) return row.group === 0 && !take.audio_s ? "no audio" : "audio missing";
  return dotted([duration(take.audio_s ?? 0), scoreText(take)]);
}

/** A reason with its first figure. @param {Reason} reason */
function chip([kind, text]) {
  const figure = /[-\d][\d.]*( %| s\b| dBFS| letters per second)?/.exec(text)?.[0] ?? "";
  const short = figure.replace(" letters per second", "/s").replace(/^-/, "\u2212");
  return h("span.chip", { title: text }, h("b", kind), h("span.figures", ` ${short}`));
}
