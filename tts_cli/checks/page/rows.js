// The rows, and which of them are shown in which order.

const data = JSON.parse(byId("data").textContent);
const rows = data.rows;
rows.forEach((row, index) => {
  row.index = index;
  row.reasons ??= [];
  row.severity ??= 0;
  row.chosen ??= 0;
  row.place ??= 0;
  row.group = row.status === "failed" ? 0 : row.reasons.length ? 1 : 2;
});

const takeOf = (row) => row.takes[row.chosen];
const audioSeconds = (row) => takeOf(row).audio_s ?? 0;

const GROUPS = ["Failed", "Suspect", "OK"];
const STATUSES = { all: "All", failed: "Failed", suspect: "Suspect", fine: "OK" };
const GROUP_OF = { failed: 0, suspect: 1, fine: 2 };

// Name -> what it is called, its value, and whether the largest comes first. Rows without a value are last.
const SORTS = {
  check: { label: "Needs review" },
  id: { label: "Id", value: (row) => row.index },
  spoken: { label: "Synthesized", value: (row) => row.place },
  suspicion: { label: "Suspicion", value: (row) => row.severity, falls: true },
  words: { label: "Word errors", value: (row) => takeOf(row).asr?.error, falls: true },
  mos: { label: "Predicted opinion score", value: (row) => takeOf(row).mos?.[0] },
  duration: { label: "Duration", value: audioSeconds, falls: true },
  rate: { label: "Rate, letters per second", value: (row) => row.rate, falls: true },
  level: { label: "Level", value: (row) => row.level_dbfs, falls: true },
};

const view = { search: "", status: "all", voice: "", kind: "", sort: "check", isTurned: false };

const haystacks = new Array(rows.length);
function haystack(row) {
  const texts = [row.id, row.text, row.spoken_text, row.voice];
  return (haystacks[row.index] ??= texts.filter(Boolean).join("\n").toLowerCase());
}

function matches(row, words) {
  if (view.status !== "all" && row.group !== GROUP_OF[view.status]) return false;
  if (view.voice && (row.voice ?? "") !== view.voice) return false;
  if (view.kind && !row.reasons.some((reason) => reason[0] === view.kind)) return false;
  return words.every((word) => haystack(row).includes(word));
}

// Rows as they are shown, with headings between groups: {row} or {heading, count}.
function shownItems() {
  const words = view.search.toLowerCase().split(/\s+/).filter(Boolean);
  const found = rows.filter((row) => matches(row, words));
  const { value, falls } = SORTS[view.sort];
  const sign = view.isTurned ? -1 : 1;
  if (!value) {
    found.sort((a, b) => a.group - b.group || sign * (b.severity - a.severity || a.index - b.index));
    return withHeadings(found);
  }
  const factor = falls ? -sign : sign;
  const isMissing = (row) => value(row) === undefined;
  found.sort((a, b) => isMissing(a) - isMissing(b) || factor * (value(a) - value(b)) || a.index - b.index);
  return found.map((row) => ({ row }));
}

function withHeadings(sorted) {
  const items = [];
  for (let group = 0; group < GROUPS.length; group++) {
    const members = sorted.filter((row) => row.group === group);
    if (members.length) items.push({ heading: GROUPS[group], group, count: members.length });
    for (const row of members) items.push({ row });
  }
  return items;
}
