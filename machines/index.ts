// The only door of machines/: what a run does, decided purely. The shell imports from here and nowhere deeper.
export * from "./audit.js";
export * from "./commands.js";
export * from "./context.js";
export * from "./effects.js";
export * from "./facts.js";
export * from "./json.js";
export * from "./lifecycle.js";
export * from "./program.js";
export * from "./retry.js";
