// Runs in the Stately inspector: the only door of the room.
export { Charts, InspectedChart } from "./charts.js";
export type { Frame } from "./frames.js";
export { Inspection, type InspectionPorts, MAX_ACTORS, type Viewer } from "./inspection.js";
export { inspectPage, type Shown } from "./page.js";
