// Everything put together.

function showHead() {
  const { totals, folder, runs } = data;
  byId("title").textContent = folder.name || folder.path;
  const models = [...new Set(runs.map((run) => run.model).filter(Boolean))];
  const made = `${data.made.slice(0, 16).replace("T", " ")} UTC`;
  byId("subtitle").textContent = [models.join(", ") || null, totals.runs ? counted(totals.runs, "run") : null, `made on ${made}`].filter(Boolean).join(" \u00b7 ");
  const speed = totals.xrt ? `${totals.xrt.toFixed(1)}\u00d7` : null;
  const tiles = [
    ["Rows", whole.format(totals.rows), "all"],
    ["Spoken", whole.format(totals.ok), null],
    ["Failed", whole.format(totals.failed), "failed"],
    ["Suspect", whole.format(totals.suspect), "suspect"],
    ["Audio", duration(totals.audio_s), null],
    speed ? ["Real time", speed, null] : null,
    ["Voices", whole.format(totals.voices), null],
  ].filter(Boolean);
  byId("totals").replaceChildren(...tiles.map(([name, value, group]) => h("div", { class: "tile", "data-group": group && Number(value.replaceAll(",", "")) ? GROUP_OF[group] ?? null : null }, h("dt", { text: name }), h("dd", { text: value }))));
  const notices = [];
  if (totals.missing) notices.push(`The audio of ${counted(totals.missing, "row")} is no longer in the folder; the next run of synth synthesizes ${totals.missing === 1 ? "it" : "them"} again.`);
  if (totals.garbage) notices.push(`${counted(totals.garbage, "line")} of timings.jsonl could not be read.`);
  byId("notice").textContent = notices.join(" ");
  byId("notice").hidden = !notices.length;
}

function showFilters() {
  const numbers = { all: rows.length };
  for (const name of Object.keys(GROUP_OF)) numbers[name] = rows.filter((row) => row.group === GROUP_OF[name]).length;
  byId("statuses").replaceChildren(...Object.entries(STATUSES).map(([name, label]) => h("button", { type: "button", "data-status": name, onclick: () => setView({ status: name }) }, `${label} `, h("span", { class: "number", text: whole.format(numbers[name]) }))));
  const count = (values) => {
    const found = new Map();
    for (const value of values) found.set(value, (found.get(value) ?? 0) + 1);
    return found;
  };
  const voices = [...count(rows.map((row) => row.voice ?? ""))].sort(([a], [b]) => (a < b ? -1 : 1)).filter(([voice]) => voice);
  byId("voice").replaceChildren(option("", "all"), ...voices.map(([voice, number]) => option(voice, `${voice} (${whole.format(number)})`)));
  const kinds = count(rows.flatMap((row) => [...new Set(row.reasons.map(([kind]) => kind))]));
  byId("kind").replaceChildren(option("", "any"), ...Object.keys(data.kinds).filter((kind) => kinds.has(kind)).map((kind) => option(kind, `${kind} (${whole.format(kinds.get(kind))})`)));
  const hidden = [rows.some((row) => takeOf(row).asr) || "words", rows.some((row) => takeOf(row).mos) || "mos"];
  byId("sort").replaceChildren(...Object.entries(SORTS).filter(([name]) => !hidden.includes(name)).map(([name, { label }]) => option(name, label)));
}

const option = (value, text) => h("option", { value, text });

// Change what is shown, and say so in the controls.
function setView(changes) {
  Object.assign(view, changes);
  for (const button of byId("statuses").children) button.setAttribute("aria-pressed", String(button.dataset.status === view.status));
  byId("voice").value = view.voice;
  byId("kind").value = view.kind;
  byId("sort").value = view.sort;
  if (byId("search").value !== view.search) byId("search").value = view.search;
  const direction = byId("direction");
  setIcon(direction, view.isTurned ? "up" : "down");
  direction.setAttribute("aria-pressed", String(view.isTurned));
  direction.setAttribute("aria-label", "Reverse the order");
  list.update();
  const top = byId("bar").getBoundingClientRect().top + window.scrollY;
  if (window.scrollY > top) window.scrollTo(0, byId("list").getBoundingClientRect().top + window.scrollY - byId("bar").offsetHeight - 8);
  list.render();
}

function clearFilters() {
  setView({ search: "", status: "all", voice: "", kind: "" });
}

function setTheme(theme) {
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const shown = ["dark", "light"].includes(theme) ? theme : system;
  document.documentElement.dataset.theme = shown;
  const button = byId("theme");
  const other = shown === "dark" ? "light" : "dark";
  button.replaceChildren(icon(other), other === "dark" ? "Dark" : "Light");
  button.onclick = () => {
    memory.set("tts-cli-theme", other);
    setTheme(other);
  };
  readColours();
  list.redraw();
  detail.refresh();
}

function listen() {
  byId("search").addEventListener("input", (event) => setView({ search: event.target.value }));
  byId("voice").addEventListener("change", (event) => setView({ voice: event.target.value }));
  byId("kind").addEventListener("change", (event) => setView({ kind: event.target.value }));
  byId("sort").addEventListener("change", (event) => setView({ sort: event.target.value, isTurned: false }));
  byId("direction").addEventListener("click", () => setView({ isTurned: !view.isTurned }));
  byId("clear").addEventListener("click", clearFilters);
  byId("help-open").addEventListener("click", () => byId("help").showModal());
  byId("help-close").addEventListener("click", () => byId("help").close());
  byId("basket-open").addEventListener("click", () => basket.openDialog());
  byId("commands-close").addEventListener("click", () => byId("commands").close());
  byId("commands-clear").addEventListener("click", () => {
    basket.clear();
    byId("commands").close();
  });
  document.addEventListener("keydown", onKey);
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
    list.redraw();
    detail.refresh();
  });
  byId("charts").addEventListener("toggle", () => list.render());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme(memory.get("tts-cli-theme")));
  player.listeners.push(() => {
    const item = list.itemOf(player.row);
    if (item) refreshItem(item);
    for (const made of list.made.values()) if (made.row && made !== item && made.node.dataset.loaded) refreshItem(made);
    for (const made of list.made.values()) if (made.row) made.node.toggleAttribute("data-loaded", made.row === player.row);
    detail.refresh();
  });
  player.audio.addEventListener("error", () => {
    if (player.row) say(`${player.row.id} cannot be played: the file is missing, or the browser does not support its format`);
  });
  player.audio.addEventListener("ended", () => {
    const next = player.goesOn ? list.next(player.row) : null;
    if (!next) return;
    list.setCurrent(next, { focus: true, scroll: true });
    player.play(next, basket.placeOf(next));
  });
}

if (NARROW.matches) byId("charts").open = false;
showHead();
showFilters();
showKeys();
basket.show();
setTheme(memory.get("tts-cli-theme"));
setView({});
basket.restore();
list.refresh();
detail.show();
listen();
showCharts();
document.documentElement.dataset.ready = "yes";
