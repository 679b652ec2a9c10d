// The takes of a row: choose one by ear.

/** @import { Row, Take } from "./types.js" */
import { chooseTake, compare } from "./actions.js";
import { button, checkbox, copy, decibels, duration, h } from "./dom.js";
import { placeOf } from "./model.js";
import { player } from "./player.js";
import { isReadOnly, use } from "./review.js";
import { server } from "./server.js";
import { pickCommand } from "./shell.js";

/** @param {Row} row */
export function takesNode(row) {
  if (row.takes.length < 2) return null;
  const place = placeOf(row);
  const { take } = row.takes[place];
  const choices = row.takes.map((one, at) => h("button", {
    type: "button", class: "choice", "aria-pressed": String(at === place), "data-key": `take ${one.take}`,
    onclick: () => chooseTake(row, at),
  }, h("b", { text: `Take ${one.take}` }), h("span", { text: factsOf(one) }),
  at === row.chosen && h("span", { class: "now", text: "current" })));
  const levels = checkbox("equally loud", "levels", player.isLevelled, (isOn) => {
    player.isLevelled = isOn;
    player.level();
  });
  const command = () => copy(pickCommand([[row.id, take]]), "the pick command");
  const choose = server.isThere
    ? button(`Use take ${take}`, null, () => use(row), { class: "strong", "data-key": "use", disabled: isReadOnly() })
    : button(`Copy the pick command for take ${take}`, "copy", command, { "data-key": "pick" });
  const title = "Switch between two takes at the same moment";
  return h("div", { class: "choices", role: "group", "aria-label": "Takes" }, ...choices,
    h("div", { class: "buttons" }, place !== row.chosen && choose,
      button("Compare", null, () => compare(row), { "data-key": "compare", title }), levels));
}

/** @param {Take} take */
function factsOf(take) {
  return [
    take.url ? duration(take.audio_s ?? 0) : "no audio",
    take.status === "failed" ? "failed" : take.suspect && `suspect: ${take.suspect.join(", ")}`,
    take.level_dbfs !== undefined && decibels(take.level_dbfs),
    take.mos && `${take.mos[0].toFixed(1)} of 5`,
    take.asr && `${(100 * take.asr.error).toFixed(0)} % of ${take.asr.unit} wrong`,
    take.is_other && "other text or voice",
    take.seed !== undefined && `seed ${take.seed}`,
  ].filter(Boolean).join(" \u00b7 ");
}
