// The page, put together. The order of imports is the order in which parts learn of changes.

/** @import { Data } from "./types.js" */
import "./waveform.js";
import { measure, NARROW, nextRow, render } from "./list.js";
import "./detail.js";
import "./filters.js";
import "./basket.js";
import "./keys.js";
import { emit, on } from "./bus.js";
import { showCharts } from "./charts.js";
import { byId, complain } from "./dom.js";
import { showTheme } from "./head.js";
import { load, placeOf, select } from "./model.js";
import { player } from "./player.js";
import { restore } from "./review.js";
import { poll, reload, server, watch } from "./server.js";

const goesOn = /** @type {HTMLInputElement} */ (byId("goes-on"));
const ready = () => (document.documentElement.dataset.ready = "yes");
let frame = 0;
window.onscroll = () => {
  cancelAnimationFrame(frame);
  frame = requestAnimationFrame(() => render(4));
};
window.onresize = () => {
  measure();
  emit("drawn");
};
for (const id of ["charts", "more", "progress"]) byId(id).addEventListener("toggle", () => render());
player.audio.addEventListener("ended", () => {
  const row = goesOn.checked && player.row ? nextRow(player.row) : null;
  if (!row) return;
  select(row, { focus: true, scroll: true });
  player.play(row, placeOf(row));
});
on(["rows"], showCharts);

async function start() {
  /** @type {Data | {server: true}} */
  const embedded = JSON.parse(byId("data").textContent ?? "");
  byId("charts").toggleAttribute("open", !NARROW.matches && "rows" in embedded);
  byId("more").toggleAttribute("open", !NARROW.matches);
  showTheme();
  server.isThere = !("rows" in embedded);
  if ("rows" in embedded) {
    load(embedded);
    restore();
    emit("rows");
  } else {
    await reload();
    await poll();
    watch();
  }
}

start().catch(complain).finally(ready);
