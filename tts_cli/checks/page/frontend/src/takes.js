// The takes of a row: choose one by ear.

/** @import { Row } from "./types.js" */
import { chooseTake, compare } from "./actions.js";
import { button, copy, decibels, duration, h } from "./dom.js";
import { placeOf } from "./model.js";
import { player } from "./player.js";
import { isReadOnly } from "./review.js";
import { use } from "./retake.js";
import { server } from "./server.js";
import { pickCommand } from "./shell.js";

/** @param {Row} row */
export function takesNode(row) {
  if (row.takes.length < 2) return null;
  const place = placeOf(row);
  const selected = row.takes[place].take;
  const choices = row.takes.map((take, at) => {
    const facts = [
      take.url ? duration(take.audio_s ?? 0) : "no audio",
      take.level_dbfs !== undefined && decibels(take.level_dbfs),
      take.mos && `${take.mos[0].toFixed(1)} of 5`,
      take.asr && `${(100 * take.asr.error).toFixed(0)} % of ${take.asr.unit} wrong`,
      take.seed !== undefined && `seed ${take.seed}`,
      take.status === "failed" && "failed",
      take.is_other && "other text or voice",
    ];
    return h("button", { type: "button", class: "choice", "aria-pressed": String(at === place), "data-key": `take ${take.take}`, onclick: () => chooseTake(row, at) },
      h("b", { text: `Take ${take.take}` }), h("span", { text: facts.filter(Boolean).join(" \u00b7 ") }),
      at === row.chosen && h("span", { class: "now", text: "chosen" }));
  });
  const levels = h("label", { class: "goes-on" },
    h("input", { type: "checkbox", "data-key": "levels", checked: player.isLevelled, onchange: (/** @type {any} */ event) => {
      player.isLevelled = event.target.checked;
      player.level();
    } }), "equally loud");
  const isOther = place !== row.chosen;
  const choose = !isOther ? null : server.isThere
    ? h("button", { type: "button", class: "strong", "data-key": "use", text: `Use take ${selected}`, disabled: isReadOnly(), onclick: () => use(row) })
    : button(`Copy the pick command for take ${selected}`, "copy", () => copy(pickCommand([[row.id, selected]]), "the pick command"), { "data-key": "pick" });
  return h("div", { class: "choices", role: "group", "aria-label": "Takes" }, ...choices,
    h("div", { class: "buttons" }, choose, button("Compare", null, () => compare(row), { "data-key": "compare", title: "Switch between two takes at the same moment" }), levels));
}
