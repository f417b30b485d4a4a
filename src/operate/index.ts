// The door of the room.
export { type RerunChanges, Reruns } from "./rerun.js";
