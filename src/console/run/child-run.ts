// What the tree of children shows of a run. The list of children answers whole runs; this is the part that is kept.
export interface ChildRun {
  readonly id: string;
  readonly workflow_id: string;
  readonly state: string;
  readonly paused_reason?: string | undefined;
  readonly current_step?: string | undefined;
  readonly parent_step_id?: string | undefined;
  readonly parent_branch_id?: string | undefined;
  readonly error?: { readonly code: string } | undefined;
  readonly incident?: { readonly code: string } | undefined;
  readonly started_at: string;
  readonly terminal_at?: string | undefined;
}

/** Ten thousand items with their inputs and variables would not be. */
export function kept(run: ChildRun): ChildRun {
  const { id, workflow_id, state, paused_reason, current_step, parent_step_id, parent_branch_id } = run;
  const { error, incident, started_at, terminal_at } = run;
  return {
    ...{ id, workflow_id, state, paused_reason, current_step, parent_step_id, parent_branch_id },
    ...{ error, incident, started_at, terminal_at },
  };
}
