// All there is to know of the current row: beside the list, in narrow windows a sheet below it.

const RATES = [0.75, 1, 1.25, 1.5, 2];

const detail = {
  node: byId("detail"),
  row: null,
  said: [], // words of its text with their times
  now: undefined, // the one that is being said
  isOpen: false, // the sheet

  show() {
    const row = list.current;
    this.row = row;
    if (!row) {
      this.node.replaceChildren();
      return;
    }
    const key = this.node.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    this.node.replaceChildren(this.head(row), h("div", { class: "body" }, ...this.body(row)));
    if (key) this.node.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
    this.refresh();
  },

  head(row) {
    this.play = h("button", { type: "button", class: "round big", "data-key": "play", onclick: () => togglePlay(row) });
    this.canvas = h("canvas", { class: "wave", "aria-hidden": "true" });
    this.range = h("input", { type: "range", class: "seek", min: "0", max: "1000", step: "1", value: "0", "aria-label": "Position", "data-key": "seek",
      oninput: () => player.seek(row, basket.placeOf(row), Math.min(0.999, this.range.value / 1000)) });
    this.time = h("span", { class: "time" });
    this.sheet = h("button", { type: "button", class: "plain icon sheet", "data-key": "sheet", "aria-label": "Details", "aria-expanded": String(this.isOpen),
      onclick: () => this.setOpen(!this.isOpen) });
    const rate = h("select", { class: "rate", "aria-label": "Speed", "data-key": "rate", onchange: () => { player.audio.defaultPlaybackRate = player.audio.playbackRate = Number(rate.value); } },
      ...RATES.map((value) => h("option", { value, text: `${value}\u00d7`, selected: value === player.audio.playbackRate })));
    const goesOn = h("label", { class: "goes-on" },
      h("input", { type: "checkbox", "data-key": "goes-on", checked: player.goesOn, onchange: (event) => { player.goesOn = event.target.checked; } }), "play on");
    return h("div", { class: "head" },
      h("div", { class: "title" }, h("h2", {}, h("bdi", { text: row.id })), h("span", { class: "status", "data-group": row.group, text: STATUS_TEXT[row.group] }), this.sheet),
      h("div", { class: "player" }, this.play, h("div", { class: "scrub" }, this.canvas, this.range)),
      h("div", { class: "under" }, this.time, goesOn, rate));
  },

  body(row) {
    const place = basket.placeOf(row);
    return [
      this.takes(row, place),
      row.takes[place].is_older ? h("p", { class: "hint", text: "The row failed; this is its audio from an earlier run." }) : null,
      row.takes[place].is_other && row.takes[place].said !== undefined ? h("p", { class: "hint", text: `Text of this take: ${row.takes[place].said}` }) : null,
      row.error ? h("p", { class: "wrong", text: row.error }) : null,
      row.reasons.length ? h("ul", { class: "reasons" }, ...row.reasons.map(([kind, text]) => h("li", { title: data.kinds[kind] }, h("b", { text: kind }), ` ${text.replaceAll(/-(?=\d)/g, "\u2212")}`))) : null,
      ...this.texts(row, row.takes[place]),
      ...this.heard(row.takes[place].asr),
      this.actions(row),
      this.figures(row, row.takes[place]),
    ].filter(Boolean);
  },

  takes(row, place) {
    if (row.takes.length < 2) return null;
    const choices = row.takes.map((take, at) => {
      const facts = [take.url ? duration(take.audio_s ?? 0) : "no audio", take.level_dbfs === undefined ? null : decibels(take.level_dbfs), take.mos === undefined ? null : `${take.mos[0].toFixed(1)} of 5`, take.seed === undefined ? null : `seed ${take.seed}`, take.status === "failed" ? "failed" : null, take.is_other ? "other text or voice" : null];
      return h("button", { type: "button", class: "choice", "aria-pressed": String(at === place), "data-key": `take ${take.take}`, onclick: () => chooseTake(row, at) },
        h("b", { text: `Take ${take.take}` }), h("span", { text: facts.filter(Boolean).join(" \u00b7 ") }), at === row.chosen ? h("span", { class: "now", text: "chosen" }) : null);
    });
    const command = place === row.chosen ? null : h("button", { type: "button", class: "plain", "data-key": "pick", onclick: () => copy(pickCommand([[row, row.takes[place].take]]), "the pick command") }, icon("copy"), `Copy the pick command for take ${row.takes[place].take}`);
    return h("div", { class: "choices", role: "group", "aria-label": "Takes" }, ...choices, command);
  },

  texts(row, take) {
    const nodes = [];
    this.said = [];
    if (row.text !== undefined) nodes.push(h("h3", { text: "Text" }), h("p", { class: "full", dir: "auto" }, ...this.words(row, take)));
    if (take.unsure) nodes.push(h("p", { class: "hint", text: `Word times may be wrong: ${take.unsure.join("; ")}` }));
    if (row.spoken_text !== undefined) nodes.push(h("h3", { text: "Read as" }), h("p", { class: "full", dir: "auto", text: row.spoken_text }));
    if (row.instruct !== undefined) nodes.push(h("h3", { text: "Style" }), h("p", { class: "full", dir: "auto", text: row.instruct }));
    if (row.parts) nodes.push(this.parts(row));
    return nodes;
  },

  // The text; its words, where it is known when they are said, play from there.
  words(row, take) {
    const letters = [...row.text]; // places count characters, not halves of surrogate pairs
    const nodes = [];
    let place = 0;
    for (let at = 0; at < (take.words ?? []).length; at += 4) {
      const [first, behind, start, end] = take.words.slice(at, at + 4);
      const play = () => player.seek(row, basket.placeOf(row), Math.min(0.999, start / 100 / (take.audio_s || 1)));
      const node = h("span", { class: "word", text: letters.slice(first, behind).join(""), onclick: play });
      nodes.push(letters.slice(place, first).join(""), node);
      this.said.push({ node, start_s: start / 100, end_s: end / 100 });
      place = behind;
    }
    return [...nodes, letters.slice(place).join("")];
  },

  // What a recogniser heard of a take: words of the text that it did not hear struck out, others marked.
  heard(asr) {
    if (!asr) return [];
    const gap = asr.unit === "words" ? " " : "";
    const pieces = asr.heard.flatMap(([wanted, other]) => {
      if (other === undefined) return [wanted, gap];
      return [wanted ? h("del", { text: wanted }) : null, wanted && other ? gap : null, other ? h("ins", { text: other }) : null, gap];
    });
    const figures = `${(100 * asr.error).toFixed(0)} % of ${asr.unit} wrong, ${asr.longest} in a row; ${asr.by}`;
    return [h("h3", { text: "Transcript" }), h("p", { class: "full heard", dir: "auto" }, ...pieces), h("p", { class: "hint", text: figures })];
  },

  // Parts of a long row; each plays from its start.
  parts(row) {
    const letters = [...(row.text ?? "")]; // places count characters, not halves of surrogate pairs
    const seconds = audioSeconds(row) || 1;
    const items = row.parts.map(([first, behind, start_s], number) => h("li", {},
      h("button", { type: "button", class: "plain", "data-key": `part ${number}`, onclick: () => player.seek(row, basket.placeOf(row), Math.min(0.999, start_s / seconds)) }, duration(start_s)),
      h("span", { dir: "auto", text: letters.slice(first, behind).join("") })));
    return h("details", { class: "parts" }, h("summary", { text: counted(items.length, "part") }), h("ol", {}, ...items));
  },

  actions(row) {
    const button = (key, label, name, run, extra = {}) => h("button", { type: "button", class: "plain", "data-key": key, onclick: run, ...extra }, icon(name), label);
    const isAgain = basket.again.has(row.id);
    return h("div", { class: "buttons" },
      button("id", "Copy id", "copy", () => copy(row.id, "the id")),
      button("seed", "Copy seed", "copy", () => copySeed(row)),
      isNamed(row) ? button("again", `Copy the command for ${MORE_TAKES} more takes`, "copy", () => copyAgain(row)) : null,
      isNamed(row) ? button("collect", isAgain ? "Marked for more takes" : "Mark for more takes", "again", () => basket.toggleAgain(row), { "aria-pressed": String(isAgain) }) : null);
  },

  figures(row, take) {
    const run = data.runs[row.run];
    const [mos, signal, background, p808] = (take.mos ?? []).map((score) => score.toFixed(1));
    const [start, inside, end] = row.silences_s ?? [];
    const facts = {
      Voice: row.voice ?? "none",
      Duration: take.url ? duration(take.audio_s ?? 0) : null,
      Rate: row.rate === undefined ? null : `${row.rate.toFixed(1)} letters per second`,
      Level: take.level_dbfs === undefined ? null : decibels(take.level_dbfs),
      Opinion: take.mos === undefined ? null : `${mos} of 5; speech ${signal}, background ${background}; P.808 ${p808}`,
      Peak: row.peak_dbfs === undefined ? null : decibels(row.peak_dbfs),
      Clipped: row.clipped_share === undefined ? null : `${(100 * row.clipped_share).toFixed(2)} % of samples`,
      Silence: row.silences_s === undefined ? null : `${start} s at the start, ${inside} s inside, ${end} s at the end`,
      Seed: take.seed === undefined ? null : String(take.seed),
      Attempts: row.attempts === undefined ? null : String(row.attempts),
      Ended: row.finish_reason ?? null,
      Language: row.language ?? null,
      Model: run?.model ?? null,
      Run: run?.started ? run.started.slice(0, 16).replace("T", " ") + " UTC" : null,
    };
    const known = Object.entries(facts).filter(([, value]) => value !== null);
    return h("dl", { class: "facts" }, ...known.flatMap(([name, value]) => [h("dt", { text: name }), h("dd", { text: value })]));
  },

  setOpen(isOpen) {
    this.isOpen = isOpen;
    this.node.classList.toggle("open", isOpen);
    setIcon(this.sheet, isOpen ? "less" : "more");
    this.sheet.setAttribute("aria-expanded", String(isOpen));
  },

  // What moves while audio plays.
  refresh() {
    const row = this.row;
    if (!row) return;
    const isLoaded = player.row === row;
    const take = row.takes[isLoaded ? player.place : basket.placeOf(row)];
    const isPlaying = isLoaded && player.isPlaying;
    const share = isLoaded ? player.share : 0;
    const seconds = take.audio_s ?? 0;
    setIcon(this.play, isPlaying ? "pause" : "play");
    setIcon(this.sheet, this.isOpen ? "less" : "more");
    this.play.setAttribute("aria-label", `${isPlaying ? "Pause" : "Play"} ${row.id}`);
    this.play.disabled = this.range.disabled = !take.url;
    this.range.value = Math.round(1000 * share);
    this.range.setAttribute("aria-valuetext", `${(share * seconds).toFixed(1)} of ${seconds.toFixed(1)} seconds`);
    this.time.textContent = take.url ? `${(share * seconds).toFixed(1)} / ${duration(seconds)}` : lengthText(row, take);
    drawWaveform(this.canvas, take, share);
    const now_s = share * seconds;
    const node = isLoaded ? this.said.find(({ start_s, end_s }) => start_s <= now_s && now_s < end_s)?.node : undefined;
    if (node === this.now) return;
    this.now?.classList.remove("now");
    node?.classList.add("now");
    this.now = node;
  },
};
