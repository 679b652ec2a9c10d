// Comments on a take, each about a moment of its audio.

/** @import { Decision, Row } from "./types.js" */
import { button, byId, duration, h } from "./dom.js";
import { commentsOf, model, placeOf } from "./model.js";
import { player } from "./player.js";
import { decide, isReadOnly } from "./review.js";

/** The text that is being written, by row. @type {Map<string, string>} */
const drafts = new Map();
/** The moment that it is about. @type {number | null} */
let at_s = null;

/** Whether a comment can be removed here: a later one replaces only those of the same reviewer. @param {Decision} one */
const isOwn = one => (one.reviewer ?? "") === (model.data.server?.reviewer ?? "");

/** @param {Row} row */
export function commentsNode(row) {
  const disabled = isReadOnly();
  const items = commentsOf(row).map(one => {
    const play = () => player.playFrom(row, placeOf(row), one.at_s ?? 0);
    const remove = () => decide(row, "comment", "", one.at_s);
    const said = h("span.said", { dir: "auto" }, one.reviewer && h("b", `${one.reviewer}: `), one.comment);
    const when = button(one.at_s === null ? "all" : duration(one.at_s), null, play);
    return h("li", when, said, isOwn(one) && button("Remove", null, remove, { disabled }));
  });
  const facts = { id: "comment", "data-key": "comment", "aria-label": "Comment", autocomplete: "off", disabled };
  const limits = { type: "text", maxlength: "10000", placeholder: "Comment on this moment" };
  const field = h("input", { ...facts, ...limits });
  field.onfocus = () => (at_s = player.has(row) ? Math.round(100 * player.audio.currentTime) / 100 : null);
  field.oninput = () => drafts.set(row.id, field.value);
  field.value = drafts.get(row.id) ?? "";
  const onsubmit = (/** @type {Event} */ event) => {
    event.preventDefault();
    drafts.delete(row.id);
    if (field.value.trim()) decide(row, "comment", field.value.trim(), at_s);
  };
  const form = h("form", { onsubmit }, field, h("button.plain", { type: "submit", disabled }, "Add"));
  return h("section.comments", h("h3", "Comments"), h("ul", items), form);
}

export const writeComment = () => byId("comment")?.focus();
