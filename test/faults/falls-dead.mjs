// Loaded into processes of the service by NODE_OPTIONS (--import): whenever a run is about to make the rows of a commit in which a step
// of one of these names has ended, the process dies, hangs, or runs out of memory. So it does for a start of a workflow of such a name that
// says so in its inputs. To the product that is what a bug of its own would be.
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const EVILS = {
  "brings-its-node-down": () => process.kill(process.pid, "SIGKILL"),
  "hangs-its-node": () => {
    for (;;);
  },
  "exhausts-its-node": () => {
    for (const all = []; ; ) all.push(Array.from({ length: 10_000 }, () => ({})));
  },
};

const load = (name) => import(pathToFileURL(join(process.cwd(), "dist", "service", "run", name)).href);
const { Resident } = await load("resident.js");
const { Starter } = await load("starter.js");
const { newUnit } = Resident.prototype;

Resident.prototype.newUnit = function newDeadlyUnit(...about) {
  const growing = newUnit.apply(this, about);
  const { unit } = growing;
  const toCommit = unit.toCommit.bind(unit);
  unit.toCommit = (...based) => {
    for (const { type, stepId } of unit.events) {
      if (type !== "step.succeeded" || !EVILS[stepId]) continue;
      // The command line tells a test that it has begun.
      process.title = stepId;
      EVILS[stepId]();
    }
    return toCommit(...based);
  };
  return growing;
};

const { commit } = Starter.prototype;

Starter.prototype.commit = function commitOrDie(request, ...about) {
  if (request.inputs.n === 7) EVILS[request.workflowId]?.();
  return commit.call(this, request, ...about);
};
