// A run that an operator has paused.
/** Stored with the run: record format 3. */
export interface Hold {
  readonly by: string;
  readonly since: number;
  readonly reason?: string;
}
