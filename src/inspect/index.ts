// Runs in the Stately inspector: the only door of the room.
export type { Frame } from "./frames.js";
export { Inspection, type InspectionPorts, MAX_ACTORS, type Viewer } from "./inspection.js";
export { inspectPage } from "./page.js";
