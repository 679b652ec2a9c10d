// The keyboard: what hands need while ears listen.

const KEYS = [
  ["Space", "play or pause the current row"],
  ["j", "next row"],
  ["k", "previous row"],
  ["1 \u2013 9", "choose that take, and play it"],
  ["r", "mark the row for more takes, or remove the mark"],
  ["c", "copy the command for more takes of the row"],
  ["\u2190 \u2192", "skip two seconds back or forward, while a row is loaded"],
  ["/", "search"],
  ["Esc", "leave the search"],
  ["?", "this list"],
];
const SEEK_S = 2;

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const { target, key } = event;
  if (target.matches("input[type=search]")) {
    if (key === "Escape") target.blur();
    if (key === "Enter") list.setCurrent(list.current, { focus: true, scroll: true });
    return;
  }
  if (target.matches("select, textarea")) return;
  // A button in focus is pressed by the space bar, as everywhere.
  if (key === " " && target.closest("button, summary, a, input[type=checkbox]")) return;
  if (key.startsWith("Arrow") && target.closest("input, [tabindex='0'].scroll, code")) return;
  if (pressed(key)) event.preventDefault();
}

// Do what a key stands for; whether it stands for anything.
function pressed(key) {
  const row = list.current;
  if (key === "?") {
    byId("help").showModal();
  } else if (key === "/") {
    byId("search").focus();
    byId("search").select();
  } else if (!row) {
    return false;
  } else if (key === " ") {
    togglePlay(row);
  } else if (key === "j" || key === "k") {
    list.step(key === "j" ? 1 : -1);
  } else if (key === "r") {
    basket.toggleAgain(row);
  } else if (key === "c") {
    if (isNamed(row)) copyAgain(row);
  } else if (/^[1-9]$/.test(key)) {
    const place = row.takes.findIndex((take) => take.take === Number(key));
    if (place < 0) say(`${row.id} has no take ${key}`);
    else chooseTake(row, place);
  } else if ((key === "ArrowLeft" || key === "ArrowRight") && player.row === row) {
    player.audio.currentTime = Math.max(0, player.audio.currentTime + (key === "ArrowLeft" ? -SEEK_S : SEEK_S));
  } else {
    return false;
  }
  return true;
}

function showKeys() {
  byId("keys").replaceChildren(...KEYS.flatMap(([key, meaning]) => [h("dt", {}, h("kbd", { text: key })), h("dd", { text: meaning })]));
}
