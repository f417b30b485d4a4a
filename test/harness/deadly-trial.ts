// What makes a trial process (law 7) die, so that a run can be put into quarantine without a build that has a fault. It does nothing by itself: a service
// whose NODE_OPTIONS has it still needs a run that is suspected.
import type { Sql } from "postgres";

/** For NODE_OPTIONS: a trial process dies as soon as it has begun the trial of a run, but not of its quarantine. Other processes are not affected. */
export const DIES_OF_ITS_TRIAL = `--import=data:text/javascript,${encodeURIComponent(`
  const { emit, send } = process;
  let deadly = false;
  if (send) {
    process.emit = (name, message, ...rest) => {
      if (message?.type === "try") deadly = message.suspects.some(({ command }) => command.type !== "quarantine");
      return emit.call(process, name, message, ...rest);
    };
    const die = () => process.kill(process.pid, "SIGKILL");
    process.send = (message, done) => send.call(process, message, deadly && message.type === "began" ? die : done);
  }
`)}`;

/** Leaves the wake row of a run as three nodes do that took it and died. */
export async function suspect(sql: Sql, runId: string): Promise<void> {
  await sql`update wakes set tries = 3, trial_deaths = 2, due_at = now() - interval '1 s' where run_id = ${runId}`;
}
