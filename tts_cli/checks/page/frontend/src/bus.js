// Messages between parts that do not know each other.

/** @typedef {"view" | "rows" | "select" | "decided" | "picked" | "played" | "drawn" | "theme" | "server"} Topic */
/** @type {Map<Topic, ((detail?: any) => void)[]>} */
const listeners = new Map();

/** @param {Topic[]} topics @param {(detail?: any) => void} run */
export function on(topics, run) {
  for (const topic of topics) listeners.set(topic, [...(listeners.get(topic) ?? []), run]);
}

/** @param {Topic} topic @param {any} [detail] */
export function emit(topic, detail) {
  for (const run of listeners.get(topic) ?? []) run(detail);
}
