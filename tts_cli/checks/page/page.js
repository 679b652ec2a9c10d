"use strict";
(() => {
  // src/bus.js
  var listeners = /* @__PURE__ */ new Map();
  function on(topics, run) {
    for (const topic of topics) listeners.set(topic, [...listeners.get(topic) ?? [], run]);
  }
  function emit(topic, detail) {
    for (const run of listeners.get(topic) ?? []) run(detail);
  }

  // src/ledger.js
  var keyOf = (id, sha256) => `${id}
${sha256 ?? ""}`;
  var ledger = {
    /** Decisions that are stored in the folder. @type {Decision[]} */
    stored: [],
    /** Decisions that are not: of this browser, or on their way. @type {Set<Decision>} */
    own: /* @__PURE__ */ new Set(),
    /** @type {Map<string, Decision>} */
    states: /* @__PURE__ */ new Map(),
    /** @type {Map<string, Decision>} */
    lasts: /* @__PURE__ */ new Map(),
    // by id
    /** @type {Map<string, Map<string, Decision>>} */
    remarks: /* @__PURE__ */ new Map(),
    /** Sort all decisions anew, after `stored` or `own` has lost some. */
    rebuild() {
      for (const map of [this.states, this.lasts, this.remarks]) map.clear();
      for (const one of [...this.stored, ...this.own]) this.enter(one);
    },
    /** @param {Decision} one */
    enter(one) {
      const key = keyOf(one.id, one.sha256);
      if (one.state !== "comment") {
        this.states.set(key, one);
        this.lasts.set(one.id, one);
      }
      if (!one.comment && one.state !== "comment") return;
      const found = this.remarks.get(key) ?? /* @__PURE__ */ new Map();
      found.set(`${one.at_s ?? ""} ${one.reviewer ?? ""}`, one);
      this.remarks.set(key, found);
    },
    /** @param {string} id @param {string | null} sha256 @returns {Shown} */
    state(id, sha256) {
      const found = this.states.get(keyOf(id, sha256));
      if (found) return (
        /** @type {Shown} */
        found.state
      );
      const last = this.lasts.get(id);
      return last && last.state !== "open" ? "changed" : "open";
    },
    /** @param {string} id @param {string | null} sha256 */
    comments(id, sha256) {
      const found = [...this.remarks.get(keyOf(id, sha256))?.values() ?? []].filter((one) => one.comment);
      return found.sort((a, b) => (a.at_s ?? 0) - (b.at_s ?? 0));
    }
  };

  // src/model.js
  var model = { data: (
    /** @type {any} */
    null
  ), rows: [], byName: /* @__PURE__ */ new Map() };
  var haystacks = [];
  function load(data) {
    model.data = data;
    model.rows = data.rows;
    data.rows.forEach((row, index) => {
      row.index = index;
      row.reasons ??= [];
      row.extra ??= {};
      row.severity ??= 0;
      row.chosen ??= 0;
      row.place ??= 0;
      row.order ??= index;
      if (row.chapter === void 0 && row.id.includes("/")) row.chapter = row.id.slice(0, row.id.lastIndexOf("/"));
      row.group = row.status === "failed" ? 0 : row.reasons.length ? 1 : 2;
    });
    model.byName = new Map(model.rows.map((row) => [row.id, row]));
    haystacks = new Array(model.rows.length);
  }
  var takeOf = (row) => row.takes[row.chosen];
  var picks = /* @__PURE__ */ new Map();
  function placeOf(row) {
    const place = row.takes.findIndex((take) => take.take === picks.get(row.id));
    return place < 0 ? row.chosen : place;
  }
  var shownTake = (row) => row.takes[placeOf(row)];
  var ratedTake = (row) => model.data.server ? takeOf(row) : shownTake(row);
  var stateOf = (row) => ledger.state(row.id, ratedTake(row).sha256 ?? null);
  var commentsOf = (row) => ledger.comments(row.id, shownTake(row).sha256 ?? null);
  var isNamed = (row) => !row.id.startsWith("#");
  var GROUPS = ["Failed", "Suspect", "OK"];
  var STATUSES = { all: "All", failed: "Failed", suspect: "Suspect", fine: "OK" };
  var GROUP_OF = { failed: 0, suspect: 1, fine: 2 };
  var SORTS = {
    check: { label: "Needs review" },
    order: { label: "Manifest order", value: (row) => row.order },
    id: { label: "Id", value: (row) => row.index },
    spoken: { label: "Synthesized", value: (row) => row.place },
    suspicion: { label: "Suspicion", value: (row) => row.severity, falls: true },
    words: { label: "Word errors", value: (row) => takeOf(row).asr?.error, falls: true },
    mos: { label: "Predicted opinion score", value: (row) => takeOf(row).mos?.[0] },
    duration: { label: "Duration", value: (row) => takeOf(row).audio_s ?? 0, falls: true },
    rate: { label: "Rate, letters per second", value: (row) => row.rate, falls: true },
    level: { label: "Level", value: (row) => row.level_dbfs, falls: true }
  };
  var MAX_FACETS = 6;
  var MAX_VALUES = 200;
  function facetsOf(row) {
    return { Character: row.character, Chapter: row.chapter, ...row.extra };
  }
  function facets() {
    const found = /* @__PURE__ */ new Map();
    for (const row of model.rows) {
      for (const [name, value] of Object.entries(facetsOf(row))) {
        if (value === void 0) continue;
        if (!found.has(name)) found.set(name, /* @__PURE__ */ new Map());
        const counts = (
          /** @type {Map<string, number>} */
          found.get(name)
        );
        counts.set(value, (counts.get(value) ?? 0) + 1);
      }
    }
    const useful = [...found].filter(([, counts]) => counts.size > 1 && counts.size <= MAX_VALUES);
    return new Map(useful.slice(0, MAX_FACETS));
  }
  var view = {
    search: "",
    status: "all",
    voice: "",
    kind: "",
    review: "",
    sort: "check",
    isTurned: false,
    /** @type {Record<string, string>} */
    facets: {}
  };
  function haystack(row) {
    const texts = [row.id, row.text, row.spoken_text, row.voice, row.character];
    return haystacks[row.index] ??= texts.filter(Boolean).join("\n").toLowerCase();
  }
  function matches(row, words2) {
    if (view.status !== "all" && row.group !== GROUP_OF[view.status]) return false;
    if (view.voice && (row.voice ?? "") !== view.voice) return false;
    if (view.kind && !row.reasons.some((reason) => reason[0] === view.kind)) return false;
    if (view.review === "comment" ? !commentsOf(row).length : view.review && stateOf(row) !== view.review) return false;
    for (const name in view.facets) if (view.facets[name] && facetsOf(row)[name] !== view.facets[name]) return false;
    return words2.every((word) => haystack(row).includes(word));
  }
  function shownItems() {
    const words2 = view.search.toLowerCase().split(/\s+/).filter(Boolean);
    const found = model.rows.filter((row) => matches(row, words2));
    const { value, falls } = SORTS[view.sort];
    const sign = view.isTurned ? -1 : 1;
    if (!value) {
      found.sort((a, b) => a.group - b.group || sign * (b.severity - a.severity || a.index - b.index));
      return withHeadings(found, (row) => GROUPS[row.group], (row) => row.group);
    }
    const factor = falls ? -sign : sign;
    const ranks = new Map(found.map((row) => [row, factor * (value(row) ?? factor * Infinity)]));
    const rank = (row) => ranks.get(row) ?? 0;
    found.sort((a, b) => rank(a) === rank(b) ? a.index - b.index : rank(a) - rank(b));
    if (view.sort === "order" && found.some((row) => row.chapter)) return withHeadings(found, (row) => row.chapter ?? "", () => null);
    return found.map((row, place) => ({ row, number: place + 1 }));
  }
  function withHeadings(sorted, name, group) {
    const items = [];
    let members = [];
    sorted.forEach((row, place) => {
      if (!place || name(sorted[place - 1]) !== name(row)) items.push({ heading: name(row), group: group(row), members: members = [] });
      members.push(row);
      items.push({ row, number: place + 1 });
    });
    return items;
  }

  // src/waveform.js
  var outlines = /* @__PURE__ */ new Map();
  var colours = {};
  on(["theme"], () => {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["wave", "played", "faint"]) colours[name] = style.getPropertyValue(`--${name}`).trim();
  });
  function heights(letters) {
    const known = outlines.get(letters);
    if (known) return known;
    const steps = model.data.letters;
    const found = Float32Array.from(letters, (letter) => steps.indexOf(letter) / (steps.length - 1));
    if (outlines.size > 400) outlines.clear();
    outlines.set(letters, found);
    return found;
  }
  var sizeOf = (canvas2) => ({ width: canvas2.clientWidth, height: canvas2.clientHeight });
  function drawWaveform(canvas2, take, played = 0, size = sizeOf(canvas2)) {
    drawPeaks(canvas2, take.waveform ? heights(take.waveform) : null, played, size);
  }
  function drawPeaks(canvas2, outline, played, { width, height } = sizeOf(canvas2)) {
    if (!width || !height) return;
    const scale = Math.min(window.devicePixelRatio || 1, 2);
    if (canvas2.width !== Math.round(width * scale)) canvas2.width = Math.round(width * scale);
    if (canvas2.height !== Math.round(height * scale)) canvas2.height = Math.round(height * scale);
    const pen = (
      /** @type {CanvasRenderingContext2D} */
      canvas2.getContext("2d")
    );
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    const middle = height / 2;
    if (!outline) {
      pen.fillStyle = colours.faint;
      for (let x = 0; x < width; x += 6) pen.fillRect(x, middle - 0.5, 3, 1);
      return;
    }
    const bars = Math.floor(width / 3);
    for (let bar = 0; bar < bars; bar++) {
      const first = Math.floor(bar * outline.length / bars);
      const end = Math.max(first + 1, Math.floor((bar + 1) * outline.length / bars));
      const size = Math.max(1.5, Math.max(...outline.subarray(first, end)) ** 1.4 * (height - 2));
      pen.fillStyle = (bar + 0.5) / bars <= played ? colours.played : colours.wave;
      pen.fillRect(bar * 3, middle - size / 2, 2, size);
    }
    if (played <= 0 || played >= 1) return;
    pen.fillStyle = colours.played;
    pen.fillRect(played * width - 0.75, 0, 1.5, height);
  }

  // src/dom.js
  var byId = (id) => (
    /** @type {T} */
    document.getElementById(id)
  );
  function h(tag, attributes = {}, ...children) {
    return fill(document.createElement(tag), attributes, children);
  }
  function svg(tag, attributes = {}, ...children) {
    return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
  }
  function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (value === null || value === void 0 || value === false) continue;
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (name === "text") element.textContent = value;
      else element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null && child !== void 0 && child !== false));
    return element;
  }
  var ICONS = {
    play: "M7 4.5v15l12.5-7.5z",
    pause: "M6.5 4.5h4v15h-4zM13.5 4.5h4v15h-4z",
    up: "M12 5l7 8h-5v6h-4v-6H5z",
    down: "M12 19l-7-8h5V5h4v6h5z",
    copy: "M8 3h12v14H8zM10 5v10h8V5zM4 7h2v12h10v2H4z",
    again: "M12 5a7 7 0 1 1-6.700 5h2.200A5 5 0 1 0 12 7v3L7 6l5-4z",
    light: "M12 7a5 5 0 1 1 0 10 5 5 0 0 1 0-10zM11 1h2v4h-2zM11 19h2v4h-2zM1 11h4v2H1zM19 11h4v2h-4z",
    dark: "M20 14.500A8.500 8.500 0 0 1 9.500 4 8.500 8.500 0 1 0 20 14.500z",
    more: "M12 8l7 8H5z",
    less: "M12 16l-7-8h14z",
    approve: "M9.500 18.500L3.500 12.500l2-2 4 4 9-9 2 2z",
    reject: "M6 4l6 6 6-6 2 2-6 6 6 6-2 2-6-6-6 6-2-2 6-6-6-6z"
  };
  function icon(name) {
    return svg("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: ICONS[name] }));
  }
  function setIcon(button2, name) {
    if (button2.dataset.icon === name) return;
    button2.dataset.icon = name;
    button2.replaceChildren(icon(name));
  }
  function button(label, name, run, more = {}) {
    return h("button", { type: "button", class: "plain", onclick: run, ...more }, name && icon(name), label);
  }
  var option = (value, text = value) => h("option", { value, text });
  function duration(seconds) {
    if (seconds < 60) return `${seconds.toFixed(1)} s`;
    const all = Math.round(seconds);
    const minutes = Math.floor(all / 60) % 60;
    const rest = String(all % 60).padStart(2, "0");
    if (all < 3600) return `${minutes}:${rest}`;
    return `${Math.floor(all / 3600)}:${String(minutes).padStart(2, "0")}:${rest}`;
  }
  var format = new Intl.NumberFormat("en");
  var whole = (number) => format.format(number);
  var counted = (number, one, many = `${one}s`) => `${whole(number)} ${number === 1 ? one : many}`;
  var decibels = (level) => `${level.toFixed(1).replace("-", "−")} dBFS`;
  var toastTimer = 0;
  function say(text) {
    const toast = byId("toast");
    byId("said").textContent = toast.textContent = text;
    toast.hidden = false;
    clearTimeout(toastTimer);
    toastTimer = window.setTimeout(() => {
      toast.hidden = true;
    }, 2500);
  }
  var complain = (error) => say(error.message);
  async function copy(text, what) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const field = h("textarea", { class: "unseen", readonly: true, "aria-hidden": "true" });
      field.value = text;
      (document.querySelector("dialog[open]") || document.body).append(field);
      field.select();
      const isCopied = document.execCommand("copy");
      field.remove();
      if (!isCopied) {
        say(`The browser did not allow copying ${what}`);
        return;
      }
    }
    say(`Copied ${what}`);
  }
  var memory = {
    /** @param {string} name @returns {any} */
    get(name) {
      try {
        return JSON.parse(localStorage.getItem(name) ?? "null");
      } catch {
        return null;
      }
    },
    /** @param {string} name @param {unknown} value */
    set(name, value) {
      try {
        localStorage.setItem(name, JSON.stringify(value));
      } catch {
        say("The browser stores nothing for this page: save your decisions as a file");
      }
    }
  };

  // src/player.js
  var player = {
    audio: new Audio(),
    /** The row that is loaded. @type {Row | null} */
    row: null,
    place: 0,
    // of its take
    goesOn: false,
    // with the next row, at the end
    isLevelled: true,
    // takes of a row are equally loud
    get isPlaying() {
      return !this.audio.paused;
    },
    /** Share of the loaded take that was played, from 0 to 1. */
    get share() {
      const seconds = this.audio.duration;
      return Number.isFinite(seconds) && seconds > 0 ? this.audio.currentTime / seconds : 0;
    },
    /** @param {Row} row @param {number} place */
    isAt(row, place) {
      return this.row?.id === row.id && this.place === place && this.row.takes[place]?.url === row.takes[place].url;
    },
    /** Load a take. Return whether there is audio. @param {Row} row @param {number} place */
    load(row, place) {
      const { url } = row.takes[place];
      if (this.isAt(row, place)) return true;
      this.audio.pause();
      if (!url) {
        say(`${row.id} has no audio`);
        return false;
      }
      this.row = row;
      this.place = place;
      this.audio.src = url;
      this.level();
      emit("played");
      return true;
    },
    /** Make the takes of a row as loud as the quietest of them. */
    level() {
      if (!this.row) return;
      const levels = this.row.takes.filter((take) => take.url).map((take) => take.level_dbfs);
      const known = (
        /** @type {number[]} */
        levels.filter((level) => level !== void 0)
      );
      const own = this.row.takes[this.place].level_dbfs;
      const isMatched = this.isLevelled && own !== void 0 && known.length > 1;
      this.audio.volume = isMatched ? 10 ** ((Math.min(...known) - own) / 20) : 1;
    },
    /** @param {Row} row @param {number} place */
    async play(row, place) {
      if (!this.load(row, place)) return;
      try {
        await this.audio.play();
      } catch (error) {
        const { name, message } = (
          /** @type {Error} */
          error
        );
        if (name !== "AbortError" && !this.audio.error) say(`${row.id} cannot be played: ${message}`);
      }
    },
    /** @param {Row} row @param {number} place */
    toggle(row, place) {
      if (this.isAt(row, place) && this.isPlaying) this.audio.pause();
      else this.play(row, place);
    },
    /** Move to a share of a take, and play from there. @param {Row} row @param {number} place @param {number} share */
    seek(row, place, share) {
      if (!this.load(row, place)) return;
      const move = () => {
        this.audio.currentTime = Math.min(0.999, Math.max(0, share)) * this.audio.duration;
      };
      if (this.audio.readyState >= 1) move();
      else this.audio.addEventListener("loadedmetadata", move, { once: true });
      this.play(row, place);
    }
  };
  player.audio.preload = "none";
  for (const name of ["play", "pause", "ended", "seeked", "loadedmetadata"]) player.audio.addEventListener(name, () => emit("played"));
  player.audio.addEventListener("play", function tick() {
    if (!player.isPlaying) return;
    emit("played");
    requestAnimationFrame(tick);
  });
  player.audio.addEventListener("error", () => {
    if (player.row) say(`${player.row.id} cannot be played: the file is missing, or the browser does not support its format`);
  });

  // src/server.js
  var POLL_MS = 1500;
  var RELOAD_MS = 3e4;
  var server = {
    isThere: false,
    /** The run that has locked the folder. @type {string | null} */
    busy: null,
    /** @type {Job[]} */
    jobs: [],
    revision: 0,
    stamp: "",
    loaded_ms: 0
  };
  async function ask(name, values = null) {
    const headers = { "Content-Type": "application/json" };
    const answer = await fetch(`api/${name}`, { method: "POST", headers, body: JSON.stringify(values) }).catch(() => {
      throw new Error("The server of this page has ended: start `tts-cli review` again");
    });
    const found = await answer.json().catch(() => ({ error: answer.statusText }));
    if (!answer.ok) throw new Error([found.error, found.remedy].filter(Boolean).join("; "));
    return found;
  }
  async function reload() {
    const data = await ask("folder");
    server.stamp = /** @type {{stamp: string}} */
    data.server.stamp;
    server.loaded_ms = performance.now();
    load(data);
    for (const [id, take] of picks) {
      const row = model.byName.get(id);
      if (!row || !row.takes.some((one, place) => one.take === take && place !== row.chosen)) picks.delete(id);
    }
    emit("rows");
  }
  async function poll() {
    const found = await ask("changes", server.revision);
    if (found.revision < server.revision) ledger.stored = [];
    if (found.decisions.length) {
      ledger.stored.push(...found.decisions);
      ledger.rebuild();
      emit("decided");
    }
    server.revision = found.revision;
    const [wasBusy, before2] = [server.busy, server.jobs];
    server.busy = found.busy;
    server.jobs = found.jobs;
    for (const job of server.jobs) {
      if (job.error && !before2.some((one) => one.number === job.number && one.error)) say(job.error);
    }
    const isDue = !server.busy || performance.now() - server.loaded_ms > RELOAD_MS;
    if (found.stamp !== server.stamp && isDue) await reload();
    if (wasBusy !== server.busy || JSON.stringify(before2) !== JSON.stringify(server.jobs)) emit("server");
  }
  async function watch() {
    for (; ; ) {
      await new Promise((done) => setTimeout(done, POLL_MS));
      await poll().catch((error) => document.hidden || complain(error));
    }
  }
  var wanted = /* @__PURE__ */ new Map();
  function wantWaveform(id, take) {
    if (!server.isThere || !take.url || take.waveform !== void 0) return;
    if (!wanted.size) setTimeout(drawWanted, 60);
    wanted.set(JSON.stringify([id, take.take]), take);
  }
  async function drawWanted() {
    const some = [...wanted].slice(0, 100);
    wanted.clear();
    for (const [, take] of some) take.waveform = null;
    const found = await ask("outlines", some.map(([key]) => JSON.parse(key))).catch(() => []);
    some.forEach(([, take], place) => {
      take.waveform = found[place];
    });
    emit("drawn");
  }

  // src/review.js
  var STATE_TEXT = { open: "", approved: "approved", rejected: "rejected", retake: "retake requested", changed: "changed since" };
  var storeKey = () => `tts-cli-reviews ${model.data.folder.path}`;
  var isReadOnly = () => server.isThere && server.busy !== null;
  async function decide(row, state, comment = "", at_s2 = null) {
    if (!isNamed(row)) return say(`${row.id} is an invalid row of the manifest: fix it there`);
    if (isReadOnly()) return say("A run is in progress: wait until it ends");
    if (state === "approved" && server.isThere && placeOf(row) !== row.chosen && !await useTake(row)) return;
    const current2 = model.byName.get(row.id) ?? row;
    const { take, sha256 = null } = state === "comment" ? shownTake(current2) : ratedTake(current2);
    const decision = { id: row.id, take, sha256, state, comment, at_s: at_s2 };
    ledger.own.add(decision);
    ledger.rebuild();
    emit("decided");
    if (!server.isThere) {
      decision.time = (/* @__PURE__ */ new Date()).toISOString();
      memory.set(storeKey(), [...ledger.own]);
      return;
    }
    await ask("decide", decision).then(poll).catch((error) => say(`Not saved: ${error.message}`));
    ledger.own.delete(decision);
    ledger.rebuild();
    emit("decided");
  }
  function toggleState(row, state) {
    const isUndone = stateOf(row) === state;
    decide(row, isUndone ? "open" : state);
    if (!isReadOnly() && isNamed(row)) say(isUndone ? `${row.id} is undecided` : `${row.id}: ${STATE_TEXT[state]}`);
  }
  function pick(row, place) {
    const { take } = row.takes[place];
    if (place === row.chosen) picks.delete(row.id);
    else picks.set(row.id, take);
    if (!server.isThere) memory.set(`tts-cli-report ${model.data.folder.path}`, [...picks]);
    emit("picked", row);
    if (!server.isThere) say(place === row.chosen ? `${row.id}: take ${take} stays` : `${row.id}: take ${take} is selected`);
  }
  async function useTake(row) {
    const { take } = shownTake(row);
    const use2 = async () => {
      await ask("pick", [row.id, take]);
      picks.delete(row.id);
      await reload();
      say(`${row.id}: take ${take} is the row's take now`);
      return true;
    };
    return use2().catch((error) => (complain(error), false));
  }
  var retakeRows = () => model.rows.filter((row) => isNamed(row) && stateOf(row) === "retake");
  function restore() {
    if (server.isThere) return;
    ledger.stored = model.data.decisions;
    const known = memory.get(storeKey());
    for (const one of Array.isArray(known) ? known : []) if (model.byName.has(one?.id)) ledger.own.add(one);
    ledger.rebuild();
    const selected = memory.get(`tts-cli-report ${model.data.folder.path}`);
    for (const [id, take] of Array.isArray(selected) ? selected : []) {
      const row = model.byName.get(id);
      if (row && row.takes.some((one, place) => one.take === take && place !== row.chosen)) picks.set(id, take);
    }
  }
  function clear() {
    picks.clear();
    ledger.own.clear();
    ledger.rebuild();
    memory.set(storeKey(), []);
    memory.set(`tts-cli-report ${model.data.folder.path}`, []);
    emit("picked");
    emit("decided");
  }
  function saveFile() {
    const text = [...ledger.own].map((one) => `${JSON.stringify(one)}
`).join("");
    const url = URL.createObjectURL(new Blob([text], { type: "application/jsonl" }));
    h("a", { href: url, download: `${model.data.folder.name || "folder"}.reviews.jsonl` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1e3);
    say(`Saved ${counted(ledger.own.size, "decision")}`);
  }

  // src/selection.js
  var selection = { row: null };
  function select(row, how = {}) {
    selection.row = row;
    emit("select", how);
  }
  on(["rows"], () => {
    selection.row = model.byName.get(selection.row?.id ?? "") ?? null;
  });

  // src/shell.js
  var PLAIN_WORD = /^[A-Za-z0-9_@%+=:,.\/-]+$/;
  var MORE_TAKES = 3;
  var MANIFEST = "MANIFEST";
  var MOST_CHARS = 1e5;
  var quoted = (word) => PLAIN_WORD.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
  var shellLine = (words2) => words2.map(quoted).join(" ");
  function folderPath() {
    if (location.protocol !== "file:") return model.data.folder.path;
    const path = decodeURIComponent(location.pathname).replace(/\/[^/]*$/, "") || "/";
    return /^\/[A-Za-z]:/.test(path) ? path.slice(1) : path;
  }
  function againCommands(rows) {
    const groups = [];
    for (const row of rows.filter(isNamed)) {
      const run = row.run === void 0 ? model.data.last : model.data.runs[row.run].command;
      const key = shellLine(run);
      let group = groups.findLast((one) => one.key === key);
      if (!group || group.chars > MOST_CHARS) groups.push(group = { key, run, ids: [], chars: 0 });
      group.ids.push(row.id);
      group.chars += 3 * row.id.length + 1;
    }
    return groups.map(({ run, ids }) => {
      const only = ids.join(",");
      const chosen = only.startsWith("-") ? [`--only=${only}`] : ["--only", only];
      return shellLine(["tts-cli", ...run, "--out", folderPath(), ...chosen, "--takes", String(MORE_TAKES)]);
    });
  }
  function pickCommand(pairs) {
    const words2 = pairs.map(([id, take]) => `${id}=${take}`);
    const dash = words2.some((word) => word.startsWith("-")) ? ["--"] : [];
    return shellLine(["tts-cli", "pick", folderPath(), ...dash, ...words2]);
  }

  // src/actions.js
  function togglePlay(row) {
    player.toggle(row, player.row?.id === row.id && player.isPlaying ? player.place : placeOf(row));
  }
  function seekAt(row, event) {
    const box = (
      /** @type {HTMLElement} */
      event.currentTarget.getBoundingClientRect()
    );
    player.seek(row, placeOf(row), (event.clientX - box.left) / box.width);
  }
  function chooseTake(row, place) {
    select(row);
    pick(row, place);
    player.play(row, place);
  }
  var other = null;
  function compare(row) {
    const place = placeOf(row);
    const known = other?.id === row.id && other.place !== place ? other.place : void 0;
    const next = known ?? (place === row.chosen ? row.takes.findIndex((take, at) => at !== place && take.url) : row.chosen);
    if (next < 0) return say(`${row.id} has no other take`);
    other = { id: row.id, place };
    const at_s2 = player.row?.id === row.id ? player.audio.currentTime : 0;
    pick(row, next);
    player.seek(row, next, at_s2 / (row.takes[next].audio_s || 1));
  }
  function copySeed(row) {
    const { seed, take } = shownTake(row);
    if (seed === void 0) say(`${row.id} was not synthesized, so it has no seed`);
    else copy(String(seed), row.takes.length > 1 ? `the seed of take ${take}` : "the seed");
  }
  var copyAgain = (row) => copy(againCommands([row]).join("\n"), "the command for more takes");

  // src/item.js
  var STATUS_TEXT = ["failed", "suspect", "ok"];
  function makeItem() {
    const act = (run) => () => {
      if (!item.row) return;
      select(item.row);
      run(item.row);
    };
    const small = (label, name, run, kind2) => h("button", { type: "button", class: `small ${kind2}`, title: label, "aria-label": label, tabindex: "-1", onclick: act(run) }, icon(name));
    const item = {
      /** @type {Row | null} */
      row: null,
      play: h("button", { type: "button", class: "round", tabindex: "-1", onclick: act(togglePlay) }),
      canvas: h("canvas", {
        class: "wave",
        "aria-hidden": "true",
        onclick: (event) => act((row) => seekAt(row, event))()
      }),
      name: h("bdi", { class: "id" }),
      voice: h("span", { class: "voice" }),
      length: h("span", { class: "length" }),
      status: h("span", { class: "status" }),
      review: h("span", { class: "review" }),
      chips: h("span", { class: "chips" }),
      text: h("p", { class: "text", dir: "auto" }),
      spoken: h("p", { class: "spoken", dir: "auto" }),
      takes: h("div", { class: "takes", role: "group", "aria-label": "Takes" }),
      approve: small("Approve", "approve", (row) => toggleState(row, "approved"), "approve"),
      reject: small("Reject", "reject", (row) => toggleState(row, "rejected"), "reject"),
      retake: small("Request a retake", "again", (row) => toggleState(row, "retake"), "retake"),
      node: h("li", { class: "row", tabindex: "-1" })
    };
    item.node.append(
      item.play,
      h("div", { class: "sound" }, item.canvas, item.length),
      h(
        "div",
        { class: "words" },
        h("div", { class: "line" }, item.status, item.review, item.name, item.voice, item.chips),
        item.text,
        item.spoken
      ),
      h("div", { class: "side" }, item.takes, h("div", { class: "actions" }, item.approve, item.reject, item.retake))
    );
    item.node.addEventListener("pointerdown", (event) => {
      if (item.row && !/** @type {Element} */
      event.target.closest("button, canvas")) select(item.row, { focus: true });
    });
    return item;
  }
  function fillItem(item, row, position, total) {
    item.row = row;
    const { node } = item;
    node.dataset.id = row.id;
    node.setAttribute("aria-posinset", String(position));
    node.setAttribute("aria-setsize", String(total));
    node.dataset.group = String(row.group);
    item.name.textContent = row.id;
    item.voice.textContent = [row.character, row.voice ?? "no voice"].filter(Boolean).join(" · ");
    item.status.textContent = STATUS_TEXT[row.group];
    item.text.textContent = row.text ?? `The text is not in timings.jsonl (${counted(row.text_chars ?? 0, "character")})`;
    item.text.classList.toggle("unknown", row.text === void 0);
    item.spoken.textContent = row.error ?? row.spoken_text ?? "";
    item.spoken.className = row.error ? "spoken wrong" : "spoken";
    item.spoken.hidden = !item.spoken.textContent;
    node.classList.toggle("two", !item.spoken.hidden);
    item.chips.replaceChildren(...row.reasons.slice(0, 3).map(chip));
    item.takes.replaceChildren(...row.takes.length > 1 ? row.takes.map((_, place) => takeButton(row, place)) : []);
  }
  function refreshItem(item, size) {
    const { row, node } = item;
    if (!row) return;
    const place = placeOf(row);
    const isPlaying = player.row?.id === row.id && player.isPlaying;
    setIcon(item.play, isPlaying ? "pause" : "play");
    item.play.disabled = !row.takes[place].url;
    item.play.setAttribute("aria-label", `${isPlaying ? "Pause" : "Play"} ${row.id}`);
    const isCurrent = selection.row === row;
    node.classList.toggle("current", isCurrent);
    if (isCurrent) node.setAttribute("aria-current", "true");
    else node.removeAttribute("aria-current");
    node.tabIndex = isCurrent ? 0 : -1;
    const state = stateOf(row);
    for (
      const [one, wanted2] of
      /** @type {const} */
      [[item.approve, "approved"], [item.reject, "rejected"], [item.retake, "retake"]]
    ) {
      one.setAttribute("aria-pressed", String(state === wanted2));
      one.disabled = isReadOnly() || !isNamed(row);
      one.tabIndex = isCurrent ? 0 : -1;
    }
    item.play.tabIndex = isCurrent ? 0 : -1;
    const remarks = commentsOf(row).length;
    node.dataset.state = state;
    item.review.textContent = [STATE_TEXT[state], remarks && counted(remarks, "comment")].filter(Boolean).join(" · ");
    item.review.hidden = !item.review.textContent;
    item.length.textContent = lengthText(row, row.takes[place]);
    [...item.takes.children].forEach((child, at) => {
      child.setAttribute("aria-pressed", String(at === place));
      child.tabIndex = isCurrent ? 0 : -1;
    });
    drawItem(item, size);
  }
  function drawItem({ row, canvas: canvas2 }, size) {
    if (!row) return;
    const isLoaded = player.row?.id === row.id;
    const take = row.takes[isLoaded && row.takes[player.place] ? player.place : placeOf(row)];
    wantWaveform(row.id, take);
    drawWaveform(canvas2, take, isLoaded ? player.share : 0, size);
  }
  function lengthText(row, take) {
    if (!take.url) return row.group === 0 && !take.audio_s ? "no audio" : "audio missing";
    return [duration(take.audio_s ?? 0), take.mos && `${take.mos[0].toFixed(1)} of 5`].filter(Boolean).join(" · ");
  }
  function chip([kind2, text]) {
    return h("span", { class: "chip", title: text }, h("b", { text: kind2 }), h("span", { class: "figures", text: ` ${shortFigures(text)}` }));
  }
  function shortFigures(text) {
    const found = /[-\d][\d.]*( %| s\b| dBFS| letters per second)?/.exec(text);
    return found ? found[0].replace(" letters per second", "/s").replace(/^-/, "−") : "";
  }
  function takeButton(row, place) {
    const { take } = row.takes[place];
    const label = `Take ${take}${place === row.chosen ? ", current in the folder" : ""}`;
    return h("button", {
      type: "button",
      class: place === row.chosen ? "take own" : "take",
      "aria-label": label,
      title: label,
      "aria-pressed": "false",
      onclick: () => chooseTake(row, place)
    }, String(take));
  }

  // src/list.js
  var BEYOND = 160;
  var HEADING = 48;
  var NARROW = matchMedia("(max-width: 720px)");
  var list = {
    node: byId("list"),
    /** @type {ReturnType<typeof shownItems>} */
    items: [],
    tops: new Float64Array(1),
    // pixels, one more than items
    /** @type {Map<Row, number>} */
    places: /* @__PURE__ */ new Map(),
    // in items
    /** @type {Map<number, Made>} */
    made: /* @__PURE__ */ new Map(),
    // by place
    /** @type {import("./item.js").Item[]} */
    spare: [],
    num_rows: 0,
    awaited: 0,
    // the frame in which the other rows are made
    /** @type {{width: number, height: number} | undefined} */
    waveSize: void 0,
    // the same for all rows
    /** Filter and sort anew. */
    update() {
      this.items = shownItems();
      this.places = /* @__PURE__ */ new Map();
      this.items.forEach((item, place) => item.row && this.places.set(item.row, place));
      this.num_rows = this.places.size;
      for (const place of [...this.made.keys()]) this.drop(place);
      this.measure();
      if (!selection.row || !this.places.has(selection.row)) select(this.items.find((item) => item.row)?.row ?? null);
      const all = model.rows.length;
      byId("count").textContent = all === this.num_rows ? counted(all, "row") : `${whole(this.num_rows)} of ${counted(all, "row")}`;
      byId("empty").hidden = this.num_rows > 0;
    },
    measure() {
      const rowHeight = NARROW.matches ? 148 : 88;
      this.waveSize = void 0;
      this.tops = new Float64Array(this.items.length + 1);
      this.items.forEach((item, place) => {
        this.tops[place + 1] = this.tops[place] + (item.row ? rowHeight : HEADING);
      });
      this.node.style.height = `${this.tops[this.items.length]}px`;
      for (const [place, made] of this.made) made.node.style.transform = `translateY(${this.tops[place]}px)`;
      this.render();
    },
    /** Return the place of the item at a height. @param {number} top */
    at(top) {
      return Math.max(0, this.tops.subarray(0, this.items.length).findLastIndex((one) => one <= top));
    },
    /** Make the rows in sight. While the list scrolls only some per frame, so that a slow machine keeps up. */
    render(most = Infinity) {
      if (!this.items.length) return;
      cancelAnimationFrame(this.awaited);
      const top = -this.node.getBoundingClientRect().top;
      const first = this.at(Math.max(0, top - BEYOND));
      const last = this.at(top + window.innerHeight + BEYOND);
      const current2 = selection.row ? this.places.get(selection.row) : void 0;
      for (const place of [...this.made.keys()]) if ((place < first || place > last) && place !== current2) this.drop(place);
      const fresh = [];
      let next = this.node.firstChild;
      const insert = (place) => {
        const known = this.made.get(place);
        if (known) {
          next = known.node.nextSibling;
          return;
        }
        const made = this.make(place);
        this.node.insertBefore(made.node, next);
        const item = this.items[place];
        if (!item.row || !("play" in made)) return;
        fillItem(made, item.row, item.number, this.num_rows);
        fresh.push(made);
      };
      if (current2 !== void 0 && current2 < first) insert(current2);
      for (let place = first; place <= last; place++) {
        if (fresh.length < most || this.made.has(place)) insert(place);
      }
      if (fresh.length >= most) this.awaited = requestAnimationFrame(() => this.render(most));
      if (current2 !== void 0 && current2 > last) insert(current2);
      for (const item of fresh) this.refreshOne(item);
    },
    /** @param {number} place @returns {Made} */
    make(place) {
      const item = this.items[place];
      const made = item.row ? this.spare.pop() ?? makeItem() : { row: null, node: this.heading(item) };
      made.node.style.transform = `translateY(${this.tops[place]}px)`;
      this.made.set(place, made);
      return made;
    },
    /** @param {{heading: string, group: number | null, members: Row[]}} item */
    heading({ heading, group, members }) {
      const approved = members.filter((row) => stateOf(row) === "approved").length;
      const number = approved ? `${whole(approved)} of ${whole(members.length)} approved` : whole(members.length);
      return h("li", { class: "group", "data-group": group }, h("h2", {}, `${heading} `, h("span", { class: "number", text: number })));
    },
    /** @param {number} place */
    drop(place) {
      const made = (
        /** @type {Made} */
        this.made.get(place)
      );
      made.node.remove();
      this.made.delete(place);
      if ("play" in made) this.spare.push(made);
    },
    /** @param {Made | undefined} made */
    refreshOne(made) {
      if (made && "play" in made) refreshItem(made, this.waveSize ??= sizeOf(made.canvas));
    },
    refresh() {
      for (const [place, made] of this.made) {
        const item = this.items[place];
        if ("play" in made) this.refreshOne(made);
        else if (!item.row) made.node.replaceChildren(...this.heading(item).childNodes);
      }
    },
    redraw() {
      for (const made of this.made.values()) if ("play" in made) drawItem(made, this.waveSize);
    },
    /** @param {Row | null} row */
    itemOf(row) {
      return row ? this.made.get(this.places.get(row) ?? -1) : void 0;
    },
    /** Bring a row into sight, clear of the bars above and below. @param {Row} row */
    scrollTo(row) {
      const place = this.places.get(row) ?? 0;
      const start3 = this.node.getBoundingClientRect().top;
      const [top, bottom] = [start3 + this.tops[place], start3 + this.tops[place + 1]];
      const ceiling = byId("bar").getBoundingClientRect().bottom + 8;
      const floor = window.innerHeight - hiddenBelow() - 8;
      if (top < ceiling) window.scrollBy(0, top - ceiling);
      else if (bottom > floor) window.scrollBy(0, bottom - floor);
      this.render();
    },
    /** Return the next row in a direction. @param {Row | null} row @param {number} by 1 or -1 */
    next(row, by = 1) {
      for (let at = (row && this.places.get(row)) ?? NaN; (at += by) >= 0 && at < this.items.length; ) {
        const found = this.items[at].row;
        if (found) return found;
      }
      return null;
    },
    /** Go up or down. @param {number} by */
    step(by) {
      const row = this.next(selection.row, by);
      if (row) select(row, { focus: true, scroll: true });
    }
  };
  function hiddenBelow() {
    return Math.max(0, ...[byId("detail"), byId("basket")].filter((node) => !node.hidden && getComputedStyle(node).position === "fixed").map((node) => window.innerHeight - node.getBoundingClientRect().top));
  }
  var before = null;
  on(["select"], ({ focus, scroll }) => {
    list.render();
    list.refreshOne(list.itemOf(before));
    before = selection.row;
    const item = list.itemOf(before);
    list.refreshOne(item);
    if (scroll && before) list.scrollTo(before);
    if (focus) item?.node.focus({ preventScroll: true });
  });
  on(["view", "rows"], () => list.update());
  on(["decided", "picked", "server"], () => list.refresh());
  on(["drawn", "theme"], () => list.redraw());
  var loaded;
  on(["played"], () => {
    for (const id of /* @__PURE__ */ new Set([loaded, player.row?.id])) if (id) list.refreshOne(list.itemOf(model.byName.get(id) ?? null));
    loaded = player.row?.id;
  });

  // src/comments.js
  var drafts = /* @__PURE__ */ new Map();
  var at_s = null;
  function commentsNode(row) {
    const seconds = shownTake(row).audio_s || 1;
    const items = commentsOf(row).map((one) => h(
      "li",
      {},
      button(one.at_s === null ? "all" : duration(one.at_s), null, () => player.seek(row, placeOf(row), (one.at_s ?? 0) / seconds)),
      h("span", { class: "said", dir: "auto" }, one.reviewer ? h("b", { text: `${one.reviewer}: ` }) : null, one.comment),
      button("Remove", null, () => decide(row, "comment", "", one.at_s), { disabled: isReadOnly() })
    ));
    const field = h("input", {
      type: "text",
      id: "comment",
      maxlength: "10000",
      autocomplete: "off",
      "aria-label": "Comment",
      "data-key": "comment",
      placeholder: "Comment on this moment",
      disabled: isReadOnly(),
      onfocus: () => {
        at_s = player.row?.id === row.id ? Math.round(100 * player.audio.currentTime) / 100 : null;
      },
      oninput: () => drafts.set(row.id, field.value)
    });
    field.value = drafts.get(row.id) ?? "";
    const send = (event) => {
      event.preventDefault();
      const text = field.value.trim();
      if (!text) return;
      drafts.delete(row.id);
      decide(row, "comment", text, at_s);
    };
    return h(
      "section",
      { class: "comments" },
      h("h3", { text: "Comments" }),
      h("ul", {}, ...items),
      h("form", { onsubmit: send }, field, h("button", { type: "submit", class: "plain", text: "Add", disabled: isReadOnly() }))
    );
  }
  var writeComment = () => byId("comment")?.focus();

  // src/retake.js
  var drafts2 = /* @__PURE__ */ new Map();
  var FIELDS = { voice: "Voice", instruct: "Style", lexicon: "Lexicon" };
  var original = (row) => ({ text: row.text ?? "", voice: row.voice ?? "", instruct: row.instruct ?? "", lexicon: "", takes: "1" });
  function retakeNode(row) {
    if (!server.isThere) return null;
    const draft = drafts2.get(row.id) ?? original(row);
    const bound = (name, node) => {
      node.value = draft[name];
      node.dataset.key = `retake ${name}`;
      node.oninput = () => {
        draft[name] = node.value;
        drafts2.set(row.id, draft);
      };
      return node;
    };
    const text = bound("text", h("textarea", { rows: "3", dir: "auto", "aria-label": "Text of the retake", id: "retake-text" }));
    const fields2 = Object.entries(FIELDS).map(([name, label]) => h("label", {}, h("span", { text: label }), bound(name, h("input", { type: "text", autocomplete: "off", list: name === "voice" ? "voices" : null, placeholder: name === "lexicon" ? "lead=led; read=red" : null }))));
    const voices = [...new Set(model.rows.map((one) => one.voice ?? ""))].filter(Boolean).slice(0, 100);
    const takes = bound("takes", h("select", { "aria-label": "Number of takes" }, ...["1", "2", "3", "5"].map((one) => option(one))));
    const job = server.jobs.findLast((one) => one.id === row.id);
    const isRunning = job !== void 0 && ["waiting", "running"].includes(job.state);
    return h(
      "details",
      { class: "retake", open: drafts2.has(row.id) || isRunning },
      h("summary", { text: "Retake" }),
      text,
      ...fields2,
      h("datalist", { id: "voices" }, ...voices.map((one) => option(one))),
      h(
        "div",
        { class: "buttons" },
        takes,
        button(isRunning ? "Making takes …" : "Make takes", "again", () => start(row, draft), { "data-key": "retake", disabled: isReadOnly() || isRunning })
      ),
      job && h("p", { class: job.error ? "wrong" : "hint", role: "status", text: job.error || `${job.state}: ${job.num_done} of ${counted(job.takes, "take")}` })
    );
  }
  function start(row, draft) {
    const before2 = original(row);
    const changed = ["text", ...Object.keys(FIELDS)].filter((name) => draft[name] !== before2[name]);
    request(row, Number(draft.takes), Object.fromEntries(changed.map((name) => [name, draft[name]])));
  }
  async function request(row, takes, edits = {}) {
    await ask("retake", { id: row.id, takes, edits }).then(poll).catch(complain);
  }
  async function use(row) {
    const { is_other: isOther, written } = shownTake(row);
    const isReworded = placeOf(row) !== row.chosen && isOther && written !== void 0 && written !== row.text;
    if (!await useTake(row)) return;
    drafts2.delete(row.id);
    if (isReworded) await showChange(row.id, written).catch(complain);
    else if (isOther) say("Give the row in the manifest the same fields, or the next run of synth makes it again");
  }
  async function showChange(id, text) {
    const dialog2 = (
      /** @type {HTMLDialogElement} */
      byId("change")
    );
    const diff = await ask("manifest", { id, text });
    if (!diff) return;
    byId("change-diff").textContent = diff;
    byId("change-write").onclick = () => {
      dialog2.close();
      ask("manifest", { id, text, diff }).then(() => say("The manifest has the new text")).catch(complain);
    };
    dialog2.showModal();
  }
  var editText = () => {
    const field = byId("retake-text");
    const details = field?.closest("details");
    if (details) details.open = true;
    field?.focus();
  };

  // src/takes.js
  function takesNode(row) {
    if (row.takes.length < 2) return null;
    const place = placeOf(row);
    const selected = row.takes[place].take;
    const choices = row.takes.map((take, at) => {
      const facts = [
        take.url ? duration(take.audio_s ?? 0) : "no audio",
        take.level_dbfs !== void 0 && decibels(take.level_dbfs),
        take.mos && `${take.mos[0].toFixed(1)} of 5`,
        take.asr && `${(100 * take.asr.error).toFixed(0)} % of ${take.asr.unit} wrong`,
        take.seed !== void 0 && `seed ${take.seed}`,
        take.status === "failed" && "failed",
        take.is_other && "other text or voice"
      ];
      return h(
        "button",
        { type: "button", class: "choice", "aria-pressed": String(at === place), "data-key": `take ${take.take}`, onclick: () => chooseTake(row, at) },
        h("b", { text: `Take ${take.take}` }),
        h("span", { text: facts.filter(Boolean).join(" · ") }),
        at === row.chosen && h("span", { class: "now", text: "chosen" })
      );
    });
    const levels = h(
      "label",
      { class: "goes-on" },
      h("input", { type: "checkbox", "data-key": "levels", checked: player.isLevelled, onchange: (event) => {
        player.isLevelled = event.target.checked;
        player.level();
      } }),
      "equally loud"
    );
    const isOther = place !== row.chosen;
    const choose = !isOther ? null : server.isThere ? h("button", { type: "button", class: "strong", "data-key": "use", text: `Use take ${selected}`, disabled: isReadOnly(), onclick: () => use(row) }) : button(`Copy the pick command for take ${selected}`, "copy", () => copy(pickCommand([[row.id, selected]]), "the pick command"), { "data-key": "pick" });
    return h(
      "div",
      { class: "choices", role: "group", "aria-label": "Takes" },
      ...choices,
      h("div", { class: "buttons" }, choose, button("Compare", null, () => compare(row), { "data-key": "compare", title: "Switch between two takes at the same moment" }), levels)
    );
  }

  // src/texts.js
  function textsOf(row, take) {
    const words2 = [];
    const nodes = [];
    const add = (title, ...content) => nodes.push(h("h3", { text: title }), h("p", { class: "full", dir: "auto" }, ...content));
    const hint = (text) => nodes.push(h("p", { class: "hint", text }));
    if (row.text !== void 0) add("Text", ...timedText(row, take, words2));
    if (take.unsure) hint(`Word times may be wrong: ${take.unsure.join("; ")}`);
    if (row.spoken_text !== void 0) add("Read as", row.spoken_text);
    if (row.instruct !== void 0) add("Style", row.instruct);
    if (row.parts) nodes.push(parts(row, row.parts));
    if (take.asr) {
      add("Transcript", ...marked(take.asr));
      nodes[nodes.length - 1].classList.add("heard");
      hint(`${(100 * take.asr.error).toFixed(0)} % of ${take.asr.unit} wrong, ${take.asr.longest} in a row; ${take.asr.by}`);
    }
    return { nodes, words: words2 };
  }
  function timedText(row, take, words2) {
    const letters = [...row.text ?? ""];
    const times = take.words ?? [];
    const nodes = [];
    let place = 0;
    for (let at = 0; at < times.length; at += 4) {
      const [first, end, start3, stop] = times.slice(at, at + 4);
      const play2 = () => player.seek(row, placeOf(row), start3 / 100 / (take.audio_s || 1));
      const node = h("span", { class: "word", text: letters.slice(first, end).join(""), onclick: play2 });
      nodes.push(letters.slice(place, first).join(""), node);
      words2.push({ node, start_s: start3 / 100, end_s: stop / 100 });
      place = end;
    }
    return [...nodes, letters.slice(place).join("")];
  }
  function marked(asr) {
    const gap = asr.unit === "words" ? " " : "";
    return asr.heard.flatMap(([wanted2, other2]) => {
      if (other2 === void 0) return [wanted2, gap];
      const nodes = [wanted2 && h("del", { text: wanted2 }), other2 && h("ins", { text: other2 })].filter(Boolean);
      return nodes.flatMap((node) => [node, gap]);
    });
  }
  function parts(row, spans) {
    const letters = [...row.text ?? ""];
    const seconds = takeOf(row).audio_s || 1;
    const items = spans.map(([first, end, start_s], number) => h(
      "li",
      {},
      h("button", {
        type: "button",
        class: "plain",
        "data-key": `part ${number}`,
        onclick: () => player.seek(row, placeOf(row), start_s / seconds)
      }, duration(start_s)),
      h("span", { dir: "auto", text: letters.slice(first, end).join("") })
    ));
    return h("details", { class: "parts" }, h("summary", { text: counted(items.length, "part") }), h("ol", {}, ...items));
  }

  // src/detail.js
  var RATES = [0.75, 1, 1.25, 1.5, 2];
  var pane = byId("detail");
  var canvas = h("canvas", { class: "wave", "aria-hidden": "true" });
  var play = h("button", { type: "button", class: "round big", "data-key": "play" });
  var range = h("input", { type: "range", class: "seek", min: "0", max: "1000", step: "1", value: "0", "aria-label": "Position", "data-key": "seek" });
  var time = h("span", { class: "time" });
  var sheet = h("button", { type: "button", class: "plain icon sheet", "data-key": "sheet", "aria-label": "Details" });
  var words = [];
  var current;
  var isOpen = false;
  play.onclick = () => selection.row && togglePlay(selection.row);
  range.oninput = () => selection.row && player.seek(selection.row, placeOf(selection.row), Number(range.value) / 1e3);
  sheet.onclick = () => {
    isOpen = !isOpen;
    refresh();
  };
  function show() {
    const { row } = selection;
    if (!row) return pane.replaceChildren();
    const active = document.activeElement;
    const key = active instanceof HTMLElement && pane.contains(active) ? active.dataset.key : void 0;
    const top = pane.scrollTop;
    const take = shownTake(row);
    const texts = textsOf(row, take);
    words = texts.words;
    const hint = (text) => text && h("p", { class: "hint", text });
    const reasons = row.reasons.map(([kind2, text]) => h("li", { title: model.data.kinds[kind2] }, h("b", { text: kind2 }), ` ${text.replaceAll(/-(?=\d)/g, "−")}`));
    const body = [
      decisions(row),
      takesNode(row),
      hint(take.is_older && "The row failed; this is its audio from an earlier run."),
      hint(take.is_other && take.said !== void 0 && `Text of this take: ${take.said}`),
      row.error !== void 0 && h("p", { class: "wrong", text: row.error }),
      reasons.length > 0 && h("ul", { class: "reasons" }, ...reasons),
      ...texts.nodes,
      isNamed(row) && commentsNode(row),
      isNamed(row) && retakeNode(row),
      actions(row),
      figures(row, take)
    ];
    pane.replaceChildren(head(row), h("div", { class: "body" }, ...body));
    if (key) pane.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
    pane.scrollTop = top;
    refresh();
  }
  function head(row) {
    const rate = h("select", { class: "rate", "aria-label": "Speed", "data-key": "rate", onchange: () => {
      player.audio.defaultPlaybackRate = player.audio.playbackRate = Number(rate.value);
    } }, ...RATES.map((value) => h("option", { value, text: `${value}×`, selected: value === player.audio.playbackRate })));
    const goesOn = h("label", { class: "goes-on" }, h("input", {
      type: "checkbox",
      "data-key": "goes-on",
      checked: player.goesOn,
      onchange: (event) => {
        player.goesOn = event.target.checked;
      }
    }), "play on");
    return h(
      "div",
      { class: "head" },
      h("div", { class: "title" }, h("h2", {}, h("bdi", { text: row.id })), h("span", { class: "status", "data-group": row.group, text: STATUS_TEXT[row.group] }), sheet),
      h("div", { class: "player" }, play, h("div", { class: "scrub" }, canvas, range)),
      h("div", { class: "under" }, time, goesOn, rate)
    );
  }
  function decisions(row) {
    const state = stateOf(row);
    const one = (wanted2, label, name) => button(label, name, () => toggleState(row, wanted2), {
      class: `plain ${wanted2}`,
      "data-key": wanted2,
      "aria-pressed": String(state === wanted2),
      disabled: isReadOnly() || !isNamed(row)
    });
    return h(
      "div",
      { class: "buttons decide", role: "group", "aria-label": "Decision" },
      one("approved", "Approve", "approve"),
      one("rejected", "Reject", "reject"),
      one("retake", "Request retake", "again"),
      state === "changed" && h("span", { class: "review", text: STATE_TEXT.changed })
    );
  }
  function actions(row) {
    return h(
      "div",
      { class: "buttons" },
      button("Copy id", "copy", () => copy(row.id, "the id"), { "data-key": "id" }),
      button("Copy seed", "copy", () => copySeed(row), { "data-key": "seed" }),
      isNamed(row) && button(`Copy the command for ${MORE_TAKES} more takes`, "copy", () => copyAgain(row), { "data-key": "again" })
    );
  }
  function figures(row, take) {
    const run = model.data.runs[row.run ?? -1];
    const [mos, signal, background, p808] = (take.mos ?? []).map((score) => score.toFixed(1));
    const [start3, inside, end] = row.silences_s ?? [];
    const facts = {
      Character: row.character,
      Voice: row.voice ?? "none",
      ...row.extra,
      Duration: take.url && duration(take.audio_s ?? 0),
      Rate: row.rate !== void 0 && `${row.rate.toFixed(1)} letters per second`,
      Level: take.level_dbfs !== void 0 && decibels(take.level_dbfs),
      Opinion: take.mos && `${mos} of 5; speech ${signal}, background ${background}; P.808 ${p808}`,
      Peak: row.peak_dbfs !== void 0 && decibels(row.peak_dbfs),
      Clipped: row.clipped_share !== void 0 && `${(100 * row.clipped_share).toFixed(2)} % of samples`,
      Silence: row.silences_s && `${start3} s at the start, ${inside} s inside, ${end} s at the end`,
      Seed: take.seed !== void 0 && String(take.seed),
      Attempts: row.attempts !== void 0 && String(row.attempts),
      Ended: row.finish_reason,
      Language: row.language,
      Model: run?.model,
      Run: run?.started && `${run.started.slice(0, 16).replace("T", " ")} UTC`
    };
    const known = Object.entries(facts).filter(([, value]) => value);
    return h("dl", { class: "facts" }, ...known.flatMap(([name, value]) => [h("dt", { text: name }), h("dd", { text: value })]));
  }
  function refresh() {
    const { row } = selection;
    if (!row) return;
    const isLoaded = player.row?.id === row.id && player.place < row.takes.length;
    const take = row.takes[isLoaded ? player.place : placeOf(row)];
    const share = isLoaded ? player.share : 0;
    const seconds = take.audio_s ?? 0;
    setIcon(play, isLoaded && player.isPlaying ? "pause" : "play");
    play.setAttribute("aria-label", `${isLoaded && player.isPlaying ? "Pause" : "Play"} ${row.id}`);
    play.disabled = range.disabled = !take.url;
    pane.classList.toggle("open", isOpen);
    setIcon(sheet, isOpen ? "less" : "more");
    sheet.setAttribute("aria-expanded", String(isOpen));
    range.value = String(Math.round(1e3 * share));
    range.setAttribute("aria-valuetext", `${(share * seconds).toFixed(1)} of ${seconds.toFixed(1)} seconds`);
    time.textContent = take.url ? `${(share * seconds).toFixed(1)} / ${duration(seconds)}` : lengthText(row, take);
    wantWaveform(row.id, take);
    drawWaveform(canvas, take, share);
    const now_s = share * seconds;
    const node = isLoaded ? words.find(({ start_s, end_s }) => start_s <= now_s && now_s < end_s)?.node : void 0;
    if (node === current) return;
    current?.classList.remove("now");
    node?.classList.add("now");
    current = node;
  }
  var shown = null;
  on(["select"], () => {
    if (shown !== selection.row) show();
    shown = selection.row;
  });
  on(["rows", "decided", "picked", "server"], show);
  on(["played", "drawn", "theme"], refresh);

  // src/filters.js
  var REVIEWS = {
    "": "any",
    open: "undecided",
    approved: "approved",
    rejected: "rejected",
    retake: "retake requested",
    changed: "changed since",
    comment: "with comments"
  };
  var [search, voice, kind, sort, review, direction] = ["search", "voice", "kind", "sort", "review", "direction"].map((id) => byId(id));
  var fields = (
    /** @type {Record<"voice" | "kind" | "sort" | "review", HTMLSelectElement>} */
    { voice, kind, sort, review }
  );
  function tally(values) {
    const found = /* @__PURE__ */ new Map();
    for (const value of values) if (value) found.set(value, (found.get(value) ?? 0) + 1);
    return found;
  }
  var options = (all, counts) => [option("", all), ...counts.map(([value, number]) => option(value, `${value} (${whole(number)})`))];
  function fill2() {
    const { rows } = model;
    byId("statuses").replaceChildren(...Object.entries(STATUSES).map(([name, label]) => {
      const number = name === "all" ? rows.length : rows.filter((row) => row.group === GROUP_OF[name]).length;
      return h("button", { type: "button", "data-status": name, onclick: () => setView({ status: name }) }, `${label} `, h("span", { class: "number", text: whole(number) }));
    }));
    const voices = [...tally(rows.map((row) => row.voice))].sort(([a], [b]) => a < b ? -1 : 1);
    fields.voice.replaceChildren(...options("all", voices));
    const kinds = tally(rows.flatMap((row) => [...new Set(row.reasons.map((reason) => reason[0]))]));
    const known = Object.keys(model.data.kinds).filter((one) => kinds.has(one));
    fields.kind.replaceChildren(...options("any", known.map((one) => [one, kinds.get(one) ?? 0])));
    fields.review.replaceChildren(...Object.entries(REVIEWS).map(([value, text]) => option(value, text)));
    const hidden = [rows.some((row) => takeOf(row).asr) || "words", rows.some((row) => takeOf(row).mos) || "mos"];
    hidden.push(rows.some((row) => row.order !== row.index || row.chapter) || "order");
    fields.sort.replaceChildren(...Object.entries(SORTS).filter(([name]) => !hidden.includes(name)).map(([name, { label }]) => option(name, label)));
    byId("facets").replaceChildren(...[...facets()].map(([name, counts]) => {
      const sorted = [...counts].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
      const field = h("select", { "data-facet": name, onchange: () => setView({ facets: { ...view.facets, [name]: field.value } }) }, ...options("all", sorted));
      return h("label", {}, h("span", { text: name }), " ", field);
    }));
  }
  function setView(changes = {}) {
    Object.assign(view, changes);
    for (const one of byId("statuses").children) one.setAttribute("aria-pressed", String(
      /** @type {HTMLElement} */
      one.dataset.status === view.status
    ));
    for (
      const name of
      /** @type {const} */
      ["voice", "kind", "sort", "review"]
    ) fields[name].value = view[name];
    for (const field of byId("facets").querySelectorAll("select")) field.value = view.facets[field.dataset.facet ?? ""] ?? "";
    const input = (
      /** @type {HTMLInputElement} */
      search
    );
    if (input.value !== view.search) input.value = view.search;
    setIcon(direction, view.isTurned ? "up" : "down");
    direction.setAttribute("aria-pressed", String(view.isTurned));
    emit("view");
    const top = byId("bar").getBoundingClientRect().top + window.scrollY;
    if (window.scrollY > top) window.scrollTo(0, list.node.getBoundingClientRect().top + window.scrollY - byId("bar").offsetHeight - 8);
    list.render();
  }
  var clearFilters = () => setView({ search: "", status: "all", voice: "", kind: "", review: "", facets: {} });
  function showRow(row) {
    if (!list.places.has(row)) clearFilters();
    select(row, { focus: true, scroll: true });
  }
  search.oninput = () => setView({ search: (
    /** @type {HTMLInputElement} */
    search.value
  ) });
  for (
    const name of
    /** @type {const} */
    ["voice", "kind", "review"]
  ) fields[name].onchange = () => setView({ [name]: fields[name].value });
  fields.sort.onchange = () => setView({ sort: fields.sort.value, isTurned: false });
  direction.onclick = () => setView({ isTurned: !view.isTurned });
  byId("clear").onclick = clearFilters;
  on(["rows"], () => {
    fill2();
    setView();
  });

  // src/basket.js
  var dialog = (
    /** @type {HTMLDialogElement} */
    byId("commands")
  );
  function show2() {
    const again = retakeRows().length;
    const texts = [
      !server.isThere && picks.size && `${counted(picks.size, "take")} selected`,
      again && `${counted(again, "row")} marked for more takes`,
      !server.isThere && ledger.own.size && `${counted(ledger.own.size, "decision")} to save`
    ].filter(Boolean);
    byId("basket").hidden = !texts.length;
    document.body.classList.toggle("has-basket", texts.length > 0);
    byId("basket-text").textContent = texts.join(", ");
  }
  function open() {
    const again = retakeRows();
    const nodes = [];
    if (ledger.own.size && !server.isThere) {
      nodes.push(
        h("h3", { text: "Send your decisions" }),
        button("Save the decisions as a file", "copy", saveFile),
        h("p", { class: "hint", text: "Whoever has the folder adds them with `tts-cli review DIR --import FILE`." })
      );
    }
    if (picks.size && !server.isThere) nodes.push(...block("Choose these takes", [pickCommand([...picks])]));
    if (again.length) nodes.push(...block(`Synthesize ${MORE_TAKES} more takes of each of these rows`, againCommands(again)));
    if (again.length && server.isThere) {
      nodes.push(button("Make them now", "again", () => {
        dialog.close();
        for (const row of again) request(row, MORE_TAKES);
      }));
    }
    byId("commands-body").replaceChildren(...nodes);
    byId("commands-clear").hidden = server.isThere;
    dialog.showModal();
  }
  function block(title, commands) {
    const nodes = [h("h3", { text: title })];
    for (const command of commands) {
      const node = button("Copy", "copy", () => copy(command, "the command"));
      nodes.push(
        /** @type {any} */
        h("div", { class: "command" }, h("code", { text: command, tabindex: "0" }), node)
      );
    }
    if (commands.some((command) => command.includes(` ${MANIFEST} `))) {
      nodes.push(
        /** @type {any} */
        h("p", { class: "hint", text: `Replace ${MANIFEST} with the path of your manifest; the folder does not record it.` })
      );
    }
    return nodes;
  }
  byId("basket-open").onclick = open;
  byId("commands-close").onclick = () => dialog.close();
  byId("commands-clear").onclick = () => {
    clear();
    dialog.close();
  };
  on(["rows", "decided", "picked"], show2);

  // src/keys.js
  var SEEK_S = 2;
  var search2 = (
    /** @type {HTMLInputElement} */
    byId("search")
  );
  var help = (
    /** @type {HTMLDialogElement} */
    byId("help")
  );
  var KEYS = [
    [[" "], "Space", "play or pause the current row", togglePlay],
    [["j"], "j", "next row", () => list.step(1)],
    [["k"], "k", "previous row", () => list.step(-1)],
    [["a"], "a", "approve the row, or undo it", (row) => toggleState(row, "approved")],
    [["x"], "x", "reject the row, or undo it", (row) => toggleState(row, "rejected")],
    [["r"], "r", "request a retake of the row, or undo it", (row) => toggleState(row, "retake")],
    [["c"], "c", "comment on the moment that is played", writeComment],
    [[..."123456789"], "1 – 9", "select that take, and play it", playTake],
    [["b"], "b", "switch between two takes at the same moment", compare],
    [["u"], "u", "use the selected take", (row) => server.isThere && placeOf(row) !== row.chosen && use(row)],
    [["e"], "e", "edit the text for a retake", editText],
    [["ArrowLeft", "ArrowRight"], "← →", "skip two seconds back or forward, while a row is loaded", skip],
    [[], "/", "search"],
    [[], "Esc", "leave the field"],
    [[], "?", "this list"]
  ];
  function playTake(row, key) {
    const place = row.takes.findIndex((take) => take.take === Number(key));
    if (place < 0) say(`${row.id} has no take ${key}`);
    else chooseTake(row, place);
  }
  function skip(row, key) {
    if (player.row?.id === row.id) player.audio.currentTime += key === "ArrowLeft" ? -SEEK_S : SEEK_S;
  }
  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const target = (
      /** @type {HTMLElement} */
      event.target
    );
    const { key } = event;
    if (target.matches("input[type=search], input[type=text], textarea")) {
      if (key === "Escape") target.blur();
      if (key === "Enter" && target === search2) select(selection.row, { focus: true, scroll: true });
      return;
    }
    if (target.matches("select")) return;
    if (key === " " && target.closest("button, summary, a, input[type=checkbox]")) return;
    if (key.startsWith("Arrow") && target.closest("input, [tabindex='0'].scroll, code")) return;
    const run = KEYS.find(([keys]) => keys.includes(key))?.[3];
    if (key === "?") help.showModal();
    else if (key === "/") [search2.focus(), search2.select()];
    else if (selection.row && run) run(selection.row, key);
    else return;
    event.preventDefault();
  }
  byId("keys").replaceChildren(...KEYS.flatMap(([, name, meaning]) => [h("dt", {}, h("kbd", { text: name })), h("dd", { text: meaning })]));
  byId("help-open").onclick = () => help.showModal();
  byId("help-close").onclick = () => help.close();
  document.addEventListener("keydown", onKey);

  // src/charts.js
  var LABEL_WIDTH = 92;
  var LINE = 26;
  function percent(share) {
    return share > 0 && share < 0.01 ? "< 1 %" : `${Math.round(100 * share)} %`;
  }
  function short(text, length = 12) {
    const letters = [...text];
    return letters.length <= length ? text : `${letters.slice(0, length - 1).join("")}…`;
  }
  function card(title, answer, draw, table) {
    const figure = h("div", { class: "drawing" });
    const node = h(
      "section",
      { class: "card" },
      h("h2", { text: title }),
      h("p", { class: "answer", text: answer }),
      figure,
      h("details", { class: "figures" }, h("summary", { text: "Figures" }), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${title} Figures` }, table))
    );
    let drawn = 0;
    const redraw = () => {
      const width = Math.floor(figure.clientWidth);
      if (!width || width === drawn) return;
      drawn = width;
      figure.replaceChildren(...draw(width));
    };
    new ResizeObserver(redraw).observe(figure);
    return node;
  }
  function tableOf(heads, lines) {
    const row = (cells, tag) => h("tr", {}, ...cells.map((cell, at) => h(at ? tag : "th", { text: cell, scope: tag === "th" ? "col" : at ? null : "row" })));
    return h("table", {}, h("thead", {}, row(heads, "th")), h("tbody", {}, ...lines.map((cells) => row(cells, "td"))));
  }
  function timeCard({ stages, time: time2 }) {
    const sums = (entry) => entry.seconds.reduce((sum, value) => sum + value, 0) || 1;
    const first = time2[0];
    const shares = first.seconds.map((value) => value / sums(first));
    const most = shares.indexOf(Math.max(...shares));
    const NAMES = { decode: "decoding", other: "waiting and retries", write: "writing" };
    const nameOf = (stage) => NAMES[stage] ?? stage;
    const answer = `${percent(shares[most])} of the time of ${first.name} was spent in ${nameOf(stages[most])}.`;
    const draw = (width) => {
      const right = 64;
      const room = Math.max(40, width - LABEL_WIDTH - right);
      const height = time2.length * LINE;
      const marks = time2.flatMap((entry, line) => {
        const total = sums(entry);
        let x = LABEL_WIDTH;
        const bars = entry.seconds.map((seconds, stage) => {
          const size = seconds / total * room;
          const bar = size < 0.5 ? null : svg("rect", { x, y: line * LINE + 5, width: Math.max(0.5, size - 1), height: LINE - 10, class: `stage s${stage}` }, svg("title", { text: `${nameOf(stages[stage])}: ${duration(seconds)}, ${percent(seconds / total)}` }));
          x += size;
          return bar;
        });
        const y = line * LINE + LINE / 2 + 4;
        return [svg("text", { x: 0, y, text: short(entry.name) }), ...bars, svg("text", { x: width, y, class: "end", text: duration(total) })];
      });
      const legend = h("ul", { class: "legend" }, ...stages.map((stage, at) => shares[at] > 0 ? h("li", {}, svg("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, svg("rect", { width: 10, height: 10, rx: 2, class: `stage s${at}` })), `${nameOf(stage)} ${percent(shares[at])}`) : null));
      return [svg("svg", { role: "img", "aria-label": answer, width, height, viewBox: `0 0 ${width} ${height}` }, ...marks), legend];
    };
    const table = tableOf(["", ...stages.map((stage) => `${nameOf(stage)}, s`)], time2.map((entry) => [entry.name, ...entry.seconds.map((value) => value.toFixed(1))]));
    return card("Time per stage", answer, draw, table);
  }
  function voiceCard(title, unit, { voices, left_out: leftOut }, kinds) {
    const all = voices.flatMap(({ marks, outliers }) => [...marks, ...outliers.map(([value]) => value)]);
    const low = Math.min(...all);
    const high = Math.max(...all);
    const text = (value) => value.toFixed(1).replace("-", "−");
    const byMedian = [...voices].sort((a, b) => a.marks[2] - b.marks[2]);
    const [least, most] = [byMedian[0], byMedian[byMedian.length - 1]];
    const answer = voices.length === 1 ? `${least.voice}: usually ${text(least.marks[2])} ${unit}.` : `From ${text(least.marks[2])} (${least.voice}) to ${text(most.marks[2])} ${unit} (${most.voice}).`;
    const draw = (width) => {
      const right = 40;
      const room = Math.max(40, width - LABEL_WIDTH - right);
      const ticks = niceTicks(low, high, Math.max(2, Math.floor(room / 70)));
      const start3 = Math.min(low, ticks[0]);
      const end = Math.max(high, ticks[ticks.length - 1]);
      const x = (value) => LABEL_WIDTH + (value - start3) / (end - start3 || 1) * room;
      const bottom = voices.length * LINE;
      const grid = ticks.flatMap((tick2) => [
        svg("line", { x1: x(tick2), x2: x(tick2), y1: 0, y2: bottom, class: "grid" }),
        svg("text", { x: x(tick2), y: bottom + 15, class: "tick", text: text(tick2).replace(/\.0+$/, "") })
      ]);
      const lines = voices.flatMap(({ voice: voice2, rows: number, marks: [p5, p25, p50, p75, p95], outliers }, line) => {
        const y = line * LINE + LINE / 2;
        return [
          svg("text", { x: 0, y: y + 4 }, svg("title", { text: voice2 }), short(voice2)),
          svg("line", { x1: x(p5), x2: x(p95), y1: y, y2: y, class: "whisker" }),
          svg("rect", { x: x(p25), y: y - 6, width: Math.max(1, x(p75) - x(p25)), height: 12, rx: 2, class: "box" }),
          svg("line", { x1: x(p50), x2: x(p50), y1: y - 8, y2: y + 8, class: "median" }),
          ...outliers.map(([value, place]) => svg("circle", { cx: x(value), cy: y, r: 3, class: model.rows[place].reasons.some(([kind2]) => kinds.includes(kind2)) ? "dot odd" : "dot", onclick: () => showRow(model.rows[place]) }, svg("title", { text: `${model.rows[place].id}: ${text(value)} ${unit}` }))),
          svg("text", { x: width, y: y + 4, class: "end", text: whole(number) })
        ];
      });
      const caption = `Line: 90 % of the rows; box: half of them; mark: median; dots: other rows, filled if suspect; number of rows at the right${leftOut ? `. ${counted(leftOut, "more voice")} not shown` : ""}.`;
      return [svg("svg", { role: "img", "aria-label": answer, width, height: bottom + 20, viewBox: `0 0 ${width} ${bottom + 20}` }, ...grid, ...lines), h("p", { class: "hint", text: caption })];
    };
    const table = tableOf(["Voice", "Rows", "5 %", "25 %", "Median", "75 %", "95 %"], voices.map(({ voice: voice2, rows: number, marks }) => [voice2, whole(number), ...marks.map(text)]));
    return card(title, answer, draw, table);
  }
  function niceTicks(low, high, about) {
    if (high <= low) return [low];
    const raw = (high - low) / about;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = ([1, 2, 5].find((factor) => factor * power >= raw) ?? 10) * power;
    const ticks = [];
    for (let tick2 = Math.ceil(low / step) * step; tick2 <= high + step / 1e6; tick2 += step) ticks.push(tick2);
    return ticks.length > 1 ? ticks : niceTicks(low, high, 2 * about);
  }
  function showCharts() {
    const { charts } = model.data;
    const cards = [];
    if (charts.time.length) cards.push(timeCard(charts));
    if (charts.rate.voices.length) cards.push(voiceCard("Speed of each voice", "letters per second", charts.rate, ["fast", "slow"]));
    if (charts.level.voices.length) cards.push(voiceCard("Loudness of each voice", "dBFS", charts.level, ["loud", "quiet"]));
    if (charts.mos.voices.length) cards.push(voiceCard("Predicted quality of each voice", "of 5", charts.mos, ["quality"]));
    byId("cards").replaceChildren(...cards);
    byId("charts").hidden = !cards.length;
  }

  // src/head.js
  function showNames() {
    const { data } = model;
    const models = [...new Set(data.runs.map((run) => run.model).filter(Boolean))];
    const made = data.server ? null : `made on ${data.made.slice(0, 16).replace("T", " ")} UTC`;
    byId("title").textContent = data.folder.name || data.folder.path;
    byId("subtitle").textContent = [models.join(", "), data.totals.runs && counted(data.totals.runs, "run"), made].filter(Boolean).join(" · ");
  }
  function showTotals() {
    const { totals } = model.data;
    const approved = model.rows.filter((row) => stateOf(row) === "approved").length;
    const tiles = [["Rows", whole(totals.rows)], ["Spoken", whole(totals.ok)], ["Failed", whole(totals.failed), "failed"], ["Suspect", whole(totals.suspect), "suspect"]];
    if (approved || server.isThere) tiles.push(["Approved", `${whole(approved)} of ${whole(totals.rows)}`]);
    tiles.push(["Audio", duration(totals.audio_s)]);
    if (totals.xrt) tiles.push(["Real time", `${totals.xrt.toFixed(1)}×`]);
    tiles.push(["Voices", whole(totals.voices)]);
    byId("totals").replaceChildren(...tiles.map(([name, value, group]) => h("div", { class: "tile", "data-group": group && value !== "0" ? GROUP_OF[group] : null }, h("dt", { text: name }), h("dd", { text: value }))));
  }
  function showNotice() {
    const { missing, garbage } = model.data.totals;
    const notices = [];
    if (server.busy) notices.push(`A run is in progress (${server.busy}): the page is read-only until it ends.`);
    if (missing) notices.push(`The audio of ${counted(missing, "row")} is no longer in the folder; the next run of synth synthesizes ${missing === 1 ? "it" : "them"} again.`);
    if (garbage) notices.push(`${counted(garbage, "line")} of timings.jsonl could not be read.`);
    byId("notice").textContent = notices.join(" ");
    byId("notice").hidden = !notices.length;
  }
  var STATES = ["approved", "rejected", "retake", "open"];
  function showProgress() {
    const details = (
      /** @type {HTMLDetailsElement} */
      byId("progress")
    );
    const names = ["Character", "Chapter"].filter((name) => facets().has(name));
    details.hidden = !names.length;
    if (!details.open || details.hidden) return;
    byId("progress-tables").replaceChildren(...names.map((name) => {
      const counts = /* @__PURE__ */ new Map();
      for (const row of model.rows) {
        const value = facetsOf(row)[name] ?? "none";
        const found = counts.get(value) ?? [0, 0, 0, 0];
        const state = stateOf(row);
        found[STATES.indexOf(state === "changed" ? "open" : state)] += 1;
        counts.set(value, found);
      }
      const lines = [...counts].map(([value, [approved, ...rest]]) => {
        const all = approved + rest.reduce((sum, one) => sum + one, 0);
        return [value, `${whole(approved)} of ${whole(all)}`, ...rest.map(whole)];
      });
      return h("section", { class: "card" }, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Approved rows by ${name}` }, tableOf([name, "approved", "rejected", "retake", "undecided"], lines)));
    }));
  }
  function setTheme(theme) {
    const shown2 = theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    document.documentElement.dataset.theme = shown2;
    const other2 = shown2 === "dark" ? "light" : "dark";
    const control = byId("theme");
    control.replaceChildren(icon(other2), other2 === "dark" ? "Dark" : "Light");
    control.onclick = () => {
      memory.set("tts-cli-theme", other2);
      setTheme(other2);
    };
    emit("theme");
  }
  var storedTheme = () => ["dark", "light"].find((one) => one === memory.get("tts-cli-theme")) ?? null;
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme(storedTheme()));
  byId("progress").addEventListener("toggle", showProgress);
  on(["rows"], () => {
    showNames();
    showNotice();
  });
  on(["rows", "decided", "picked"], () => {
    showTotals();
    showProgress();
  });
  on(["server"], showNotice);

  // src/main.js
  var MOST_A_FRAME = 5;
  var isAwaited = false;
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
  byId("change-close").onclick = () => (
    /** @type {HTMLDialogElement} */
    byId("change").close()
  );
  on(["rows"], showCharts);
  async function start2() {
    const embedded = JSON.parse(byId("data").textContent ?? "");
    byId("charts").open = !NARROW.matches && "rows" in embedded;
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
  start2().catch(complain).finally(() => {
    document.documentElement.dataset.ready = "yes";
  });
})();
