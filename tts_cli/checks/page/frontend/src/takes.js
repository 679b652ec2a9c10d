// The takes of a row: choose one by ear.

/** @import { Row, Take } from "./types.js" */
import { chooseTake, compare } from "./actions.js";
import { button, copy, decibels, dotted, duration, h } from "./dom.js";
import { errorText, placeOf, scoreText } from "./model.js";
import { player } from "./player.js";
import { isReadOnly, use } from "./review.js";
import { server } from "./server.js";
import { pickCommand } from "./shell.js";

/** @param {Row} row */
export function takesNode(row) {
  if (row.takes.length < 2) return null;
  const place = placeOf(row);
  const { take } = row.takes[place];
  const choices = row.takes.map((one, at) => {
    const facts = { "aria-pressed": String(at === place), "data-key": `take ${one.take}` };
    const onclick = () => chooseTake(row, at);
    const current = at === row.chosen && h("span.now", "current");
    return h("button.choice", { ...facts, onclick }, h("b", `Take ${one.take}`), h("span", factsOf(one)), current);
  });
  const equal = h("input", { type: "checkbox", "data-key": "levels", checked: player.isLevelled });
  equal.onchange = () => player.level(equal.checked);
  const command = () => copy(pickCommand([[row.id, take]]), "the pick command");
  const choose = server.isThere
    ? h("button.strong", { "data-key": "use", disabled: isReadOnly(), onclick: () => use(row) }, `Use take ${take}`)
    : button(`Copy the pick command for take ${take}`, "copy", command, { "data-key": "pick" });
  const facts = { "data-key": "compare", title: "Switch between two takes at the same moment" };
  const other = button("Compare", null, () => compare(row), facts);
  const buttons = h("div.buttons", place !== row.chosen && choose, other, h("label.check", equal, "equally loud"));
  return h("div.choices", { role: "group", "aria-label": "Takes" }, choices, buttons);
}

/** @param {Take} take */
function factsOf(take) {
  return dotted([
    take.url ? duration(take.audio_s ?? 0) : "no audio",
    take.status === "failed" ? "failed" : take.suspect && `suspect: ${take.suspect.join(", ")}`,
    take.level_dbfs !== undefined && decibels(take.level_dbfs),
    scoreText(take),
    take.asr && errorText(take.asr),
    take.is_other && "other text or voice",
    take.seed !== undefined && `seed ${take.seed}`,
  ]);
}
