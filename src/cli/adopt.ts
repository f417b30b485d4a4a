// `saga tenant adopt`: gives what has no tenant to one, by the database, while the service runs or not. What that means for each kind of thing is the
// store's matter.
import { outputIn, readArguments } from "./arguments.js";
import type { Command } from "./command.js";
import { withDatabase } from "./database.js";
import { Failure } from "./exit.js";

const ADOPT = "tenant adopt";

export const adoptAll: Command = {
  name: ADOPT,
  parameters: "<uuid>",
  summary: "Gives everything without a tenant to one",
  details: `Runs, triggers, bulk jobs, workflow ids, rule ids and services that have no tenant belong to this one from then on. It prints how many.
What has a tenant stays as it is, so the command can be repeated: it then gives what has come since. Nodes may run meanwhile.
  -o json                   as JSON
Uses the database of DATABASE_URL, or the embedded one in SAGA_DATA_DIR, which is started if no service runs on it.`,
  async run(args) {
    const { options, positionals } = readArguments(ADOPT, args, { output: { short: "o" } });
    const output = outputIn(ADOPT, options.output);
    const { isUuid } = await import("../ids.js");
    const [tenant, ...rest] = positionals;
    if (tenant === undefined || rest.length > 0 || !isUuid(tenant))
      throw new Failure(`${ADOPT} needs the UUID of one tenant`);
    const { adopt } = await import("../store/upkeep/adoption.js");
    const adopted = await withDatabase((sql) => adopt(sql, tenant.toLowerCase()), { migrates: true });
    if (output === "json") return JSON.stringify(adopted, null, 2);
    const { runs, triggers, jobs, workflows, rules, services, left } = adopted;
    const given = `${runs} runs, ${triggers} triggers, ${jobs} bulk jobs, ${workflows} workflow ids, ${rules} rule ids, ${services} services`;
    return left === 0 ? given : `${given}; ${left} unfinished runs have no tenant: repeat the command`;
  },
};
