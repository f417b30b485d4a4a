// The published chart as a Mermaid state diagram, for documents and chats. Mermaid reads its text by line and by keyword, so ids that
// it would misread get an alias, and what people wrote is escaped.
import type { Chart, ChartEdges, ChartState } from "./published.js";

/** Words of its grammar, and the names of the states around the steps. */
const RESERVED =
  /^(as|class|classdef|click|default|direction|end|fork|hide|join|left|note|of|over|right|scale|state|style|pending|active|undoing|succeeded|failed|cancelled)$/i;
const PLAIN = /^[A-Za-z_]\w{0,63}$/;

export function mermaidOf({ states }: Chart): string {
  const { active, ...others } = states;
  const names = new Map(Object.keys(active.states).map((key, nth) => [key, nameOf(key, nth)]));
  const ofStep = (key: string) => names.get(key) ?? key;
  const inside = (target: string) =>
    target.startsWith("#") ? target.slice(target.lastIndexOf(".") + 1) : ofStep(target);
  const outside = (target: string) => (target.startsWith("active.") ? ofStep(target.slice("active.".length)) : target);
  const steps = Object.entries(active.states).flatMap(([key, { on }]) => edgesFrom(ofStep(key), on, inside));
  const outer = Object.entries({ ...others, active } as Readonly<Record<string, ChartState>>);
  const lines = [
    "stateDiagram-v2",
    "[*] --> pending",
    "state active {",
    ...[...names].map(([key, name]) => `  ${declared(key, name)}`),
    `  [*] --> ${ofStep(active.initial)}`,
    ...steps.filter((edge) => !edge.leaves).map(({ line }) => `  ${line}`),
    "}",
    ...steps.filter((edge) => edge.leaves).map(({ line }) => line),
    ...outer.flatMap(([name, { on }]) => edgesFrom(name, on, outside)).map(({ line }) => line),
    ...["succeeded", "failed", "cancelled"].map((name) => `${name} --> [*]`),
  ];
  return `${lines.join("\n")}\n`;
}

interface Edge {
  readonly line: string;
  /** It leads out of `active`, and is drawn outside of it. */
  readonly leaves: boolean;
}

function edgesFrom(name: string, on: ChartEdges | undefined, nameOfTarget: (target: string) => string): Edge[] {
  return Object.entries(on ?? {}).map(([label, { target, description }]) => ({
    line: `${name} --> ${nameOfTarget(target)}: ${worded(label, description)}`,
    leaves: target.startsWith("#"),
  }));
}

function nameOf(key: string, nth: number): string {
  return PLAIN.test(key) && !RESERVED.test(key) ? key : `step_${nth}`;
}

const declared = (key: string, name: string): string =>
  key === name ? name : `state "${escaped(key.replaceAll("%2E", "."))}" as ${name}`;

function worded(label: string, condition: string | undefined): string {
  return escaped(condition === undefined ? label : `${label} (${condition})`);
}

/** Everything but plain text as an entity: a colon, a semicolon or an arrow would end the label. */
function escaped(text: string): string {
  return text
    .replace(/\s+/g, " ")
    .replace(/[^\p{L}\p{N} _.,()/+'-]/gu, (character) => `#${character.codePointAt(0)};`)
    .replaceAll("--", "#45;#45;");
}
