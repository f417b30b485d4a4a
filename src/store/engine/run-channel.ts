// The NOTIFY channel of a run: who watches the run listens to it (src/feed).
import type { RunId } from "../../../machines/index.js";

export const channelOf = (runId: RunId): string => `saga_event_${runId.replaceAll("-", "")}`;

/** The same in SQL, of a column. */
export const channelOfColumn = (column: string): string => `'saga_event_' || replace(${column}::text, '-', '')`;
