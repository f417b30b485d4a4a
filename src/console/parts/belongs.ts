// Where a child run belongs, in words. Pages link the words to the parent.

interface Child {
  readonly parent_step_id?: string | undefined;
  readonly parent_branch_id?: string | undefined;
  readonly workflow_id: string;
}

/** `each[3]` of an item, `fork[pay]` of a branch, `ship: delivery` of a sub-saga. */
export const childName = ({ parent_step_id, parent_branch_id, workflow_id }: Child): string =>
  parent_branch_id === undefined ? `${parent_step_id}: ${workflow_id}` : `${parent_step_id}[${parent_branch_id}]`;
