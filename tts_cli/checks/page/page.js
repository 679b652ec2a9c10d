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
    model.rows = data.rows.map((given, index) => {
      const folder = given.id.slice(0, Math.max(0, given.id.lastIndexOf("/"))) || void 0;
      const usual = { reasons: [], extra: {}, severity: 0, chosen: 0, place: 0, order: index, chapter: folder };
      const row = { ...usual, ...given, index };
      row.group = row.status === "failed" ? 0 : row.reasons.length ? 1 : 2;
      row.facets = { Voice: row.voice, Character: row.character, Chapter: row.chapter, ...row.extra };
      return row;
    });
    model.byName = new Map(model.rows.map((row) => [row.id, row]));
    haystacks = new Array(model.rows.length);
    selection.row = model.byName.get(selection.row?.id ?? "") ?? null;
  }
  var selection = { row: null };
  function select(row, how = {}) {
    const before = selection.row;
    selection.row = row;
    emit("select", { ...how, before });
  }
  var takeOf = (row) => row.takes[row.chosen];
  var picks = /* @__PURE__ */ new Map();
  function canPick(id, take) {
    const row = model.byName.get(id);
    return row !== void 0 && row.takes.some((one, place) => one.take === take && place !== row.chosen);
  }
  function placeOf(row) {
    const place = row.takes.findIndex((take) => take.take === picks.get(row.id));
    return place < 0 ? row.chosen : place;
  }
  var shownTake = (row) => row.takes[placeOf(row)];
  var ratedTake = (row) => model.data.server ? takeOf(row) : shownTake(row);
  var stateOf = (row) => ledger.state(row.id, ratedTake(row).sha256 ?? null);
  var commentsOf = (row) => ledger.comments(row.id, shownTake(row).sha256 ?? null);
  var isNamed = (row) => !row.id.startsWith("#");
  var hasKind = (row, kind2) => row.reasons.some((reason) => reason[0] === kind2);
  var errorText = ({ error, unit }) => `${(100 * error).toFixed(0)} % of ${unit} wrong`;
  var scoreText = ({ mos }) => mos && `${mos[0].toFixed(1)} of 5`;
  var STATUS_TEXT = ["failed", "suspect", "ok"];
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
  var MAX_FACETS = 7;
  var MAX_VALUES = 200;
  function facets() {
    const found = /* @__PURE__ */ new Map();
    for (const [name, value] of model.rows.flatMap((row) => Object.entries(row.facets))) {
      const counts = found.get(name) ?? /* @__PURE__ */ new Map();
      if (value !== void 0) counts.set(value, (counts.get(value) ?? 0) + 1);
      found.set(name, counts);
    }
    const useful = [...found].filter(([, { size }]) => size > 1 && size <= MAX_VALUES);
    return new Map(useful.slice(0, MAX_FACETS));
  }
  var view = { search: "", status: "all", kind: "", review: "", sort: "check", isTurned: false, facets: {} };
  function haystack(row) {
    const texts = [row.id, row.text, row.spoken_text, row.voice, row.character];
    return haystacks[row.index] ??= texts.filter(Boolean).join("\n").toLowerCase();
  }
  function matches(row, words2) {
    if (view.status !== "all" && row.group !== GROUP_OF[view.status]) return false;
    if (view.kind && !hasKind(row, view.kind)) return false;
    if (view.review === "comment" && !commentsOf(row).length) return false;
    if (view.review && view.review !== "comment" && stateOf(row) !== view.review) return false;
    for (const name in view.facets) if (view.facets[name] && row.facets[name] !== view.facets[name]) return false;
    return words2.every((word) => haystack(row).includes(word));
  }
  function shownItems() {
    const words2 = view.search.toLowerCase().split(/\s+/).filter(Boolean);
    const found = model.rows.filter((row) => matches(row, words2));
    const { value, falls } = SORTS[view.sort];
    const sign = view.isTurned !== (falls ?? false) ? -1 : 1;
    if (value) {
      const ranks = new Map(found.map((row) => [row, sign * (value(row) ?? sign * Infinity)]));
      const rank = (row) => ranks.get(row) ?? 0;
      found.sort((a, b) => rank(a) === rank(b) ? a.index - b.index : rank(a) - rank(b));
    } else found.sort((a, b) => a.group - b.group || sign * (b.severity - a.severity || a.index - b.index));
    const hasHeadings = !value || view.sort === "order" && found.some((row) => row.chapter);
    const items2 = (
      /** @type {Item[]} */
      []
    );
    let part = (
      /** @type {Heading | null} */
      null
    );
    for (const [place, row] of found.entries()) {
      const [heading, group] = value ? [row.chapter ?? "", null] : [GROUPS[row.group], row.group];
      if (hasHeadings && part?.heading !== heading) items2.push(part = { heading, group, members: [] });
      part?.members.push(row);
      items2.push({ row, number: place + 1 });
    }
    return items2;
  }

  // src/dom.js
  var byId = (id) => (
    /** @type {T} */
    document.getElementById(id)
  );
  function h(selector, first, ...others) {
    const [tag, ...classes] = selector.split(".");
    const element = document.createElement(tag);
    if (tag === "button") element.setAttribute("type", "button");
    if (classes.length) element.className = classes.join(" ");
    const hasAttributes = first?.constructor === Object;
    for (const [name, value] of Object.entries(hasAttributes ? first : {})) {
      if ((value ?? false) === false) continue;
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value === true ? "" : value);
    }
    const children = hasAttributes ? others : [
      /** @type {Child} */
      first,
      ...others
    ];
    for (const child of children.flat()) if (child) element.append(child);
    return (
      /** @type {any} */
      element
    );
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
    const [picture, path] = ["svg", "path"].map((tag) => document.createElementNS("http://www.w3.org/2000/svg", tag));
    const attributes = { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" };
    for (const [key, value] of Object.entries(attributes)) picture.setAttribute(key, value);
    path.setAttribute("d", ICONS[name]);
    picture.append(path);
    return picture;
  }
  function setIcon(button2, name) {
    if (button2.dataset.icon === name) return;
    button2.dataset.icon = name;
    button2.replaceChildren(icon(name));
  }
  function button(label, name, onclick, more = {}) {
    return h("button.plain", { onclick, ...more }, name && icon(name), label);
  }
  var option = (value, text = value) => h("option", { value }, text);
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
  var signed = (number) => number.toFixed(1).replace("-", "−");
  var decibels = (level) => `${signed(level)} dBFS`;
  var dotted = (texts) => texts.filter(Boolean).join(" · ");
  var toastTimer = 0;
  function say(text) {
    const toast = byId("toast");
    byId("said").textContent = toast.textContent = text;
    toast.hidden = false;
    clearTimeout(toastTimer);
    toastTimer = window.setTimeout(() => toast.hidden = true, 2500);
  }
  var complain = (error) => say(error.message);
  function copy(text, what) {
    const done = navigator.clipboard?.writeText(text) ?? Promise.reject();
    done.then(() => say(`Copied ${what}`)).catch(() => say(`The browser did not allow copying ${what}`));
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

  // src/server.js
  var POLL_MS = 1500;
  var RELOAD_MS = 3e4;
  var server = {
    isThere: false,
    /** The run that has locked the folder. @type {string | null} */
    busy: null,
    /** @type {Job[]} */
    jobs: [],
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
    server.loaded_ms = performance.now();
    load(data);
    for (const [id, take] of picks) if (!canPick(id, take)) picks.delete(id);
    emit("rows");
  }
  var polled = Promise.resolve();
  var poll = () => polled = polled.catch(() => {
  }).then(askForChanges);
  async function askForChanges() {
    const found = await ask("changes", ledger.stored.length);
    if (found.revision < ledger.stored.length) ledger.stored = [];
    if (found.decisions.length) {
      ledger.stored.push(...found.decisions);
      ledger.rebuild();
      emit("decided");
    }
    const before = { ...server };
    Object.assign(server, { busy: found.busy, jobs: found.jobs });
    const known = before.jobs.filter((job) => job.error).map((job) => job.number);
    for (const job of found.jobs) if (job.error && !known.includes(job.number)) say(job.error);
    const isDue = !server.busy || performance.now() - server.loaded_ms > RELOAD_MS;
    if (found.stamp !== model.data.server?.stamp && isDue) await reload();
    const hasChanged = before.busy !== server.busy || JSON.stringify(before.jobs) !== JSON.stringify(server.jobs);
    if (hasChanged) emit("server");
  }
  async function watch() {
    for (; ; ) {
      await new Promise((done) => setTimeout(done, POLL_MS));
      await poll().catch((error) => document.hidden || complain(error));
    }
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
  var wanted = [];
  function want(id, take) {
    if (!server.isThere || !take.url || take.waveform !== void 0) return;
    take.waveform = null;
    if (!wanted.length) setTimeout(askForWanted, 60);
    wanted.push([id, take]);
  }
  async function askForWanted() {
    const some = wanted.slice(-200);
    wanted = [];
    const pairs = some.map(([id, { take }]) => [id, take]);
    const found = await ask("outlines", pairs).catch(() => []);
    some.forEach(([, take], place) => take.waveform = found[place]);
    emit("drawn");
  }
  var sizeOf = (canvas2) => ({ width: canvas2.clientWidth, height: canvas2.clientHeight });
  function drawWaveform(canvas2, id, take, played, { width, height } = sizeOf(canvas2)) {
    want(id, take);
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
    if (!take.waveform) {
      pen.fillStyle = colours.faint;
      for (let x = 0; x < width; x += 6) pen.fillRect(x, middle - 0.5, 3, 1);
      return;
    }
    const outline = heights(take.waveform);
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

  // src/player.js
  var player = {
    audio: new Audio(),
    /** The row that is loaded. @type {Row | null} */
    row: null,
    place: 0,
    // of its take
    isLevelled: true,
    // takes of a row are equally loud
    get isPlaying() {
      return !this.audio.paused;
    },
    /** Share of the loaded take that was played, from 0 to 1. */
    get share() {
      return this.audio.duration > 0 ? this.audio.currentTime / this.audio.duration : 0;
    },
    /** Whether a take of a row is loaded. @param {Row} row */
    has(row) {
      return this.row?.id === row.id && this.place < row.takes.length;
    },
    /** Load a take. Return whether there is audio. @param {Row} row @param {number} place */
    load(row, place) {
      const { url } = row.takes[place];
      if (this.has(row) && this.place === place && this.row?.takes[place]?.url === url) return true;
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
    /** Make the takes of a row as loud as the quietest of them, or leave them as they are. @param {boolean} [isLevelled] */
    level(isLevelled) {
      this.isLevelled = isLevelled ?? this.isLevelled;
      if (!this.row) return;
      const known = this.row.takes.flatMap((take) => take.url && take.level_dbfs !== void 0 ? [take.level_dbfs] : []);
      const own = this.isLevelled && this.row.takes[this.place].level_dbfs;
      this.audio.volume = own ? 10 ** ((Math.min(own, ...known) - own) / 20) : 1;
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
    /** Move to a share of a take, and play from there. @param {Row} row @param {number} place @param {number} share */
    seek(row, place, share) {
      if (!this.load(row, place)) return;
      const move2 = () => this.audio.currentTime = Math.min(0.999, Math.max(0, share)) * this.audio.duration;
      if (this.audio.readyState >= 1) move2();
      else this.audio.addEventListener("loadedmetadata", move2, { once: true });
      this.play(row, place);
    },
    /** Play a take from a moment. @param {Row} row @param {number} place @param {number} at_s */
    playFrom(row, place, at_s2) {
      this.seek(row, place, at_s2 / (row.takes[place].audio_s || 1));
    }
  };
  player.audio.preload = "none";
  for (const name of ["play", "pause", "ended", "seeked", "loadedmetadata"]) {
    player.audio.addEventListener(name, () => emit("played"));
  }
  player.audio.addEventListener("play", function tick() {
    if (!player.isPlaying) return;
    emit("played");
    requestAnimationFrame(tick);
  });
  player.audio.addEventListener("error", () => {
    const why = "the file is missing, or the browser does not support its format";
    if (player.row) say(`${player.row.id} cannot be played: ${why}`);
  });

  // src/review.js
  var STATE_TEXT = {
    open: "",
    approved: "approved",
    rejected: "rejected",
    retake: "retake requested",
    changed: "changed since"
  };
  var storeName = () => `tts-cli-report ${model.data.folder.path}`;
  var isReadOnly = () => server.isThere && server.busy !== null;
  async function decide(row, state, comment = "", at_s2 = null) {
    if (!isNamed(row)) return say(`${row.id} is an invalid row of the manifest: fix it there`);
    if (isReadOnly()) return say("A run is in progress: wait until it ends");
    if (state === "approved" && server.isThere && placeOf(row) !== row.chosen && !await use(row)) return;
    const current = model.byName.get(row.id) ?? row;
    const { take, sha256 = null } = state === "comment" ? shownTake(current) : ratedTake(current);
    const decision = { id: row.id, take, sha256, state, comment, at_s: at_s2 };
    ledger.own.add(decision);
    ledger.rebuild();
    emit("decided");
    if (!server.isThere) {
      decision.time = (/* @__PURE__ */ new Date()).toISOString();
      return remember();
    }
    const notSaved = (error) => say(`Not saved: ${error.message}`);
    await ask("decide", decision).then(poll).catch(notSaved);
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
    emit("picked");
    if (server.isThere) return;
    remember();
    say(`${row.id}: take ${take} ${place === row.chosen ? "stays" : "is selected"}`);
  }
  async function use(row) {
    const { take, is_other: isOther, written } = shownTake(row);
    try {
      await ask("pick", [row.id, take]);
      picks.delete(row.id);
      await reload();
      say(`${row.id}: take ${take} is the row's take now`);
      if (isOther && written !== void 0 && written !== row.text) await showChange(row.id, written);
      else if (isOther) say("Give the row in the manifest the same fields, or the next run of synth makes it again");
      return true;
    } catch (error) {
      complain(
        /** @type {Error} */
        error
      );
      return takeOf(model.byName.get(row.id) ?? row).take === take;
    }
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
      const written = () => say("The manifest has the new text");
      ask("manifest", { id, text, diff }).then(written).catch(complain);
    };
    dialog2.showModal();
  }
  var retakeRows = () => model.rows.filter((row) => isNamed(row) && stateOf(row) === "retake");
  function restore() {
    ledger.stored = model.data.decisions;
    const { decisions: decisions2 = [], takes = [] } = memory.get(storeName()) ?? {};
    for (const one of decisions2) if (model.byName.has(one.id)) ledger.own.add(one);
    for (const [id, take] of takes) if (canPick(id, take)) picks.set(id, take);
    ledger.rebuild();
  }
  var remember = () => memory.set(storeName(), { decisions: [...ledger.own], takes: [...picks] });
  function clear() {
    picks.clear();
    ledger.own.clear();
    ledger.rebuild();
    remember();
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

  // src/actions.js
  function togglePlay(row) {
    if (player.has(row) && player.isPlaying) player.audio.pause();
    else player.play(row, placeOf(row));
  }
  function showPlaying(button2, row) {
    const isPlaying = player.has(row) && player.isPlaying;
    setIcon(button2, isPlaying ? "pause" : "play");
    button2.setAttribute("aria-label", `${isPlaying ? "Pause" : "Play"} ${row.id}`);
  }
  function chooseTake(row, place) {
    pick(row, place);
    player.play(row, place);
  }
  var other = null;
  function compare(row) {
    const place = placeOf(row);
    const known = other?.id === row.id && other.place !== place ? other.place : void 0;
    const first = row.takes.findIndex((take, at2) => at2 !== place && take.url);
    const next = known ?? (place === row.chosen ? first : row.chosen);
    if (next < 0) return say(`${row.id} has no other take`);
    other = { id: row.id, place };
    const at_s2 = player.has(row) ? player.audio.currentTime : 0;
    pick(row, next);
    player.playFrom(row, next, at_s2);
  }

  // src/item.js
  function makeItem(row, position, total) {
    const small = (label, name, state) => {
      const facts2 = { class: `small ${name}`, title: label, "aria-label": label, "data-state": state };
      return h("button", { ...facts2, onclick: () => toggleState(row, state) }, icon(name));
    };
    const play2 = h("button.round", { onclick: () => togglePlay(row) });
    const canvas2 = h("canvas.wave", { "aria-hidden": "true" });
    canvas2.onclick = ({ clientX }) => {
      const { left, width } = canvas2.getBoundingClientRect();
      player.seek(row, placeOf(row), (clientX - left) / width);
    };
    const [length, review2] = [h("span.length"), h("span.review")];
    const marks = [
      small("Approve", "approve", "approved"),
      small("Reject", "reject", "rejected"),
      small("Request a retake", "again", "retake")
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
    const node2 = h(
      second ? "li.row.two" : "li.row",
      facts,
      play2,
      h("div.sound", canvas2, length),
      h("div.words", [
        h("div.line", status, review2, id, voice, chips),
        h(row.text === void 0 ? "p.text.unknown" : "p.text", { dir: "auto" }, row.text ?? unknown),
        second && h(row.error ? "p.spoken.wrong" : "p.spoken", { dir: "auto" }, second)
      ]),
      h("div.side", h("div.takes", { role: "group", "aria-label": "Takes" }, takes), h("div.actions", marks))
    );
    node2.addEventListener("click", () => select(row), { capture: true });
    node2.addEventListener("pointerdown", (event) => {
      if (!/** @type {Element} */
      event.target.closest("button, canvas")) select(row, { focus: true });
    });
    function refresh3(size) {
      const [place, state, remarks] = [placeOf(row), stateOf(row), commentsOf(row).length];
      const isCurrent = selection.row === row;
      showPlaying(play2, row);
      play2.disabled = !row.takes[place].url;
      node2.classList.toggle("current", isCurrent);
      node2.setAttribute("aria-current", String(isCurrent));
      for (const one of [node2, play2, ...marks, ...takes]) one.tabIndex = isCurrent ? 0 : -1;
      for (const one of marks) {
        one.setAttribute("aria-pressed", String(state === one.dataset.state));
        one.disabled = isReadOnly() || !isNamed(row);
      }
      takes.forEach((one, at2) => one.setAttribute("aria-pressed", String(at2 === place)));
      node2.dataset.state = state;
      review2.textContent = dotted([STATE_TEXT[state], remarks && counted(remarks, "comment")]);
      review2.hidden = !review2.textContent;
      length.textContent = lengthText(row, row.takes[place]);
      draw(size);
    }
    function draw(size) {
      const [place, share] = player.has(row) ? [player.place, player.share] : [placeOf(row), 0];
      drawWaveform(canvas2, row.id, row.takes[place], share, size);
    }
    return { node: node2, canvas: canvas2, refresh: refresh3, draw };
  }
  function lengthText(row, take) {
    if (!take.url) return row.group === 0 && !take.audio_s ? "no audio" : "audio missing";
    return dotted([duration(take.audio_s ?? 0), scoreText(take)]);
  }
  function chip([kind2, text]) {
    const figure = /[-\d][\d.]*( %| s\b| dBFS| letters per second)?/.exec(text)?.[0] ?? "";
    const short = figure.replace(" letters per second", "/s").replace(/^-/, "−");
    return h("span.chip", { title: text }, h("b", kind2), h("span.figures", ` ${short}`));
  }

  // src/list.js
  var BEYOND = 240;
  var HEADING = 48;
  var NARROW = matchMedia("(max-width: 720px)");
  var node = byId("list");
  var items = [];
  var tops = new Float64Array(1);
  var places = /* @__PURE__ */ new Map();
  var made = /* @__PURE__ */ new Map();
  var waveSize;
  function update() {
    items = shownItems();
    places = /* @__PURE__ */ new Map();
    items.forEach((item, place) => item.row && places.set(item.row, place));
    for (const place of made.keys()) drop(place);
    measure();
    if (!selection.row || !places.has(selection.row)) select(items.find((item) => item.row)?.row ?? null);
    const [all, found] = [model.rows.length, places.size];
    byId("count").textContent = all === found ? counted(all, "row") : `${whole(found)} of ${counted(all, "row")}`;
    byId("empty").hidden = found > 0;
  }
  function measure() {
    const rowHeight = NARROW.matches ? 148 : 88;
    waveSize = void 0;
    tops = new Float64Array(items.length + 1);
    items.forEach((item, place) => tops[place + 1] = tops[place] + (item.row ? rowHeight : HEADING));
    node.style.height = `${tops[items.length]}px`;
    for (const place of made.keys()) move(place);
    render();
  }
  var at = (top) => tops.subarray(0, items.length).findLastIndex((one) => one <= Math.max(0, top));
  function render(most = Infinity) {
    if (!items.length) return;
    const top = -node.getBoundingClientRect().top;
    const [first, last] = [at(top - BEYOND), at(top + window.innerHeight + BEYOND)];
    const wanted2 = Array.from({ length: last - first + 1 }, (_, number) => first + number);
    const current = placeIn(selection.row);
    if (current >= 0 && current < first) wanted2.unshift(current);
    if (current > last) wanted2.push(current);
    for (const place of made.keys()) if (!wanted2.includes(place)) drop(place);
    const missing = wanted2.filter((place) => !made.has(place));
    const fresh = missing.slice(0, most);
    if (fresh.length < missing.length) requestAnimationFrame(() => render(most));
    let before;
    for (const place of wanted2) {
      if (fresh.includes(place)) {
        const item = items[place];
        const one = item.row ? makeItem(item.row, item.number, places.size) : makeHeading(item);
        made.set(place, one);
        move(place);
        if (before) before.after(one.node);
        else node.prepend(one.node);
      }
      before = made.get(place)?.node ?? before;
    }
    for (const place of fresh) refresh(place);
  }
  function makeHeading({ heading, group, members }) {
    const number = h("span.number");
    return {
      node: h("li.group", { "data-group": group }, h("h2", `${heading} `, number)),
      refresh() {
        const approved = members.filter((row) => stateOf(row) === "approved").length;
        const all = whole(members.length);
        number.textContent = approved ? `${whole(approved)} of ${all} approved` : all;
      },
      draw() {
      }
    };
  }
  function move(place) {
    const one = made.get(place);
    if (one) one.node.style.transform = `translateY(${tops[place]}px)`;
  }
  function drop(place) {
    made.get(place)?.node.remove();
    made.delete(place);
  }
  function refresh(place) {
    const one = made.get(place);
    if (one && "canvas" in one) waveSize ??= sizeOf(one.canvas);
    one?.refresh(waveSize);
  }
  var placeIn = (row) => (row && places.get(row)) ?? -1;
  function nextRow(row, by = 1) {
    for (let place = row ? placeIn(row) + by : -1; place in items; place += by) {
      const found = items[place].row;
      if (found) return found;
    }
    return null;
  }
  function step(by) {
    const row = nextRow(selection.row, by);
    if (row) select(row, { focus: true, scroll: true });
  }
  on(["select"], ({ before, focus, scroll }) => {
    render();
    refresh(placeIn(before));
    refresh(placeIn(selection.row));
    const current = made.get(placeIn(selection.row))?.node;
    if (scroll) current?.scrollIntoView({ block: "nearest" });
    if (focus) current?.focus({ preventScroll: true });
  });
  on(["view", "rows"], update);
  on(["decided", "picked", "server"], () => made.forEach((_, place) => refresh(place)));
  on(["drawn", "theme"], () => made.forEach((one) => one.draw(waveSize)));
  var loaded;
  on(["played"], () => {
    for (const id of /* @__PURE__ */ new Set([loaded, player.row?.id])) if (id) refresh(placeIn(model.byName.get(id)));
    loaded = player.row?.id;
  });

  // src/comments.js
  var drafts = /* @__PURE__ */ new Map();
  var at_s = null;
  var isOwn = (one) => (one.reviewer ?? "") === (model.data.server?.reviewer ?? "");
  function commentsNode(row) {
    const disabled = isReadOnly();
    const items2 = commentsOf(row).map((one) => {
      const play2 = () => player.playFrom(row, placeOf(row), one.at_s ?? 0);
      const remove = () => decide(row, "comment", "", one.at_s);
      const said = h("span.said", { dir: "auto" }, one.reviewer && h("b", `${one.reviewer}: `), one.comment);
      const when = button(one.at_s === null ? "all" : duration(one.at_s), null, play2);
      return h("li", when, said, isOwn(one) && button("Remove", null, remove, { disabled }));
    });
    const facts = { id: "comment", "data-key": "comment", "aria-label": "Comment", autocomplete: "off", disabled };
    const limits = { type: "text", maxlength: "10000", placeholder: "Comment on this moment" };
    const field = h("input", { ...facts, ...limits });
    field.onfocus = () => at_s = player.has(row) ? Math.round(100 * player.audio.currentTime) / 100 : null;
    field.oninput = () => drafts.set(row.id, field.value);
    field.value = drafts.get(row.id) ?? "";
    const onsubmit = (event) => {
      event.preventDefault();
      drafts.delete(row.id);
      if (field.value.trim()) decide(row, "comment", field.value.trim(), at_s);
    };
    const form = h("form", { onsubmit }, field, h("button.plain", { type: "submit", disabled }, "Add"));
    return h("section.comments", h("h3", "Comments"), h("ul", items2), form);
  }
  var writeComment = () => byId("comment")?.focus();

  // src/retake.js
  var drafts2 = /* @__PURE__ */ new Map();
  var opened = /* @__PURE__ */ new Set();
  var FIELDS = {
    voice: ["Voice", "voices"],
    instruct: ["Style"],
    lexicon: ["Lexicon", void 0, "lead=led; read=red"]
  };
  var original = ({ text = "", voice = "", instruct = "" }) => ({ text, voice, instruct, lexicon: "", takes: "1" });
  var options = (values) => values.map((value) => option(value));
  function retakeNode(row) {
    if (!server.isThere) return null;
    const draft = drafts2.get(row.id) ?? original(row);
    const bound = (name, node2) => {
      node2.value = draft[name];
      node2.dataset.key = `retake ${name}`;
      node2.oninput = () => {
        draft[name] = node2.value;
        drafts2.set(row.id, draft);
      };
      return node2;
    };
    const text = h("textarea", { rows: "3", dir: "auto", "aria-label": "Text of the retake", id: "retake-text" });
    const fields = Object.entries(FIELDS).map(([name, [label2, list2, placeholder]]) => {
      const input = h("input", { type: "text", autocomplete: "off", list: list2, placeholder });
      return h("label", h("span", label2), bound(name, input));
    });
    const voices = [...new Set(model.rows.map((one) => one.voice ?? ""))].filter(Boolean).slice(0, 100);
    const count = h("select", { "aria-label": "Number of takes" }, options(["1", "2", "3", "5"]));
    const job = server.jobs.findLast((one) => one.id === row.id);
    const isRunning = job !== void 0 && ["waiting", "running"].includes(job.state);
    const label = isRunning ? "Making takes …" : "Make takes";
    const facts = { "data-key": "retake", disabled: isReadOnly() || isRunning };
    const make = button(label, "again", () => start(row, draft), facts);
    const state = job && (job.error || `${job.state}: ${job.num_done} of ${counted(job.takes, "take")}`);
    const nodes = [h("summary", "Retake"), bound("text", text), ...fields];
    const list = h("datalist", { id: "voices" }, options(voices));
    const status = job && h(job.error ? "p.wrong" : "p.hint", { role: "status" }, state);
    const open2 = opened.has(row.id) || isRunning;
    const form = h("details.retake", { open: open2 }, nodes, list, h("div.buttons", bound("takes", count), make), status);
    form.ontoggle = () => form.open ? opened.add(row.id) : opened.delete(row.id);
    return form;
  }
  function start(row, draft) {
    const { takes, ...before } = original(row);
    const changed = Object.entries(draft).filter(([name, value]) => name in before && value !== before[name]);
    request(row, Number(draft.takes), Object.fromEntries(changed));
  }
  async function request(row, takes, edits = {}) {
    await ask("retake", { id: row.id, takes, edits }).then(poll).catch(complain);
  }
  var editText = () => {
    if (selection.row) opened.add(selection.row.id);
    const field = byId("retake-text");
    field?.closest("details")?.setAttribute("open", "");
    field?.focus();
  };

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

  // src/takes.js
  function takesNode(row) {
    if (row.takes.length < 2) return null;
    const place = placeOf(row);
    const { take } = row.takes[place];
    const choices = row.takes.map((one, at2) => {
      const facts2 = { "aria-pressed": String(at2 === place), "data-key": `take ${one.take}` };
      const onclick = () => chooseTake(row, at2);
      const current = at2 === row.chosen && h("span.now", "current");
      return h("button.choice", { ...facts2, onclick }, h("b", `Take ${one.take}`), h("span", factsOf(one)), current);
    });
    const equal = h("input", { type: "checkbox", "data-key": "levels", checked: player.isLevelled });
    equal.onchange = () => player.level(equal.checked);
    const command = () => copy(pickCommand([[row.id, take]]), "the pick command");
    const choose = server.isThere ? h("button.strong", { "data-key": "use", disabled: isReadOnly(), onclick: () => use(row) }, `Use take ${take}`) : button(`Copy the pick command for take ${take}`, "copy", command, { "data-key": "pick" });
    const facts = { "data-key": "compare", title: "Switch between two takes at the same moment" };
    const other2 = button("Compare", null, () => compare(row), facts);
    const buttons = h("div.buttons", place !== row.chosen && choose, other2, h("label.check", equal, "equally loud"));
    return h("div.choices", { role: "group", "aria-label": "Takes" }, choices, buttons);
  }
  function factsOf(take) {
    return dotted([
      take.url ? duration(take.audio_s ?? 0) : "no audio",
      take.status === "failed" ? "failed" : take.suspect && `suspect: ${take.suspect.join(", ")}`,
      take.level_dbfs !== void 0 && decibels(take.level_dbfs),
      scoreText(take),
      take.asr && errorText(take.asr),
      take.is_other && "other text or voice",
      take.seed !== void 0 && `seed ${take.seed}`
    ]);
  }

  // src/texts.js
  function textsOf(row, take) {
    const nodes = (
      /** @type {HTMLElement[]} */
      []
    );
    const words2 = (
      /** @type {Word[]} */
      []
    );
    const add = (title, content) => nodes.push(h("h3", title), h("p.full", { dir: "auto" }, content));
    if (row.text !== void 0) add("Text", timedText(row, take, words2));
    if (take.unsure) nodes.push(h("p.hint", `Word times may be wrong: ${take.unsure.join("; ")}`));
    if (row.spoken_text !== void 0) add("Read as", [row.spoken_text]);
    if (row.instruct !== void 0) add("Style", [row.instruct]);
    if (row.parts) nodes.push(parts(row, row.parts));
    if (take.asr) {
      add("Transcript", marked(take.asr));
      nodes[nodes.length - 1].classList.add("heard");
      nodes.push(h("p.hint", `${errorText(take.asr)}, ${take.asr.longest} in a row; ${take.asr.by}`));
    }
    return { nodes, words: words2 };
  }
  function timedText(row, take, words2) {
    const letters = [...row.text ?? ""];
    const times = take.words ?? [];
    const nodes = [];
    let place = 0;
    for (let at2 = 0; at2 < times.length; at2 += 4) {
      const [first, end, start3, stop] = times.slice(at2, at2 + 4);
      const onclick = () => player.playFrom(row, placeOf(row), start3 / 100);
      const node2 = h("span.word", { onclick }, letters.slice(first, end).join(""));
      nodes.push(letters.slice(place, first).join(""), node2);
      words2.push({ node: node2, start_s: start3 / 100, end_s: stop / 100 });
      place = end;
    }
    return [...nodes, letters.slice(place).join("")];
  }
  function marked({ heard, unit }) {
    const gap = unit === "words" ? " " : "";
    return heard.flatMap(([wanted2, other2]) => {
      if (other2 === void 0) return [wanted2, gap];
      return [...wanted2 ? [h("del", wanted2), gap] : [], ...other2 ? [h("ins", other2), gap] : []];
    });
  }
  function parts(row, spans) {
    const letters = [...row.text ?? ""];
    const items2 = spans.map(([first, end, start_s], number) => {
      const play2 = () => player.seek(row, placeOf(row), start_s / (takeOf(row).audio_s || 1));
      const start3 = button(duration(start_s), null, play2, { "data-key": `part ${number}` });
      return h("li", start3, h("span", { dir: "auto" }, letters.slice(first, end).join("")));
    });
    return h("details.parts", h("summary", counted(items2.length, "part")), h("ol", items2));
  }

  // src/detail.js
  var [pane, head, body] = ["detail", "detail-head", "detail-body"].map((id) => byId(id));
  var canvas = (
    /** @type {HTMLCanvasElement} */
    byId("wave")
  );
  var [play, sheet] = ["play", "sheet"].map((id) => (
    /** @type {HTMLButtonElement} */
    byId(id)
  ));
  var range = (
    /** @type {HTMLInputElement} */
    byId("position")
  );
  var rate = (
    /** @type {HTMLSelectElement} */
    byId("rate")
  );
  var words = [];
  play.onclick = () => selection.row && togglePlay(selection.row);
  range.oninput = () => selection.row && player.seek(selection.row, placeOf(selection.row), Number(range.value) / 1e3);
  rate.onchange = () => player.audio.defaultPlaybackRate = player.audio.playbackRate = Number(rate.value);
  sheet.onclick = () => {
    sheet.setAttribute("aria-expanded", String(pane.classList.toggle("open")));
    refresh2();
  };
  function show() {
    const { row } = selection;
    head.hidden = !row;
    if (!row) return body.replaceChildren();
    byId("detail-id").textContent = row.id;
    byId("detail-status").textContent = STATUS_TEXT[row.group];
    byId("detail-status").dataset.group = String(row.group);
    const active = body.contains(document.activeElement) ? document.activeElement : null;
    const key = active?.getAttribute("data-key");
    const top = pane.scrollTop;
    const take = shownTake(row);
    const texts = textsOf(row, take);
    words = texts.words;
    const reasons = row.reasons.map(([kind2, text]) => {
      const shown = ` ${text.replaceAll(/-(?=\d)/g, "−")}`;
      return h("li", { title: model.data.kinds[kind2] }, h("b", kind2), shown);
    });
    const nodes = [
      decisions(row),
      takesNode(row),
      take.is_older && h("p.hint", "The row failed; this is its audio from an earlier run."),
      take.is_other && take.said !== void 0 && h("p.hint", `Text of this take: ${take.said}`),
      row.error !== void 0 && h("p.wrong", row.error),
      reasons.length > 0 && h("ul.reasons", reasons),
      ...texts.nodes,
      isNamed(row) && commentsNode(row),
      isNamed(row) && retakeNode(row),
      copies(row, take),
      figures(row, take)
    ];
    body.replaceChildren(...nodes.filter((node2) => node2 instanceof Node));
    const same = [...body.querySelectorAll("[data-key]")].find((node2) => node2.getAttribute("data-key") === key);
    if (same instanceof HTMLElement) same.focus({ preventScroll: true });
    if (isTyped(active) && isTyped(same)) same.setSelectionRange(active.selectionStart, active.selectionEnd);
    pane.scrollTop = top;
    refresh2();
  }
  var isTyped = (node2) => node2 instanceof HTMLTextAreaElement || node2 instanceof HTMLInputElement && node2.type === "text";
  function decisions(row) {
    const [state, disabled] = [stateOf(row), isReadOnly() || !isNamed(row)];
    const one = (wanted2, label, name) => {
      const facts = { class: `plain ${wanted2}`, "data-key": wanted2, "aria-pressed": String(state === wanted2), disabled };
      return button(label, name, () => toggleState(row, wanted2), facts);
    };
    return h("div.buttons.decide", { role: "group", "aria-label": "Decision" }, [
      one("approved", "Approve", "approve"),
      one("rejected", "Reject", "reject"),
      one("retake", "Request retake", "again"),
      state === "changed" && h("span.review", STATE_TEXT.changed)
    ]);
  }
  function copies(row, take) {
    const [id, seed] = [() => copy(row.id, "the id"), () => copy(String(take.seed), "the seed")];
    const again = () => copy(againCommands([row]).join("\n"), "the command for more takes");
    const label = `Copy the command for ${MORE_TAKES} more takes`;
    return h("div.buttons", [
      button("Copy id", "copy", id, { "data-key": "id" }),
      take.seed !== void 0 && button("Copy seed", "copy", seed, { "data-key": "seed" }),
      isNamed(row) && button(label, "copy", again, { "data-key": "again" })
    ]);
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
    const nodes = Object.entries(facts).flatMap(([name, value]) => value ? [h("dt", name), h("dd", value)] : []);
    return h("dl.facts", nodes);
  }
  function refresh2() {
    const { row } = selection;
    if (!row) return;
    const isLoaded = player.has(row);
    const take = row.takes[isLoaded ? player.place : placeOf(row)];
    const share = isLoaded ? player.share : 0;
    const seconds = take.audio_s ?? 0;
    const played_s = share * seconds;
    showPlaying(play, row);
    play.disabled = range.disabled = !take.url;
    setIcon(sheet, pane.classList.contains("open") ? "less" : "more");
    range.value = String(Math.round(1e3 * share));
    range.setAttribute("aria-valuetext", `${played_s.toFixed(1)} of ${seconds.toFixed(1)} seconds`);
    byId("time").textContent = take.url ? `${played_s.toFixed(1)} / ${duration(seconds)}` : lengthText(row, take);
    drawWaveform(canvas, row.id, take, share);
    for (const { node: node2, start_s, end_s } of words) {
      node2.classList.toggle("now", isLoaded && start_s <= played_s && played_s < end_s);
    }
  }
  on(["select"], ({ before }) => before !== selection.row && show());
  on(["rows", "decided", "picked", "server"], show);
  on(["played", "drawn", "theme"], refresh2);

  // src/filters.js
  var NAMES = ["kind", "sort", "review"];
  var [kind, sort, review] = NAMES.map((name) => (
    /** @type {HTMLSelectElement} */
    byId(name)
  ));
  var search = (
    /** @type {HTMLInputElement} */
    byId("search")
  );
  var direction = byId("direction");
  function options2(all, counts) {
    const nodes = counts.map(([value, number]) => option(value, `${value} (${whole(number)})`));
    return [option("", all), ...nodes];
  }
  function fill() {
    const { rows } = model;
    const statuses = Object.entries(STATUSES).map(([name, label]) => {
      const number = name === "all" ? rows.length : rows.filter((row) => row.group === GROUP_OF[name]).length;
      const onclick = () => setView({ status: name });
      return h("button", { "data-status": name, onclick }, `${label} `, h("span.number", whole(number)));
    });
    byId("statuses").replaceChildren(...statuses);
    const kinds = Object.keys(model.data.kinds).map((name) => [name, rows.filter((row) => hasKind(row, name)).length]);
    const found = kinds.filter(([, number]) => number);
    kind.replaceChildren(...options2("any", found));
    const hidden = [rows.some((row) => takeOf(row).asr) || "words", rows.some((row) => takeOf(row).mos) || "mos"];
    hidden.push(rows.some((row) => row.order !== row.index || row.chapter) || "order");
    const sorts = Object.entries(SORTS).filter(([name]) => !hidden.includes(name));
    sort.replaceChildren(...sorts.map(([name, { label }]) => option(name, label)));
    const fields = [...facets()].map(([name, counts]) => {
      const sorted = [...counts].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
      const field = h("select", { "data-facet": name }, options2("all", sorted));
      field.onchange = () => setView({ facets: { ...view.facets, [name]: field.value } });
      return h("label", h("span", name), " ", field);
    });
    byId("facets").replaceChildren(...fields);
  }
  function setView(changes = {}) {
    Object.assign(view, changes);
    for (const one of byId("statuses").querySelectorAll("button")) {
      one.setAttribute("aria-pressed", String(one.dataset.status === view.status));
    }
    for (const field of [kind, sort, review]) field.value = view[
      /** @type {"kind"} */
      field.id
    ];
    for (const field of byId("facets").querySelectorAll("select")) {
      field.value = view.facets[field.dataset.facet ?? ""] ?? "";
    }
    if (search.value !== view.search) search.value = view.search;
    setIcon(direction, view.isTurned ? "up" : "down");
    direction.setAttribute("aria-pressed", String(view.isTurned));
    emit("view");
    const [bar, list] = [byId("bar"), byId("list")].map((node2) => node2.getBoundingClientRect());
    if (bar.top < 1) window.scrollBy(0, list.top - bar.height - 8);
    render();
  }
  var clearFilters = () => setView({ search: "", status: "all", kind: "", review: "", facets: {} });
  function showRow(row) {
    if (placeIn(row) < 0) clearFilters();
    select(row, { focus: true, scroll: true });
  }
  search.oninput = () => setView({ search: search.value });
  kind.onchange = () => setView({ kind: kind.value });
  review.onchange = () => setView({ review: review.value });
  sort.onchange = () => setView({ sort: sort.value, isTurned: false });
  direction.onclick = () => setView({ isTurned: !view.isTurned });
  byId("clear").onclick = clearFilters;
  on(["rows"], () => {
    fill();
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
      const hint = "Whoever has the folder adds them with `tts-cli review DIR --import FILE`.";
      nodes.push(h("h3", "Send your decisions"), button("Save the decisions as a file", "copy", saveFile));
      nodes.push(h("p.hint", hint));
    }
    if (picks.size && !server.isThere) nodes.push(...block("Choose these takes", [pickCommand([...picks])]));
    const title = `Synthesize ${MORE_TAKES} more takes of each of these rows`;
    if (again.length) nodes.push(...block(title, againCommands(again)));
    const make = () => {
      dialog.close();
      for (const row of again) request(row, MORE_TAKES);
    };
    if (again.length && server.isThere) nodes.push(button("Make them now", "again", make));
    byId("commands-body").replaceChildren(...nodes);
    byId("commands-clear").hidden = server.isThere;
    dialog.showModal();
  }
  function block(title, commands) {
    const nodes = commands.map((command) => {
      const copyIt = button("Copy", "copy", () => copy(command, "the command"));
      return h("div.command", h("code", { tabindex: "0" }, command), copyIt);
    });
    const hint = `Replace ${MANIFEST} with the path of your manifest; the folder does not record it.`;
    const isUnknown = commands.some((command) => command.includes(` ${MANIFEST} `));
    return [h("h3", title), ...nodes, ...isUnknown ? [h("p.hint", hint)] : []];
  }
  byId("basket-open").onclick = open;
  byId("commands-clear").onclick = clear;
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
    [["j"], "j", "next row", () => step(1)],
    [["k"], "k", "previous row", () => step(-1)],
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
    if (player.has(row)) player.audio.currentTime += key === "ArrowLeft" ? -SEEK_S : SEEK_S;
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
  var names = KEYS.flatMap(([, name, meaning]) => [h("dt", h("kbd", name)), h("dd", meaning)]);
  byId("keys").replaceChildren(...names);
  byId("help-open").onclick = () => help.showModal();
  document.addEventListener("keydown", onKey);

  // src/charts.js
  var STAGES = { decode: "decoding", other: "waiting and retries", write: "writing" };
  var percent = (share) => share > 0 && share < 0.01 ? "< 1 %" : `${Math.round(100 * share)} %`;
  function box(kind2, from, to, title) {
    const node2 = h("span", { class: kind2, title });
    node2.style.left = `${100 * from}%`;
    node2.style.width = `${100 * (to - from)}%`;
    return node2;
  }
  var line = (name, boxes, end) => h("div.bars", h("span", { title: name }, name), h("span.track", boxes), h("span.end", end));
  function tableOf(label, heads, lines) {
    const head2 = heads.map((text) => h("th", { scope: "col" }, text));
    const body2 = lines.map(([name, ...cells]) => {
      const nodes = cells.map((text) => h("td", text));
      return h("tr", h("th", { scope: "row" }, name), nodes);
    });
    const table = h("table", h("thead", h("tr", head2)), h("tbody", body2));
    return h("div.scroll", { tabindex: "0", role: "region", "aria-label": label }, table);
  }
  function card(title, answer, lines, note, table) {
    const chart = h("div", { "aria-hidden": "true" }, lines);
    const figures2 = h("details.figures", h("summary", "Figures"), table);
    return h("section.card", h("h2", title), h("p.answer", answer), chart, note, figures2);
  }
  function timeCard({ stages, time }) {
    const names2 = stages.map((stage) => STAGES[stage] ?? stage);
    const totals = time.map((run) => run.seconds.reduce((sum, value) => sum + value, 0) || 1);
    const shares = time[0].seconds.map((value) => value / totals[0]);
    const most = shares.indexOf(Math.max(...shares));
    const lines = time.map((run, at2) => {
      let end = 0;
      const boxes = run.seconds.map((seconds, stage) => {
        const start3 = end;
        end += seconds / totals[at2];
        return box(`stage s${stage}`, start3, end, `${names2[stage]}: ${duration(seconds)}, ${percent(end - start3)}`);
      });
      return line(run.name, boxes, duration(totals[at2]));
    });
    const texts = names2.map((name, at2) => `${name} ${percent(shares[at2])}`);
    const parts2 = texts.map((text, at2) => shares[at2] > 0 && h("li", { class: `s${at2}` }, text));
    const answer = `${percent(shares[most])} of the time of ${time[0].name} was spent in ${names2[most]}.`;
    const cells = time.map((run) => [run.name, ...run.seconds.map((value) => value.toFixed(1))]);
    const table = tableOf("Seconds per stage", ["", ...names2.map((name) => `${name}, s`)], cells);
    return card("Time per stage", answer, lines, h("ul.legend", parts2), table);
  }
  function voiceCard(title, unit, { voices, left_out: leftOut }, kinds) {
    const all = voices.flatMap(({ marks, outliers }) => [...marks, ...outliers.map(([value]) => value)]);
    const [low, high] = [Math.min(...all), Math.max(...all)];
    const share = (value) => (value - low) / (high - low || 1);
    const sorted = [...voices].sort((a, b) => a.marks[2] - b.marks[2]);
    const [least, most] = [sorted[0], sorted[sorted.length - 1]];
    const answer = voices.length === 1 ? `${least.voice}: usually ${signed(least.marks[2])} ${unit}.` : `From ${signed(least.marks[2])} (${least.voice}) to ${signed(most.marks[2])} ${unit} (${most.voice}).`;
    const lines = voices.map(({ voice, rows, marks, outliers }) => {
      const [p5, p25, p50, p75, p95] = marks.map(share);
      const dots = outliers.map(([value, place]) => {
        const row = model.rows[place];
        const isOdd = row.reasons.some(([kind2]) => kinds.includes(kind2));
        const dot = box(isOdd ? "dot odd" : "dot", share(value), share(value), `${row.id}: ${signed(value)} ${unit}`);
        dot.onclick = () => showRow(row);
        return dot;
      });
      return line(voice, [box("whisker", p5, p95), box("box", p25, p75), box("median", p50, p50), ...dots], whole(rows));
    });
    const more = leftOut ? `. ${counted(leftOut, "more voice")} not shown` : "";
    const note = `${signed(low)} to ${signed(high)} ${unit}. Line: 90 % of the rows; box: half of them; mark: median; dots: other rows, filled if suspect; number of rows at the right${more}.`;
    const cells = voices.map(({ voice, rows, marks }) => [voice, whole(rows), ...marks.map(signed)]);
    const table = tableOf(title, ["Voice", "Rows", "5 %", "25 %", "Median", "75 %", "95 %"], cells);
    return card(title, answer, lines, h("p.hint", note), table);
  }
  function showCharts() {
    const { time, rate: rate2, level, mos } = model.data.charts;
    const cards = [
      time.length && timeCard(model.data.charts),
      rate2.voices.length && voiceCard("Speed of each voice", "letters per second", rate2, ["fast", "slow"]),
      level.voices.length && voiceCard("Loudness of each voice", "dBFS", level, ["loud", "quiet"]),
      mos.voices.length && voiceCard("Predicted quality of each voice", "of 5", mos, ["quality"])
    ].filter((one) => one instanceof HTMLElement);
    byId("cards").replaceChildren(...cards);
    byId("charts").hidden = !cards.length;
  }

  // src/head.js
  function showNames() {
    const { folder, made: made2, runs, server: server2, totals } = model.data;
    const models = [...new Set(runs.map((run) => run.model).filter(Boolean))];
    const time = !server2 && `made on ${made2.slice(0, 16).replace("T", " ")} UTC`;
    byId("title").textContent = folder.name || folder.path;
    byId("subtitle").textContent = dotted([models.join(", "), totals.runs && counted(totals.runs, "run"), time]);
  }
  function showTotals() {
    const { totals } = model.data;
    const approved = model.rows.filter((row) => stateOf(row) === "approved").length;
    const tile = (name, value, group = false) => h("div.tile", { "data-group": group }, h("dt", name), h("dd", value));
    const nodes = [
      tile("Rows", whole(totals.rows)),
      tile("Synthesized", whole(totals.ok)),
      tile("Failed", whole(totals.failed), totals.failed > 0 && GROUP_OF.failed),
      tile("Suspect", whole(totals.suspect), totals.suspect > 0 && GROUP_OF.suspect),
      (approved > 0 || server.isThere) && tile("Approved", `${whole(approved)} of ${whole(totals.rows)}`),
      tile("Audio", duration(totals.audio_s)),
      totals.xrt && tile("Real time", `${totals.xrt.toFixed(1)}×`),
      tile("Voices", whole(totals.voices))
    ];
    byId("totals").replaceChildren(...nodes.filter((node2) => node2 instanceof Node));
  }
  function showNotice() {
    const { missing, garbage } = model.data.totals;
    const again = "the next run of synth makes it again";
    const notices = [
      server.busy && `A run is in progress (${server.busy}): the page is read-only until it ends.`,
      missing && `The audio of ${counted(missing, "row")} is no longer in the folder; ${again}.`,
      garbage && `${counted(garbage, "line")} of timings.jsonl could not be read.`
    ];
    byId("notice").textContent = notices.filter(Boolean).join(" ");
    byId("notice").hidden = !byId("notice").textContent;
  }
  var STATES = ["approved", "rejected", "retake", "open"];
  function showProgress() {
    const details = (
      /** @type {HTMLDetailsElement} */
      byId("progress")
    );
    const names2 = ["Character", "Chapter"].filter((name) => facets().has(name));
    details.hidden = !names2.length;
    if (details.open && names2.length) byId("progress-tables").replaceChildren(...names2.map(progressOf));
  }
  function progressOf(name) {
    const lines = /* @__PURE__ */ new Map();
    for (const row of model.rows) {
      const [value, state] = [row.facets[name] ?? "none", stateOf(row)];
      const counts = lines.get(value) ?? STATES.map(() => 0);
      counts[STATES.indexOf(state === "changed" ? "open" : state)] += 1;
      lines.set(value, counts);
    }
    const cells = [...lines].map(([value, counts]) => {
      const all = counts.reduce((sum, one) => sum + one);
      return [value, `${whole(counts[0])} of ${whole(all)}`, ...counts.slice(1).map(whole)];
    });
    const heads = [name, "approved", "rejected", "retake", "undecided"];
    return h("section.card", tableOf(`Approved rows by ${name}`, heads, cells));
  }
  var prefersDark = matchMedia("(prefers-color-scheme: dark)");
  function showTheme() {
    const theme = memory.get("tts-cli-theme") ?? (prefersDark.matches ? "dark" : "light");
    const other2 = theme === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    byId("theme").replaceChildren(icon(other2), other2 === "dark" ? "Dark" : "Light");
    byId("theme").onclick = () => {
      memory.set("tts-cli-theme", other2);
      showTheme();
    };
    emit("theme");
  }
  prefersDark.addEventListener("change", showTheme);
  byId("progress").addEventListener("toggle", showProgress);
  on(["rows"], showNames);
  on(["rows", "server"], showNotice);
  on(["rows", "decided", "picked"], showTotals);
  on(["rows", "decided", "picked"], showProgress);

  // src/main.js
  var goesOn = (
    /** @type {HTMLInputElement} */
    byId("goes-on")
  );
  var ready = () => document.documentElement.dataset.ready = "yes";
  var frame = 0;
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
  async function start2() {
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
  start2().catch(complain).finally(ready);
})();
