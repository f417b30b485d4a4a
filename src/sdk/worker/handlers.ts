// The code of a worker's actions: `handle` attaches it to their contracts, the same over every transport. It executes nothing: executor.ts does.
import type { Static, TSchema } from "typebox";
import { type ActionContract, refuseUnknown } from "../contract/index.js";
import type { ActionContext } from "./context.js";

export interface HandleOptions {
  /**
   * Send heartbeats while the code runs, for steps with a heartbeat timeout. Default true. If false, call `ctx.heartbeat()`.
   */
  readonly autoHeartbeat?: boolean;
}

const MEMBERS: Readonly<Record<keyof HandleOptions, true>> = { autoHeartbeat: true };

/** An action with its code. */
export interface Handler {
  readonly contract: ActionContract;
  readonly autoHeartbeat: boolean;
  execute(input: unknown, ctx: ActionContext): unknown;
}

/** What an action's code is: typed by the schemas of its contract. */
export type Execute<Input extends TSchema, Output extends TSchema> = (
  input: Static<Input>,
  ctx: ActionContext,
) => Promise<Static<Output>> | Static<Output>;

/** What workers of all transports have. */
export interface Handles {
  /**
   * Attaches the code of an action; call it for each action, before `start`. Returns the worker.
   *
   * `execute` returns the output, a JSON object; undefined means `{}`. It throws `ActionError` to fail with a code of its own; after any other
   * error the effect counts as "may have happened". It may be called twice for one step: use `ctx.idempotencyKey`.
   *
   * Throws TypeError for a contract of another service, an action that has code already (of the same version), an unknown option, and after
   * `start`.
   */
  handle<Input extends TSchema, Output extends TSchema>(
    contract: ActionContract<string, string, Input, Output, boolean>,
    execute: Execute<Input, Output>,
    options?: HandleOptions,
  ): this;
}

const nameOf = ({ name, version }: Pick<ActionContract, "name" | "version">) => `${name}@${version}`;

/** The actions of one worker. They are fixed when it starts, because the service learns of them then. */
export class Handlers {
  private readonly handlers = new Map<string, Handler>();
  private isSealed = false;

  constructor(private readonly service: string) {}

  add(contract: ActionContract, execute: Handler["execute"], options: HandleOptions): void {
    if (typeof contract?.name !== "string" || typeof contract.service !== "string")
      throw new TypeError("handle takes a contract first, as defineAction returns it");
    const { service, name } = contract;
    if (this.isSealed) throw new TypeError(`action ${name} is handled after the worker was started: handle it before`);
    if (service !== this.service)
      throw new TypeError(`action ${name} is of the service ${service}, and this worker of ${this.service}`);
    if (typeof execute !== "function")
      throw new TypeError(`action ${name} needs its code, a function, as the second argument`);
    refuseUnknown(`handle of action ${name}`, options, MEMBERS);
    const key = nameOf(contract);
    if (this.handlers.has(key)) throw new TypeError(`action ${key} is handled twice`);
    this.handlers.set(key, { contract, execute, autoHeartbeat: options.autoHeartbeat ?? true });
  }

  /** The worker starts. Throws TypeError if there is nothing that it could do. */
  seal(): void {
    this.isSealed = true;
    if (this.handlers.size === 0)
      throw new TypeError(`the worker of ${this.service} has no actions: call handle(contract, execute) before start`);
  }

  get(action: string, version: number): Handler | undefined {
    return this.handlers.get(nameOf({ name: action, version }));
  }

  /** "action@version" of each. */
  names(): string[] {
    return [...this.handlers.keys()];
  }

  contracts(): ActionContract[] {
    return [...this.handlers.values()].map(({ contract }) => contract);
  }
}

/** What a worker is made upon, whatever its transport. */
export abstract class HandlingWorker implements Handles {
  protected readonly handlers: Handlers;

  constructor(service: string) {
    this.handlers = new Handlers(service);
  }

  handle<Input extends TSchema, Output extends TSchema>(
    contract: ActionContract<string, string, Input, Output, boolean>,
    execute: Execute<Input, Output>,
    options: HandleOptions = {},
  ): this {
    this.handlers.add(contract, execute, options);
    return this;
  }
}
