// Workflows and rules: documents in versions, of which published ones are used. What a document means is the service's business.
import type { RuleDefinition, WorkflowDefinition } from "./generated/resources.js";
import type { Answered, Call, List, Sent } from "./operations.js";
import type { Pages } from "./pages.js";
import type { CallOptions } from "./transport.js";

/** A document as JSON, or what becomes it by `JSON.stringify`, as a saga of `define` does. */
export type Document = object;

export interface OfVersion extends CallOptions {
  /** Default: the latest published one. */
  readonly version?: number | undefined;
}

/** A version that is published already with the same content is no conflict; with another content it is one. */
const published = (document: Document): object => ({ ...JSON.parse(JSON.stringify(document)), published: true });
const onlyVersion = ({ version }: OfVersion) => (version === undefined ? {} : { query: { version } });

/** `client.workflows` */
export const workflowsOf = (call: Call, list: List) => ({
  /** Stores a version and publishes it; without `version` the next one, unless the same content is stored. Throws Invalid with every problem, and Conflict if the version was published with other content. */
  publish: (document: Document, options?: CallOptions): Promise<WorkflowDefinition> =>
    call("createWorkflow", { body: published(document) }, options),
  /** Stores a version as it is: a draft, unless the document says `published`. */
  save: (document: Document, options?: CallOptions): Promise<WorkflowDefinition> =>
    call("createWorkflow", { body: document }, options),
  /** Every problem and warning of a document. Stores nothing. */
  validate: (document: Document, options?: CallOptions): Promise<Answered<"validateWorkflow">> =>
    call("validateWorkflow", { body: document }, options),
  get: (id: string, options: OfVersion = {}): Promise<WorkflowDefinition> =>
    call("getWorkflow", { path: { wf_id: id }, ...onlyVersion(options) }, options),
  /** Each workflow by its latest published version, or by its latest draft. */
  list: (options?: CallOptions): Pages<WorkflowDefinition> => list("listWorkflows", undefined, options),
  /** The newest first. */
  versions: (id: string, options?: CallOptions): Pages<WorkflowDefinition> =>
    list("listWorkflowVersions", { path: { wf_id: id } }, options),
  publishVersion: (id: string, version: number, options?: CallOptions): Promise<WorkflowDefinition> =>
    call("publishWorkflow", { path: { wf_id: id, version } }, options),
  /** It can no longer be started. Its runs go on. */
  unpublish: (id: string, version: number, options?: CallOptions): Promise<WorkflowDefinition> =>
    call("unpublishWorkflow", { path: { wf_id: id, version } }, options),
  stats: (id: string, options?: CallOptions): Promise<Answered<"getWorkflowStats">> =>
    call("getWorkflowStats", { path: { wf_id: id } }, options),
  /** A state diagram in Mermaid's language. */
  mermaid: async (id: string, { version, ...options }: OfVersion = {}): Promise<string> => {
    const query = { format: "mermaid", ...(version !== undefined && { version }) } as const;
    return String(await call("getWorkflowMachine", { path: { wf_id: id }, query }, options));
  },
  /** Runs it with mocks. Stores and sends nothing. */
  rehearse: (
    id: string,
    rehearsal: Sent<"rehearseWorkflow">,
    options?: CallOptions,
  ): Promise<Answered<"rehearseWorkflow">> =>
    call("rehearseWorkflow", { path: { wf_id: id }, body: rehearsal }, options),
});

/** `client.rules` */
export const rulesOf = (call: Call, list: List) => ({
  /** Stores a version and publishes it. */
  publish: (document: Document, options?: CallOptions): Promise<RuleDefinition> =>
    call("createRule", { body: published(document) }, options),
  save: (document: Document, options?: CallOptions): Promise<RuleDefinition> =>
    call("createRule", { body: document }, options),
  get: (id: string, options: OfVersion = {}): Promise<RuleDefinition> =>
    call("getRule", { path: { rule_id: id }, ...onlyVersion(options) }, options),
  list: (options?: CallOptions): Pages<RuleDefinition> => list("listRules", undefined, options),
  versions: (id: string, options?: CallOptions): Pages<RuleDefinition> =>
    list("listRuleVersions", { path: { rule_id: id } }, options),
  /** Throws Invalid if a condition fails, or no row matches and there is no default. */
  evaluate: (id: string, inputs: object, { version, ...options }: OfVersion = {}): Promise<Answered<"evaluateRule">> =>
    call(
      "evaluateRule",
      { path: { rule_id: id }, body: { inputs, ...(version !== undefined && { version }) } },
      options,
    ),
});

export type Workflows = ReturnType<typeof workflowsOf>;
export type Rules = ReturnType<typeof rulesOf>;
