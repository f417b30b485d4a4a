// An option of a command, as a row of the table has it. Commander reads it, help and completion show it.

export interface OptionEntry {
  /** As commander reads it: `-w, --wait`, `--key <key>`. */
  readonly flags: string;
  readonly says: string;
  readonly choices?: readonly string[];
  /** May be given several times, and is then a list. */
  readonly many?: boolean;
}
