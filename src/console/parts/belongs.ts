// Where a child run belongs, in words. Pages link the words to the parent.

interface Child {
  readonly parent_step_id?: string | undefined;
  readonly parent_branch_id?: string | undefined;
  readonly workflow_id: string;
}

/** `each[3]` of an item, `fork[pay]` of a branch, `ship: delivery` of a sub-saga. `nameOf`: what the parent's steps are called, where that is known. */
export function childName(
  { parent_step_id: id = "", parent_branch_id, workflow_id }: Child,
  nameOf: (step: string) => string = (step) => step,
): string {
  const step = nameOf(id);
  return parent_branch_id === undefined ? `${step}: ${workflow_id}` : `${step}[${parent_branch_id}]`;
}
