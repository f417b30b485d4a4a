// The scenarios, by name.
import { SCENARIO_NAMES, type ScenarioName } from "../result.js";
import { COMMIT } from "./commit.js";
import { FOREACHES } from "./foreach.js";
import { PARKED } from "./park.js";
import { READ } from "./reads.js";
import { RULES } from "./rules.js";
import { RUNS } from "./runs.js";
import type { Scenario } from "./scenario.js";
import { SIGNALS } from "./signals.js";
import { TIMERS } from "./timers.js";
import { WATCHERS } from "./watchers.js";

const ALL = [...RUNS, ...FOREACHES, ...SIGNALS, ...TIMERS, ...WATCHERS, ...READ, ...RULES, ...PARKED, ...COMMIT];

/** The scenarios in the order of their names. Throws if one is missing. */
export const SCENARIOS: readonly Scenario[] = SCENARIO_NAMES.map(scenarioNamed);

export function scenarioNamed(name: ScenarioName): Scenario {
  const found = ALL.find((scenario) => scenario.name === name);
  if (!found) throw new Error(`there is no scenario ${name}`);
  return found;
}
