// The types of what a program says of a saga, taken from the saga itself. A saga is known by its structure; where it was defined does not matter.
import type { SagaContract } from "../contract/saga.js";
import type { JsonObject } from "./json.js";

/** A saga that is known by its id alone takes and gives anything. */
export type AnySaga = string | SagaContract;

/** A definition or contract has the types of its saga. */
export type OutputOfSaga<Saga> = Saga extends SagaContract<infer _Input, infer Output> ? Output : unknown;
type InputOfSaga<Saga> = Saga extends SagaContract<infer Input, unknown> ? Input : unknown;

/** `inputs` must be there unless `{}` is one. */
export type InputsOf<Saga> =
  unknown extends InputOfSaga<Saga>
    ? { readonly inputs?: object | undefined }
    : // biome-ignore lint/complexity/noBannedTypes: the type of the value `{}`, which is what an absent `inputs` means.
      {} extends InputOfSaga<Saga>
      ? { readonly inputs?: InputOfSaga<Saga> | undefined }
      : { readonly inputs: InputOfSaga<Saga> };

/** A signal as `defineSignal` makes it. */
export interface SignalLike<Payload = unknown> {
  readonly name: string;
  /** Never there at run time: it carries the type. */
  readonly "~types"?: { readonly payload: Payload };
}

export interface StartOptions {
  /** A published version. Default: the latest one. */
  readonly version?: number | undefined;
  /** One of the definition's `entrypoints`. Default: its `start`. */
  readonly entrypoint?: string | undefined;
  /** Override the tenant's startup variables. */
  readonly variables?: JsonObject | undefined;
  /** A UUID. */
  readonly tenantId?: string | undefined;
  readonly dryRun?: boolean | undefined;
  readonly featureOverrides?: Readonly<Record<string, boolean>> | undefined;
  /** The UUID of the new run. Default: the service makes one. */
  readonly runId?: string | undefined;
  /** 1 to 256 characters: a key to find the run by. It need not be unique, unless `onConflict` says so. */
  readonly businessKey?: string | undefined;
  /**
   * While another run that was started with `onConflict` or `debounce` has the business key: refuse the start (Conflict), give that run, or start this one and
   * cancel the other. Default: both run.
   */
  readonly onConflict?: "reject" | "return" | "cancel_old" | undefined;
  /** Of the starts of a business key, each within the window of the one before, the last one is carried out. Milliseconds. */
  readonly debounce?: { readonly windowMs: number; readonly maxMs?: number | undefined } | undefined;
  /** Up to 16, with values of 1 to 256 characters. */
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** 1 (the highest) to 5: whose call or slot comes first where several wait. Default: 3. */
  readonly priority?: number | undefined;
  /** 1 to 256 characters: the keys of a priority share by their weights what their runs wait for. */
  readonly fairnessKey?: string | undefined;
  /** Of the fairness key, 0.001 to 1000. Default: 1. */
  readonly fairnessWeight?: number | undefined;
  /** The run stays `pending` for this time, in milliseconds. */
  readonly delayMs?: number | undefined;
  /** The run's time limit in milliseconds, instead of the definition's. */
  readonly timeoutMs?: number | undefined;
}

/** How each option is called in the body of the request. */
export const START_MEMBERS = {
  ...{ inputs: "inputs", version: "version", entrypoint: "entrypoint", variables: "variables", tenantId: "tenant_id" },
  ...{ dryRun: "dry_run", featureOverrides: "feature_overrides", runId: "run_id", businessKey: "business_key" },
  ...{
    labels: "labels",
    delayMs: "delay_ms",
    timeoutMs: "timeout_ms",
    onConflict: "on_conflict",
    debounce: "debounce",
    priority: "priority",
    fairnessKey: "fairness_key",
    fairnessWeight: "fairness_weight",
  },
} as const satisfies Readonly<Record<keyof StartOptions | "inputs", string>>;
