// The registrations of a node: every registered action in memory, because a run's step cannot wait for a read. A refresh reads the state
// of the table, of the rows their names and states if that has changed, and only those rows that are others now.
import type { Sql } from "postgres";
import type { ActionFact } from "../../machines/index.js";
import { stateOf } from "../store/engine/table-state.js";
import { actionStates, actionsById, type StoredAction, sharedActionsOf } from "../store/lists/registry.js";
import { isUsable, type Tenants } from "../store/owners.js";

/** Rows read in one statement; a registration may have half a megabyte of schemas. */
const READ_BATCH = 50;

export type RegisteredAction = ActionFact & {
  readonly id: string;
  readonly deprecated: boolean;
  /** Whose the service is. Null: the platform's. */
  readonly tenantId: string | null;
};

interface Kept {
  readonly state: string;
  readonly action: RegisteredAction;
}

export class Registrations {
  private tableState = "";
  private sharedState = "";
  private readonly kept = new Map<string, Kept>();
  /** The tenants that have registered another one's action as it is, by its id. */
  private shared: ReadonlyMap<string, ReadonlySet<string>> = new Map();
  /** The versions of each `service.name`, the newest first. */
  private readonly byName = new Map<string, readonly RegisteredAction[]>();

  constructor(private readonly sql: Sql) {}

  action(service: string, name: string, version: number | undefined, tenants: Tenants): RegisteredAction | undefined {
    const versions = this.byName.get(`${service}.${name}`);
    const isMeant = (action: RegisteredAction) =>
      version === undefined ? !action.deprecated : action.version === version;
    return versions?.find((action) => isMeant(action) && this.existsFor(action, tenants));
  }

  *names(tenants: Tenants): Iterable<string> {
    for (const [name, versions] of this.byName)
      if (versions.some((action) => this.existsFor(action, tenants))) yield name;
  }

  /** Over HTTP and RabbitMQ a shared action would be carried out by its owner, so there it is not shared. */
  private existsFor({ id, tenantId, transport }: RegisteredAction, tenants: Tenants): boolean {
    if (isUsable(tenantId, tenants)) return true;
    const sharers = transport === "grpc" ? this.shared.get(id) : undefined;
    return sharers !== undefined && tenants !== "*" && tenants.some((tenant) => sharers.has(tenant));
  }

  async refresh(): Promise<void> {
    await this.refreshActions();
    const sharedState = await stateOf(this.sql, "shared_actions");
    if (sharedState === this.sharedState) return;
    this.shared = await sharedActionsOf(this.sql);
    this.sharedState = sharedState;
  }

  private async refreshActions(): Promise<void> {
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
  const { id, tenantId, service, actionName: name, version, transport, compensable, deprecated, dryRunSupported } = row;
  return {
    ...{ id, tenantId },
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
