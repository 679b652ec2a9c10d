// The page, put together. The order of imports is the order in which parts learn of changes.

/** @import { Data } from "./types.js" */
import "./waveform.js";
import { list, NARROW } from "./list.js";
import "./detail.js";
import "./filters.js";
import "./basket.js";
import "./keys.js";
import { emit, on } from "./bus.js";
import { showCharts } from "./charts.js";
import { byId, complain } from "./dom.js";
import { setTheme, storedTheme } from "./head.js";
import { load, placeOf } from "./model.js";
import { player } from "./player.js";
import { restore } from "./review.js";
import { select } from "./selection.js";
import { poll, reload, server, watch } from "./server.js";

const MOST_A_FRAME = 5; // rows made while the list scrolls

let isAwaited = false;
window.addEventListener("scroll", () => {
  if (isAwaited) return;
  isAwaited = true;
  requestAnimationFrame(() => {
    isAwaited = false;
    list.render(MOST_A_FRAME);
  });
}, { passive: true });
window.addEventListener("resize", () => {
  list.measure();
  emit("drawn");
});
for (const id of ["charts", "progress"]) byId(id).addEventListener("toggle", () => list.render());
player.audio.addEventListener("ended", () => {
  const row = player.goesOn && player.row ? list.next(player.row) : null;
  if (!row) return;
  select(row, { focus: true, scroll: true });
  player.play(row, placeOf(row));
});
byId("change-close").onclick = () => /** @type {HTMLDialogElement} */ (byId("change")).close();
on(["rows"], showCharts);

async function start() {
  /** @type {Data | {server: true}} */
  const embedded = JSON.parse(byId("data").textContent ?? "");
  /** @type {HTMLDetailsElement} */ (byId("charts")).open = !NARROW.matches && "rows" in embedded;
  setTheme(storedTheme());
  if ("rows" in embedded) {
    load(embedded);
    restore();
    emit("rows");
    return;
  }
  server.isThere = true;
  await reload();
  await poll();
  watch();
}

start().catch(complain).finally(() => { document.documentElement.dataset.ready = "yes"; });
