// The revision of a run counts the updates of its row. It starts at 1, and every update is a compare-and-set on it (law 1). At run time
// it is a number.
export type Revision = number & { readonly __count: "revision" };

export const asRevision = (count: number): Revision => count as Revision;

/** The revision after one more update. */
export const nextRevision = (revision: Revision): Revision => asRevision(revision + 1);
