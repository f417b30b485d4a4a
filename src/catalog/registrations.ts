// The registrations of a node: every registered action in memory, because a run's step cannot wait for a read. A refresh reads the state
// of the table, of the rows their names and states if that has changed, and only those rows that are others now.
import type { Sql } from "postgres";
import type { ActionFact } from "../../machines/index.js";
import { stateOf } from "../store/engine/table-state.js";
import { actionStates, actionsById, type StoredAction } from "../store/lists/registry.js";

/** Rows read in one statement; a registration may have half a megabyte of schemas. */
const READ_BATCH = 50;

export type RegisteredAction = ActionFact & { readonly deprecated: boolean };

interface Kept {
  readonly state: string;
  readonly action: RegisteredAction;
}

export class Registrations {
  private tableState = "";
  private readonly kept = new Map<string, Kept>();
  /** The versions of each `service.name`, the newest first. */
  private readonly byName = new Map<string, readonly RegisteredAction[]>();

  constructor(private readonly sql: Sql) {}

  action(service: string, name: string, version?: number): RegisteredAction | undefined {
    const versions = this.byName.get(`${service}.${name}`);
    if (version !== undefined) return versions?.find((action) => action.version === version);
    return versions?.find((action) => !action.deprecated);
  }

  names(): Iterable<string> {
    return this.byName.keys();
  }

  async refresh(): Promise<void> {
    const tableState = await stateOf(this.sql, "actions");
    if (tableState === this.tableState) return;
    const states = new Map((await actionStates(this.sql)).map(({ id, state }) => [id, state]));
    for (const id of this.kept.keys()) if (!states.has(id)) this.drop(id);
    const changed = [...states.keys()].filter((id) => this.kept.get(id)?.state !== states.get(id));
    for (let from = 0; from < changed.length; from += READ_BATCH)
      for (const row of await actionsById(this.sql, changed.slice(from, from + READ_BATCH))) this.keep(row);
    this.tableState = tableState;
  }

  private keep(row: StoredAction): void {
    this.drop(row.id);
    const action = registered(row);
    this.kept.set(row.id, { state: row.state, action });
    const key = keyOf(action);
    const versions = [...(this.byName.get(key) ?? []), action];
    this.byName.set(
      key,
      versions.sort((left, right) => right.version - left.version),
    );
  }

  private drop(id: string): void {
    const dropped = this.kept.get(id)?.action;
    if (!dropped) return;
    this.kept.delete(id);
    const left = (this.byName.get(keyOf(dropped)) ?? []).filter((action) => action !== dropped);
    if (left.length > 0) this.byName.set(keyOf(dropped), left);
    else this.byName.delete(keyOf(dropped));
  }
}

const keyOf = ({ service, name }: ActionFact) => `${service}.${name}`;

function registered(row: StoredAction): RegisteredAction {
  const { service, actionName: name, version, transport, compensable, deprecated, dryRunSupported } = row;
  return {
    ...{ service, name, version, transport, compensable, deprecated, dryRunSupported },
    inputSchema: row.inputSchema,
    outputSchema: row.outputSchema,
    outputHash: row.outputHash,
    address: row.address ?? undefined,
    licenseGroup: row.licenseGroup ?? undefined,
    defaultRetry: row.defaultRetry ?? undefined,
    defaultTimeoutMs: row.defaultTimeoutMs ?? undefined,
  };
}
