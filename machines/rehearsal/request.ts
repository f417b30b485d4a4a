// The request of a rehearsal: what it is given of the outside. Its mocks are in mock.ts, its result in rehearsed.ts.
import type { ActionFact } from "../messages/fact.js";
import type { Rule } from "../rule/document.js";
import type { CheckOptions } from "../schema/schemas.js";
import type { Json, JsonObject } from "../values/json.js";
import type { RunLimits } from "../values/limits.js";
import type { Mocks } from "./mock.js";

export interface RehearsalOptions {
  readonly inputs?: JsonObject;
  readonly mocks?: Mocks;
  readonly entrypoint?: string;
  readonly tenantId?: string;
  readonly dryRun?: boolean;
  readonly features?: Readonly<Record<string, boolean>>;
  /** The start of its clock, in epoch milliseconds. */
  readonly startAt: number;
  /** A registration. An action without one counts as registered without schemas. */
  action?(service: string, name: string, version?: number): ActionFact | undefined;
  rule?(ruleId: string): Rule | undefined;
  conforms?(schema: JsonObject, value: Json, options?: CheckOptions): readonly string[];
  readonly limits?: RunLimits;
}
