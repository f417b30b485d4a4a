// One run's share of a commit: all rows of the transitions that it has taken since its last commit. src/run makes them; the commit statement
// writes them.
import type { Rows, RunId } from "../../../machines/index.js";

/**
 * The rows name the run: one row of `run_update`, `confirm` or `new_run` decides whether it wins, and all others are written if it does. A
 * column of type json has the value, not its text.
 */
export interface RunCommit {
  readonly runId: RunId;
  readonly rows: Rows;
}
