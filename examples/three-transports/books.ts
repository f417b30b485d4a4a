// The books of the three workers: what each did and undid, by idempotency key. They live in memory, so they are a demonstration; a real
// worker keeps the key in the transaction of the effect, as examples/order-fulfilment does.
export interface Entry {
  readonly account: string;
  readonly amount: number;
  undone: boolean;
}

export class Books {
  /** Entries by the key of the effect. An undo that comes first leaves an entry without an amount, and the effect is refused. */
  private readonly entries = new Map<string, Entry>();
  /** Calls that found their effect made. */
  repeated = 0;

  /** Makes the effect once. False: it was undone before it arrived. */
  make(account: string, key: string, amount: number): boolean {
    const entry = this.entries.get(key);
    if (entry) this.repeated++;
    else this.entries.set(key, { account, amount, undone: false });
    return !entry?.undone;
  }

  /** Undoes the effect of this key once, or rules it out. */
  undo(account: string, forwardKey: string): void {
    const entry = this.entries.get(forwardKey);
    if (entry) entry.undone = true;
    else this.entries.set(forwardKey, { account, amount: 0, undone: true });
  }

  /** What was done and undone in an account. */
  of(account: string): { readonly made: number; readonly undone: number; readonly left: number } {
    const mine = [...this.entries.values()].filter((entry) => entry.account === account);
    const sum = (entries: readonly Entry[]) => entries.reduce((total, { amount }) => total + amount, 0);
    const [made, undone] = [sum(mine), sum(mine.filter((entry) => entry.undone))];
    return { made, undone, left: made - undone };
  }
}
