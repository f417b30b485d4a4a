// What a client and a test know of a saga: its id, and the types of what it takes and gives. A definition has more and is assignable to it.

export interface SagaContract<Input = unknown, Output = unknown> {
  readonly id: string;
  /** Never there at run time: it carries the types. */
  readonly "~types"?: { readonly input: Input; readonly output: Output };
}

/** The types of a saga: `InputOf<typeof order>`. */
export type InputOf<Saga> = Saga extends SagaContract<infer Input, unknown> ? Input : never;
export type OutputOf<Saga> = Saga extends SagaContract<unknown, infer Output> ? Output : never;
