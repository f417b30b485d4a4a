// The names in a chart: edges' labels and steps' state keys, which a decision and the chart share. Nothing stored holds them.

/** The edge along which a branch or an item begins. Entrypoints have no such names: a space is in no id. */
export const blockBegin = (start: string): string => `begin block.${start}`;

/** The edge along which a fork begins. */
export const forkBegin = (step: string): string => `begin fork.${step}`;

/** The edge at the end of a block of this run, or of a catch chain, back to the step that holds it. */
export const doneLabel = (container: string): string => `done.${container}`;

/** The edge of an error, or of a timeout, out of the block. */
export const raiseLabel = (container: string): string => `raise.${container}`;

/** An edge's label as an event name: an asterisk would be a wildcard. Two labels never share a name. */
export function eventName(label: string): string {
  return label.replaceAll("%", "%25").replaceAll("*", "%2A");
}

/** An id as a state key: a dot would be read as a path. */
export function stateKey(id: string): string {
  return id.replaceAll(".", "%2E");
}

/** The twin of a step that may wait: while the run is there, it is `paused`. */
export function pausedKey(id: string): string {
  return `${stateKey(id)}~paused`;
}
