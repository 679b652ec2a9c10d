// Comments on a take, each about a moment of its audio.

/** @import { Decision, Row } from "./types.js" */
import { button, byId, duration, h } from "./dom.js";
import { commentsOf, model, placeOf, shownTake } from "./model.js";
import { player } from "./player.js";
import { decide, isReadOnly } from "./review.js";

/** The text that is being written, by row. @type {Map<string, string>} */
const drafts = new Map();
/** The moment that it is about. @type {number | null} */
let at_s = null;

/** Whether a comment can be removed here: a later one replaces only those of the same reviewer. @param {Decision} one */
const isOwn = (one) => (one.reviewer ?? "") === (model.data.server?.reviewer ?? "");

/** @param {Row} row */
export function commentsNode(row) {
  const seconds = shownTake(row).audio_s || 1;
  const items = commentsOf(row).map((one) => h("li", {},
    button(one.at_s === null ? "all" : duration(one.at_s), null, () => player.seek(row, placeOf(row), (one.at_s ?? 0) / seconds)),
    h("span", { class: "said", dir: "auto" }, one.reviewer ? h("b", { text: `${one.reviewer}: ` }) : null, one.comment),
    isOwn(one) && button("Remove", null, () => decide(row, "comment", "", one.at_s), { disabled: isReadOnly() })));
  const field = h("input", {
    type: "text", id: "comment", maxlength: "10000", autocomplete: "off", "aria-label": "Comment", "data-key": "comment",
    placeholder: "Comment on this moment", disabled: isReadOnly(),
    onfocus: () => { at_s = player.row?.id === row.id ? Math.round(100 * player.audio.currentTime) / 100 : null; },
    oninput: () => drafts.set(row.id, field.value),
  });
  field.value = drafts.get(row.id) ?? "";
  const send = (/** @type {Event} */ event) => {
    event.preventDefault();
    drafts.delete(row.id);
    if (field.value.trim()) decide(row, "comment", field.value.trim(), at_s);
  };
  return h("section", { class: "comments" }, h("h3", { text: "Comments" }), h("ul", {}, ...items),
    h("form", { onsubmit: send }, field, h("button", { type: "submit", class: "plain", text: "Add", disabled: isReadOnly() })));
}

export const writeComment = () => byId("comment")?.focus();
